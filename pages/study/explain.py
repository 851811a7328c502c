"""The card of a state over all recordings of a study."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.explain import name_largest
from gdm_core.study.sheet import RECORDING
from gdm_core.study.tables import choose_clips, compare_channels
from gdm_core.trials import Trial
from gdm_core.units import unit_for
from pages.lab import explain
from pages.study import pictures, work
from pages.study.sources import OpenStudy
from pages.study.work import Say
from pages.ui import shell
from pages.ui.shell import Frame

MOMENTS = 5


def show_key(opened: OpenStudy) -> None:
    """Show the states with their own colour; a click explains one."""
    own, names = pictures.shown_states(opened.study)
    items = [(pictures.colour_of(opened.study, place), name) for place, name in zip(own, names, strict=False)]
    shell.html(shell.key_html("States", items, "explain", numbers=[place + 1 for place in own]))


def show_card(opened: OpenStudy, page: Frame) -> None:
    """Show the card of the state whose number the address has."""
    number = explain.listen()
    if number is None:
        return
    with page.below, shell.panel("explain"):
        if not 0 < number <= len(opened.study.states):
            shell.quiet(f"The study has no state {number}. Click a state below the figure.")
            return
        place, failed = number - 1, "This state cannot be explained"
        card = work.outcome(
            "study-explain", (opened.key, "explain", place), lambda say: _draw_card(opened, place, say), failed
        )
        if card is not None:
            explain.show_card(card, opened.study.state_name(opened.study.states[place]), opened.name)


def _draw_card(opened: OpenStudy, place: int, say: Say) -> str:
    study = opened.study
    counts, names = study.counts, [study.state_name(state) for state in study.states]
    differences, moments = None, []
    if opened.trials is not None:
        say("Describing the state", 0.0)
        trials = opened.trials()
        far = np.nan_to_num(compare_channels(study, trials)[place])
        differences = name_largest(far, trials[study.sheet.names[0]].channels)
        clips = choose_clips(study, study.states[place], MOMENTS)
        for i, (name, first, after) in enumerate(
            clips[[RECORDING, "bout_first", "bout_after"]].itertuples(index=False)
        ):
            say(f"Drawing moment {i + 1} of {len(clips)}", i / len(clips))
            lines = _draw_moment(opened, trials[name], name, (first, after), far, place)
            moments.append((lines, f"{first / study.recordings[name].rate_hz:.4g} s"))
    recording, visited, _, long = counts.runs
    seconds = (long / counts.rates[recording])[visited == place]
    unit = unit_for(float(np.median(seconds)) if len(seconds) else 0.0)
    changes = counts.changes.sum(axis=0)

    def rank(others: npt.NDArray[np.floating]) -> list[tuple[str, float]]:
        shares = others / max(1.0, others.sum())
        return [(names[k], float(shares[k])) for k in np.argsort(-shares, kind="stable") if shares[k] > 0]

    share = float(np.nanmean(counts.usage[:, place]))
    neighbours = rank(changes[:, place]), rank(changes[place])
    found = moments, share, differences, unit.convert(1) * seconds, unit, neighbours
    return explain.card_html(pictures.colour_of(study, place), names[place], *found)


def _draw_moment(
    opened: OpenStudy, trial: Trial, name: str, span: tuple[int, int], far: npt.NDArray[np.floating], place: int
) -> str:
    """Return the lines of a bout: its pose, or the channels that differ most."""
    colour, poses = pictures.colour_of(opened.study, place), opened.poses(name)
    if poses is None:
        return explain.draw_channels(trial.y[:, np.argsort(-np.abs(far), kind="stable")], *span, colour)
    frames = poses.rate_hz / opened.study.recordings[name].rate_hz  # more than one for windows
    start = round(opened.starts.get(name, 0.0) * poses.rate_hz)
    return explain.draw_pose(poses, start + round(sum(span) / 2 * frames), colour)
