"""What was understood of a table, before any fit: roles, clock, gaps and outliers, each of which can be changed; and of labels, how
much of the recording they cover, what was left out, and where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from datasets.readers.roles import is_numeric, numeric_values
from datasets.readers.timing import TimeUnit
from datasets.tables import Role, Table
from gdm_core.analysis.tables import harmless
from gdm_core.errors import GdmError
from gdm_core.trials import labels_of
from gdm_core.units import unit_for
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import FINE, Dict, Figure, axis, figure, note, points
from gdm_studio.plot.figures.states import averaged, plain
from pages.lab import Dataset
from pages.ui import shell
from pages.ui.controls import number, one_of, slide, switch
from pages.ui.plot import plot
from pages.ui.tables import rows_high, show_table
from pages.your_data.intake import KEPT, OpenFile, TableOptions, edited, rate_of

UNITS: dict[TimeUnit, str] = {
    "auto": "as guessed", "s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds",
    "min": "minutes", "h": "hours", "frames": "frames, which tell no time",
}  # fmt: skip
ROLE_HELP = (
    "time: the clock. channel: what the model explains. position: x and y of a map, also explained. label: what an "
    "expert saw, never fitted. group: one trial for each value. score: a tracker's confidence. ignore: left out."
)
MAX_LINES, MAX_POINTS = 6, 1_200


def table_options(file: OpenFile) -> TableOptions:
    """The controls of a table, in the sidebar. Those that its columns have no use for are left out."""
    table, of = file.content, file.of
    assert isinstance(table, Table)
    roles = edited_roles(file)
    shell.section("Samples")
    unit: TimeUnit = "auto"
    clock = next((name for name, role in roles.items() if role == Role.TIME), None)
    if clock is not None and is_numeric(table.frame[clock]):
        said = f"Guessed from the name and the size of {clock!r}; the rate that follows stands under What was found."
        unit = one_of("Time is in", UNITS, key="unit", of=of, help=said)
    said = "As found in the time column; without one, samples are counted."
    rate = number("Samples a second (0: as found)", 0.0, 1e6, 0.0, key="rate", of=of, help=said)
    timed = _is_timed(table, roles, unit, rate)
    most, step, key, counted = (5.0, 0.1, "fill", "s") if timed else (50.0, 1.0, "fill-steps", "steps")
    said = "Straight lines across short gaps. The model estimates longer ones."
    fill = slide(f"Fill gaps up to ({counted})", 0.0, most, 0.0, step, key=key, of=of, help=said)
    outliers = switch("Ignore outliers", False, key="outliers", of=of, help="Fit as if they were missing.")
    said = "For irregular time: samples at a fixed step."
    resample = clock is not None and switch("Even clock", False, key="even", of=of, help=said)
    said = "Whether x and y are channels as well."
    place = Role.POSITION not in roles.values() or switch("Explain positions too", True, key="places", of=of, help=said)
    return TableOptions(tuple(roles.items()), rate or None, unit, resample, fill, outliers, place)


def _is_timed(table: Table, roles: dict[str, str], unit: TimeUnit, rate: float) -> bool:
    """Whether somebody or something says how fast samples follow one another."""
    try:
        return rate_of(table, TableOptions(tuple(roles.items()), rate or None, unit)) is not None
    except GdmError:  # the roles contradict each other, which the report says
        return bool(rate)


def edited_roles(file: OpenFile) -> dict[str, str]:
    """The roles as they stand in the editor of this file, the guesses where it has not been touched."""
    table = file.content
    assert isinstance(table, Table)
    _, rows = edited(_key(file), _guessed(table))
    return {name: row["role"] or str(Role.IGNORE) for name, row in zip(table.roles, rows, strict=True)}


def _guessed(table: Table) -> list[dict[str, Any]]:
    return [{"role": str(role)} for role in table.roles.values()]


def _key(file: OpenFile) -> str:
    return f"{KEPT}-roles-{file.digest}"


def table_panel(file: OpenFile, options: TableOptions) -> bool:
    """Roles, the report and a first look. Whether the table can be fitted as it stands."""
    table = file.content
    assert isinstance(table, Table)
    guessed = pd.DataFrame(
        {
            "column": list(table.roles),
            "role": [row["role"] for row in edited(_key(file), _guessed(table))[0]],
            "missing": [f"{100 * missing(table, name):.3g} %" for name in table.columns],
            "examples": [_examples(table.frame[name]) for name in table.columns],
        }
    )
    with shell.panel("roles", "What the columns are for"):
        shell.quiet("Guessed from names and values; every role can be changed.")
        st.data_editor(
            guessed.map(harmless),
            hide_index=True,
            key=_key(file),
            disabled=["column", "missing", "examples"],
            height=rows_high(len(guessed), 400),
            column_config={
                "role": st.column_config.SelectboxColumn(
                    "role", options=[str(role) for role in Role], required=True, help=ROLE_HELP
                )
            },
        )
    with shell.panel("report", "What was found"):
        try:
            report = table.report(dict(options.roles), options.unit)
        except GdmError as error:
            shell.error("These roles do not work together", str(error))
            return False
        say_report(report.sentences())
        if report.outliers and not options.drop_outliers:
            shell.quiet("A few outliers can decide a fit: turn on Ignore outliers.")
        names = [name for name, role in options.roles if role in (Role.CHANNEL, Role.POSITION)]
        y = np.stack([numeric_values(table.frame[name]) for name in names[:MAX_LINES]], axis=1)
        rate = rate_of(table, options)
        if rate is None:
            shell.quiet(NO_CLOCK)
        group = next((table.frame[name] for name, role in options.roles if role == Role.GROUP), None)
        plot(lines(y, names, rate, len(y) if group is None else int(group.value_counts().max())), key="first-look")
    return True


NO_CLOCK = (
    "No column tells the time and no rate was given: samples are counted, as steps, until you say at the left how many a "
    "second there are."
)


def missing(table: Table, name: str) -> float:
    """The share of a column that holds no value. Among numbers, what is no number counts as none, as it does in a fit."""
    column = table.frame[name]
    numbers, there = np.isfinite(numeric_values(column)), column.notna().to_numpy()
    return float(1 - (numbers if numbers.sum() >= 0.5 * there.sum() else there).mean())


def say_report(said: list[str]) -> None:
    """The report in words."""
    if not said:
        shell.quiet("Nothing is missing and nothing stands out.")
    for line in said:
        shell.quiet(f"· {line}")


def lines(y: Any, names: list[str], rate_hz: float | None = None, longest: int = 0) -> Figure:
    """A first look at some channels, each on its own level: [rows, channels], over time where the rate is known.

    longest  rows of the longest trial, which the unit of time suits; all of them if 0
    """
    values, width = averaged(np.asarray(y, np.float32), MAX_POINTS)
    low, high = np.nanmin(values, axis=0, initial=np.inf), np.nanmax(values, axis=0, initial=-np.inf)
    span = np.where(high > low, high - low, 1.0)
    unit = unit_for((longest or len(y)) / (rate_hz or 1.0), "step" if rate_hz is None else "s")
    x = np.arange(len(values)) * width * unit.convert(1 / (rate_hz or 1.0))
    n, look = min(len(names), MAX_LINES), {"yref": "y", "bgcolor": "$surface", "font": FINE}
    shown = names[:MAX_LINES]
    drawn = [
        points(
            "lines", x, (values[:, j] - low[j]) / span[j] * 0.86 + n - 1 - j, line={"width": 1.1, "color": "$accent"}
        )
        for j in range(values.shape[1])
        if np.isfinite(low[j])
    ]
    marks = [
        note(plain(name), 0, n - j - 0.06, xref="paper", xanchor="left", yanchor="top", **look)
        for j, name in enumerate(shown)
    ]
    over = "steps" if rate_hz is None else "time"
    caption = f"The first {n} of {len(names)} channels over {over}, each on its own scale."
    axes: Dict = {
        "xaxis": axis(unit.name, showgrid=False), "yaxis": axis(showticklabels=False, fixedrange=True, showgrid=False)
    }  # fmt: skip
    return figure(drawn, caption, f"Lines of {', '.join(shown)}.", 60 + 52 * n, annotations=marks, **axes)


def _examples(column: pd.Series) -> str:
    seen = column.dropna()
    return ", ".join(f"{value:.5g}" if isinstance(value, float) else str(value)[:18] for value in seen.iloc[:3])


def label_panel(data: Dataset) -> None:
    """Counts, time, and a strip of the labels over the channels of the same moments; nothing where there are none."""
    words = data.words
    if words is None:
        return
    every = np.concatenate(labels_of(data.trials))
    with shell.panel("labels", "Labels"):
        shell.quiet(
            f"{100 * (every >= 0).mean():.3g} % of {len(every):,} samples have a label. The fit does not see them: states are "
            "scored against those of the trials kept aside."
        )
        for note in data.notes:
            if note.startswith("labels: "):
                shell.quiet(f"· {note.removeprefix('labels: ')}")
        table = counted(data, every)
        show_table(table, 260, "label-counts")
        unit = data.time_unit
        timing: dict[str, Any] = {"step": unit.convert(data.step(data.trials[0])), "unit": unit.name}
        strip = figures.state_strips(
            {"expert": words.hot(every)},
            **timing,
            caption="The labels of all trials, one after the other: those to be fitted first. " + words.remark,
            height=96,
        )
        plot(strip, key="label-strip")
        signal = np.concatenate([trial.y for trial in data.trials])
        plot(figures.channel_strip(signal, **timing, height=min(60 + 8 * signal.shape[1], 200)), key="label-signal")
        st.html(shell.key_html("Labels", zip(words.colours, words.names, strict=True)))


def counted(data: Dataset, every: np.ndarray) -> pd.DataFrame:
    """A row for each behaviour: bouts, samples, time, and how much of it is kept aside as new."""
    fitted = data.train.n_samples
    starts = np.flatnonzero(np.diff(every, prepend=-2))
    rows = []
    for k, name in enumerate(data.every_label):
        of = every == k
        rows.append(
            {
                "behaviour": name,
                "bouts": int((every[starts] == k).sum()),
                "samples": int(of.sum()),
                "seconds": round(float(of.sum()) / data.train[0].rate_hz, 1),
                "share of the labelled": f"{100 * of.sum() / max((every >= 0).sum(), 1):.3g} %",
                "of these new": f"{100 * of[fitted:].sum() / of.sum():.3g} %" if of.any() else "–",
            }
        )
    table = pd.DataFrame(rows)
    return table.drop(columns="seconds") if data.unit == "step" else table
