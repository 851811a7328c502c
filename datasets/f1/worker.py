"""The loading process: `python -m datasets.f1.worker REQUEST` loads one session or calendar, then ends.

The request is JSON in the argument; answers are JSON lines on standard output: progress, then one result or error.
Nothing is read from standard input, and whatever FastF1 prints goes to standard error.
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
    """Carry out one request; 0 when it was answered, also with an error that was foreseen."""
    answers = _private_output()
    request = json.loads(argument)
    # should the application die first, nobody else would end a load that hangs
    faulthandler.dump_traceback_later(request["deadline_s"] + GRACE_S, exit=True)

    def progress(share: float, text: str) -> None:
        _say(answers, kind="progress", share=share, text=text)

    progress(0.0, "starting FastF1")
    try:
        _load(request, progress)
    except FeedError as error:
        _say(answers, kind="error", reason=error.reason.value, message=str(error))
    except Exception as error:
        if not is_storage_error(error):
            raise
        said = str(error) if isinstance(error, StorageError) else describe_write_error(error)
        _say(answers, kind="error", reason=Reason.STORAGE.value, message=said)
    else:
        _say(answers, kind="done")
    return 0


def _load(request: dict[str, Any], progress: Any) -> None:
    # FastF1 takes half a second to import: after the first word of progress
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
    """Keep standard output for answers alone: later prints, by any library, land on standard error."""
    private = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    sys.stdin = open(os.devnull)  # noqa: SIM115 (stays open as long as the process): FastF1 asks a terminal for a password
    return private


def _say(answers: IO[str], **answer: Any) -> None:
    clean = {key: redact(value) if isinstance(value, str) else value for key, value in answer.items()}
    answers.write(json.dumps(clean) + "\n")
    answers.flush()


def redact(text: str) -> str:
    """The text without the account's name and password, should a library have put them into a message."""
    for name in SECRETS:
        secret = os.environ.get(name, "")
        if len(secret) > 2:
            text = text.replace(secret, "***")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
