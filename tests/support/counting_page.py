"""The page of counting_app.py."""

import time

import streamlit as st

from pages.channel import channel
from pages.ui import navigation, settings
from pages.ui.plot import Text, draw_live

began = time.monotonic()


def clock() -> dict[str, Text]:
    return {"clock": Text(f"<p>{time.monotonic():.2f}</p>", "clock")}


def count(name: str) -> None:
    st.session_state[name] = st.session_state.get(name, 0) + 1


settings.begin_run("counting")
channel().begin_run()
st.button("Count", key="count", on_click=count, args=("clicks",))
st.button("Count a key", key="count-key", shortcut="n", on_click=count, args=("keys",))
st.text(f"{st.session_state.get('clicks', 0)} clicks and {st.session_state.get('keys', 0)} keys")
time.sleep(0.1)  # as long as a page takes
draw_live(clock, lambda: True, lambda: "fit" if time.monotonic() - began > 0.2 else "")
settings.finish_run(True)
navigation.open_channel()
