"""`reproduce`: the comparison on simulated tracks, or all of the paper."""

from __future__ import annotations

import argparse
from collections import defaultdict
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdm_core.errors import FitError
from gdm_studio.cli.shared import add_jobs_option, require_one, say, working, write_json
from gdm_studio.cli.shared import names as listed_names

if TYPE_CHECKING:
    from gdm_studio.reproduce import ComparisonRun

_STDOUT = Path("-")


def add_reproduce(commands: Any) -> None:
    parser = commands.add_parser(
        "reproduce",
        help="repeat the simulated comparison, or everything of the paper: every model, several seeds",
        description="fair: each seed is a new simulation (test seed 100 + s) and a new fit. paper: the paper's one "
        "simulation, each seed a new fit. Either way the states of the test trial are inferred on the test trial. "
        "'all' fits what the Paper page shows, under both protocols, and heeds --seeds, --samples, --jobs and --json alone.",
    )
    parser.add_argument(
        "experiment", choices=["nascar", "all"], help="what to repeat: simulated tracks, or all of the paper"
    )
    parser.add_argument(
        "--setting", choices=["standard", "soft", "both"], default="both", help="which track (default: both)"
    )
    parser.add_argument("--models", default="gdm", help="comma-separated names, or 'all'; see `info` (default: gdm)")
    parser.add_argument("--seeds", type=int, help="seeds 0..N-1 (default: 10; of 'all', what the paper has)")
    parser.add_argument("--protocol", choices=["fair", "paper"], default="fair", help="see above (default: fair)")
    parser.add_argument("--samples", type=int, default=1000, metavar="T", help="samples a trial (default: 1000)")
    add_jobs_option(parser, "worker processes; use 1 for honest times")
    parser.add_argument(
        "--json", type=Path, nargs="?", const=_STDOUT, metavar="FILE", help="write every score to FILE (or print them)"
    )
    parser.set_defaults(run=reproduce)


def reproduce(options: argparse.Namespace) -> int:
    """Every fit, one table a setting."""
    from gdm_core.models.registry import available
    from gdm_studio.reproduce import SETTINGS, run_tasks, summarise, table, tasks

    if options.experiment == "all":
        return _reproduce_all(options)
    options.seeds = 10 if options.seeds is None else options.seeds
    names = available() if options.models == "all" else listed_names(options.models)
    settings = SETTINGS if options.setting == "both" else (options.setting,)
    work = tasks(names, settings, options.protocol, options.seeds, options.samples)
    with working(f"Reproducing {options.experiment}", len(work), options.jobs) as (engine, told):
        runs = run_tasks(work, engine, told)
    by_setting: dict[str, list[ComparisonRun]] = defaultdict(list)
    for result in runs:
        by_setting[result.task.setting].append(result)
    rows = {setting: summarise(mine) for setting, mine in by_setting.items()}
    record = {
        "experiment": options.experiment,
        "protocol": options.protocol,
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
        say(record)
    else:
        if options.json is not None:
            write_json(options.json, record)
        for setting, found in rows.items():
            print(f"NASCAR {setting}, T={options.samples}, {options.protocol} protocol, {options.seeds} seed(s)")
            print(table(found) + "\n")
    failed = [r for r in runs if r.scores is None]
    if failed:
        listed = "; ".join(f"{r.task.model} on {r.task.setting} seed {r.task.seed}: {r.failure}" for r in failed)
        raise FitError(f"{len(failed)} of {len(runs)} fits failed and are left out of the table: {listed}.")
    return 0


def _reproduce_all(options: argparse.Namespace) -> int:
    """Every fit of the Paper page, and its tables."""
    from gdm_core.engine.spec import code_version
    from gdm_studio import paper

    if options.seeds is not None:
        require_one(seeds=options.seeds)
    with working("Reproducing the paper", paper.n_pieces(options.seeds), options.jobs) as (engine, told):
        found = paper.reproduce_all(options.seeds, options.samples, engine, told)
    if options.json == _STDOUT:
        say({"code": code_version(), **found})
    elif options.json is not None:
        paper.save(found, options.json, code_version())
    if options.json != _STDOUT:
        print("\n".join(paper.summary(found)))
    if found["failed"]:
        raise FitError(f"{len(found['failed'])} fits did not work out and are left out: {'; '.join(found['failed'])}.")
    return 0
