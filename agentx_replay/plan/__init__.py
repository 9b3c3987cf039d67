"""Corpus and scenario to lanes: what each lane plays, from where, in what order. Pure."""
