"""Internals of `datasets.formula1`: feed, cache, laps, track segments and a lap simulator."""
