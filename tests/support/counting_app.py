"""A page that asks for script runs all the time, with a button and a field that count what reaches the server."""

from __future__ import annotations

import time

import streamlit as st

from pages.channel import ROUTE, Moving, channel, route
from pages.ui import every_event, server
from pages.ui.component import component

RUN_S = 0.15


def main() -> None:
    every_event.take_every_event()
    mine, state = channel(), st.session_state
    mine.begin_run()
    state.setdefault("clicks", 0)
    st.button("Count", on_click=lambda: state.update(clicks=state["clicks"] + 1))
    words = st.text_input("Words")
    time.sleep(RUN_S)
    st.text(f"{state['clicks']} clicks and {len(words)} letters")
    mine.scene.moving.append(Moving(dict, lambda: True, lambda: "results"))
    address = {"address": f"{ROUTE}/{mine.token}", "runs": mine.runs, "moves": True, "words": "", "unsaved": False}
    component("channel")(key="live-channel", data=address, on_run_change=lambda: None)
    mine.end_run()


if __name__ == "__main__":
    main()
else:
    app = st.App(__file__, routes=[*server.routes(), *route.routes()])
