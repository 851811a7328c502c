"""The live fit on the screen: parts of a page that look again while something runs, and the buttons that steer it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from gdm_core.analysis import looks
from gdm_core.analysis.matching import parse, text_of
from gdm_core.engine import Engine, get_engine
from gdm_core.engine.estimate import in_words
from gdm_studio.plot import figures
from pages.channel import Moving, channel
from pages.lab.live import session_cleanup
from pages.lab.live.answers import Answer
from pages.lab.live.pictures import Shown, Wanted, is_plain
from pages.lab.live.session import Live
from pages.ui import scrubber, settings, shell
from pages.ui.plot import Part, Picture, Text, by_key, draw_parts
from pages.ui.scrubber import Scrubber

LOOK_EVERY_S = 0.05
LOOK_SELDOM_S = 1.0  # where many people's fits run: every look costs the server the same, and little has changed since
LOOK_DEADLINE_S = 600.0  # of the exact states, for which most other questions wait: on a busy machine a minute is short
LIVE = "live-"
COLOURS = "colours"  # the parameter of a link that names them


def engine() -> Engine:
    """Where fits run. Tests put another one here."""
    return get_engine()


def fit(page: str, wanted: Wanted, *, moving: bool = False) -> Live:
    """The live fit of this page for this visitor, told what is wanted now; `moving` while a slider is held."""
    key = f"{LIVE}{page}"
    if key not in st.session_state:
        st.session_state[key] = Live(engine(), f"{visitor()}/{page}")
    live: Live = st.session_state[key]
    session_cleanup.watch_over(visitor(), live)
    order = parse(settings.text(COLOURS), int(wanted.config.get("n_states", 0)))
    live.want(wanted, first_order=order, moving=moving)
    return live


def open_settings() -> dict[str, Any]:
    """What this visitor last asked for on each page opened in this session: the settings that travel with a fit."""
    lives = {
        key.removeprefix("live-"): st.session_state[key]
        for key in map(str, st.session_state)
        if key.startswith("live-")
    }
    return {page: live.setting for page, live in lives.items() if live.setting is not None}


def visitor() -> str:
    """Return a random name for this visitor's session."""
    return str(st.session_state.setdefault("_visitor", secrets.token_hex(8)))


def beforehand(usual_s: float) -> str:
    """Return how long work takes that has not begun; `usual_s` is its time on one worker."""
    info = engine().info()
    words, jobs = in_words(usual_s / max(1, info.n_workers)), info.waiting + info.running
    return f"{words}, after {jobs} other {'job' if jobs == 1 else 'jobs'}" if jobs else words


def let_go(page: str) -> None:
    """Forget the live fit of this page for this visitor, its data here and on the workers included."""
    live: Live | None = st.session_state.pop(f"{LIVE}{page}", None)
    if live is not None:
        live.close()


def pace(jobs: int) -> float:
    """Seconds between two looks at a fit, with so many jobs under way or waiting in the engine: each costs the server the same."""
    return min(LOOK_SELDOM_S, LOOK_EVERY_S * max(1.0, jobs / 2))


def region(
    live: Live, parts_of: Callable[[Shown], Mapping[str, Part]], places: Mapping[str, Any] | None = None
) -> None:
    """Draw what `parts_of` says there is to show, in its places; while a fit runs, what changes goes over the live channel.

    When the fit has ended the page runs once more. `parts_of` is called in other threads too: it draws nothing itself, and
    reads nothing of the session.
    """
    fitting = live.running

    def drawn() -> Mapping[str, Part]:
        return parts_of(live.poll())

    def settled() -> str:
        return "fit" if fitting and not live.running else ""

    now = drawn()
    draw_parts(now, places)
    channel().scene.moving.append(Moving(drawn, lambda: live.running, settled, now, lambda: pace(live.jobs_about)))


def watch(live: Live) -> None:
    """The last line of a page's script: the page runs once more when all that it asked has been answered."""
    heard = live.answers.settled

    def settled() -> str:
        live.answers.collect()
        if live.running or live.answers.awaited:  # the end of the fit runs the page once more
            return ""
        return "answers" if live.answers.take_owed() or live.answers.settled != heard else ""

    channel().scene.moving.append(Moving(dict, lambda: live.answers.pending, settled))


