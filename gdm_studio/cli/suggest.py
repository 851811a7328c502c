"""`suggest`: how many states a file has, and which tau, gamma and D suit them, as far as it tells."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, Any

from gdm_core.analysis.scores import align
from gdm_studio.cli.models import add_model_options, n_latent
from gdm_studio.cli.shared import add_data_options, add_jobs_option, read_trials, require_one, say, working
from gdm_studio.cli.sweep import SYMBOLS, counts

if TYPE_CHECKING:
    from gdm_core.analysis.suggestions import Recommendation


def add_suggest(commands: Any) -> None:
    """The command `suggest`."""
    parser = commands.add_parser(
        "suggest",
        help="how many states there are, and which settings suit them",
        description="Fits two halves of the data and judges each fit by the other half. Finished fits are kept, so that "
        "a suggestion which was stopped goes on where it was.",
    )
    add_data_options(parser)
    add_model_options(parser)
    parser.add_argument(
        "--states", type=counts, default=list(range(1, 10)), metavar="K", help="to try, as 1-9 or 2,4,8 (default: 1-9)"
    )
    parser.add_argument("--seeds", type=int, default=2, help="fits of each half and setting (default: 2)")
    parser.add_argument("--states-only", action="store_true", help="only the number of states (K)")
    add_jobs_option(parser)
    parser.add_argument("--json", action="store_true", help="print verdicts and every number behind them as JSON")
    parser.set_defaults(run=suggest)


def suggest(options: argparse.Namespace) -> int:
    """Three sentences a parameter, and the table they were decided from."""
    from gdm_core.engine import suggest as suggesting

    require_one(jobs=options.jobs, seeds=options.seeds)
    trials = read_trials(options)
    latent = n_latent(options.latent, trials.n_channels, options.data.name)
    question = suggesting.Question(
        options.model, trials, latent, states=options.states, seeds=tuple(range(options.seeds))
    )
    if question.note:
        print(question.note, file=sys.stderr)
    with working(f"Trying {options.model}", question.n_fits(), options.jobs) as (engine, told):
        told(0, question.n_fits())
        steps = suggesting.suggest(question, progress=told, engine=engine)
        found = next(steps) if options.states_only else list(steps)[-1]  # each is the one before with a verdict more
    if options.json:
        verdicts = [
            {
                "parameter": v.name,
                "value": v.value,
                "runner_up": v.runner_up,
                "sure": v.sure,
                "sentences": v.sentences,
                "tried": [p.to_dict() for p in v.probes],
            }
            for v in found.verdicts
        ]
        say({"settings": found.settings, "note": found.note, "verdicts": verdicts})
        return 0
    for verdict in found.verdicts:
        print("\n".join([*align(_table(verdict)), *verdict.sentences, ""]))
    if found.note:
        print(found.note)
    print("Settings: " + ", ".join(f"{name} {value}" for name, value in found.settings.items()))
    return 0


def _table(verdict: Recommendation) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        ("", SYMBOLS.get(verdict.name, "D"), "other half", "halves agree", "fitted", "idle states", "median stay")
    ]
    for tried in verdict.probes:
        value = tried.setting.get(verdict.name)
        mark = "*" if value == verdict.value else ""
        numbers = (
            f"{tried.mean:.3f}",
            f"{tried.agreement:.0%}",
            f"{tried.elbo:.3f}",
            str(tried.idle),
            f"{tried.stay:g}",
        )
        rows.append((mark, str(value), *numbers))
    return rows
