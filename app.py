"""Builds the navigation and the theme, nothing else."""
