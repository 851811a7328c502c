"""A pinned result: it stays beside the living one until it is unpinned, and in the address, so that a link opens both.

What is pinned are the settings of the model; both are fitted to the data of the page, else their scores could not be compared.

A button that pins is never off while a fit runs: the click of somebody who still saw it on would be dropped, since Streamlit
goes by how a control was last drawn on the server, which on a busy machine the browser does not show yet.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from typing import Any

import streamlit as st

from gdm_core.analysis.matching import in_order, order_of
from gdm_core.models.registry import available
from gdm_studio.plot import figures
from gdm_studio.plot.figures.states import MAX_COLUMNS
from pages.lab import live
from pages.lab.data import Data, Setting
from pages.lab.live.pictures import Origin
from pages.lab.live.screen import BESIDE
from pages.lab.naming import colour_key
from pages.lab.view import Unread, View
from pages.ui import limits, navigation, shell, slider
from pages.ui.card import Score
from pages.ui.model_controls import (
    D_RANGE,
    GAMMA_RANGE,
    K_RANGE,
    MODELS,
    SEED_RANGE,
    SEES,
    TAU_RANGE,
    Choice,
    choice_of,
)
from pages.ui.plot import Part, Picture, Text, by_key
from pages.ui.streamlit_internals import this_run

PIN = "pin"  # the parameter of a link
KEPT = navigation.stays("pinned-")
LONGEST = 80
REFUSED = "-refused"
PINNED, NOW = "pinned", "now"
MATCHING = "States that match have the same colour."
CAPTION = f"The pinned result above what stands now. {MATCHING}"


def text_of(choice: Choice) -> str:
    """The settings for an address; "" where it has no room for what they are."""
    config = choice.config
    own = [config.get("temperature", 1.0), config.get("stickiness", "learn"), config.get("posterior", "window")]
    text = "_".join(map(str, [choice.name, config["n_states"], *own, config["n_latent"], config["seed"]]))
    found = parse(text)
    return text if found is not None and found.config == choice.config else ""


def parse(text: str | None) -> Choice | None:
    """What an address says is pinned; None where it names no settings that the page could have."""
    said = (text or "")[: LONGEST + 1].split("_")
    if len(said) != 7 or len(text or "") > LONGEST:
        return None
    name, k, tau, stay, posterior, d, seed = said
    whole: list[Any] = [
        limits.inside(limits.whole(part), *span) for part, span in ((k, K_RANGE), (d, D_RANGE), (seed, SEED_RANGE))
    ]
    softness: Any = limits.inside(limits.decimal(tau), *TAU_RANGE)
    gamma: Any = "learn" if stay == "learn" else limits.inside(limits.decimal(stay), *GAMMA_RANGE)
    known = name in MODELS and name in available() and posterior in SEES.values()
    if not known or None in (*whole, softness, gamma):
        return None
    n_states, n_latent, start = whole
    return choice_of(name, n_states, softness, gamma, posterior, n_latent, start)


def _fits(choice: Choice, data: Data) -> bool:
    """Whether these data have as many samples and channels as the settings ask for."""
    few = data.train.n_samples // 2
    return int(choice.config["n_states"]) <= max(K_RANGE[0], few) and choice.config["n_latent"] <= data.train.n_channels


def _pinned(page: str) -> str:
    """What is pinned on this page: by a button, or by the address that it was opened at."""
    key = f"{KEPT}{page}"
    run = this_run()
    if key not in st.session_state or run.stepped:
        asked = run.last(PIN) if run.stepped else st.query_params.get(PIN, "")
        known = parse(asked) is not None
        st.session_state[key], st.session_state[f"{key}{REFUSED}"] = (asked, "") if known else ("", asked)
    refused = st.session_state.get(f"{key}{REFUSED}")
    if refused:
        shell.quiet(f"The link pins “{refused[:40]}”, which names no settings: nothing is pinned.")
    return str(st.session_state[key])


@dataclass(frozen=True)
class Beside:
    """What a page has of its own for a pinned result, which is a view of its data like the one that stands.

    rows    the rows of what is measured of it
    parts   what it shows of the pinned view in a picture, whose states have the colours of those that stand where they match;
            both over time where a page has nothing of its own
    look    how the page looks at it
    said    what has to be known to read it
    """

    rows: Callable[[View], list[Score]]
    parts: Callable[[View, live.Shown], Mapping[str, Part]] | None = None
    look: Callable[[View], View] = lambda view: view
    said: str = MATCHING


def show_pinned(view: View, rows: Sequence[Score], page: Beside) -> None:
    """The button, and what is pinned beside what stands: drawn as the page draws, and `rows` beside those of the pinned one."""
    name = view.page

    def turn(text: str) -> None:
        st.session_state[f"{KEPT}{name}"], st.session_state[f"{KEPT}{name}{REFUSED}"] = text, ""

    with view.frame.card:
        text = _pinned(name)
        wanted = view.shown.wanted  # of the result on the screen, which is the one before while another is fitted
        here = text_of(view.choice if wanted is None else wanted.where.choice)
        if text:
            st.button("Unpin", key=f"{name}-unpin", icon=":material/keep_off:", on_click=turn, args=("",))
        else:
            st.button(
                "Pin this result",
                key=f"{name}-pin",
                icon=":material/keep:",
                on_click=turn,
                args=(here,),
                disabled=not here,
                help="Keeps the settings of what you see beside whatever you try next, in the address too.",
            )
    slider.also_in_address(PIN, text or None)
    choice = parse(text)
    if choice is None:
        live.let_go(f"{name}{BESIDE}")
        return
    with view.frame.picture, shell.panel("pinned", f"Pinned: {named(choice)}"):
        if not _fits(choice, view.data):
            shell.quiet("These data have too few samples or channels for what is pinned.")
            return
        beside = _begin(view, choice)
        now = page.look(replace(beside, shown=_matched(beside.shown, view)))
        drawn = page.parts or (lambda other, found: strips(view, other, found, page.said))
        live.problem(beside.fit, beside.shown, f"{name}{BESIDE}")
        live.unanswered(beside.fit, beside.asked, "The exact states of what is pinned could not be worked out")
        live.region(beside.fit, lambda found: drawn(now, _matched(found, view)))
        _compared(page.rows(now), rows)


def watch(view: View) -> None:
    """Run the page again whenever something has been answered about what is pinned."""
    fit: live.Live | None = st.session_state.get(f"{live.screen.LIVE}{view.page}{BESIDE}")
    if fit is not None and st.session_state.get(f"{KEPT}{view.page}"):
        live.watch(fit)


def named(choice: Choice) -> str:
    """The settings in the words of the header, and what else tells two pinned results apart."""
    made_of = {posterior: sees for sees, posterior in SEES.items()}.get(choice.config.get("posterior", ""))
    more = [*([f"states of {made_of}"] if made_of else []), f"D {choice.config['n_latent']}"]
    return ", ".join([choice.label, *(f"{name} {value}" for name, value in choice.facts), *more])


def _begin(view: View, choice: Choice) -> View:
    data = view.data
    setting = Setting(data, choice)
    fit = live.fit(f"{view.page}{BESIDE}", setting.wanted(), moving=data.moving, linked=False)
    shown = fit.poll()
    asked = live.states_of(fit, shown)
    return View(view.frame, setting, fit, shown, asked.value, asked, index=view.index, moving=view.moving)


def _matched(pinned: live.Shown, view: View) -> live.Shown:
    """The picture of what is pinned with the colours of what stands, for states that match."""
    stands = view.shown.train
    if not pinned.train or [len(part) for part in stands] != [len(part) for part in pinned.train]:
        return pinned

    def made() -> live.Shown:
        order = order_of(pinned.train, None, stands)
        train, of_model = in_order(pinned.train, order), tuple(pinned.order[column] for column in order)
        return replace(pinned, train=train, order=of_model, origin=Origin(), _kept={})

    found: live.Shown = pinned.once("matched", made, of=stands)
    return found


def more_colours(view: View, n_states: int) -> Text | None:
    """Which colour is which state, where what is pinned has more of them than what stands."""
    return Text(shell.state_key_html(n_states), "pinned-key") if n_states > view.shown.n_states else None


def strips(view: View, beside: View, now: live.Shown, said: str) -> dict[str, Part]:
    """What a page without a drawing of its own shows: both over time, their bouts where it has such, and the track where there
    is one."""
    here, there = view.read(), beside.read(now)
    if isinstance(there, Unread):
        return by_key(Picture(None, "pinned-strips", title=there.title, note=there.note))
    both = {PINNED: there} | ({} if isinstance(here, Unread) else {NOW: here})
    of = tuple(one.states for one in both.values())

    def over_time(rows: dict[str, Any], caption: str) -> figures.Figure:
        columns = figures.FEW_COLUMNS if figures.flickers(there.states) else MAX_COLUMNS
        return figures.state_strips(rows, **there.timing, columns=columns, caption=caption)

    def bouts() -> figures.Figure:
        known = there.known
        rows = {} if known is None else {known.who: known.shares}
        cut = {name: figures.one_hot(one.bouts, len(one.names)) for name, one in both.items()}
        return over_time(rows | cut, f"Bouts of both, by the same rule. {said}")

    soft = {name: one.states for name, one in both.items()}
    mixed = now.once(
        "pinned-strips", lambda: over_time(soft, f"The pinned result above what stands now. {said}"), of=of
    )
    shown = [Picture(mixed, "pinned-strips", there.state, f"{view.data.key}/{view.index}")]
    if view.data.recorded:
        made = now.once("pinned-bouts", bouts, of=(*of, *(one.bouts for one in both.values())), settings=said)
        shown.insert(0, replace(shown[0], figure=made, key="pinned-bouts"))
        key = Text(colour_key("pinned states", there.names, there.used), "pinned-key")
        return by_key(*shown, key)
    if (position := view.trial.position) is not None:
        track = partial(figures.track, position, there.states, title="pinned", height=190, caption="")
        made = now.once("pinned-track", track, of=(there.states, position))
        shown.insert(0, Picture(made, "pinned-track", there.state))
    return by_key(*shown, more_colours(view, len(there.names)))


def _compared(pinned: Sequence[Score], now: Sequence[Score]) -> None:
    """Scores of both in two columns."""
    if not pinned:
        shell.quiet("The pinned result is being scored.")
        return
    beside = {row.name: row for row in now}
    body = "".join(
        f'<tr><th scope="row">{escape(row.name)}</th><td>{_value(row)}</td><td>{_value(beside.get(row.name))}</td></tr>'
        for row in pinned
    )
    st.html(
        '<table class="gdm-pinned"><thead><tr><th scope="col">Score</th><th scope="col">pinned</th>'
        f'<th scope="col">now</th></tr></thead><tbody>{body}</tbody></table>'
    )


def _value(row: Score | None) -> str:
    return "–" if row is None or not math.isfinite(row.value) else f"{row.value:.{row.digits}f}{escape(row.unit)}"
