"""Tests that drive a real browser; one folder of fixtures, which end with it (conftest.py)."""
