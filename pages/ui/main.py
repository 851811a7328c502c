"""The script of every visit: sets the theme and runs the chosen page."""

from pages.ui import every_event, navigation, server, theme

every_event.take_every_event()
theme.apply()
navigation.build()
server.get_ready()
