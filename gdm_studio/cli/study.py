"""`study`: compare groups of recordings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from datasets import cohort_files
from gdm_core.analysis.tables import csv
from gdm_core.errors import ConfigError, DataError
from gdm_core.files import write_whole
from gdm_core.models.registry import build
from gdm_core.study import Study
from gdm_core.study.crop import Crop, crop_recordings
from gdm_core.study.finding import Finding, answer_question, follow_up
from gdm_core.study.fitting import RATES_ALIKE
from gdm_core.study.methods import write_methods
from gdm_core.study.question import Question
from gdm_core.study.sheet import match_sheet
from gdm_core.study.tables import to_prism, to_wide
from gdm_core.study.text import format_p
from gdm_core.trials import Trials
from gdm_studio.cli.models import resolve_latent
from gdm_studio.cli.shared import print_json, read_recordings, summarise

FOLLOWING = ("confounds", "means", "equivalence", "pairs")  # tables in the JSON result
FLOW = ("distance", "unit", "z", "p", "n", "sizes", "notes")  # its part on the flow test


def study(options: argparse.Namespace) -> int:
    """Open or fit a study, compare its groups and print the result."""
    current = _open_study(options)
    for note in current.notes:
        print(note, file=sys.stderr)
    if options.save is not None:
        current.save(options.save)
    result: dict[str, Any] = {
        "recordings": len(current.sheet.names),
        "states": [{"state": state, "name": current.state_name(state)} for state in current.states],
        "set_aside": dict(current.sheet.set_aside),
        "flagged": dict(current.flagged),
        "unused": current.occurrence.unused,
        "notes": list(current.notes),
    }
    tests: list[Any] = []
    tables: dict[str, Any] = {}
    if options.between:
        finding = _answer(current, options)
        tests, table = finding.tests, finding.table
        assert table is not None
        tables = _collect_tables(current, finding)
        result |= {
            "flow": finding.flow and {name: getattr(finding.flow, name) for name in FLOW},
            "comparison": table.to_dict("records"),
            "comparison_notes": [
                *table.attrs["notes"],
                *([f"No flow test: {finding.no_flow}"] if finding.no_flow else []),
            ],
            "sentences": table.attrs["sentences"],
            **{name: tables[name].to_dict("records") for name in FOLLOWING if name in tables},
        }
    result["methods"] = write_methods(current, *tests)
    if options.tables is not None:
        _write_tables(options.tables, current, tables)
    if options.json:
        print_json(result)
        return 0
    for one in tests[:-1]:
        print(f"Flow: distance {one.distance:.4g} {one.unit}, z = {one.z:.2f}, {format_p(one.p)}, n = {one.n}.")
    lines = [*result.get("sentences", []), *_describe_follow_up(tables), *result.get("comparison_notes", [])]
    for line in [*lines, "", result["methods"]]:
        print(line)
    return 0


def _collect_tables(current: Study, finding: Finding) -> dict[str, Any]:
    """Return the tables of a finding by file name."""
    found = {
        "comparison": finding.table,
        "unadjusted": finding.unadjusted,
        "recordings": finding.recordings,
        "confounds": finding.confounds,
        "means": finding.means,
    }
    each = finding.per_unit
    assert finding.table is not None
    assert each is not None
    found |= follow_up(current, finding.table)
    found |= {"values": each, "values-wide": to_wide(each), "values-prism": to_prism(each)}
    return {name: table for name, table in found.items() if table is not None}


def _describe_follow_up(follow: Mapping[str, Any]) -> list[str]:
    lines = []
    if "confounds" in follow:
        lines += follow["confounds"].query("associated")["sentence"].tolist()
    if "pairs" in follow:
        lines += follow["pairs"]["sentence"].tolist()
    return lines


def _open_study(options: argparse.Namespace) -> Study:
    """Open the saved study, or fit one to the files."""
    if not options.files:
        if options.sheet.suffix.lower() in (".csv", ".tsv", ".txt", ".xlsx", ".parquet"):
            raise ConfigError(f"{options.sheet} is a sheet; add the files of its recordings.")
        return Study.open(options.sheet)
    own = options.sheet.resolve()
    is_long_table = any(path.resolve() == own for path in options.files)  # all recordings and their conditions in one
    sheet = (
        cohort_files.extract_sheet(options.sheet)
        if is_long_table
        else cohort_files.read_sheet(options.sheet, page=options.page)
    )
    if sheet is None:
        raise ConfigError(
            f"{options.sheet} is also given as a recording, but it has no column 'recording' with several values."
        )
    paths = [
        path
        for given in options.files
        for path in cohort_files.list_files(given)
        if is_long_table or not (isinstance(path, Path) and path.resolve() == own)
    ]
    non_wear = None if options.labels else options.non_wear
    crop = Crop(options.first, options.start, options.stop, options.equal_length, non_wear)
    if options.labels:
        rates: dict[str, float] = {}
        states, words = cohort_files.read_states(paths, options.rate, rates if options.rate is None else None)
        rates = rates or dict.fromkeys(states, options.rate)
        rate = next(iter(rates.values()))
        if odd := [name for name, its in rates.items() if abs(its / rate - 1) > RATES_ALIKE]:
            raise ConfigError(
                f"{odd[0]} has {rates[odd[0]]:.4g} Hz, others {rate:.4g} Hz. Set --rate, or read them apart."
            )
        cut, starts, sentences = crop_recordings(states, match_sheet(sheet, states), crop, rates)
        current = Study.from_states(cut, sheet, rate, words, starts)
        return replace(current, preparation=tuple(sentences))
    recordings = read_recordings(paths, options)
    cropped = crop_recordings(recordings, match_sheet(sheet, recordings), crop)
    recordings, sentences = dict(cropped.recordings), cropped.sentences
    if options.scale != "samples":
        trials = summarise(Trials(tuple(recordings.values()), "recordings"), options)
        recordings = dict(zip(recordings, trials, strict=True))
    latent = resolve_latent(options.latent, Trials(tuple(recordings.values())), next(iter(recordings)))
    model = build(options.model or "gdm", options.states, latent, options.seed)
    study = Study.fit(recordings, sheet, model)
    return replace(study, preparation=(*sentences, *study.preparation))


def _answer(current: Study, options: argparse.Namespace) -> Finding:
    """Return the finding of the question in the options."""
    where: dict[str, Any] = {}
    for given in options.where:
        column, equals, value = given.partition("=")
        if not equals:
            raise ConfigError(f"--where is {given!r}; write COLUMN=VALUE.")
        where.setdefault(column.strip(), []).append(value.strip())
    names = ("unit", "within", "blocks", "covariates", "planned")
    chosen = {name: getattr(options, name) for name in names}
    trend = False if options.pool_levels else None
    question = Question.ask(options.measure, options.between, where=where, trend=trend, **chosen)
    finding = answer_question(current, question, options.permutations, options.seed, options.counts)
    if finding.table is None:
        raise DataError(finding.trouble)
    return finding


def _write_tables(folder: Path, current: Study, found: Mapping[str, Any]) -> None:
    tables = {"measures": current.measures(), "bouts": current.bouts(), "changes": current.transitions(), **found}
    for name, table in tables.items():
        write_whole(folder / f"{name}.csv", csv(table))
