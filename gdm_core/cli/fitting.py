"""`fit`, `predict` and `sweep`: a model from a file of recordings, states from a model."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from gdm_core.analysis.scores import align
from gdm_core.cli.output import plain, say
from gdm_core.cli.progress import Bar
from gdm_core.errors import FitError
from gdm_core.trials import Trials


def add_data_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("data", type=Path, help="CSV, Parquet, NPZ or NPY: one row a sample, one column a channel")
    parser.add_argument(
        "--columns", type=_names, help="channels to use, comma-separated (default: every numeric column)"
    )
    parser.add_argument("--trial-column", help="column that tells trials apart")
    parser.add_argument("--rate", type=float, default=1.0, metavar="HZ", help="samples per second (default: 1)")


def add_model_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--model", default="gdm", help="name of the model, see `info` (default: gdm)")
    parser.add_argument("--latent", type=int, default=2, metavar="D", help="latent dimensions (default: 2)")


def add_fit(commands: Any) -> None:
    parser = commands.add_parser("fit", help="fit a model to a file and save it")
    add_data_options(parser)
    add_model_options(parser)
    parser.add_argument("--states", type=int, default=4, metavar="K", help="number of states (default: 4)")
    parser.add_argument("--temperature", type=float, metavar="TAU", help="temperature of the soft states")
    parser.add_argument("--stickiness", type=_stickiness, metavar="GAMMA", help="in [0, 1), or 'learn'")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("model.safetensors"), help="where to save the model")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=fit)


def add_predict(commands: Any) -> None:
    parser = commands.add_parser(
        "predict",
        help="soft states of a file under a saved model",
        description="Writes a table: time (s), p_1..p_K, state (1..K, the largest), entropy (nats).",
    )
    parser.add_argument("model", type=Path, help="model file that `fit` saved")
    add_data_options(parser)
    parser.add_argument("--out", type=Path, help="CSV to write (default: standard output)")
    parser.add_argument("--json", action="store_true", help="print JSON: the table, or a summary where --out is given")
    parser.set_defaults(run=predict)


def add_sweep(commands: Any) -> None:
    parser = commands.add_parser("sweep", help="fit a grid of K, tau, gamma over seeds, judged by held-out ELBO")
    add_data_options(parser)
    add_model_options(parser)
    parser.add_argument("--states", type=_counts, default=[2, 3, 4, 5, 6], metavar="K", help="as 2-6 or 2,4,8")
    parser.add_argument("--temperature", type=_floats, default=[None], metavar="TAU", help="comma-separated")
    parser.add_argument("--stickiness", type=_stickinesses, default=[None], metavar="GAMMA", help="comma-separated")
    parser.add_argument("--seeds", type=int, default=1, help="fits of each combination (default: 1)")
    parser.add_argument(
        "--holdout", type=float, default=0.2, help="share of each trial's end to judge by (default: 0.2)"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes (default: 1)")
    parser.add_argument("--json", action="store_true", help="print the outcomes as JSON")
    parser.set_defaults(run=sweep)


def fit(options: argparse.Namespace) -> int:
    from gdm_core.models.registry import build

    trials = _read(options)
    changes = {k: v for k in ("temperature", "stickiness") if (v := getattr(options, k)) is not None}
    model = build(options.model, options.states, options.latent, options.seed, **changes)
    bar = Bar(f"Fitting {options.model}", 1)
    for progress in model.fit_iter(trials):
        bar.total = max(progress.total, 1)
        bar.update(progress.step, f"ELBO {progress.elbo:.3f}")
    bar.close()
    if str(model.status_) == "diverged":
        raise FitError("The fit diverged, so nothing was saved. Try another seed, fewer states or rescaled data.")
    model.save(options.out)
    result = {
        "model": options.model,
        "file": str(options.out),
        "status": str(model.status_),
        "elbo_per_step": model.elbo_,
        "seconds": model.seconds_,
        "trials": len(trials),
        "samples": trials.n_samples,
        "channels": list(trials[0].channels),
    }
    if options.json:
        say(plain(result))
    else:
        print(
            f"{model!r}\n{trials.n_samples:,} samples in {len(trials)} trial(s), {model.seconds_:.2f} s. Saved: {options.out}"
        )
    return 0


def predict(options: argparse.Namespace) -> int:
    from gdm_core.cli.tables import states_frame
    from gdm_core.models.loading import load_model

    model = load_model(options.model)
    trials = _read(options)
    soft = model.predict_proba(trials)
    frame = states_frame(trials, soft)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        frame.to_csv(options.out, index=False, float_format="%.6g")
    if options.json:
        joined = np.concatenate(soft)
        summary = {
            "samples": len(joined),
            "elbo_per_step": model.score(trials),
            "state_usage": joined.mean(axis=0).tolist(),
        }
        where = {"file": str(options.out)} if options.out is not None else {"table": frame.to_dict("list")}
        say(plain(summary | where))
    elif options.out is None:
        print(frame.to_csv(index=False, float_format="%.6g"), end="")
    else:
        print(f"States of {trials.n_samples:,} samples: {options.out}")
    return 0


def sweep(options: argparse.Namespace) -> int:
    from gdm_core.sweep import best, grid
    from gdm_core.sweep import sweep as run_sweep

    trials = _read(options)
    points = grid(options.states, options.temperature, options.stickiness, options.seeds)
    bar = Bar(f"Sweeping {options.model}", len(points))
    outcomes = []
    for outcome in run_sweep(trials, points, options.model, options.latent, options.holdout, options.jobs):
        outcomes.append(outcome)
        bar.update(len(outcomes), f"K={outcome.n_states}")
    bar.close()
    outcomes.sort(key=lambda o: (o.n_states, str(o.temperature), str(o.stickiness), o.seed))
    winner = best(outcomes)
    if options.json:
        say(plain({"outcomes": [asdict(o) for o in outcomes], "best": None if winner is None else asdict(winner)}))
    else:
        rows: list[tuple[str, ...]] = [("", "K", "tau", "gamma", "seed", "ELBO", "held-out ELBO", "seconds", "status")]
        for o in outcomes:
            chosen = ("-" if v is None else f"{v}" for v in (o.temperature, o.stickiness, o.seed))
            held = "-" if o.held_out_elbo is None else f"{o.held_out_elbo:.3f}"
            mark = "*" if o is winner else ""
            rows.append((mark, str(o.n_states), *chosen, f"{o.elbo:.3f}", held, f"{o.seconds:.2f}", o.status))
        print("\n".join(align(rows)))
        print("ELBO in nats per time step; * is the best.")
    if winner is None:
        raise FitError("Every fit of the sweep diverged. Try fewer states or rescaled data.")
    return 0


def _read(options: argparse.Namespace) -> Trials:
    from gdm_core.cli.tables import read_trials

    return read_trials(options.data, options.columns, options.trial_column, options.rate)


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _counts(text: str) -> list[int]:
    """ "2-4,8" -> [2, 3, 4, 8]."""
    found: list[int] = []
    for part in _names(text):
        first, _, last = part.partition("-")
        found.extend(range(int(first), int(last or first) + 1))
    if not found:
        raise argparse.ArgumentTypeError(f"{text!r} names no number; expected something like 2-6 or 2,4,8")
    return found


def _floats(text: str) -> list[float]:
    return [float(part) for part in _names(text)]


def _stickiness(text: str) -> float | str:
    return text if text == "learn" else float(text)


def _stickinesses(text: str) -> list[float | str]:
    return [_stickiness(part) for part in _names(text)]
