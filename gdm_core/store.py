"""Model files: safetensors with the configuration as JSON in the header, without pickles."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ModelFileError
from gdm_core.text import shorten

FORMAT = "gdm-studio-model"
FORMAT_VERSION = "4"


def encode(tensors: dict[str, npt.NDArray[Any]], header: dict[str, Any]) -> bytes:
    """Return the content of a model file."""
    from safetensors.numpy import save

    metadata = {"format": FORMAT, "format_version": FORMAT_VERSION, "model": json.dumps(header)}
    return save({k: np.ascontiguousarray(v) for k, v in tensors.items()}, metadata=metadata)


def decode(
    content: bytes, path: str | Path, families: tuple[str, ...]
) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return the tensors and the header of a model file; `path` is for error messages."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    try:
        tensors = {name: value.copy() for name, value in load(content).items()}  # views of `content` are unaligned
        metadata = json.loads(content[8 : 8 + int.from_bytes(content[:8], "little")]).get("__metadata__", {})
    except (SafetensorError, KeyError, ValueError, RecursionError, MemoryError) as error:
        raise ModelFileError(
            f"{path} is not a readable model file ({shorten(error)}). It may be damaged or of another kind."
        ) from error
    if metadata.get("format") != FORMAT:
        raise ModelFileError(f"{path} was not written by this library: it holds tensors but no model description.")
    if metadata.get("format_version") != FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {shorten(metadata.get('format_version'))}; this library reads version {FORMAT_VERSION}. "
            "Fit and save the model again."
        )
    try:
        header = json.loads(metadata["model"])
    except (KeyError, ValueError, RecursionError) as error:
        raise ModelFileError(f"{path}: the model description in its header is damaged ({shorten(error)}).") from error
    if not isinstance(header, dict) or header.get("family") not in families:
        raise ModelFileError(f"{path} holds an unknown model family; known: {', '.join(families)}.")
    for name, tensor in tensors.items():
        if not np.isfinite(tensor).all():
            raise ModelFileError(
                f"{path}: the parameter {name!r} is not finite. The file is damaged; fit the model again."
            )
    return tensors, header
