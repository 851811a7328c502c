"""`teach`: marks of a few moments, and words for every moment of all recordings."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from gdm_core.errors import ConfigError, DataError, FitError
from gdm_studio.cli.models import n_latent
from gdm_studio.cli.shared import add_recordings_options, say

_COLUMNS = ("recording", "start", "stop", "word")


def add_teach(commands: Any) -> None:
    parser = commands.add_parser(
        "teach",
        help="name a few moments: words for every moment of all recordings",
        description="MARKS is JSON as a page's Teach saves it, or a table (CSV, TSV, XLSX) with a row a mark: recording, start, "
        "stop (frames, the last one exclusive), word. Recordings without a mark are named too.",
    )
    parser.add_argument("marks", type=Path, help="what is marked: JSON, or a table of recording, start, stop, word")
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
    if model.status_ is Status.DIVERGED:
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
    from datasets.marks import Marks
    from datasets.readers.formats import read_frame
    from datasets.readers.source import open_source

    if path.suffix.lower() == ".json":
        try:
            return Marks.from_json(path.read_text())
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is no text, so it holds no marks.") from error
    frame = read_frame(open_source(path)).frame
    if lacking := [name for name in _COLUMNS if name not in frame.columns]:
        raise DataError(
            f"{path} has no column {' and no column '.join(lacking)}; marks need recording, start, stop and word."
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
