"""An app whose panel changes all the time and asks for script runs, with a button and keys that are counted."""

import streamlit as st

from pages.channel import connection
from pages.ui import server

app = st.App("counting_page.py", routes=[*server.routes(), *connection.routes()], middleware=server.MIDDLEWARE)
