"""What came of a lesson: agreement on moments that were not taught, and what each state means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from gdm_core.analysis import teaching
from gdm_core.analysis.tables import csv
from gdm_core.analysis.teaching import Overview, Taught, Trust
from gdm_studio.plot import figures
from pages.lab import live
from pages.lab.export import timed
from pages.lab.teach.taught_fit import TEACHABLE, AnyTeaching, Teaching, found_in, ready
from pages.lab.view import Seen
from pages.ui import shell
from pages.ui.downloads import download
from pages.ui.plot import plot
from pages.ui.tables import show_table

NO_STATES = "Each state's word, once something is taught; states without a word stay free."


@dataclass(frozen=True)
class LessonCurve:
    """What was measured of each lesson so far, of one fit."""

    fit: str
    points: dict[str, Trust] = field(default_factory=dict)


@dataclass(frozen=True)
class LastLesson:
    """What the lesson that stands makes of a trial, and how many bouts of each word it has; and of the lesson before it."""

    trial: str
    found: Taught
    bouts: Mapping[str, int]
    before: LastLesson | None = None


def changed(taught: Teaching, found: Taught | None) -> str:
    """What the last lesson changed, in a line; "" where there is none to compare it with."""
    records, trial = taught.view.fit.records, taught.view.trial.fingerprint
    last = records.last(LastLesson)
    if found is not None and (last is None or last.found is not found):
        cut = found.proba.argmax(axis=1)
        starts = np.bincount(cut[np.flatnonzero(np.diff(cut, prepend=-1))], minlength=len(found.words))
        before = None if last is None or last.trial != trial else replace(last, before=None)
        last = records.keep(LastLesson(trial, found, dict(zip(found.words, starts.tolist(), strict=True)), before))
    if last is None or last.before is None or last.trial != trial:
        return ""
    more = {word: n - last.before.bouts.get(word, 0) for word, n in last.bouts.items()}
    said = [f"{word}: {n:+d} {'bout' if abs(n) == 1 else 'bouts'}" for word, n in more.items() if n]
    first, now = last.before.found.held_out, last.found.held_out
    if first is not None and now is not None and first.n_words == now.n_words:
        said.append(f"agreement on held-back marks {first.macro_f1:.2f} → {now.macro_f1:.2f}")
    return f"The last lesson, in this trial: {', '.join(said) or 'no bout came or went'}."


def agreement(taught: AnyTeaching, found: Taught | None, fresh: bool) -> None:
    """Agreement on moments that were not taught, over what was marked: a first word with the lesson, and all of it after that.

    found  what the last lesson makes of a trial; fresh  whether it is that of the marks as they are
    """
    view = taught.view
    if taught.why or not ready(view) or view.choice.family != TEACHABLE:
        shell.quiet("A curve, as soon as two words are marked: agreement on what was held back, over seconds marked.")
        return
    assert view.shown.result is not None
    train, stretches, words = taught.question
    fit = view.shown.result.key
    curve = view.fit.records.last(LessonCurve)
    if curve is None or curve.fit != fit:
        curve = view.fit.records.keep(LessonCurve(fit))
    answer = live.Answer()
    if fresh or repr(stretches) in curve.points:
        answer = view.ask("trust", teaching.trust, train, view.data.test, stretches, words, taught.known)
    if answer.fresh:
        curve.points[repr(stretches)] = answer.value
    points = sorted(curve.points.values(), key=lambda point: point.seconds)
    if points:
        _draw(points)
    if answer.fresh:
        shell.quiet(in_words(answer.value))
    elif not live.unanswered(view.fit, answer, "This could not be measured"):
        if found is not None and (first := found.held_out) is not None:
            of = "" if first.n_words == len(found.words) else f" over {first.n_words} of {len(found.words)} words"
            shell.quiet(
                f"At first sight: macro-F1 {first.macro_f1:.2f}{of}, always saying one word {first.majority:.2f}, on marks held "
                "back in turn from the classifier of moments alone."
            )
        shell.quiet("Being measured: the model is taught four times, each time without a quarter of the marks.")


def in_words(found: Trust) -> str:
    """What was measured of the lesson as it stands, and how."""
    said = []
    if found.held_out is None or found.held_out_majority is None:
        said.append("Too few marks to hold some back: name each word in two places or more.")
    else:
        said.append(
            f"On marks held back: macro-F1 {found.held_out:.2f}, always saying one word {found.held_out_majority:.2f}. Each "
            "quarter of the marks is named by a model that was taught the others; marks that touch are never parted. It is on "
            "moments that you chose to mark: expect less elsewhere."
        )
    if found.expert is not None and found.expert_majority is not None:
        said.append(
            f"On the expert's labels of the new trials, of which nothing is taught: {found.expert:.2f}, always saying one "
            f"word {found.expert_majority:.2f}."
        )
    return " ".join(said)


def _draw(points: list[Trust]) -> None:
    def column(name: str) -> npt.NDArray[np.float32]:
        return np.array(
            [[np.nan if (value := getattr(point, name)) is None else value] for point in points], np.float32
        )

    rows = {"marks held back": column("held_out"), "expert, new trials": column("expert")}
    rows = {name: values for name, values in rows.items() if np.isfinite(values).any()}
    if not rows:
        return
    figure = figures.sweep(
        [point.seconds for point in points], rows, setting_name="seconds marked", score_name="macro-F1",
        caption="One dot a lesson.", height=220, score_range=(0, 1),
    )  # fmt: skip
    figure["layout"]["xaxis"]["range"] = [0, 1.25 * points[-1].seconds]
    plot(figure, key="teach-curve")


def states(taught: Teaching, answer: live.Answer) -> None:
    found = found_in(taught, taught.view.trial, answer)
    if found is None:
        shell.quiet(NO_STATES)
        return
    _, order = answer.about
    naming = taught.view.naming_for(len(order))
    names = [naming.names[into] if into < len(naming.names) else f"S{j + 1}" for j, into in enumerate(naming.into)]
    words_of_states(found, order, names)
    name, here = f"{taught.view.stem}-words.csv", taught.here
    download("Words of this trial (CSV)", lambda: words_table(found, here), name, key="teach-save-words")


def words_of_states(found: Taught, order: Sequence[int], names: Sequence[str]) -> None:
    """A row for each state, in the order of colours, and which of them are free."""
    rows: list[Mapping[str, Any]] = []
    free: list[str] = []
    for name, k in zip(names, order, strict=True):
        word, shares = found.state_words[k], found.word_map[k]
        best = int(shares.argmax())
        free.extend([] if word else [name])
        rows.append({"state": name, "word": word or f"({found.words[best]})", "share": round(float(shares[best]), 2)})
    table = pd.DataFrame(rows)
    show_table(table, 260, "teach-state-rows", column_config={
        "share": st.column_config.ProgressColumn("share", min_value=0.0, max_value=1.0, format="percent")
    })  # fmt: skip
    shell.quiet(f"In brackets: free, no word has more than half of it. Free now: {', '.join(free) or 'none'}.")


def every_trial(taught: Teaching) -> None:
    """All recordings at a glance: how much of each is which word, how sure the model is, and which look unlike the taught ones."""
    view = taught.view
    if taught.why or not ready(view):
        shell.quiet("Every trial with the share of each word, once something is taught.")
        return
    train, stretches, words = taught.question
    answer = view.ask("words-of-all", teaching.overview, train, view.data.test, stretches, words, about=view.data.key)
    if answer.value is None or answer.about != view.data.key:
        if not live.unanswered(view.fit, answer, "The trials could not be named"):
            shell.quiet("Every trial is being named.")
        return
    table = trials_table(answer.value, [view.data.title(i) for i in range(len(view.data.trials))])
    bars = {
        name: st.column_config.ProgressColumn(name, min_value=0.0, max_value=1.0, format="percent")
        for name in table.columns
        if name not in ("trial", "unlike the taught ones")
    }
    show_table(table.round(2), 320, "teach-all-rows", column_config=bars)
    strange = [entry.unlike for entry in answer.value if entry.unlike]
    said = "None looks unlike the taught ones."
    if strange:
        said = f"{len(strange)} of {len(table)} look unlike the taught ones. {strange[0]}"
    shell.quiet(f"Shares: the mean probability of each word. Sure: that of the likeliest word, on average. {said}")
    name = f"{view.stem}-words-of-all.csv"
    download("Words of all trials (CSV)", lambda: csv(table), name, key="teach-save-all")


def trials_table(found: Sequence[Overview], titles: Sequence[str]) -> pd.DataFrame:
    """A row for each trial: its name, the share of each word, how sure, and whether it looks unlike those that were taught."""
    rows = [
        {"trial": title}
        | {f"p {word}": float(share) for word, share in zip(entry.words, entry.shares, strict=True)}
        | {"sure": entry.confidence, "unlike the taught ones": "yes" if entry.unlike else ""}
        for title, entry in zip(titles, found, strict=True)
    ]
    return pd.DataFrame(rows)


def words_table(found: Taught, here: Seen) -> bytes:
    """time, frame, the probability of each word, the likeliest."""
    table = pd.DataFrame({f"p {word}": found.proba[:, j] for j, word in enumerate(found.words)})
    table["word"] = [found.words[j] for j in found.proba.argmax(axis=1)]
    return csv(timed(table, here))
