"""Many recordings. `study`: with a sheet of their conditions, and what differs between them. `teach`: marks of a few moments, and
words for every moment of all of them."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gdm_core.errors import ConfigError, DataError, FitError
from gdm_studio.cli.models import add_model_options, n_latent
from gdm_studio.cli.shared import add_recordings_options, names, say

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
        "states": [{"state": state, "name": made.called(state)} for state in made.states],
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

    if not options.files:
        if options.sheet.suffix.lower() in (".csv", ".tsv", ".txt", ".xlsx", ".parquet"):
            raise ConfigError(f"{options.sheet} is a sheet; name the files of its recordings after it.")
        return Study.open(options.sheet)
    own = options.sheet.resolve()
    itself = any(path.resolve() == own for path in options.files)  # a long table with all recordings and what was done
    sheet = (
        cohort_files.sheet_within(options.sheet)
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
        for path in cohort_files.files_in(given)
        if itself or not (isinstance(path, Path) and path.resolve() == own)
    ]
    if options.labels:
        if options.rate is None:
            raise ConfigError("States of another tool do not say how many there are a second: give --rate.")
        states, words = cohort_files.read_states(paths, options.rate)
        return Study.of_states(states, sheet, options.rate, words)
    recordings = cohort_files.read_recordings(paths, options.rate, options.features)
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


_COLUMNS = ("recording", "start", "stop", "label")


def add_teach(commands: Any) -> None:
    parser = commands.add_parser(
        "teach",
        help="name a few moments: words for every moment of all recordings",
        description="MARKS is JSON as a page's Teach saves it, or a table (CSV, TSV, XLSX) with a row a mark: recording, start, "
        "stop (frames, the last one exclusive), label. Recordings without a mark are named too.",
    )
    parser.add_argument("marks", type=Path, help="what is marked: JSON, or a table of recording, start, stop, label")
    parser.add_argument("files", type=Path, nargs="+", help="recordings (poses or tables), or folders of them")
    add_recordings_options(parser)
    parser.add_argument("--states", type=int, metavar="K", help="number of states (default: 8, or one a word if more)")
    parser.add_argument("--latent", type=int, metavar="D", help="latent dimensions (default: 6, at most the channels)")
    parser.add_argument("--seed", type=int, default=0, help="of all that is random (default: 0)")
    parser.add_argument("--out", type=Path, metavar="FILE", help="save the taught model here")
    parser.add_argument("--tables", type=Path, metavar="FOLDER", help="write the words of each recording as CSV")
    parser.add_argument("--propose", type=int, default=3, metavar="N", help="moments to mark next (default: 3)")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=teach)


def teach(options: argparse.Namespace) -> int:
    """Read, teach, name, and say what came of it."""
    from datasets import cohort_files
    from gdm_core.analysis.bouts import stays
    from gdm_core.analysis.proposals import propose, unlike_taught
    from gdm_core.models.base import Status
    from gdm_core.models.gdm.model import GDM
    from gdm_core.trials import Trials

    if options.propose < 0:
        raise ConfigError(f"--propose is {options.propose}; it must be 0 or more.")
    marks = _marks(options.marks)
    paths = [path for given in options.files for path in cohort_files.files_in(given)]
    found = cohort_files.read_recordings(paths, options.rate, options.features)
    trials = Trials(tuple(found.values()), "recordings")
    labels, words = marks.labels(trials)
    taught = Trials(tuple(t for t, part in zip(trials, labels, strict=True) if (part >= 0).any()), "marked")
    given = [part for part in labels if (part >= 0).any()]
    if not given:
        raise DataError(f"{options.marks} holds no mark, so there is nothing to teach.")
    states = options.states or max(8, len(words))
    latent = n_latent(options.latent or min(6, taught.n_channels), taught.n_channels, taught[0].name)
    model = GDM(n_states=states, n_latent=latent, posterior="linear", seed=options.seed)
    for _ in model.fit_iter(taught, given, words, finish=False):
        pass
    if model.status_ is Status.FAILED:
        raise FitError("The fit diverged, so nothing was taught. Try another seed or fewer states.")
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        model.save(options.out)
    rows: list[dict[str, Any]] = []
    for trial, part, unlike in zip(trials, labels, unlike_taught(model, trials), strict=True):
        proba = model.predict_label_proba(trial)
        said = proba.argmax(axis=1)
        rows.append(
            {
                "recording": trial.name,
                "marked_seconds": float((part >= 0).sum()) / trial.rate_hz,
                "shares": dict(zip(words, proba.mean(axis=0).tolist(), strict=True)),
                "confidence": float(proba.max(axis=1).mean()),
                "bouts": len(stays(said)),
                "unlike": unlike,
            }
        )
        if options.tables is not None:
            _write_table(options.tables, trial.name, proba, said, words, trial.rate_hz)
    clips = propose(model, trials, labels, n=options.propose) if options.propose else ()
    result: dict[str, Any] = {
        "words": list(words),
        "marked_recordings": len(given),
        "doubt": model.label_doubt_,
        "recordings": rows,
        "mark_next": [{"recording": trials[c.trial].name, "start": c.start, "stop": c.stop} for c in clips],
        "model": str(options.out) if options.out is not None else None,
    }
    if options.json:
        say(result)
        return 0
    print(f"{len(words)} words, taught by marks in {len(given)} of {len(trials)} recordings.")
    for row in rows:
        shares = ", ".join(f"{word} {share:.0%}" for word, share in row["shares"].items())
        print(f"{row['recording']}: {shares}; sure {row['confidence']:.0%}, {row['bouts']:,} bouts")
        if row["unlike"]:
            print(f"  {row['unlike']}")
    for clip in result["mark_next"]:
        print(f"Mark next: {clip['recording']}, frames {clip['start']:,} to {clip['stop'] - 1:,}")
    if result["doubt"]:
        print(result["doubt"])
    return 0


def _marks(path: Path) -> Any:
    """Marks of a JSON file or of a table."""
    from datasets.cohort_files import read_sheet
    from datasets.marks import Marks

    if path.suffix.lower() == ".json":
        try:
            return Marks.from_json(path.read_text())
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is no text, so it holds no marks.") from error
    frame = read_sheet(path)
    if lacking := [name for name in _COLUMNS if name not in frame.columns]:
        raise DataError(
            f"{path} has no column {' and no column '.join(lacking)}; marks need recording, start, stop and label."
        )
    rows = [{name: str(row[name]) for name in _COLUMNS} for row in frame.to_dict("records")]
    return Marks.from_json(json.dumps({"marks": rows}))


def _write_table(
    folder: Path, name: str, proba: np.ndarray, said: np.ndarray, words: tuple[str, ...], rate_hz: float
) -> None:
    import pandas as pd

    from gdm_core.analysis.tables import csv
    from gdm_core.files import write_whole

    table = pd.DataFrame({f"p {word}": proba[:, j] for j, word in enumerate(words)})
    table["word"] = [words[j] for j in said]
    table.insert(0, "frame", np.arange(len(table)))
    table.insert(0, "time", np.arange(len(table)) / rate_hz)
    write_whole(folder / f"{Path(name).name}-words.csv", csv(table))
