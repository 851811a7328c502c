"""`fit` a model to a table, `predict` states with it, and print `info` on a model or the library."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any, get_args

import numpy as np

from gdm_core.errors import ConfigError
from gdm_core.models.latent import principal_components
from gdm_core.models.parameters import Repeated
from gdm_core.trials import Trials
from gdm_studio.cli.shared import Bar, add_data_options, add_scale_option, print_json, read_trials, summarise


def add_model_options(parser: argparse.ArgumentParser) -> None:
    """Add options for the model and its latent dimensions."""
    parser.add_argument("--model", help="model name, see `gdm info` (default: gdm; for windows gdm-linear)")
    add_latent_option(parser)


def add_latent_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--latent",
        type=int,
        metavar="D",
        help="latent dimensions, at most the number of channels (default: as many as the data have, for windows 6)",
    )


def add_repeats_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--repeats",
        choices=get_args(Repeated),
        default="auto",
        help="'auto' leaves repeated values out of fits, 'keep' fits them (default: auto)",
    )


def resolve_latent(n_latent: int | None, trials: Trials, name: str) -> int:
    """Return the latent dimensions; raise ConfigError if the data `name` has too few channels."""
    if n_latent is None:
        return principal_components(trials).choose_latent()
    if not 1 <= n_latent <= trials.n_channels:
        raise ConfigError(
            f"--latent is {n_latent}; it must be from 1 to the number of channels, which is {trials.n_channels} in {name}."
        )
    return n_latent


def add_fit(commands: Any) -> None:
    parser = commands.add_parser("fit", help="fit a model to a file and save it")
    add_data_options(parser)
    add_scale_option(parser)
    add_model_options(parser)
    parser.add_argument("--states", type=int, default=4, metavar="K", help="number of states (default: 4)")
    parser.add_argument("--temperature", type=float, metavar="TAU", help="temperature of the soft states")
    parser.add_argument("--stickiness", type=stickiness, metavar="GAMMA", help="in [0, 1), or 'learn'")
    add_repeats_option(parser)
    parser.add_argument("--seed", type=int, default=0, help="random seed (default: 0)")
    parser.add_argument("--out", type=Path, default=Path("model.safetensors"), help="model file to write")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    parser.set_defaults(run=fit)


def add_predict(commands: Any) -> None:
    parser = commands.add_parser(
        "predict",
        help="predict soft states with a saved model",
        description="Writes a table: time (s), p_1..p_K, state (1..K, the most probable), entropy (0 to 1), and observed "
        "(False for samples without any value) if values are missing.",
    )
    parser.add_argument("model", type=Path, help="model file written by `fit`")
    add_data_options(parser)
    add_scale_option(parser)
    parser.add_argument("--out", type=Path, help="CSV to write (default: standard output)")
    parser.add_argument("--json", action="store_true", help="print JSON: the table, or a summary with --out")
    parser.set_defaults(run=predict)


def stickiness(text: str) -> float | str:
    """Parse a number or the word "learn"."""
    return text if text == "learn" else float(text)


def fit(options: argparse.Namespace) -> int:
    """Fit and save a model, and print a summary."""
    from gdm_core.models.registry import build

    trials = summarise(read_trials(options), options)
    latent = resolve_latent(options.latent, trials, options.data.name)
    optional = {"temperature": options.temperature, "stickiness": options.stickiness}
    given = {name: value for name, value in optional.items() if value is not None}
    if options.repeats != "auto":
        given["repeats"] = options.repeats
    model = build(options.model, options.states, latent, options.seed, **given)
    bar = Bar(f"Fitting {options.model}", 1)
    for progress in model.fit_iter(trials):
        bar.total = max(progress.total, 1)
        bar.update(progress.step, f"ELBO {progress.elbo:.3f}")
    bar.close()
    model.raise_if_failed()
    left_out = principal_components(trials).describe_left_out(latent)
    if left_out:
        print(left_out, file=sys.stderr)
    options.out.parent.mkdir(parents=True, exist_ok=True)
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
        "n_latent": latent,
        "left_out": left_out,
    }
    if options.json:
        print_json(result)
    else:
        samples = f"{trials.n_samples:,} samples in {len(trials)} trial(s)"
        print(f"{model!r}\n{samples}, {model.seconds_:.2f} s. Saved: {options.out}")
    return 0


def predict(options: argparse.Namespace) -> int:
    """Write the soft states of every sample as a table."""
    import pandas as pd

    from datasets import windows
    from gdm_core import load_model
    from gdm_core.analysis.tables import csv, states_table
    from gdm_core.models.extrapolation import describe_extrapolation

    model = load_model(options.model)
    model.raise_if_failed()
    if options.scale == "auto":
        raise ConfigError("--scale is 'auto'; give the scale that `fit` printed.")
    recordings = read_trials(options, tuple(getattr(model, "feature_names_in_", ())))
    trials = summarise(recordings, options)
    assert model.scaler_ is not None
    outside = describe_extrapolation(model.scaler_.center, model.scaler_.scale, trials)
    if outside:
        print(outside, file=sys.stderr)
    soft = model.predict_proba(trials)
    if trials is not recordings:
        soft = windows.to_samples(soft, trials, recordings)
    frames = [states_table(p, trial) for p, trial in zip(soft, recordings, strict=True)]
    if len(recordings) > 1:
        for frame, trial in zip(frames, recordings, strict=True):
            frame.insert(0, "trial", trial.name)
    frame = pd.concat(frames, ignore_index=True)
    if "observed" in frame:
        frame["observed"] = frame["observed"].ne(False)  # trials without gaps have no such column
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_bytes(csv(frame))
    if options.json:
        joined = np.concatenate(soft)
        summary = {
            "samples": len(joined),
            "elbo_per_step": model.score(trials),
            "state_usage": joined.mean(axis=0).tolist(),
            "extrapolation": outside,
        }
        result = {"file": str(options.out)} if options.out is not None else {"table": frame.to_dict("list")}
        print_json(summary | result)
    elif options.out is None:
        sys.stdout.write(csv(frame).decode())
    else:
        print(f"States of {recordings.n_samples:,} samples: {options.out}")
    return 0


def add_info(commands: Any) -> None:
    parser = commands.add_parser("info", help="describe the library or a saved model")
    parser.add_argument("model", type=Path, nargs="?", help="model file written by `fit`")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=info)


def info(options: argparse.Namespace) -> int:
    """Print versions and models, or the content of a model file."""
    if options.model is None:
        from gdm_core import __version__
        from gdm_core.models.registry import available

        packages = {name: version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}
        found: dict[str, Any] = {"version": __version__, "models": list(available()), "packages": packages}
    else:
        from gdm_core import load_model

        model = load_model(options.model)
        found = {
            "family": model.family,
            "config": asdict(model.config),
            "status": str(model.status_),
            **({"failure": model.failure_} if model.failure_ else {}),
            "elbo_per_step": model.elbo_,
            "seconds": model.seconds_,
            "channels": model.n_channels,
            "parameters": {name: list(value.shape) for name, value in model.params_.items()},
        }
    if options.json:
        print_json(found)
        return 0
    for key, value in found.items():
        if isinstance(value, dict):
            print(key)
            for name, item in value.items():
                print(f"  {name}: {item}")
        else:
            print(f"{key}: {', '.join(value) if isinstance(value, list) else value}")
    return 0
