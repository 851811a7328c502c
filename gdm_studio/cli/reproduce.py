"""`reproduce`: repeat the fits of the paper's tables and figures."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from gdm_core.errors import FitError
from gdm_studio.cli.shared import add_jobs_option, open_engine, print_json, require_positive

_STDOUT = Path("-")


def add_reproduce(commands: Any) -> None:
    parser = commands.add_parser(
        "reproduce",
        help="repeat the fits of the paper's tables and figures",
        description="'all' runs every fit of the Paper page, on the paper's one simulation and on one for each seed; 'table', "
        "'formula1' and 'mice' those of one table or figure. Finished fits are cached, so a run that was stopped continues. "
        "Figures 3 and 4 use simulated laps and mice, and also the Chinese Grand Prix and CalMS21 if they are in the data "
        "folder.",
    )
    parser.add_argument("experiment", help="'all', or a part of the paper such as 'table/soft' or 'mice'")
    parser.add_argument("--seeds", type=int, help="seeds 0..N-1 (default: as in the paper)")
    parser.add_argument("--samples", type=int, default=1000, metavar="T", help="samples per trial (default: 1000)")
    add_jobs_option(parser, "worker processes; use 1 to measure times")
    parser.add_argument(
        "--json",
        type=Path,
        nargs="?",
        const=_STDOUT,
        metavar="FILE",
        help="write every score to FILE (or print them); parts of the paper that FILE has and were not run stay",
    )
    parser.set_defaults(run=reproduce)


def reproduce(options: argparse.Namespace) -> int:
    """Run fits of the Paper page and print their tables."""
    from gdm_core.engine.spec import code_version
    from gdm_studio import paper

    if options.seeds is not None:
        require_positive(seeds=options.seeds)
    chosen = paper.find_names("" if options.experiment == "all" else options.experiment)
    n_tasks = paper.count_tasks(chosen, options.seeds)
    with open_engine("Reproducing the paper", n_tasks, options.jobs) as (engine, progress):
        found = paper.reproduce_all(chosen, options.seeds, options.samples, engine, progress)
    if options.json == _STDOUT:
        print_json({"code": code_version(), **found})
    elif options.json is not None:
        paper.save(found, options.json, code_version())
    if options.json != _STDOUT:
        print("\n".join(paper.summary(found)))
    failed = [f"{name}/{why}" for name, reasons in found["failed"].items() for why in reasons]
    if failed:
        raise FitError(f"{len(failed)} fits failed and are left out: {'; '.join(failed)}.")
    return 0
