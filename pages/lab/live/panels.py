"""Panels that follow a fit, and controls to cancel and retry it."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import streamlit as st

from gdm_core.analysis.matching import format_order, parse_order
from gdm_core.engine import Engine, get_engine
from gdm_core.engine.estimate import format_duration
from gdm_core.text import plural
from gdm_studio.plot import figures
from pages.channel import LivePanels, channel
from pages.lab.live.queries import Query
from pages.lab.live.session import FitSession
from pages.lab.live.state import FitState, PageSpec, has_default_order, is_fit_of
from pages.ui import navigation, settings, shell, shipped
from pages.ui.plot import REPLAY, Panel, Picture, Scrubber, Text, by_key, draw_live

FIT = "fit-"
COLOURS = "colours"  # parameter of a link


def engine() -> Engine:
    """Return the engine that runs fits. Tests replace it."""
    found = get_engine()
    found.cache.precomputed = shipped.find_result
    return found


# ---- sessions -----------------------------------------------------------------------------------------------------
def open_fit(page: str, spec: PageSpec) -> FitSession:
    """Return this visitor's fit session of a page, after requesting a fit."""
    key = f"{FIT}{page}"
    if key not in st.session_state:
        st.session_state[key] = FitSession(engine(), f"{visitor()}/{page}")
    fit: FitSession = st.session_state[key]
    channel().at_leave[key] = fit.leave
    order = parse_order(settings.text(COLOURS), spec.n_states)
    fit.request(spec, link_order=order, address=settings.times_opened())
    return fit


def require_open_fit(page: str) -> PageSpec | None:
    """Return the fit that this visitor has open on another page; without one, show a link to the page."""
    fit: FitSession | None = st.session_state.get(f"{FIT}{page}")
    spec = None if fit is None else fit.spec
    title = navigation.info(page).title
    if spec is not None and len(spec.dataset.test):
        return spec
    shell.quiet(f"Nothing is open on {title} in this session." if spec is None else f"{title} has no held-out trials.")
    st.page_link(navigation.page(page), label=f"Open {title} first")
    return None


def close_fit(page: str) -> None:
    """Drop this visitor's fit of a page, its colours and, also on the workers, its data."""
    settings.change(COLOURS, None)
    fit: FitSession | None = st.session_state.pop(f"{FIT}{page}", None)
    if fit is not None:
        channel().at_leave.pop(f"{FIT}{page}", None)
        fit.close()


def visitor() -> str:
    """Return a random name for this visitor's session; their jobs are called "<name>/<what>" and end when they leave."""
    name = str(st.session_state.setdefault("_visitor", secrets.token_hex(8)))
    channel().at_leave["jobs"] = partial(engine().forget, name)
    return name


def estimate_wait(usual_s: float) -> str:
    """Return an estimate of the time of new work; `usual_s` is its time on one quiet core."""
    info = engine().info()
    words, jobs = format_duration(usual_s * info.slowdown / max(1, info.n_workers)), info.waiting + info.running
    return f"{words} once {plural(jobs, 'queued fit')} finish{'es' * (jobs == 1)}" if jobs else words


# ---- panels -------------------------------------------------------------------------------------------------------
def draw_panels(
    fit: FitSession, make: Callable[[FitState], Mapping[str, Panel]], places: Mapping[str, Any] | None = None
) -> None:
    """Draw the panels in their places. While a fit runs, the channel updates them; its end reruns the page.

    `make` is also called in other threads: it must neither draw nor read the session.
    """

    def moves() -> bool:
        return fit.running or fit.completing

    began = moves()
    draw_live(
        lambda: _name_earlier(make(fit.poll()), fit), moves, lambda: "fit" if began and not moves() else "", places
    )


def _name_earlier(panels: Mapping[str, Panel], fit: FitSession) -> Mapping[str, Panel]:
    """Return the panels with the settings of an earlier result on the first of its pictures."""
    first = next((one for one in panels.values() if isinstance(one, Picture) and one.state == "stale"), None)
    shown, asked = fit.poll(), fit.spec
    if first is None or shown.spec is None or asked is None:
        return panels
    words = shown.spec.describe_changes(asked) if is_fit_of(shown, asked) else "other data"
    return {**panels, first.key: replace(first, badge=f"before: {words or 'other settings'}")}


def rerun_when_answered(fit: FitSession) -> None:
    """Rerun the page when all its queries have results. Call at the end of its script."""

    def settled() -> str:
        fit.queries.collect()
        waits = fit.running or fit.queries.awaited  # the end of the fit reruns the page
        return "answers" if fit.queries.news and not waits else ""

    channel().scene.live.append(LivePanels(dict, lambda: bool(fit.queries.pending), settled))


def keep_colours(state: FitState) -> None:
    """Store the order of colours in the address, unless the settings imply it."""
    fresh = None if has_default_order(state) else format_order(state.order)
    settings.keep(COLOURS, fresh if state.status == "fresh" else settings.text(COLOURS))


def show_cancel(fit: FitSession, page: str) -> None:
    """Show a button that cancels the running fit; styles.css reveals it after a second."""
    with st.container(key="gdm-cancel"):  # always there, otherwise Streamlit would rebuild the curve below
        if fit.running:
            st.button("Cancel", key=f"{page}-cancel", type="tertiary", on_click=fit.cancel)


def show_problem(fit: FitSession, state: FitState, page: str) -> None:
    """Show why the fit failed, with a button to try again."""
    if state.message:
        title = "The fit was stopped" if "cancel" in state.message.lower() else "The fit failed"
        shell.error(title, state.message, retry=f"{page}-retry", again=fit.retry)


def show_failure(fit: FitSession, query: Query, title: str, *, where: str = "page") -> bool:
    """Show why a query failed, with a button to try again; return whether it failed.

    A page that shows one query in two places names them in `where`.
    """
    if query.message:
        retry = f"{fit.name.rpartition('/')[-1]}-again-{query.name}-{where}"
        shell.error(title, query.message, retry=retry, again=partial(fit.queries.retry, query.name))
    return bool(query.message)


def make_progress(state: FitState) -> dict[str, Panel]:
    """Return the progress of the fit, its ELBO curve and the scrubber of the replay."""
    if state.fitting and state.total:
        words = f"Fitting: step {state.step} of {state.total}{f', {state.waits}' * bool(state.waits)}"
        if state.step >= state.total:
            words = "Fitted. Computing states and scores"
        lines = [shell.running_html(words, state.step / state.total)]
    else:
        lines = [shell.quiet_html(words)] if (words := _describe(state)) else []
    lines += [shell.quiet_html(note) for note in state.notes]
    curve = state.curve
    draw = partial(figures.bound, curve.steps, curve.elbos, total=curve.total, faded=curve.earlier)
    figure = state.memoize("bound", draw, settings=curve)
    return by_key(Text("".join(lines), "fit-progress"), Picture(figure, "elbo", group=REPLAY), _make_scrubber(state))


def _make_scrubber(state: FitState) -> Scrubber:
    """Return the scrubber of a running or finished fit that has snapshots."""
    step, total = state.recorded
    if state.fitting:
        return Scrubber("", step, max(step, total))
    if state.status != "fresh" or state.result is None:
        return Scrubber()
    return Scrubber(state.result.key, step, total)


def _describe(state: FitState) -> str:
    """Return the line in place of the progress of a fit."""
    if state.fitting:
        return f"{state.waits[:1].upper()}{state.waits[1:]}" or "Waiting for a free processor"
    if state.cancelled:
        return "Cancelled. The previous fit stays; change a setting to start another."
    return "" if state.status == "fresh" and state.total else "No fit is running."
