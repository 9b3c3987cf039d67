"""Logs of coding agents and public trace formats, turned into Weka sessions without any text."""
