"""The parts behind `datasets.formula1`: the feed, the cache, track segments, and a lap simulator."""
