"""Helpers that tests share and worker processes can import."""
