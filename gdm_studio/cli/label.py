"""`label`: label every sample of many recordings from a few labelled clips."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from datasets import cohort_files
from datasets.cohort_files import read_sheet
from datasets.marks import FIELDS, Marks
from gdm_core.analysis.bouts import find_bouts
from gdm_core.analysis.tables import csv
from gdm_core.errors import ConfigError, DataError
from gdm_core.files import write_whole
from gdm_core.labels import LabelModel, propose, unfamiliar_message
from gdm_core.models.gdm.model import GDM
from gdm_core.trials import Trials
from gdm_studio.cli.models import resolve_latent
from gdm_studio.cli.shared import print_json, read_recordings


def label(options: argparse.Namespace) -> int:
    """Fit a model and a label model to the labelled recordings, then label all recordings."""
    if options.propose < 0:
        raise ConfigError(f"--propose is {options.propose}; it must be 0 or more.")
    marks = read_marks(options.marks)
    paths = [path for given in options.files for path in cohort_files.list_files(given)]
    found = read_recordings(paths, options)
    trials = Trials(tuple(found.values()), "recordings")
    labels, names = marks.labels(trials)
    train = tuple(trial for trial, part in zip(trials, labels, strict=True) if (part >= 0).any())
    if not train:
        raise DataError(f"{options.marks} has no labelled clips.")
    latent = resolve_latent(options.latent or min(6, trials.n_channels), trials, train[0].name)
    model = GDM(n_states=options.states, n_latent=latent, posterior="linear", seed=options.seed)
    for _ in model.fit_iter(train, calibrate=False):
        pass
    if model.failure_:
        print(f"{model.failure_message} Labels are predicted without its states.", file=sys.stderr)
    label_model = LabelModel(None if model.failure_ else model, seed=options.seed)
    label_model.fit(train, [part for part in labels if (part >= 0).any()], names)
    if options.out is not None:
        label_model.save(options.out)
    rows: list[dict[str, Any]] = []
    for trial, part, warning in zip(trials, labels, unfamiliar_message(label_model, trials), strict=True):
        proba = label_model.predict_proba(trial)
        predicted = proba.argmax(axis=1)
        rows.append(
            {
                "recording": trial.name,
                "labelled_seconds": float((part >= 0).sum()) / trial.rate_hz,
                "shares": dict(zip(names, proba.mean(axis=0).tolist(), strict=True)),
                "confidence": float(proba.max(axis=1).mean()),
                "bouts": len(find_bouts(predicted)),
                "warning": warning,
            }
        )
        if options.tables is not None:
            _write_table(options.tables, trial.name, proba, predicted, names, trial.rate_hz)
    clips = propose(label_model, trials, labels, n=options.propose) if options.propose else ()
    held_out = label_model.held_out_
    result: dict[str, Any] = {
        "labels": list(names),
        "labelled_recordings": len(train),
        "held_out": None if held_out is None else held_out._asdict(),
        "calibrated_on": label_model.calibrated_on_,
        "failure": model.failure_,
        "recordings": rows,
        "label_next": [{"recording": trials[c.trial].name, "start": c.start, "stop": c.stop} for c in clips],
        "model": str(options.out) if options.out is not None else None,
    }
    if options.json:
        print_json(result)
    else:
        _print(result, len(trials))
    return 0


def _print(result: dict[str, Any], n_recordings: int) -> None:
    print(
        f"{len(result['labels'])} labels, learned from clips in {result['labelled_recordings']} of {n_recordings} recordings."
    )
    if result["held_out"] is not None:
        print(
            "Macro-F1 on held-out labels: {macro_f1:.2f} (most common label: {majority:.2f}).".format(
                **result["held_out"]
            )
        )
    for row in result["recordings"]:
        shares = ", ".join(f"{name} {share:.0%}" for name, share in row["shares"].items())
        print(f"{row['recording']}: {shares}; confidence {row['confidence']:.0%}, {row['bouts']:,} bouts")
        if row["warning"]:
            print(f"  {row['warning']}")
    for clip in result["label_next"]:
        print(f"Label next: {clip['recording']}, frames {clip['start']:,} to {clip['stop'] - 1:,}")
    if result["calibrated_on"] != "recordings":
        print("Confidence was not calibrated across recordings. Label clips in two recordings or more.")


def read_marks(path: Path) -> Any:
    """Read marks from a JSON file or a table."""
    if path.suffix.lower() == ".json":
        try:
            return Marks.from_json(path.read_text())
        except UnicodeDecodeError as error:
            raise DataError(f"{path} is not a text file; marks are JSON.") from error
    frame = read_sheet(path)
    if missing := [name for name in FIELDS if name not in frame.columns]:
        raise DataError(f"{path} has no column {' and no column '.join(missing)}; it needs {', '.join(FIELDS)}.")
    return Marks.from_rows(frame[list(FIELDS)].itertuples(index=False))


def _write_table(
    folder: Path,
    name: str,
    proba: npt.NDArray[Any],
    predicted: npt.NDArray[Any],
    names: tuple[str, ...],
    rate_hz: float,
) -> None:
    table = pd.DataFrame({f"p {label}": proba[:, j] for j, label in enumerate(names)})
    table["label"] = [names[code] for code in predicted]
    table.insert(0, "frame", np.arange(len(table)))
    table.insert(0, "time", np.arange(len(table)) / rate_hz)
    write_whole(folder / f"{Path(name).name}-labels.csv", csv(table))
