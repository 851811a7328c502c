"""What FastF1 only says to its log: how far it is, what it could not fetch, and which stored files it could not use."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path

import requests

from ..storage import cannot_write, is_of_storage, move_aside
from .session import FeedError, Reason

# what FastF1 announces while it loads, in its order: the share of the way that is then behind it
STEPS = {
    "session_info": (0.05, "session"),
    "driver_info": (0.08, "drivers"),
    "session_status_data": (0.11, "session status"),
    "lap_count": (0.13, "lap count"),
    "track_status_data": (0.15, "track status"),
    "_extended_timing_data": (0.18, "lap times"),
    "timing_app_data": (0.3, "tyres"),
    "car_data": (0.4, "speed, throttle, brake, gear"),
    "position_data": (0.6, "positions"),
}
DAMAGED = "Updating cache for "
TIMING_HOST = "livetiming"  # the service and its mirror
_UNREACHABLE = "the timing service cannot be reached"


class FeedLog(logging.Handler):
    """Listens to FastF1's log for progress, for hidden exceptions, and for cache files it could not use."""

    def __init__(self, progress: Callable[[float, str], None]) -> None:
        super().__init__(logging.DEBUG)
        self._progress, self._furthest = progress, 0.0
        self.errors: list[BaseException] = []
        self.sign_in_failed = False
        self.notes: list[str] = []
        self.folder: Path | None = None
        self.offline = False

    def progress(self, share: float, text: str) -> None:
        """How far the load is. What is stored is tried first and the network after it: the share never falls back."""
        self._furthest = max(self._furthest, share)
        self._progress(self._furthest, text)

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if record.exc_info and record.exc_info[1] is not None:
            self.errors.append(record.exc_info[1])
        if text.startswith("Failed to authenticate"):
            self.sign_in_failed = True
        if text.startswith(DAMAGED):
            self._rescue(text.removeprefix(DAMAGED).rstrip("."))
        for step, (share, what) in STEPS.items():
            if text.endswith((f"cached data for {step}", f"found for {step}. Loading data...")):
                stored = "reading" if text.startswith("Using") else "downloading"
                self.progress(share, f"{stored} {what}")

    def _rescue(self, name: str) -> None:
        """FastF1 is about to overwrite a file that it could not use: keep it."""
        path = None if self.folder is None else self.folder / f"{name}.ff1pkl"
        if path is not None and path.is_file():
            aside = move_aside(path)
            self.notes.append(
                f"FastF1's stored {STEPS.get(name, (0, name))[1]} could not be used (damaged, or from another version); "
                f"moved to {aside.name} and fetched again."
            )

    @property
    def network_failed(self) -> bool:
        """Whether the timing service could not be reached; other services matter less."""
        return any(
            isinstance(error, requests.ConnectionError | requests.Timeout)
            and TIMING_HOST in _address(error, TIMING_HOST)
            for error in self.errors
        )


def rate_limited(where: str, error: Exception) -> FeedError:
    return FeedError(
        Reason.RATE_LIMIT,
        f"Loading {where} was stopped by the data service's request limit ({error}). "
        "Wait an hour; sessions that are stored already still open.",
    )


def unavailable(where: str, log: FeedLog, otherwise: Reason, why: str) -> FeedError:
    """The likeliest cause of missing data: the network, then the account, then the feed itself."""
    if full := next((error for error in log.errors if is_of_storage(error)), None):
        return FeedError(Reason.STORAGE, f"{where} could not be loaded. {cannot_write(full)}")
    if log.network_failed or log.offline:
        return FeedError(
            Reason.NO_NETWORK,
            f"{where} could not be loaded: {'the network was not asked' if log.offline else _UNREACHABLE}, and the "
            "session is not stored. "
            "Check the network, then try again; simulated laps work without it.",
        )
    if log.sign_in_failed:
        given = bool(os.environ.get("F1_USERNAME") and os.environ.get("F1_PASSWORD"))
        return FeedError(
            Reason.ACCOUNT,
            f"{where} could not be loaded: the timing service wants a Formula 1 account"
            + (
                ", and refused the one in F1_USERNAME and F1_PASSWORD. Correct them"
                if given
                else ". Set the environment variables F1_USERNAME and F1_PASSWORD"
            )
            + " where the application is started, restart it, then try again.",
        )
    return FeedError(
        otherwise,
        f"{where}: {why}. It may not have been held, or may not be published yet. Try again later or choose another.",
    )


def _address(error: requests.RequestException, unknown: str) -> str:
    return str(getattr(error.request, "url", None) or unknown)
