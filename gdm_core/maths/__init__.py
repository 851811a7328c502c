"""Pure functions that model families share."""
