"""Figures of the NASCAR lab, true next to inferred states, and the rows of its scorecard."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from gdm_core.trials import Trial
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import Figure
from pages.lab import Decoded, Undecoded, View, live, preview_figures
from pages.lab import figures as lab_figures
from pages.lab import scores as usual
from pages.ui import legend
from pages.ui.card import Score
from pages.ui.plot import Panel, Picture, State, by_key

SIDE_BY_SIDE, STACKED = (280, 110), (195, 110)  # heights of a track and of the strips
SHOWN_CHANNELS = 3  # that are drawn where there is no track
DOTS = "Grey dots: positions estimated from single noisy samples."
CLOSE_UP = "Close-up. Mixed colours: several states at once. Drag to move."
INFERRED = "Inferred"
VISIBLE = 0.005  # of the track's width; smaller deviations are hidden by its line
Array = npt.NDArray[np.float32]


def arrange_tracks(trial: Trial) -> dict[str, Any]:
    """Return the place of each track: side by side, or stacked if the track is wide."""
    if _heights(trial) == STACKED:
        return {}
    left, right = st.columns(2, gap="small")
    return {"true-track": left, "inferred-track": right}


def _heights(trial: Trial) -> tuple[int, int]:
    """Return the height of a track and of the strips."""
    if trial.position is None:
        return STACKED
    span = np.ptp(np.asarray(trial.position), axis=0)
    return STACKED if span[0] > 2 * span[1] else SIDE_BY_SIDE


def is_flickering(reading: Decoded | Undecoded) -> bool:
    """Return whether states change at nearly every step and need a close-up."""
    return any(figures.is_flickering(row) for row in lab_figures.rows_of_strips(reading, cut=False).values())


def truth_of(trial: Trial) -> Array:
    """Return the true states [T, K], which every simulated trial has."""
    assert trial.states is not None
    return np.asarray(trial.states, np.float32)


def draw_data(
    trial: Trial, states: Array, title: str, caption: str = "", dots: Array | None = None, **place: Any
) -> Figure:
    """Draw the track in the colours of `states`, or the channels if there is no track."""
    if trial.position is not None:
        return figures.track(trial.position, states, title=title, caption=caption, dots=dots, **place)
    shown = trial.channels[:SHOWN_CHANNELS]
    if len(shown) < trial.n_channels:
        caption = f"{caption} The first {len(shown)} of {trial.n_channels} channels.".strip()
    y, start = trial.y[:, : len(shown)], trial.start_seconds
    return figures.channels(y, states, names=shown, title=title, start=start, caption=caption, **place)


def make_panels(
    view: View, reading: Decoded | Undecoded, now: live.FitState, revision: str, *, close: bool
) -> dict[str, Panel]:
    """Return the panels: two tracks, strips and proportions.

    close  whether to show a close-up under an average of the whole trial
    """
    trial, which, height = reading.trial, view.index, _heights(reading.trial)[0]
    if isinstance(reading, Undecoded):
        inferred = Picture(None, "inferred-track", revision=revision, title=reading.title, note=reading.note)
        shares = None
    else:
        states = reading.states
        made = now.memoize(
            ("inferred", which),
            lambda: draw_data(trial, states, INFERRED, reading.note, height=height),
            inputs=(states,),
            settings=reading.note,
        )
        inferred = Picture(made, "inferred-track", reading.state, revision)
        drawn = now.memoize(
            ("shares", which), partial(lab_figures.shares, reading), inputs=(states,), settings=view.naming
        )
        shares = Picture(drawn, "proportions", reading.state, revision)
    return by_key(
        Picture(_draw_true(view), "true-track", revision=revision, still=True),
        inferred,
        *_strips(view, reading, now, revision, close),
        shares,
    )


def _draw_true(view: View) -> Figure:
    """Draw the true states, once for all fits."""
    trial, key = view.trial, ("true", view.index)
    drawn: tuple[Trial, Figure] | None = view.fit.memory.get(key)
    if drawn is None or drawn[0] is not trial:
        dots, height = locate(trial), _heights(trial)[0]
        caption = "" if dots is None else DOTS
        made = draw_data(trial, truth_of(trial), "Ground truth", caption, dots, height=height)
        drawn = view.fit.memory[key] = trial, made
    return drawn[1]


def make_preview(view: View) -> preview_figures.SliderPreview:
    """Return what the browser draws while a slider is dragged."""
    row = preview_figures.strips({"inferred": "states"}, 1 / view.trial.rate_hz)
    n_channels = min(SHOWN_CHANNELS, view.trial.n_channels)
    part = "states" if view.trial.position is not None else "channels"

    def parts(states: preview_figures.States, _: preview_figures.States | None) -> preview_figures.Parts:
        found = {"states": states[0]}
        return found if part in found else found | {part: figures.repeat_channels(states[0], n_channels)}

    shown = {"inferred-track": preview_figures.track(part), "overview": row, "strips": row}
    return preview_figures.SliderPreview((view.index,), parts, shown | {"proportions": preview_figures.areas("states")})


def _strips(view: View, reading: Decoded | Undecoded, now: live.FitState, revision: str, close: bool) -> list[Picture]:
    """Return the strips over time."""
    rows, start = lab_figures.rows_of_strips(reading, cut=False), reading.trial.start_seconds
    height, inputs = _heights(reading.trial)[1], (reading.trial, rows.get("inferred"))
    state: State = "stale" if reading.state == "stale" else "fresh"

    def detail() -> Figure:
        if not close:
            return figures.state_strips(rows, start=start, height=height)
        figure = figures.state_strips(rows, start=start, height=height, caption=CLOSE_UP)
        figure["layout"]["xaxis"]["range"] = [start - 0.5, start + figures.FEW_COLUMNS - 0.5]
        figure["layout"]["dragmode"] = "pan"
        return figure

    drawers = ({"overview": partial(overview, rows, start)} if close else {}) | {"strips": detail}
    return [
        Picture(now.memoize((name, view.index), draw, inputs=inputs, settings=reading.note), name, state, revision)
        for name, draw in drawers.items()
    ]


def overview(rows: dict[str, Array], start: float) -> Figure:
    """Draw the whole trial as averages over windows."""
    window = figures.window_length(max(len(row) for row in rows.values()))
    return figures.state_strips(
        rows, start=start, height=88, columns=figures.FEW_COLUMNS, caption=f"Whole track, averaged over {window} steps."
    )


def locate(trial: Trial) -> Array | None:
    """Return positions [T, 2] estimated from each sample alone; None if they are indistinguishable from the true ones."""
    if trial.position is None:
        return None
    position = np.asarray(trial.position, np.float64)
    y = np.asarray(trial.y, np.float64)
    emission, *_ = np.linalg.lstsq(np.column_stack([position, np.ones(len(position))]), y, rcond=None)  # [3, N]
    found = (y - emission[2]) @ np.linalg.pinv(emission[:2])
    off = np.sqrt(np.mean((found - position) ** 2))
    return found.astype(np.float32) if off > VISIBLE * np.ptp(position) else None


def tracks(reading: Decoded) -> dict[str, Callable[[], Figure | None]]:
    """Return the two tracks for export, with a legend."""
    trial, truth, states = reading.trial, truth_of(reading.trial), reading.states
    key = {"states": legend.states(max(truth.shape[1], states.shape[1]))}
    return {
        "Inferred states": lambda: legend.with_key(draw_data(trial, states, ""), key),
        "True states": lambda: legend.with_key(draw_data(trial, truth, ""), key),
    }


# ---- scorecard ------------------------------------------------------------------------------------------------------
TESTED = "held-out trial"
_MATCHED = (
    "Share of held-out samples whose strongest state is the true one. States are matched on the training trial; if K "
    "differs from the truth, each state predicts its most frequent true state."
)
_PAPER = "Ten nearest neighbours from soft states to true states, fitted on the training trial."


def score_rows(scores: Mapping[str, Any]) -> list[Score]:
    """Return each score with its baseline."""
    untrained = "untrained model"
    small = (untrained, "k-means on steps")
    accuracy = partial(usual.accuracy_row, scores, is_excluded=lambda base: base == untrained, small=small)
    return usual.drop_missing(
        [
            accuracy("matched_accuracy", "State accuracy", _MATCHED),
            usual.forecast_row(scores, TESTED),
            usual.coverage_row(scores, TESTED),
            usual.bound_row(scores, TESTED),
            accuracy("paper_accuracy", usual.PAPER, _PAPER),
        ]
    )
