"""The card of a state: typical moments as pictures, high and low channels, and neighbouring states."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st
from streamlit.components.v2 import component

from datasets.keypoints import KeypointTable
from gdm_core.analysis.explain import explain_state
from gdm_core.text import format_percent, format_signed, plural
from gdm_core.units import Unit
from gdm_studio.plot import palette
from pages.lab.decoded import Decoded
from pages.lab.poses.player import skeleton_edges
from pages.lab.view import View
from pages.ui import settings, shell
from pages.ui.controls import whole
from pages.ui.downloads import download
from pages.ui.exports import slug
from pages.ui.images import to_image

CHOSEN = "explain"  # number of the state, in the address
GREY = "#8f94a3"  # visible in both themes, also in files
SIZE = (160, 110)  # pixels of a picture
AROUND = 1.5  # length of the context of a bout without a path, in bouts
MOST_POINTS, MOST_CHANNELS, MOST_NEIGHBOURS = 600, 4, 3
_LISTEN = """
export default function ({ setTriggerValue }) {
  const heard = ({ target }) => {
    const state = target.closest?.("[data-state-number]")?.dataset.stateNumber;
    if (!state) return;
    setTriggerValue("state", state);
    setTimeout(() => document.querySelector(".gdm-explain")?.scrollIntoView({ block: "nearest" }), 700);
  };
  window.addEventListener("click", heard);
  return () => window.removeEventListener("click", heard);
}
"""
_listener = component("gdm_explain", js=_LISTEN)
LOOK = """<style>
.gdm-explain { font: 14px/1.5 system-ui, sans-serif; } .gdm-explain .moments { display: flex; flex-wrap: wrap; gap: 12px; }
.gdm-explain figure { margin: 0; } .gdm-explain dl { display: grid; grid-template-columns: auto 1fr; gap: 2px 14px; }
.gdm-explain dd { margin: 0; } .gdm-explain i { display: inline-block; width: 12px; height: 12px; border-radius: 3px; }
</style>"""  # of the exported file; styles.css has that of the page


def show_explanation(view: View) -> None:
    """Show the card of the state whose number the address has."""
    number, reading = listen(), view.read_samples()
    if number is None or not isinstance(reading, Decoded):
        return
    column = next((k for k in reading.used if reading.naming.numbers[k] == number), None)
    with view.frame.below, shell.panel("explain"):
        if column is None:
            shell.quiet(f"State {number} is not one of the current fit. Click a state in a legend.")
            return
        with shell.made_for(view.made_for if reading.state == "fresh" else ""):
            show_card(draw_card(view, reading, column), reading.names[column], view.stem)


def listen() -> int | None:
    """Listen for clicks on legends; return the number of the state to explain."""
    with st.container(key="gdm-explain-place"):
        _listener(key="explain-listener", on_state_change=_choose)
    number = whole(settings.text(CHOSEN) or "")
    settings.keep(CHOSEN, None if number is None else str(number))
    return number


def show_card(card: str, name: str, stem: str) -> None:
    """Show the card of a state with buttons that save and close it; `stem` starts the name of its file."""
    page = f'<!doctype html><meta charset="utf-8"><title>{escape(name)}</title>{LOOK}{card}'
    with st.container(horizontal=True, key="gdm-explain-buttons"):
        saved = {"key": "explain-save", "width": "content", "type": "tertiary"}
        download("Save card", page.encode, f"{stem}-{slug(name)}.html", **saved)
        close = partial(settings.change, CHOSEN, None)
        st.button("Close", key="explain-close", icon=":material/close:", type="tertiary", on_click=close)
    shell.html(card)


def _choose() -> None:
    """Explain the clicked state; an invalid message changes nothing."""
    number = whole(str((st.session_state.get("explain-listener") or {}).get("state") or ""))
    if number is not None:
        settings.change(CHOSEN, str(number))


def choose_bar(reading: Decoded, point: Any) -> None:
    """Explain the state of a clicked bar of its usage."""
    row = point.get("y") if isinstance(point, Mapping) else None
    if isinstance(row, int | float) and row in range(len(reading.used)):
        settings.change(CHOSEN, str(reading.naming.numbers[reading.used[int(row)]]))


def draw_card(view: View, reading: Decoded, column: int) -> str:
    """Return the card of a state as HTML with its pictures inside."""
    colour, name = palette.colours(len(reading.names))[column], reading.names[column]
    values, names = _quantities(view, reading)
    facts = explain_state(reading.states, reading.bouts, column, values, names)
    pose, unit, timing = view.dataset.pose(view.index), reading.dwell_unit(reading.bouts), reading.timing
    told = [names.index(name) for name, _ in facts.differences] or list(range(len(names)))

    def draw(first: int, stop: int) -> str:
        """Return the lines of a bout: its poses, its part of the path, or the channels around it."""
        if pose is not None:
            return draw_pose(pose, (first + stop) // 2, colour)
        if reading.trial.position is not None:
            return _draw_path(np.asarray(reading.trial.position, np.float64), first, stop, colour)
        return draw_channels(values[:, told], first, stop, colour)

    def when(sample: int) -> str:
        time = timing["start"] + timing["step"] * sample
        return f"{timing['unit']} {time:.0f}" if timing["unit"] == "step" else f"{time:.4g} {timing['unit']}"

    moments = [(draw(first, stop), when(first)) for first, stop in facts.typical.tolist()]
    lengths = facts.lengths * unit.convert(1 / reading.trial.rate_hz)
    before, after = ([(reading.names[k], share) for k, share in others] for others in (facts.before, facts.after))
    return card_html(colour, name, moments, facts.share, facts.differences, lengths, unit, (before, after))


def card_html(
    colour: str,
    name: str,
    moments: Sequence[tuple[str, str]],
    share: float,
    differences: Sequence[tuple[str, float]] | None,
    lengths: npt.NDArray[np.floating],
    unit: Unit,
    neighbours: tuple[Sequence[tuple[str, float]], Sequence[tuple[str, float]]],
) -> str:
    """Return the card of a state.

    moments      lines and caption of each picture
    differences  (quantity, difference in standard deviations); None if unknown
    lengths      of bouts, in `unit`
    neighbours   (state, share of the changes) of the states before and after, the most frequent first
    """
    before, after = neighbours
    words = [f"{'high' if d > 0 else 'low'} {what} ({format_signed(d, 1)} SD)" for what, d in differences or ()]
    rows = {
        "Is active": f"{format_percent(share)} of the time",
        "High and low": " · ".join(words) or "near the mean in everything recorded",
        "Lasts": _describe_lengths(lengths, unit),
        "Comes after": _describe_neighbours(before),
        "Leads to": _describe_neighbours(after),
    }
    if differences is None:
        del rows["High and low"]
    pictures = "".join(
        f"<figure>{_to_picture(*each)}<figcaption>{escape(each[1])}</figcaption></figure>" for each in moments
    )
    listed = "".join(f"<dt>{escape(title)}</dt><dd>{escape(text)}</dd>" for title, text in rows.items())
    title = f'<p class="gdm-panel-title"><i style="background:{colour}"></i> {escape(name)}</p>'
    return f'<div class="gdm-explain">{title}<div class="moments">{pictures}</div><dl>{listed}</dl></div>'


def _quantities(view: View, reading: Decoded) -> tuple[npt.NDArray[np.float32], tuple[str, ...]]:
    """Return what a state may be high or low in: the channels, or speed and turning of a simulated path."""
    trial = reading.trial
    if trial.position is None or view.dataset.recorded or trial.states is None:
        return trial.y, tuple(view.dataset.called.get(channel, channel) for channel in trial.channels)
    x, y = np.asarray(trial.position, np.float64).T
    across, up = np.gradient(x), np.gradient(y)
    turn = np.gradient(np.unwrap(np.arctan2(up, across)))
    values = np.column_stack([x, y, np.hypot(across, up), np.abs(turn)]).astype(np.float32)
    return values, ("position x", "position y", "speed", "turning")


def _describe_lengths(lengths: npt.NDArray[np.floating], unit: Unit) -> str:
    if not len(lengths):
        return "never the strongest state"
    low, middle, high = (f"{value:.3g}" for value in np.quantile(lengths, (0.1, 0.5, 0.9)))
    bouts = plural(len(lengths), "bout")
    return f"{middle} {unit.name if middle == '1' else unit.plural} (median of {bouts}; most {low} to {high})"


def _describe_neighbours(others: Sequence[tuple[str, float]]) -> str:
    named = [f"{name} ({format_percent(share)})" for name, share in others[:MOST_NEIGHBOURS]]
    return ", ".join(named) or "no other state"


# ---- pictures -------------------------------------------------------------------------------------------------------
def _to_picture(lines: str, moment: str) -> str:
    width, height = SIZE
    svg = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
        f'fill="none" stroke-linejoin="round" stroke-linecap="round">{lines}</svg>'
    )
    return to_image(svg, f"A typical moment, {moment}")


def _fit(points: npt.NDArray[np.float64], extent: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return points [n, 2] on the picture, with equal scales."""
    low, high = np.nanmin(extent, axis=0), np.nanmax(extent, axis=0)
    scale = min((side - 16) / max(span, 1e-9) for side, span in zip(SIZE, high - low, strict=True))
    return (points - (low + high) / 2) * scale + np.array(SIZE) / 2


