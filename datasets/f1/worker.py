"""Loading process: `python -m datasets.f1.worker REQUEST` loads a session or calendar, then exits.

The request is JSON in the argument; answers are JSON lines on standard output: progress, then a result or an error.
The process reads no standard input and sends FastF1's output to standard error.
"""

from __future__ import annotations

import faulthandler
import json
import os
import sys
from pathlib import Path
from typing import IO, Any

from ..storage import StorageError, describe_write_error, is_storage_error
from .session import FeedError, Reason

SECRETS = ("F1_USERNAME", "F1_PASSWORD")
GRACE_S = 10.0


def main(argument: str) -> int:
    """Carry out a request; return 0 if it was answered, even with an expected error."""
    answers = _private_output()
    request = json.loads(argument)
    # ends a hung load if the application dies first
    faulthandler.dump_traceback_later(request["deadline_s"] + GRACE_S, exit=True)

    def progress(share: float, text: str) -> None:
        _send(answers, kind="progress", share=share, text=text)

    progress(0.0, "starting FastF1")
    try:
        _load(request, progress)
    except FeedError as error:
        _send(answers, kind="error", reason=error.reason.value, message=str(error))
    except Exception as error:
        if not is_storage_error(error):
            raise
        said = str(error) if isinstance(error, StorageError) else describe_write_error(error)
        _send(answers, kind="error", reason=Reason.STORAGE.value, message=said)
    else:
        _send(answers, kind="done")
    return 0


def _load(request: dict[str, Any], progress: Any) -> None:
    # import FastF1 (half a second) only after the first progress report
    from . import cache, feed

    log = feed.open_feed(Path(request["folder"]), progress)
    target = Path(request["target"])
    if request["task"] == "schedule":
        cache.write_schedule(feed.fetch_schedule(request["year"], log, request["offline"]), target)
        return
    session = feed.fetch_session(request["year"], request["event"], request["session"], log, request["offline"])
    progress(0.95, "storing the extracted arrays")
    cache.write_session(session, target)


def _private_output() -> IO[str]:
    """Reserve standard output for answers; redirect later prints to standard error."""
    private = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdin = open(os.devnull)  # noqa: SIM115 (stays open as long as the process): FastF1 asks a terminal for a password
    return private


def _send(answers: IO[str], **answer: Any) -> None:
    clean = {key: redact(value) if isinstance(value, str) else value for key, value in answer.items()}
    answers.write(json.dumps(clean) + "\n")
    answers.flush()


def redact(text: str) -> str:
    """Remove the account's name and password from a text."""
    for name in SECRETS:
        secret = os.environ.get(name, "")
        if len(secret) > 2:
            text = text.replace(secret, "***")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
