"""What runs for every visit: the theme, then the page that was asked for."""

from pages.ui import every_event, navigation, server, theme

every_event.take_every_event()
server.keep_modules()  # what was loaded beside a run: the engine, torch
theme.apply()
navigation.build()
server.keep_modules()  # what this page loaded: parts of it will run again and again
server.get_ready()
