"""`study`: many recordings with a sheet of their conditions, and what differs between groups."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdm_core.errors import ConfigError
from gdm_studio.cli.models import add_model_options, n_latent
from gdm_studio.cli.shared import add_recordings_options, add_scale_option, names, read_recordings, say, summarise

if TYPE_CHECKING:
    from gdm_core.study import Study


def add_study(commands: Any) -> None:
    parser = commands.add_parser(
        "study",
        help="does it differ between groups? Many recordings, their conditions on a sheet",
        description="Fits one model to all animals (or takes states that another tool found), and tests what differs, "
        "with animals as units: first the flow test, then each state by effect, interval and permutation.",
    )
    parser.add_argument(
        "sheet", type=Path, help="CSV or XLSX: file, animal, and any columns; or a study that was saved"
    )
    parser.add_argument("files", type=Path, nargs="*", help="recordings (poses or tables), or folders of them")
    parser.add_argument(
        "--labels", action="store_true", help="files hold states that another tool found, not recordings"
    )
    parser.add_argument("--page", help="sheet of a workbook to read (default: the first)")
    add_recordings_options(parser)
    add_scale_option(parser)
    add_model_options(parser)
    parser.add_argument("--states", type=int, default=8, metavar="K", help="number of states of the model (default: 8)")
    parser.add_argument("--between", type=names, help="column that says what differs; two with a comma for two factors")
    parser.add_argument(
        "--measure", default="usage", help="usage, bouts, mean_bout_s, transitions, ... (default: usage)"
    )
    parser.add_argument("--unit", default="animal", help="column that says what counts as one (default: animal)")
    parser.add_argument("--within", help="column that says whose sessions are paired")
    parser.add_argument("--blocks", help="column within whose values animals are exchanged")
    parser.add_argument("--covariates", type=names, default=[], help="columns whose share is taken away first")
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="COLUMN=VALUE",
        help="recordings that take part; several narrow it",
    )
    parser.add_argument("--permutations", type=int, default=10_000, help="re-labelled studies (default: 10000)")
    parser.add_argument("--seed", type=int, default=0, help="of all that is random (default: 0)")
    parser.add_argument(
        "--counts", action="store_true",
        help="flow test of numbers of changes in place of changes per minute; recordings must have one length",
    )  # fmt: skip
    parser.add_argument(
        "--save", type=Path, metavar="FILE", help="keep the study in one file, which opens as SHEET again"
    )
    parser.add_argument(
        "--tables", type=Path, metavar="FOLDER", help="write measures, bouts, changes and the comparison as CSV"
    )
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=study)


def study(options: argparse.Namespace) -> int:
    """Open or fit, ask, and say what came of it."""
    made = _opened(options)
    for note in made.notes:
        print(note, file=sys.stderr)
    if options.save is not None:
        made.save(options.save)
    result: dict[str, Any] = {
        "recordings": len(made.sheet.names),
        "states": [{"state": state, "name": made.state_name(state)} for state in made.states],
        "set_aside": dict(made.sheet.set_aside),
        "flagged": dict(made.flagged),
        "unused": made.unused,
        "notes": list(made.notes),
    }
    found: list[Any] = []
    if options.between:
        found = _asked(made, options)
        *flows, table = found
        result |= {
            "flow": next(
                (
                    {
                        "distance": f.distance,
                        "unit": f.unit,
                        "z": f.z,
                        "p": f.p,
                        "n": f.n,
                        "sizes": f.sizes,
                        "notes": f.notes,
                    }
                    for f in flows
                ),
                None,
            ),
            "comparison": table.to_dict("records"),
            "comparison_notes": table.attrs["notes"],
            "sentences": table.attrs["sentences"],
        }
    result["methods"] = made.methods(*found)
    if options.tables is not None:
        _write_tables(options.tables, made, found)
    if options.json:
        say(result)
        return 0
    for one in found[:-1]:
        print(
            f"Flow: distance {one.distance:.4g} {one.unit}, z = {one.z:.2f}, p = {one.p:.2g}, {one.n} {options.unit}s."
        )
    for line in [*result.get("sentences", []), *result.get("comparison_notes", []), "", result["methods"]]:
        print(line)
    return 0


def _opened(options: argparse.Namespace) -> Study:
    """The study that was saved, or one of the files."""
    from datasets import cohort_files
    from gdm_core.models.registry import build
    from gdm_core.study import Study
    from gdm_core.trials import Trials

    if not options.files:
        if options.sheet.suffix.lower() in (".csv", ".tsv", ".txt", ".xlsx", ".parquet"):
            raise ConfigError(f"{options.sheet} is a sheet; name the files of its recordings after it.")
        return Study.open(options.sheet)
    own = options.sheet.resolve()
    itself = any(path.resolve() == own for path in options.files)  # a long table with all recordings and what was done
    sheet = (
        cohort_files.extract_sheet(options.sheet)
        if itself
        else cohort_files.read_sheet(options.sheet, page=options.page)
    )
    if sheet is None:
        raise ConfigError(
            f"{options.sheet} is given as a recording, too, but has no column 'recording' with several of them."
        )
    paths = [
        path
        for given in options.files
        for path in cohort_files.list_files(given)
        if itself or not (isinstance(path, Path) and path.resolve() == own)
    ]
    if options.labels:
        if options.rate is None:
            raise ConfigError("States of another tool do not say how many there are a second: give --rate.")
        states, words = cohort_files.read_states(paths, options.rate)
        return Study.from_states(states, sheet, options.rate, words)
    recordings = read_recordings(paths, options)
    if options.scale != "samples":
        trials = summarise(Trials(tuple(recordings.values()), "recordings"), options.scale)
        recordings = dict(zip(recordings, trials, strict=True))
    name, first = next(iter(recordings.items()))
    latent = n_latent(options.latent, first.n_channels, name)
    model = build(options.model, options.states, latent, options.seed)
    return Study.fit(recordings, sheet, model)


def _asked(made: Study, options: argparse.Namespace) -> list[Any]:
    """The flow test, where there is one factor of groups, and the comparison."""
    from gdm_core.study.design import FRAME

    where: dict[str, Any] = {}
    for given in options.where:
        column, equals, value = given.partition("=")
        if not equals:
            raise ConfigError(f"--where is {given!r}; write COLUMN=VALUE.")
        where.setdefault(column.strip(), []).append(value.strip())
    asked: Mapping[str, Any] = {
        "unit": options.unit, "within": options.within, "blocks": options.blocks, "where": where,
        "n_permutations": options.permutations, "seed": options.seed,
    }  # fmt: skip
    table = made.compare(options.measure, options.between, covariates=options.covariates, **asked)
    if len(options.between) > 1 or options.unit == FRAME:
        return [table]
    try:
        return [made.flow(options.between[0], counts=options.counts, **asked), table]
    except ConfigError:
        raise
    except ValueError as error:
        table.attrs["notes"].append(f"No flow test: {error}")
        return [table]


def _write_tables(folder: Path, made: Study, found: list[Any]) -> None:
    from gdm_core.analysis.tables import csv
    from gdm_core.files import write_whole

    tables = {"measures": made.measures(), "bouts": made.bouts(), "changes": made.transitions()}
    if found:
        tables["comparison"] = found[-1]
    for name, table in tables.items():
        write_whole(folder / f"{name}.csv", csv(table))
