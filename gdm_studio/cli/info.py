"""`info`: the library, or a saved model."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path
from typing import Any

from gdm_studio.cli.output import say


def add_info(commands: Any) -> None:
    """The command `info`."""
    parser = commands.add_parser("info", help="the library, or a saved model")
    parser.add_argument("model", type=Path, nargs="?", help="model file that `fit` saved")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.set_defaults(run=info)


def info(options: argparse.Namespace) -> int:
    """Versions and models, or what a model file holds."""
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
            "elbo_per_step": model.elbo_,
            "seconds": model.seconds_,
            "channels": model.n_channels,
            "parameters": {name: list(value.shape) for name, value in model.params_.items()},
        }
    if options.json:
        say(found)
        return 0
    for key, value in found.items():
        if isinstance(value, dict):
            print(key)
            for name, item in value.items():
                print(f"  {name}: {item}")
        else:
            print(f"{key}: {', '.join(value) if isinstance(value, list) else value}")
    return 0
