"""A module that cannot be imported, like torch without a system library."""

raise ImportError("no such library")
