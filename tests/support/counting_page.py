"""The page of counting_app.py."""

import time

import streamlit as st

from pages.channel import Moving, channel
from pages.ui import navigation, settings
from pages.ui.controls import slide
from pages.ui.plot import Text, draw_parts

began = time.monotonic()


def clock() -> dict[str, Text]:
    return {"clock": Text(f"<p>{time.monotonic():.2f}</p>", "clock")}


def count(name: str) -> None:
    st.session_state[name] = st.session_state.get(name, 0) + 1


settings.begin_run("counting")
channel().begin_run()
st.button("Count", key="count", on_click=count, args=("clicks",))
st.button("Count a key", key="count-key", shortcut="n", on_click=count, args=("keys",))
value = slide("Value", 0, 100, 0, key="value")
st.text(f"clicks {st.session_state.get('clicks', 0)}")
st.text(f"keys {st.session_state.get('keys', 0)}")
st.text(f"value {value}")
draw_parts(clock())
channel().scene.moving.append(
    Moving(clock, lambda: True, lambda: "fit" if time.monotonic() - began > 0.2 else "", clock())
)
settings.finish_run()
navigation._open_channel()
