"""Poses on the screen: player, clips and videos, and tracking files as data."""
