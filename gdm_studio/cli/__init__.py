"""The command `gdm`: fit, predict, label, study, suggest, reproduce, info, studio, workers.

Results go to stdout, progress and errors to stderr. Exit codes: 0 success, 1 failure, 2 invalid request or data.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module

from gdm_core.errors import ConfigError, DataError, FitWarning, GdmError, ModelFileError
from gdm_studio.cli.options import build_parser
from gdm_studio.paths import find_app_code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    options = build_parser().parse_args(arguments)
    find_app_code()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)  # each command reports failed fits itself
            module, _, name = options.run.partition(".")
            code: int = getattr(import_module(f"gdm_studio.cli.{module}"), name)(options)
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
