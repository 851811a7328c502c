"""Saved models of any family, back from a file or from bytes."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from gdm_core.errors import ModelFileError
from gdm_core.models.base import StateModel
from gdm_core.models.registry import FAMILIES, import_family
from gdm_core.store import decoded, read_model_file


def load_model(path: str | Path) -> StateModel:
    """Read a model that `save` wrote, of any family.

    path   file that `save` wrote
    """
    return model_from_bytes(read_model_file(Path(path)), str(path))


def model_from_bytes(content: bytes, path: str = "The model") -> StateModel:
    """The model whose `to_bytes` this is. `path` is what messages call it."""
    tensors, header = decoded(content, path, families=tuple(FAMILIES))
    try:
        model = import_family(header["family"]).from_file(tensors, header)
        parts_fit = _answers(model)
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise ModelFileError(f"{_MISFIT.format(path=path)} ({error})") from error
    if not parts_fit:
        raise ModelFileError(_MISFIT.format(path=path))
    return model


_MISFIT = (
    "{path}: its configuration and its parameters do not fit each other. The file is damaged; fit the model again."
)


def _answers(model: StateModel) -> bool:
    """Whether a model gives states of the right shape, so that a file whose parts disagree is noticed when it is read."""
    probe = np.zeros((model.min_samples + 1, model.n_channels), np.float32)
    return bool(model.predict_proba(probe).shape == (len(probe), model.config.n_states))
