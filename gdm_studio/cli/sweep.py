"""`sweep`: fit a grid of K, tau and gamma. `suggest`: recommend a model and its settings."""

from __future__ import annotations

import argparse
import io
import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gdm_core.analysis.metrics import align
from gdm_core.errors import ConfigError, FitError
from gdm_studio.cli.models import add_latent_option, add_model_options, resolve_latent, stickiness
from gdm_studio.cli.shared import (
    add_data_options,
    add_jobs_option,
    add_scale_option,
    choose_time_scale,
    open_engine,
    print_json,
    read_trials,
    require_positive,
    split_names,
    summarise,
)

if TYPE_CHECKING:
    from gdm_core.analysis.suggestions import Probe, Recommendation
    from gdm_core.analysis.time_scale import ScaleChoice
    from gdm_core.engine.sweep import Aggregate, Record, Sweep
    from gdm_core.trials import Trials

JUDGE = "elbo_test"
SHORTEST_TAIL = 10  # samples; models need at least as many
SYMBOLS = {"n_states": "K", "temperature": "tau", "stickiness": "gamma"}


def add_sweep(commands: Any) -> None:
    parser = commands.add_parser(
        "sweep",
        help="fit a grid of K, tau and gamma over seeds, scored by held-out ELBO",
        description="Finished fits are cached, so a sweep that was stopped continues.",
    )
    add_data_options(parser)
    add_scale_option(parser)
    add_model_options(parser)
    parser.add_argument("--states", type=counts, default=[2, 3, 4, 5, 6], metavar="K", help="such as 2-6 or 2,4,8")
    parser.add_argument("--temperature", type=_floats, metavar="TAU", help="comma-separated")
    parser.add_argument("--stickiness", type=_stickinesses, metavar="GAMMA", help="comma-separated")
    parser.add_argument("--seeds", type=int, default=1, help="fits of each combination (default: 1)")
    parser.add_argument(
        "--holdout", type=float, default=0.2, help="share of each trial, at its end, to hold out (default: 0.2)"
    )
    parser.add_argument("--scores", action="store_true", help="compute every score of each fit (see docs/scores.md)")
    add_jobs_option(parser)
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="also write one row per fit to FILE (.csv or .parquet)"
    )
    parser.set_defaults(run=sweep)


def sweep(options: argparse.Namespace) -> int:
    """Fit the grid and print a row per combination, with the best one marked."""
    from gdm_core.engine.sweep import aggregate

    require_positive(jobs=options.jobs, seeds=options.seeds)
    plan = _build_sweep(options, summarise(read_trials(options), options))
    if options.out is not None and options.out.suffix not in (".csv", ".parquet"):
        raise ConfigError(f"--out is {options.out}; its name must end in .csv or .parquet.")
    with open_engine(f"Sweeping {options.model}", len(plan.cells()), options.jobs) as (engine, progress):
        records = plan.run(engine, progress)
    if options.out is not None:
        _write(records, options.out)
    groups = aggregate(records, by=list(plan.grid))
    winner = best(groups)
    if options.json:
        found = {
            "records": [record.row() for record in records],
            "combinations": [asdict(group) for group in groups],
            "best": None if winner is None else asdict(winner),
            "judged_by": JUDGE,
        }
        print_json(found)
    else:
        print("\n".join(align(_table(groups, winner))))
        print(f"ELBO in nats per time step, mean ± sd over {options.seeds} seed(s); * is the best.")
        for record in records:
            if record.failed:
                setting = ", ".join(f"{SYMBOLS[name]} {record.config[name]}" for name in plan.grid)
                print(f"{setting}, seed {record.seed}: {record.message}")
    if winner is None:
        raise FitError(f"Every fit of the sweep failed. The first error: {records[0].message}")
    return 0


def _write(records: Sequence[Record], path: Path) -> None:
    """Write one row per fit: its configuration, seed and scores."""
    import pandas as pd

    from gdm_core.analysis.tables import harmless
    from gdm_core.files import write_whole

    table = pd.DataFrame([record.row() for record in records])
    for name in table:
        if table[name].map(type).nunique() > 1:  # "learn" and numbers
            table[name] = table[name].astype(str)
    buffer = io.BytesIO()
    if path.suffix == ".csv":
        table.map(harmless).rename(columns=harmless).to_csv(buffer, index=False)
    else:
        table.to_parquet(buffer, index=False)
    write_whole(path, buffer.getvalue())


