"""`reproduce`: repeat the comparison on simulated tracks, or all of the paper."""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdm_core.errors import FitError
from gdm_studio.cli.shared import add_jobs_option, open_engine, print_json, require_positive, split_names, write_json

if TYPE_CHECKING:
    from gdm_studio.reproduce import ComparisonRun

_STDOUT = Path("-")


def add_reproduce(commands: Any) -> None:
    parser = commands.add_parser(
        "reproduce",
        help="repeat the comparison on simulated tracks, or all of the paper",
        description="'nascar' simulates and fits anew for each seed, and tests on the simulation of seed 100 + s. "
        "'all' runs every fit of the Paper page, also on the paper's one simulation; 'table', 'formula1' and 'mice' those "
        "of one table or figure. They use only --seeds, --samples, --jobs and --json. Finished fits of the paper are cached, so a "
        "run that was stopped continues. Figures 3 and 4 use simulated laps and mice, and also the Chinese Grand Prix and "
        "CalMS21 if they are in the data folder.",
    )
    parser.add_argument(
        "experiment", help="'nascar' for simulated tracks, 'all', or a part of the paper such as 'table/soft' or 'mice'"
    )
    parser.add_argument("--setting", choices=["standard", "soft", "both"], default="both", help="track (default: both)")
    parser.add_argument("--models", default="gdm", help="comma-separated names, or 'all'; see `info` (default: gdm)")
    parser.add_argument("--seeds", type=int, help="seeds 0..N-1 (default: 10; for the paper, as there)")
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
    """Run every fit and print one table per setting."""
    from gdm_core.models.registry import available
    from gdm_studio.reproduce import SETTINGS, run_tasks, summarise, table, tasks

    if options.experiment != "nascar":
        return _reproduce_paper(options)
    options.seeds = 10 if options.seeds is None else options.seeds
    names = available() if options.models == "all" else split_names(options.models)
    settings = SETTINGS if options.setting == "both" else (options.setting,)
    work = tasks(names, settings, options.seeds, options.samples)
    with open_engine(f"Reproducing {options.experiment}", len(work), options.jobs) as (engine, progress):
        runs = run_tasks(work, engine, progress)
    by_setting: dict[str, list[ComparisonRun]] = defaultdict(list)
    for result in runs:
        by_setting[result.task.setting].append(result)
    rows = {setting: summarise(mine) for setting, mine in by_setting.items()}
    record = {
        "experiment": options.experiment,
        "seeds": options.seeds,
        "samples": options.samples,
        "summary": {
            setting: {
                name: {column: None if spread is None else asdict(spread) for column, spread in row.items()}
                for name, row in found.items()
            }
            for setting, found in rows.items()
        },
        "runs": [r.to_dict() for r in runs],
    }
    if options.json == _STDOUT:
        print_json(record)
    else:
        if options.json is not None:
            write_json(options.json, record)
        for setting, found in rows.items():
            print(f"NASCAR {setting}, T={options.samples}, {options.seeds} seed(s)")
            print(table(found) + "\n")
    failed = [r for r in runs if r.scores is None]
    if failed:
        reasons = "; ".join(f"{r.task.model} on {r.task.setting} seed {r.task.seed}: {r.failure}" for r in failed)
        raise FitError(f"{len(failed)} of {len(runs)} fits failed and are left out of the table: {reasons}.")
    return 0


def _reproduce_paper(options: argparse.Namespace) -> int:
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