def states_of(live: Live, shown: Shown) -> Answer:
    """The model's exact look at all trials in its own order: no earlier one stands in for it."""
    if shown.result is None or shown.wanted is None or shown.state == "preview":
        return Answer(pending=live.running)
    wanted = shown.wanted
    key = f"{shown.result.key}/{'' if wanted.test is None else wanted.test.fingerprint}"
    asked = (shown.result.model_bytes, wanted.train, wanted.test)
    answer: Answer = live.ask("look", key, looks.look, *asked, deadline_s=LOOK_DEADLINE_S, watched=True)
    return answer if answer.fresh else replace(answer, value=None)


def share_colours(live: Live, shown: Shown) -> None:
    """Put the order of colours into the address where it does not follow from the settings alone."""
    fresh = None if is_plain(shown) else text_of(shown.order)
    settings.keep(COLOURS, fresh if shown.state == "fresh" else settings.text(COLOURS))


def cancel_button(live: Live, page: str) -> None:
    """Show a button that ends the running fit; styles.css reveals it after a second."""
    if not live.running:
        return
    with st.container(key="gdm-cancel"):
        st.button("Cancel", key=f"{page}-cancel", type="tertiary", on_click=live.cancel)


def problem(live: Live, shown: Shown, page: str) -> None:
    """What went wrong, if anything, with a button to try again. The picture stays."""
    if not shown.message:
        return
    title = "The fit was stopped" if "cancel" in shown.message.lower() else "The fit did not work out"
    shell.error(title, shown.message, retry=f"{page}-retry", again=live.retry)


def unanswered(live: Live, answer: Answer, title: str, *, where: str = "page") -> bool:
    """Whether a question could not be answered: then it says why, beside a button that asks again.

    Not in what `region` draws. A page that says it of one question in two places names them in `where`.
    """
    if not answer.message:
        return False
    page = live.session.rpartition("/")[-1]
    retry = f"{page}-again-{answer.name}-{where}"
    shell.error(title, answer.message, retry=retry, again=partial(live.answers.again, answer.name))
    return True


def progress(shown: Shown) -> dict[str, Part]:
    """Where the fit is, and its ELBO while it climbs. Takes the same room whatever there is to show."""
    if shown.fitting and shown.total:
        lines = [shell.running_html(f"fitting, step {shown.step} of {shown.total}", shown.step / shown.total)]
    else:
        lines = [shell.quiet_html(_at_rest(shown))]
    lines += [shell.quiet_html(note) for note in shown.notes]
    curve = shown.curve
    if len(curve.elbos) < 2:
        return by_key(Text("".join(lines), "fit-progress"), Scrubber())
    if not shown.fitting and figures.has_dips(curve.elbos):
        lines.append(
            shell.quiet_html(
                "A dip is a step that went too far; the next ones made up for it. Triangles lie below the edge."
            )
        )
    drawn = shown.once("bound", lambda: figures.bound(curve.steps, curve.elbos, total=curve.total, faded=curve.earlier))
    return by_key(Text("".join(lines), "fit-progress"), Picture(drawn, "elbo", group=scrubber.KEY), _scrubber(shown))


def _scrubber(shown: Shown) -> Scrubber:
    """Return the scrubber of a running or finished fit that has snapshots."""
    at, total = shown.recorded
    if shown.fitting:
        return Scrubber("", at, max(at, total))
    if shown.state != "fresh" or shown.result is None:
        return Scrubber()
    return Scrubber(shown.result.key, at, total)


def _at_rest(shown: Shown) -> str:
    """The line in place of the progress of a fit, where there is none to tell."""
    if shown.fitting:
        return "fitting, about to begin"
    if shown.stopped:
        return "Cancelled. The earlier result stays; another setting starts a fit."
    if shown.state == "fresh" and shown.total:
        return f"Fitted in {shown.total:,} steps."
    return "No fit under way."
