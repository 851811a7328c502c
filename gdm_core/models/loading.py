"""Load saved models of any family."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from gdm_core.arrays import Values
from gdm_core.errors import ModelFileError
from gdm_core.models.registry import FAMILIES, import_family
from gdm_core.store import decode
from gdm_core.text import shorten

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel


def load_model(path: str | Path) -> StateModel:
    """Read a model that `save` wrote, of any family.

    path   file that `save` wrote
    """
    if not Path(path).is_file():
        raise ModelFileError(f"There is no model file at {path}.")
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read ({error}).") from error
    return model_from_bytes(content, str(path))


def model_from_bytes(content: bytes, path: str = "The model") -> StateModel:
    """Load a model from the content of its file; messages mention `path`."""
    tensors, header = decode(content, path, families=tuple(FAMILIES))
    try:
        parts_fit = _sizes_agree(tensors, header["config"])
        if parts_fit:
            model = import_family(header["family"])._from_file(tensors, header)
            parts_fit = _infers_states(model)
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RuntimeError, TypeError, ValueError) as error:
        raise ModelFileError(f"{_MISFIT.format(path=path)} ({shorten(error)})") from error
    if not parts_fit:
        raise ModelFileError(_MISFIT.format(path=path))
    return model


_MISFIT = (
    "{path}: its configuration and its parameters do not fit each other. The file is damaged; fit the model again."
)


_UNSEEN = 10_000_000  # numbers that a configuration may describe beyond those in the file: some have no effect


def _sizes_agree(tensors: Mapping[str, Values], config: Mapping[str, Any]) -> bool:
    """Return whether the sizes in a configuration agree with the parameters, before memory is allocated for them."""
    held = max(sum(tensor.size for tensor in tensors.values()), _UNSEEN)
    k, d, lags, hidden = (int(config.get(name) or 1) for name in ("n_states", "n_latent", "lags", "n_hidden"))
    n = tensors["scaler.center"].size
    wanted = (k * d * d * lags, lags * max(lags * d, n), hidden * max(hidden, d * lags), n * d)
    return max(wanted) <= held and tensors["scaler.center"].ndim == 1


def _infers_states(model: StateModel) -> bool:
    """Return whether the model infers states of the right shape; it does not if the parts of its file disagree."""
    probe = np.tile(model._scaler.center, (model.min_samples + 1, 1))
    return bool(model.predict_proba(probe).shape == (len(probe), model.config.n_states))
