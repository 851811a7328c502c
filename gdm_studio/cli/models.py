"""`fit` a model to a table, `predict` states with it, and print `info` on a model or the library."""

from __future__ import annotations

import argparse
import sys
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

import numpy as np
import pandas as pd

from datasets import windows
from gdm_core import __version__, load_model
from gdm_core.analysis.tables import csv, states_table
from gdm_core.errors import ConfigError
from gdm_core.models.extrapolation import describe_extrapolation
from gdm_core.models.latent import principal_components
from gdm_core.models.registry import available, build
from gdm_core.trials import Trials
from gdm_studio.cli.shared import Bar, print_json, read_trials, summarise


def resolve_latent(n_latent: int | None, trials: Trials, name: str) -> int:
    """Return the latent dimensions; raise ConfigError if the data `name` has too few channels."""
    if n_latent is None:
        return principal_components(trials).choose_latent()
    if not 1 <= n_latent <= trials.n_channels:
        raise ConfigError(
            f"--latent is {n_latent}; it must be from 1 to the number of channels, which is {trials.n_channels} in {name}."
        )
    return n_latent


def fit(options: argparse.Namespace) -> int:
    """Fit and save a model, and print a summary."""
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


def info(options: argparse.Namespace) -> int:
    """Print versions and models, or the content of a model file."""
    if options.model is None:
        packages = {name: version(name) for name in ("torch", "numpy", "scipy", "scikit-learn")}
        found: dict[str, Any] = {"version": __version__, "models": list(available()), "packages": packages}
    else:
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
