"""What runs for every visit: the theme, then the page that was asked for."""

from pages.ui import every_event, navigation, server, theme

every_event.take_every_event()
theme.apply()
navigation.build()
server.get_ready()
