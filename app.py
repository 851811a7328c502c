"""The app that `streamlit run app.py` serves; each visit runs pages/ui/main.py.

That script must not be next to a folder named pages: Streamlit would treat it as a legacy multipage app, and direct links
to any page but Home would fail.
"""

import streamlit as st

from gdm_studio.seeds import more_seeds
from pages.channel import connection
from pages.ui import server

more_seeds()  # fail at the start if the setting is invalid
app = st.App(
    server.MAIN,
    routes=[*server.routes(), *connection.routes()],
    middleware=server.MIDDLEWARE,
    on_script_error=server.show_error,
)