def hold_out(trials: Trials, share: float) -> tuple[Trials, Trials]:
    """Split off the last `share` of each trial; with 0, return all data twice."""
    from gdm_core.trials import Trials

    if not 0 <= share < 1:
        raise ConfigError(f"holdout is {share}; the share of each trial that is held out must be in [0, 1).")
    if share == 0:
        return trials, trials
    cuts = [max(1, round(trial.n_samples * (1 - share))) for trial in trials]
    head = tuple(trial.slice(0, cut) for trial, cut in zip(trials, cuts, strict=True))
    tail = tuple(
        trial.slice(cut, trial.n_samples)
        for trial, cut in zip(trials, cuts, strict=True)
        if trial.n_samples - cut >= SHORTEST_TAIL
    )
    if not tail:
        raise ConfigError(
            f"holdout is {share}, which holds out fewer than {SHORTEST_TAIL} samples of every trial. "
            "Hold out more, or nothing (--holdout 0)."
        )
    return Trials(head, trials.name, trials.label_names), Trials(tail, f"{trials.name}, held out", trials.label_names)


def best(groups: Sequence[Aggregate]) -> Aggregate | None:
    """Return the combination with the highest mean held-out ELBO, without failed fits if possible."""
    judged = [group for group in groups if math.isfinite(group.mean.get(JUDGE, math.nan))]
    return max(judged, key=lambda group: (group.failed == 0, group.mean[JUDGE]), default=None)


def _build_sweep(options: argparse.Namespace, trials: Trials) -> Sweep:
    from gdm_core.engine.sweep import EVALUATE, Sweep
    from gdm_core.models.registry import NAMED_MODELS, available, import_family

    if options.model not in available():
        raise ConfigError(f"There is no model {options.model!r}; choose one of {', '.join(available())}.")
    family, given = NAMED_MODELS[options.model]
    optional = {"n_states": options.states, "temperature": options.temperature, "stickiness": options.stickiness}
    grid = {name: values for name, values in optional.items() if values is not None}
    known = {field.name for field in fields(import_family(family).config_class)}
    if unknown := [name for name in grid if name not in known]:
        raise ConfigError(
            f"The model {options.model!r} has no parameter {unknown[0]}; it has {', '.join(sorted(known))}."
        )
    train, test = hold_out(trials, options.holdout)
    base = {**given, "n_latent": resolve_latent(options.latent, trials.n_channels, options.data.name)}
    return Sweep(family, base, grid, range(options.seeds), train, test, EVALUATE if options.scores else "")


def _table(groups: Sequence[Aggregate], winner: Aggregate | None) -> list[tuple[str, ...]]:
    chosen = list(groups[0].config)
    rows: list[tuple[str, ...]] = [
        ("", *(SYMBOLS[name] for name in chosen), "ELBO", "held-out ELBO", "seconds", "failed")
    ]
    for group in groups:
        numbers = (_spread(group.mean, group.std, name) for name in ("elbo_train", JUDGE))
        seconds = f"{group.mean['seconds']:.2f}" if "seconds" in group.mean else "-"
        mark = "*" if group is winner else ""
        rows.append((mark, *(str(group.config[name]) for name in chosen), *numbers, seconds, str(group.failed)))
    return rows


def _spread(mean: Mapping[str, float], std: Mapping[str, float], name: str) -> str:
    if name not in mean:
        return "-"
    return f"{mean[name]:.3f}" + (f" ± {std[name]:.3f}" if math.isfinite(std[name]) else "")


def counts(text: str) -> list[int]:
    """Parse "2-4,8" as [2, 3, 4, 8]."""
    found: list[int] = []
    for part in split_names(text):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} has no number; expected something like 2-6 or 2,4,8")
    return list(dict.fromkeys(found))


def _floats(text: str) -> list[float]:
    return [float(part) for part in split_names(text)]


def _stickinesses(text: str) -> list[float | str]:
    return [stickiness(part) for part in split_names(text)]


