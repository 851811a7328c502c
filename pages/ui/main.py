"""What runs for every visit: the theme, then the page that was asked for."""

from pages.ui import navigation, theme

theme.apply()
navigation.build()
