"""Builds the navigation and the theme, nothing else."""

from pages.ui import navigation, theme

theme.apply()
navigation.build()