def add_suggest(commands: Any) -> None:
    parser = commands.add_parser(
        "suggest",
        help="recommend a model, its number of states and other settings",
        description="Fits two halves of the data and scores each fit on the other half. Finished fits are cached, so a "
        "suggestion that was stopped continues.",
    )
    add_data_options(parser)
    add_scale_option(parser, "auto")
    parser.add_argument(
        "--models",
        type=split_names,
        help="models to compare, see `gdm info` (default: gdm,arhmm-sticky; for windows gdm-linear)",
    )
    add_latent_option(parser)
    parser.add_argument(
        "--states", type=counts, default=list(range(1, 10)), metavar="K", help="such as 1-9 or 2,4,8 (default: 1-9)"
    )
    parser.add_argument("--seeds", type=int, default=1, help="fits of each half and setting (default: 1)")
    parser.add_argument("--states-only", action="store_true", help="choose only the model and its number of states (K)")
    add_jobs_option(parser)
    parser.add_argument("--json", action="store_true", help="print verdicts and scores as JSON")
    parser.set_defaults(run=suggest)


def suggest(options: argparse.Namespace) -> int:
    """Print a recommendation for each parameter, with its scores."""
    from gdm_core.engine import suggest as suggesting

    require_positive(jobs=options.jobs, seeds=options.seeds)
    recordings = read_trials(options)
    if options.scale == "auto":
        choice = choose_time_scale(recordings, options)
        if choice.scale is not None and options.models is None:
            return _suggest_windows(choice, recordings.n_channels, options)
    trials = summarise(recordings, options)
    latent = resolve_latent(options.latent, trials.n_channels, options.data.name)
    question = suggesting.SuggestQuestion(
        options.models, trials, latent, states=options.states, seeds=tuple(range(options.seeds))
    )
    if question.note:
        print(question.note, file=sys.stderr)
    with open_engine("Trying settings", question.n_fits(), options.jobs) as (engine, progress):
        progress(0, question.n_fits())
        steps = suggesting.suggest(question, engine, progress)
        found = next(steps) if options.states_only else list(steps)[-1]
    if options.json:
        verdicts = [
            {
                "parameter": v.name,
                "value": v.value,
                "model": v.model,
                "sure": v.sure,
                "sentences": v.sentences,
                "tried": [_tried(p, score) for p, score in zip(v.probes, v.scores, strict=True)],
            }
            for v in found.verdicts
        ]
        print_json(
            {
                "model": found.model,
                "settings": found.settings,
                "scale": options.scale,
                "note": found.note,
                "left_out": found.left_out,
                "verdicts": verdicts,
            }
        )
        return 0
    for verdict in found.verdicts:
        print("\n".join([*align(_probe_table(verdict)), *verdict.sentences, ""]))
    for sentence in (*found.left_out, found.note):
        if sentence:
            print(sentence)
    print(f"Model: {found.model}")
    print("Settings: " + ", ".join(f"{name} {value}" for name, value in found.settings.items()))
    print(f"Time scale: --scale {options.scale}")
    return 0


def _tried(probe: Probe, score: float) -> dict[str, Any]:
    found = asdict(probe) | {"score": score}
    del found["packed"]  # for pictures
    return found


def _suggest_windows(choice: ScaleChoice, n_channels: int, options: argparse.Namespace) -> int:
    """Print the time scale and its settings: held-out scores of windows, which overlap, favour one state."""
    from datasets import windows

    n_latent = min(windows.N_LATENT, len(windows.SUMMARIES) * n_channels)
    settings = {"n_states": choice.n_states, "n_latent": n_latent}
    if options.json:
        print_json(
            {"model": windows.MODEL, "settings": settings, "scale": options.scale, "sentences": choice.sentences}
        )
    else:
        print(f"Model: {windows.MODEL}\nSettings: n_states {choice.n_states}, n_latent {n_latent}")
        print(f"Time scale: --scale {options.scale}")
    return 0


def _probe_table(verdict: Recommendation) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = [
        (
            "",
            "model",
            SYMBOLS.get(verdict.name, "D"),
            "held out",
            "halves agree",
            "training",
            "idle states",
            "median dwell",
        )
    ]
    for tried, score in zip(verdict.probes, verdict.scores, strict=True):
        value = tried.setting.get(verdict.name)
        mark = "*" if (tried.model, value) == (verdict.model, verdict.value) else ""
        numbers = (
            f"{score:.3f}",
            f"{tried.agreement:.0%}",
            f"{tried.elbo:.3f}",
            str(tried.idle),
            f"{tried.dwell:g}",
        )
        rows.append((mark, tried.model, str(value), *numbers))
    return rows
