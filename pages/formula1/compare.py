"""The first view: the gap, where the time goes, traces, map and the three corners that matter of two drivers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import streamlit as st

from gdm_studio.plot.figures.base import Figure
from pages.formula1 import corners, share, teams, telemetry, time_gained
from pages.formula1.comparison import KINDS, Between
from pages.formula1.data import Race
from pages.formula1.teams import LineStyle
from pages.ui import settings, shell
from pages.ui.controls import one_of, switch
from pages.ui.plot import plot

WHOLE = "lap"


def tab(race: Race, found: Between) -> None:
    """Show the comparison of the chosen laps."""
    top, below = st.container(key="formula1-finding"), st.container()
    circuit, spans = race.circuit, telemetry.zooms(race.circuit)
    measured = corners.measure_joint(race, found)
    with top:
        with st.container(key="formula1-words"):
            shell.finding(time_gained.sentence(found, corners.reason(found, measured)))
        with st.popover("Options", icon=":material/tune:"):
            zoom = one_of(
                "Zoom", {WHOLE: "The whole lap"} | {name: name for name in spans}, key="zoom", as_ids=True,
                help="Or click a corner on the map.", options_key=str(race.pick.place),
            )  # fmt: skip
            more = switch("Gear and rpm", False, key="more-channels")
        with st.popover("Share", icon=":material/share:"):
            share.show(race, found)
    styles = teams.line_styles(race.session, race.codes)
    with below:
        _show_parts(race, found, styles)
        left, right = st.columns([0.64, 0.36], gap="small")
        with left, shell.panel("telemetry"):
            drawn = traces(race, found)
            if len(drawn) == 2:
                channels = tuple(telemetry.PANELS) if more else telemetry.FIRST_CHANNELS
                figure = draw_telemetry(race, found, drawn, channels, spans.get(zoom))
                plot(figure, key="telemetry", still=True, revision=f"{zoom}", filename=f"{race.stem}-telemetry")
            else:
                shell.empty("Too few positions", "Too few positions are known on this lap. Choose another lap.")
        with right, shell.panel("gain-map", "Who is faster where"):
            figure = time_gained.gain_map(circuit, found.names, found.gains["minisector"], styles)
            name = f"{race.stem}-faster-driver"
            plot(figure, key="gain-map", still=True, clicked=partial(_zoom_to_corner, race), filename=name)
        if measured is not None:
            cards = [corners.card_html(found, measured, part, styles) for part in corners.corners_that_matter(found)]
            label = "Corners with the largest differences"
            shell.html(f'<div class="f1-corners" role="list" aria-label="{label}">{"".join(cards)}</div>')


def traces(race: Race, found: Between) -> list[telemetry.Trace]:
    """Return the mean channels of both sides, as far as their positions are known."""
    sides = zip(found.sides, found.titles, found.names, strict=True)
    drawn = [(telemetry.trace(race.circuit, race.session, *side, title), name) for side, title, name in sides]
    return [replace(one, code=name) for one, name in drawn if one is not None]


def draw_telemetry(
    race: Race,
    found: Between,
    drawn: Sequence[telemetry.Trace],
    channels: Sequence[str],
    zoom: telemetry.Span | None = None,
) -> Figure:
    """Draw the traces of both sides with the delta of the pairs."""
    styles, delta = teams.line_styles(race.session, race.codes), telemetry.delta_of_pairs(race.circuit, found.won)
    return telemetry.draw(race.circuit, drawn, styles, delta, channels, zoom)


def _zoom_to_corner(race: Race, point: object) -> None:
    """Zoom the traces to the corner nearest to a click on the map."""
    if name := telemetry.corner_at(race.circuit, point if isinstance(point, dict) else None):
        settings.change("zoom", name)


# ---- the delta by part of the lap -------------------------------------------------------------------------------------
def _show_parts(race: Race, found: Between, styles: Sequence[LineStyle]) -> None:
    """Show the delta by corner, sector or minisector."""
    kinds = {kind: words for kind, words in KINDS.items() if kind in found.gains}
    with shell.panel("gain", "Where the time goes"):
        kind = one_of("Delta by", kinds, key="won-by", as_ids=True, row=True, label_visibility="collapsed")
        figure = time_gained.bars(found.names, found.gains[kind], kind, styles)
        plot(figure, key="gain", still=True, filename=f"{race.stem}-delta-by-{kind}")
