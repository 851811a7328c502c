"""The app that `streamlit run app.py` serves; pages/ui/main.py runs for every visit.

The script is in a folder without a pages/ of its own: next to one, Streamlit would take the first visit for an app of the
old kind and answer a link to any page but Home with "Page not found".
"""

import streamlit as st

from gdm_studio.seeds import more_seeds
from pages.channel import route
from pages.ui import server

more_seeds()  # fail at the start if the setting is invalid
app = st.App(
    server.MAIN,
    routes=[*server.routes(), *route.routes()],
    middleware=server.MIDDLEWARE,
    on_script_error=server.show_error,
)
