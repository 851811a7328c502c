"""`study`: compare groups of recordings."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdm_core.errors import ConfigError, DataError
from gdm_studio.cli.models import add_model_options, resolve_latent
from gdm_studio.cli.shared import (
    add_recordings_options,
    add_scale_option,
    print_json,
    read_recordings,
    split_names,
    summarise,
)

if TYPE_CHECKING:
    from gdm_core.study import Study
    from gdm_core.study.finding import Finding

FOLLOWING = ("confounds", "means", "equivalence", "pairs")  # tables in the JSON result
FLOW = ("distance", "unit", "z", "p", "n", "sizes", "notes")  # its part on the flow test


def add_study(commands: Any) -> None:
    parser = commands.add_parser(
        "study",
        help="compare groups of recordings, with their conditions in a sheet",
        description="Fits one model to all recordings (or uses states from another tool) and compares groups with animals "
        "as units: the flow test, then an effect, an interval and a permutation test for each state.",
    )
    parser.add_argument(
        "sheet", type=Path, help="CSV or XLSX with columns for file, animal and conditions; or a saved study"
    )
    parser.add_argument("files", type=Path, nargs="*", help="recordings (poses or tables), or folders of them")
    parser.add_argument(
        "--labels", action="store_true", help="the files contain states from another tool, not recordings"
    )
    parser.add_argument("--page", help="sheet of a workbook (default: the first)")
    add_recordings_options(parser)
    add_scale_option(parser)
    add_model_options(parser)
    parser.add_argument("--states", type=int, default=8, metavar="K", help="number of states (default: 8)")
    parser.add_argument("--between", type=split_names, help="column that defines the groups; two for two factors")
    parser.add_argument(
        "--measure", default="usage", help="usage, bouts, mean_bout_s, transitions, ... (default: usage)"
    )
    parser.add_argument("--unit", default="animal", help="column that identifies the units (default: animal)")
    parser.add_argument("--within", help="column that identifies paired sessions")
    parser.add_argument("--blocks", help="permute units only within the values of this column")
    parser.add_argument("--covariates", type=split_names, default=[], help="columns to regress out first")
    parser.add_argument(
        "--planned",
        type=split_names,
        default=[],
        help="columns that may follow from the groups, to adjust for as planned",
    )
    parser.add_argument(
        "--pool-levels", action="store_true", help="test any difference between doses instead of their trend"
    )
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="use only these recordings; repeat to combine conditions",
    )
    parser.add_argument("--permutations", type=int, default=10_000, help="number of permutations (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument(
        "--counts", action="store_true",
        help="flow test of transition counts instead of rates; recordings must have equal length",
    )  # fmt: skip
    parser.add_argument("--first", type=float, metavar="MINUTES", help="use the first minutes of each recording")
    parser.add_argument("--start", metavar="COLUMN", help="column with the time to start from, in minutes")
    parser.add_argument("--stop", metavar="COLUMN", help="column with the time to stop at, in minutes")
    parser.add_argument("--equal-length", action="store_true", help="cut all recordings to the length of the shortest")
    parser.add_argument(
        "--non-wear", type=float, metavar="MINUTES", help="leave out stretches of at least MINUTES without movement"
    )
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="save the study to FILE, which can be passed as SHEET later"
    )
    parser.add_argument(
        "--tables",
        type=Path,
        metavar="FOLDER",
        help="write measures, bouts, transitions and results as CSV, also in wide layouts for R and Prism",
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=study)


def study(options: argparse.Namespace) -> int:
    """Open or fit a study, compare its groups and print the result."""
    from gdm_core.study.methods import write_methods
    from gdm_core.study.text import format_p

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
    from gdm_core.study.finding import follow_up
    from gdm_core.study.tables import to_prism, to_wide

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
    from datasets import cohort_files
    from gdm_core.models.registry import build
    from gdm_core.study import Study
    from gdm_core.study.crop import Crop, crop_recordings
    from gdm_core.study.fitting import RATES_ALIKE
    from gdm_core.study.sheet import match_sheet
    from gdm_core.trials import Trials

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
    from gdm_core.study.finding import answer_question
    from gdm_core.study.question import Question

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
    from gdm_core.analysis.tables import csv
    from gdm_core.files import write_whole

    tables = {"measures": current.measures(), "bouts": current.bouts(), "changes": current.transitions(), **found}
    for name, table in tables.items():
        write_whole(folder / f"{name}.csv", csv(table))
