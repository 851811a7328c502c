"""Check of a table before any fit: roles of columns, clock, gaps, outliers and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from datasets.readers.doubts import Doubt
from datasets.readers.quality import QualityReport
from datasets.readers.roles import columns_with, is_numeric, numeric_values
from datasets.readers.timing import UNITS
from datasets.tables import Role, Table, unit_of
from gdm_core.errors import GdmError
from gdm_core.text import first_of
from gdm_core.trials import labels_of
from gdm_core.units import unit_for
from gdm_studio.plot.figures.base import Figure, axis, cut_to, figure, points, rows_axis
from gdm_studio.plot.figures.states import averaged, plain
from pages.lab.dataset import Dataset
from pages.lab.upload.file import (
    KEPT,
    OpenFile,
    TableOptions,
    apply_answers,
    apply_edits,
    find_rate,
    new_doubts,
    remember,
    show_editor,
)
from pages.lab.upload.questions import ask
from pages.ui import settings, shell
from pages.ui.controls import number, slide, switch
from pages.ui.plot import plot

ROLE_HELP = (
    "time: the clock. channel: modelled. position: x and y of a map, also modelled. label: expert labels, not modelled. "
    "group: one trial per value. score: confidence of a tracker. animal, part: name the animal, and the body part or sensor, of "
    "a row, where a time step has several rows."
)
UNIT_HELP = (
    "time: how it is read, one of s, ms, us, ns, min, h, d and frames. Other columns: a label in figures and exports; values "
    "are not converted."
)
MAX_LINES, MAX_POINTS = 6, 1_200
FEW_OUTLIERS = 0.01  # share of all values up to which outliers are ignored by default
EXTREME = 3.0  # ranges of the middle 90% beyond it


def table_options(file: OpenFile, advanced: Any, questions: Any) -> TableOptions:
    """Show the controls that the columns of a table need; rare ones go to `advanced`, questions to their place."""
    scope, roles = file.scope, edited_roles(file)
    shell.section("Samples")
    unit, units = edited_units(file, roles)
    with questions:
        known = {"unit": unit} if unit else {}
        answers = ask(lambda given: _doubts(file, given, roles), file.as_table.columns, known)
    table = apply_answers(file, answers)
    rate = number("Sampling rate (Hz; 0 = from file)", 0.0, 1e6, 0.0, key=settings.key("rate", scope))
    report = None
    with suppress(GdmError):  # contradicting roles; the data check shows the message
        report = get_report(table, file.digest, roles)
    timed = bool(rate) or (report is not None and find_rate(table, TableOptions(roles)) is not None)
    most, step, key, counted = (5.0, 0.1, "fill", "s") if timed else (50.0, 1.0, "fill-steps", "steps")
    text = "Interpolates short gaps linearly. The model estimates longer ones."
    fill = slide(f"Fill gaps up to ({counted})", 0.0, most, 0.0, step, key=settings.key(key, scope), help=text)

    def offer(label: str, start: bool, key: str, text: str, place: Any = st) -> bool:
        return switch(label, start, key=settings.key(key, scope), help=text, place=place)

    text = "Outliers count as missing values. On by default if they are rare and extreme."
    outliers = offer("Ignore outliers", has_few_extremes(table, report), "outliers", text)
    chosen = {transform[2]: offer(*transform) for transform in offered_transforms(report)}
    text = "Resamples irregular time to a fixed step."
    resample = Role.TIME in roles.values() and offer("Resample", False, "even", text, advanced)
    text = "Whether x and y are channels too."
    place = Role.POSITION not in roles.values() or offer("Model position too", True, "places", text, advanced)
    given = {
        "rate_hz": rate, "resample_to_fixed_step": resample, "fill_seconds": fill, "drop_outliers": outliers,
        "units": units, "log_ratio": chosen.get("log_ratio"),
        "log": report.skewed if report is not None and chosen.get("log") else (),
    }  # fmt: skip
    arguments = {name: value for name, value in given.items() if value}
    if not place:
        arguments["position_is_channel"] = False
    if not chosen.get("angles", True):
        arguments["angles"] = {}
    return TableOptions(roles, answers, arguments)


def offered_transforms(report: QualityReport | None) -> list[tuple[str, bool, str, str]]:
    """Return the switches of transforms that suit the channels: label, default, key and reason."""
    if report is None:
        return []
    found = []
    if report.composition:
        text = "The channels are parts of a constant whole. States are clearer in the logarithms of their ratios."
        found.append(("Fit log-ratios", False, "log_ratio", text))
    elif report.skewed:
        text = f"{first_of(report.skewed, 3)}: positive and skewed. States are clearer in logarithms."
        found.append(("Fit logarithms", False, "log", text))
    if report.angles:
        text = f"{first_of(report.angles, 3)}: jumps by a full turn, which would become a state."
        found.append(("Fit angles as cosine and sine", True, "angles", text))
    return found


def _doubts(file: OpenFile, answers: Mapping[str, str], roles: dict[str, str]) -> Sequence[Doubt]:
    try:
        return new_doubts(file, apply_answers(file, answers).understand(roles).doubts)
    except GdmError:  # contradicting roles; the report shows the message
        return ()


def get_report(table: Table, digest: str, roles: Mapping[str, str]) -> QualityReport:
    """Return the quality report, computed once."""
    return remember(repr((digest, roles, table.answers)), lambda: table.report(roles), "report")


def has_few_extremes(table: Table, report: QualityReport | None) -> bool:
    """Return True if outliers are rare, and some are so far off that they would dominate a fit."""
    if report is None or not 0 < report.outliers <= FEW_OUTLIERS * report.n_samples * len(report.channels):
        return False
    names = [channel.name for channel in report.channels if channel.outliers]
    values = np.stack([np.asarray(numeric_values(table.frame[name]), np.float64) for name in names])
    low, high = np.nanquantile(values, [0.05, 0.95], axis=1)
    far = np.maximum(np.nanmax(values, axis=1) - high, low - np.nanmin(values, axis=1))
    return bool((far > EXTREME * (high - low)).any())


def edited_roles(file: OpenFile) -> dict[str, str]:
    """Return the roles in the editor of this file."""
    return {
        name: row["role"] or str(Role.IGNORE) for name, row in zip(file.as_table.columns, _edited(file)[1], strict=True)
    }


def edited_units(file: OpenFile, roles: Mapping[str, str]) -> tuple[str, dict[str, str]]:
    """Return the unit of time, if the user changed it, and the changed units of other columns."""
    pairs = zip(file.as_table.columns, _edited(file)[1], _guessed(file), strict=True)
    changed = {name: (row["unit"] or "").strip() for name, row, old in pairs if (row["unit"] or "") != old["unit"]}
    clock = next((name for name, role in roles.items() if role == Role.TIME), "")
    return changed.pop(clock, ""), changed


def _edited(file: OpenFile) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the rows to draw the editor with, and the edited ones; edits apply to later files with the same columns."""
    return apply_edits(_key(file), f"columns-{settings.scope(file.as_table.columns)}", _guessed(file))


