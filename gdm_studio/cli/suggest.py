"""`suggest`: how many states a file has, and which tau, gamma and D suit them, as far as it tells."""

from __future__ import annotations

import argparse
import os
import sys
import time
from typing import TYPE_CHECKING, Any

from gdm_core.analysis.scores import align
from gdm_core.errors import ConfigError, FitError
from gdm_studio.cli.data import add_data_options, read_trials
from gdm_studio.cli.models import add_model_options, n_latent
from gdm_studio.cli.output import say
from gdm_studio.cli.progress import Bar
from gdm_studio.cli.sweep import SYMBOLS, counts

LOOK_EVERY_S = 0.2

if TYPE_CHECKING:
    from gdm_core.analysis.suggestions import Recommendation
    from gdm_core.engine.suggest import Question, Suggestion


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
    parser.add_argument("--jobs", type=int, default=1, help="worker processes (default: 1)")
    parser.add_argument("--json", action="store_true", help="print verdicts and every number behind them as JSON")
    parser.set_defaults(run=suggest)


def suggest(options: argparse.Namespace) -> int:
    """Three sentences a parameter, and the table they were decided from."""
    from gdm_core.engine.suggest import Question

    if options.jobs < 1:
        raise ConfigError(f"jobs is {options.jobs}; at least 1 process is needed.")
    if options.seeds < 1:
        raise ConfigError(f"seeds is {options.seeds}; at least 1 is needed.")
    trials = read_trials(options)
    latent = n_latent(options.latent, trials.n_channels, options.data.name)
    question = Question(options.model, trials, latent, states=options.states, seeds=tuple(range(options.seeds)))
    if question.note:
        print(question.note, file=sys.stderr)
    bar = Bar(f"Trying {options.model}", question.n_fits())
    bar.update(0)
    try:
        found = _answer(question, options, bar)
    finally:
        bar.close()
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


def _answer(question: Question, options: argparse.Namespace, bar: Bar) -> Suggestion:
    from gdm_core.engine import Engine
    from gdm_core.engine import suggest as suggesting

    def report(done: int, total: int) -> None:
        bar.update(done)

    if options.jobs == 1:
        steps = suggesting.suggest(question, progress=report)
        found = next(steps)
        if not options.states_only:
            for found in steps:  # noqa: B007 - each is the one before with a verdict more
                pass
        return found
    os.environ["GDM_WORKERS"] = str(options.jobs)  # of the engine's own processes; a cluster of yours keeps its size
    with Engine() as engine:
        job = suggesting.SuggestJob(question, engine, "gdm suggest")
        while not (view := job.poll()).finished and not (options.states_only and view.suggestion is not None):
            bar.update(view.done)
            time.sleep(LOOK_EVERY_S)
        job.cancel()
    if view.suggestion is None:
        raise FitError(view.message)
    return view.suggestion


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
