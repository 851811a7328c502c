"""A module that cannot be loaded, like torch without a system library."""

raise ImportError("no such library")
