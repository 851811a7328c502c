"""Fastest driver of the field in each minisector."""

from __future__ import annotations
