"""Readers of file formats: each takes a path or bytes and returns a record, or raises DataError."""
