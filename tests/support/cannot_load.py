"""A module that cannot be loaded, as torch where a library of the system is missing."""

raise ImportError("no such library")
