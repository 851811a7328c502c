"""The first visit's result, which ships with the app: a real fit of the simulated race, so that the page opens at once.

assets/demo/formula1-opening.npz   model, the fitted driver's and the other driver's states, and everything measured,
                                   as JSON. `assets/make_demo.py formula1` makes it again.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gdm_core.engine import FitResult, Snapshot
from gdm_core.errors import DataError
from gdm_core.trials import Trials
from pages.lab import live
from pages.ui.theme import ASSETS

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

FILE = ASSETS / "demo" / "formula1-opening.npz"
CIRCUIT = "shanghai"
FIFTH = 4  # the paper fits the winner and applies the model to the driver who came fifth
CONFIG: dict[str, Any] = {
    "n_states": 8,
    "temperature": 0.99,
    "stickiness": "learn",
    "posterior": "window",
    "n_latent": 2,
    "seed": 0,
}


@dataclass(frozen=True, eq=False)
class Opening:
    """The bundled fit. States are in the model's own order, as bytes of 1/255."""

    header: dict[str, Any]
    model_bytes: bytes
    train: npt.NDArray[np.uint8]  # [T, K]
    test: npt.NDArray[np.uint8]

    def result(self, key: str) -> FitResult:
        """As the engine would have given it."""
        head = self.header
        snapshot = Snapshot(int(head["steps"][-1]), (0,), (1,), (self.train,))
        return FitResult(
            key, self.model_bytes, head["status"], head["elbo"], head["seconds"], tuple(head["steps"]),
            tuple(head["elbos"]), snapshot,
        )  # fmt: skip


@lru_cache(maxsize=1)
def _read(path: Path, changed: int) -> Opening:
    with np.load(path, allow_pickle=False) as file:
        try:
            return Opening(json.loads(str(file["header"])), file["model"].tobytes(), file["train"], file["test"])
        except KeyError as error:
            raise DataError(f"{path.name} lacks {error}. Make it again with assets/make_demo.py formula1.") from error


def bundled() -> Opening | None:
    """The result that ships with the app, or None where this installation has none."""
    return _read(FILE, FILE.stat().st_mtime_ns) if FILE.is_file() else None


def lay_out(wanted: live.Wanted) -> None:
    """If this is the fit of a first visit, let the engine find it done."""
    found, where = bundled(), wanted.where
    if found is None or where.pick.place.circuit != CIRCUIT or where.pick.looked.laps != "all":
        return
    head = found.header
    same = (
        wanted.family == head["family"]
        and dict(wanted.config) == head["config"]
        and (where.pick.train, where.pick.test) == (head["train"], head["test"])
        and not where.pick.looked.channels
        and wanted.train.fingerprint == head["fingerprint"]
    )
    cache = live.screen.engine().cache
    kept = cache.get(wanted.key)[0] if same else None
    if same and (kept is None or kept.model_bytes != found.model_bytes):  # what was measured belongs to this very fit
        cache.put(found.result(wanted.key))


def write(
    model: StateModel, train: Trials, test: Trials, codes: tuple[str, str], measured: dict[str, Any], seconds: float
) -> None:
    """Make the file from a fit with CONFIG, what `evaluate` says of it, and how long it took."""
    content = model.to_bytes()
    header = {
        "family": model.family,
        "config": CONFIG,
        "fingerprint": train.fingerprint,
        "train": codes[0],
        "test": codes[1],
        "status": str(model.status_),
        "elbo": model.elbo_,
        "seconds": seconds,
        "steps": [progress.step for progress in model.history_],
        "elbos": [round(progress.elbo, 4) for progress in model.history_],
        "scores": measured,
    }
    ours, theirs = (np.rint(np.concatenate(model.predict_proba(side)) * 255).astype(np.uint8) for side in (train, test))
    np.savez_compressed(
        FILE, header=np.array(json.dumps(header)), model=np.frombuffer(content, np.uint8), train=ours, test=theirs
    )


def stands(shown: live.Shown) -> bool:
    """Whether the fit that ships with the app is what is shown."""
    return _belongs(shown) is not None


def _belongs(shown: live.Shown) -> Opening | None:
    """The bundle, if what is shown is its fit."""
    found = bundled()
    if found is None or shown.result is None or shown.wanted is None:
        return None
    return found if shown.result.model_bytes == found.model_bytes else None


def scores(shown: live.Shown) -> dict[str, Any] | None:
    """What was measured when the bundle was made, if it is shown: of the same two drivers."""
    found = _belongs(shown)
    if found is None or shown.wanted is None or shown.wanted.where.pick.test != found.header["test"]:
        return None
    measured: dict[str, Any] = found.header["scores"]
    return measured


def applied(shown: live.Shown, code: str, n_samples: int) -> npt.NDArray[np.float32] | None:
    """The other driver's states in the model's order, if this is the bundle's fit and driver."""
    found = _belongs(shown)
    if found is None or code != found.header["test"] or n_samples != len(found.test):
        return None
    soft = found.test.astype(np.float32)
    return soft / np.maximum(soft.sum(axis=1, keepdims=True), 1.0)