def _line(points: npt.NDArray[np.float64], colour: str, width: float) -> str:
    known = points[np.isfinite(points).all(axis=1)]
    if not len(known):
        return ""
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in known) + ("h0.01" if len(known) == 1 else "")
    return f'<path d="{path}" stroke="{colour}" stroke-width="{width}"/>'


def _draw_path(where: npt.NDArray[np.float64], first: int, stop: int, colour: str) -> str:
    flipped = where * (1, -1)
    begin = min(max(0, (first + stop - MOST_POINTS) // 2), max(0, len(where) - MOST_POINTS))
    around = flipped[begin : begin + MOST_POINTS]  # of many laps, those around the bout
    return _line(_fit(around, flipped), GREY, 1) + _line(_fit(flipped[first : stop + 1], flipped), colour, 7)


def draw_pose(pose: KeypointTable, frame: int, colour: str) -> str:
    """Return the lines of the animals in a frame."""
    every = np.asarray(pose.xy[min(frame, pose.n_frames - 1)], np.float64)  # [A, 2, P]
    extent = every.transpose(0, 2, 1).reshape(-1, 2)
    if not np.isfinite(extent).all(axis=1).any():
        return ""
    parts = []
    for animal in range(len(every) - 1, -1, -1):
        places = _fit(every[animal].T, extent)
        ink = GREY if animal else colour
        parts += [_line(places[list(edge)], ink, 3) for edge in skeleton_edges(pose)]
    return "".join(parts)


def draw_channels(values: npt.NDArray[np.float32], first: int, stop: int, colour: str) -> str:
    """Return the lines of the first channels around a bout, which is shaded."""
    width, height = SIZE
    values = values[:, :MOST_CHANNELS]
    around = max(8, round(AROUND * (stop - first)))
    begin, end = max(0, first - around), min(len(values), stop + around)
    across = (np.arange(begin, end) - begin) * width / max(1, end - begin)
    left, right = ((edge - begin) * width / max(1, end - begin) for edge in (first, stop))
    parts = [f'<rect x="{left:.1f}" width="{right - left:.1f}" height="{height}" fill="{colour}" opacity="0.35"/>']
    room = height / values.shape[1]
    for row, column in enumerate(np.asarray(values, np.float64).T):
        low, high = np.nanmin(column, initial=np.inf), np.nanmax(column, initial=-np.inf)
        down = room * (row + 0.9 - 0.8 * (column[begin:end] - low) / max(high - low, 1e-9))
        parts.append(_line(np.column_stack([across, down]), GREY, 1.5))
    return "".join(parts)
