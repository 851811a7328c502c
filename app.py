"""Builds the navigation and the theme, nothing else.

`streamlit run app.py` finds `app` and serves it; a test that runs this file as a script gets the same pages.
"""

import streamlit as st

from gdm_studio.seeds import more_seeds
from pages.channel import route
from pages.ui import navigation, server, theme
from pages.ui.streamlit_internals import is_script

if not is_script():
    more_seeds()  # a setting that cannot work ends the start, before there is half a page
    # The script lies in a folder without a pages/ of its own: beside one, the first visit of a new server would be
    # taken for an app of the old kind, and a link to any page but Home would greet its reader with "Page not found".
    app = st.App(
        server.MAIN,
        routes=[*server.routes(), *route.routes()],
        middleware=server.MIDDLEWARE,
        on_script_error=server.show_error,
    )
else:
    theme.apply()
    navigation.build()