def _guessed(file: OpenFile) -> list[dict[str, Any]]:
    """Return the guessed role of each column, and its unit: of time as understood, of others by name."""
    table = file.as_table
    units = {name: unit_of(name) for name in table.roles}
    with suppress(GdmError):  # the report shows the message
        known = table.understand()
        if known.clock is not None and known.clock.unit in UNITS and not known.doubts:
            units |= dict.fromkeys(columns_with(table.roles, Role.TIME), known.clock.unit)
    return [{"role": str(role), "unit": units[name]} for name, role in table.roles.items()]


def _key(file: OpenFile) -> str:
    return f"{KEPT}-roles-{file.digest}"


def columns_panel(file: OpenFile) -> None:
    """Show the columns of a table with their roles and units, to edit."""
    table = file.as_table
    rows, _ = _edited(file)
    shown = pd.DataFrame({"column": list(table.roles)}).join(pd.DataFrame(rows))
    shown["missing"] = [f"{100 * missing(table.frame[name]):.3g}%" for name in table.columns]
    shown["examples"] = [_examples(table.frame[name]) for name in table.columns]
    with shell.panel(f"roles-{file.digest}", "Columns"):
        roles = [str(role) for role in Role]
        role = st.column_config.SelectboxColumn("role", options=roles, required=True, help=ROLE_HELP)
        unit = st.column_config.TextColumn("unit", max_chars=20, help=UNIT_HELP)
        show_editor(_key(file), shown, 400, role=role, unit=unit)


