"""Tests in a real browser, with fixtures in conftest.py."""
