"""One experiment: a sweep of concurrency levels, joined from all the rooms on the road."""
