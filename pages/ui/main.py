"""The script of every visit: sets the theme and runs the chosen page."""

from pages.ui import navigation, server, theme

theme.apply()
navigation.build()
server.get_ready()
