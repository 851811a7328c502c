"""Poses on the screen: player with its video, clips, and tracking files as data."""
