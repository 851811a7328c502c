"""The command `gdm`: fit, predict, label, study, suggest, reproduce, info, studio, workers.

Results go to stdout, progress and errors to stderr. Exit codes: 0 success, 1 failure, 2 invalid request or data.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Sequence

from gdm_core import __version__
from gdm_core.errors import ConfigError, DataError, FitWarning, GdmError, ModelFileError
from gdm_studio.cli.label import add_label
from gdm_studio.cli.models import add_fit, add_info, add_predict
from gdm_studio.cli.reproduce import add_reproduce
from gdm_studio.cli.studio import add_studio, add_workers
from gdm_studio.cli.study import add_study
from gdm_studio.cli.suggest import add_suggest
from gdm_studio.paths import find_app_code


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of all commands."""
    parser = argparse.ArgumentParser(
        prog="gdm", description="Soft states in time series: the Gumbel Dynamical Model and related models."
    )
    parser.add_argument("--version", action="version", version=f"gdm-studio {__version__}")
    commands = parser.add_subparsers(required=True, metavar="command")
    for add in (
        add_fit,
        add_predict,
        add_study,
        add_label,
        add_suggest,
        add_reproduce,
        add_info,
        add_studio,
        add_workers,
    ):
        add(commands)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = build_parser().parse_args(arguments)
    find_app_code()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # each command reports failed fits itself
            code: int = options.run(options)
    except (DataError, ConfigError, ModelFileError) as error:
        return _report_error(error, 2)
    except (GdmError, OSError) as error:  # OSError: a result that cannot be written
        return _report_error(error, 1)
    except KeyboardInterrupt:
        return _report_error("Stopped.", 1)
    return code


def _report_error(error: object, code: int) -> int:
    print(f"error: {error}", file=sys.stderr)
    return code