def table_panel(file: OpenFile, options: TableOptions) -> bool:
    """Show the report and the channels; return True if the table can be fitted."""
    table, arguments = apply_answers(file, options.answers), options.arguments
    with shell.panel("report", "Data quality"):
        try:
            report = get_report(table, file.digest, options.roles)
        except GdmError as error:
            shell.error("These columns cannot be used", str(error))
            return False
        known = table.understand(options.roles)
        shell.quiet(f"{known.sentence()}.")
        shell.quiet(report_text(report))
        if report.outliers:
            shell.quiet(
                "Outliers count as missing values; turn off Ignore outliers to keep them."
                if "drop_outliers" in arguments
                else "Outliers can dominate a fit. Turn on Ignore outliers if they are errors."
            )
        used = {*arguments} ^ {"angles"}  # this argument turns its switch off
        for label, _, key, reason in offered_transforms(report):
            shell.quiet(f"{reason} “{label}” is {'on' if key in used else 'off'}.")
        names = [name for name, role in options.roles.items() if role in (Role.CHANNEL, Role.POSITION)]
        y = np.stack([numeric_values(table.frame[name]) for name in names[:MAX_LINES]], axis=1)
        rate = find_rate(table, options)
        if rate is None:
            shell.quiet("No time column or sampling rate: time is in steps.")
        group = next((table.frame[name] for name, role in options.roles.items() if role == Role.GROUP), None)
        plot(lines(y, names, rate, len(y) if group is None else int(group.value_counts().max())), key="first-look")
    return not known.doubts


def report_text(report: QualityReport) -> str:
    return " · ".join(report.sentences()) or "No missing values or outliers."


def missing(column: pd.Series) -> float:
    """Return the share of a column without a value; text among numbers counts as missing."""
    numbers, there = np.isfinite(numeric_values(column)), column.notna().to_numpy()
    return float(1 - (numbers if numbers.sum() >= 0.5 * there.sum() else there).mean())


def lines(y: Any, names: list[str], rate_hz: float | None = None, longest: int = 0) -> Figure:
    """Draw some channels [rows, channels], each on its own scale.

    longest  rows of the longest trial, which sets the unit of time; all rows if 0
    """
    values, width = averaged(np.asarray(y, np.float32), MAX_POINTS)
    low, high = np.nanmin(values, axis=0, initial=np.inf), np.nanmax(values, axis=0, initial=-np.inf)
    span = np.where(high > low, high - low, 1.0)
    unit = unit_for((longest or len(y)) / (rate_hz or 1.0), "step" if rate_hz is None else "s")
    x = np.arange(len(values)) * width * unit.convert(1 / (rate_hz or 1.0))
    shown = names[:MAX_LINES]
    n = len(shown)
    drawn = [
        points(
            "lines", x, (values[:, j] - low[j]) / span[j] * 0.86 + n - 1 - j, line={"width": 1.1, "color": "$accent"}
        )
        for j in range(values.shape[1])
        if np.isfinite(low[j])
    ]
    caption = f"{n} of {len(names)} channels, each on its own scale."
    rows = rows_axis([plain(cut_to(name, 16)) for name in shown], [n - 1 - j + 0.43 for j in range(n)])
    alt = f"Lines of {', '.join(shown)}."
    return figure(drawn, caption, alt, 60 + 52 * n, xaxis=axis(unit.name, showgrid=False), yaxis=rows)


def _examples(column: pd.Series) -> str:
    seen = [f"{value:.5g}" if isinstance(value, float) else str(value)[:18] for value in column.dropna().iloc[:3]]
    # Tables escape text that begins with a hyphen, as spreadsheets take it for a formula.
    return ", ".join(seen).replace("-", "\u2212") if is_numeric(column) else ", ".join(seen)


def label_panel(data: Dataset) -> None:
    """Show the labels, if there are any, and how they were read."""
    if not data.every_label:
        return
    every = np.concatenate(labels_of(data.trials))
    counts = [f"{name} {int((every == k).sum()):,}" for k, name in enumerate(data.every_label)]
    with shell.panel("labels", "Labels"):
        shell.quiet(f"{100 * (every >= 0).mean():.3g}% of {len(every):,} samples are labelled. Labels are not fitted.")
        shell.quiet(f"Samples: {', '.join(counts)}.")
        for line in data.notes:
            if line.startswith("labels: "):
                shell.quiet(f"· {line.removeprefix('labels: ')}")
