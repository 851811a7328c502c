"""`reproduce`: repeat the fits of the paper's tables and figures."""

from __future__ import annotations

import argparse

from gdm_core.engine.spec import code_version
from gdm_core.errors import FitError
from gdm_studio import paper
from gdm_studio.cli.options import STDOUT
from gdm_studio.cli.shared import open_engine, print_json, require_positive


def reproduce(options: argparse.Namespace) -> int:
    """Run fits of the Paper page and print their tables."""
    if options.seeds is not None:
        require_positive(seeds=options.seeds)
    chosen = paper.find_names("" if options.experiment == "all" else options.experiment)
    n_tasks = paper.count_tasks(chosen, options.seeds)
    with open_engine("Reproducing the paper", n_tasks, options.jobs) as (engine, progress):
        found = paper.reproduce_all(chosen, options.seeds, options.samples, engine, progress)
    if options.json == STDOUT:
        print_json({"code": code_version(), **found})
    elif options.json is not None:
        paper.save(found, options.json, code_version())
    if options.json != STDOUT:
        print("\n".join(paper.summary(found)))
    failed = [f"{name}/{why}" for name, reasons in found["failed"].items() for why in reasons]
    if failed:
        raise FitError(f"{len(failed)} fits failed and are left out: {'; '.join(failed)}.")
    return 0
