"""Specification of a fit, the cache key of its result, and the version of the code."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gdm_core
from gdm_core.errors import ConfigError
from gdm_core.models.registry import FAMILIES, import_family
from gdm_core.trials import Trials

if TYPE_CHECKING:  # pages open faster without scikit-learn
    from gdm_core.models.base import StateModel


@dataclass(frozen=True, eq=False)
class FitSpec:
    """Specification of one fit.

    family     a known family, or "module:Class" of a StateModel that workers can import
    config     constructor arguments, including the seed
    preview    indices of the trials that snapshots show
    test       held-out trials; with them, the job also returns the states of all trials
    use_cache  whether the result may be stored on disk
    """

    family: str
    config: Mapping[str, Any]
    trials: Trials
    preview: tuple[int, ...] = (0,)
    use_cache: bool = True
    test: Trials | None = None

    def __post_init__(self) -> None:
        if self.family not in FAMILIES and ":" not in self.family:
            raise ConfigError(
                f"family is {self.family!r}; choose one of {', '.join(FAMILIES)}, or name your own as 'module:Class'."
            )
        wrong = [i for i in self.preview if not 0 <= i < len(self.trials)]
        if wrong:
            raise ConfigError(f"preview names trial {wrong[0]}, but there are trials 0 to {len(self.trials) - 1}.")
        config_text(self.config)

    @cached_property
    def key(self) -> str:
        """Cache key: data, family, configuration and code version."""
        parts = (self.trials.fingerprint, self.family, config_text(self.config), code_version())
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def config_text(config: Mapping[str, Any]) -> str:
    """Return a configuration as JSON, for keys; raise ConfigError for values of other types."""
    try:
        return json.dumps(dict(config), sort_keys=True)
    except TypeError as error:
        raise ConfigError(f"config must hold numbers, strings, booleans and None only ({error}).") from error


def resolve_family(family: str) -> type[StateModel]:
    """Return the class of a known family or of "module:Class"."""
    if family in FAMILIES:
        return import_family(family)
    module, _, name = family.partition(":")
    found: type[StateModel] = resolve(module, name)
    return found


def require_for_workers(module: str, name: str) -> None:
    """Raise ConfigError for functions of pages, which workers do not load."""
    if module.partition(".")[0] == "pages":
        raise ConfigError(
            f"{module}:{name} belongs to a page; workers run functions of gdm_core and datasets only. "
            "Move it to gdm_core/analysis."
        )


def resolve(module: str, name: str) -> Any:
    """Return the attribute `name` of a module; raise ConfigError if there is none."""
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"{module}:{name} cannot be loaded where fits run ({error}). Make it importable on every worker."
        ) from error


def source_folders() -> list[Path]:
    """Return the folders whose code determines results: the library and, if installed, the loaders."""
    root = Path(gdm_core.__file__).parent
    loaders = [folder for name in ("datasets", "gdm_studio/_app/datasets") if (folder := root.parent / name).is_dir()]
    # Another package may be called "datasets".
    return [root, *(folder for folder in loaders if (folder / "calms21.py").is_file())]


@lru_cache(maxsize=1)
def code_version() -> str:
    """Return the library version with a digest of its source, or with GDM_CODE_VERSION if set."""
    pinned = os.environ.get("GDM_CODE_VERSION", "").strip()
    if pinned:
        return f"{gdm_core.__version__}+{pinned}"
    digest = hashlib.sha256()
    for folder in source_folders():
        for path in sorted(folder.rglob("*.py")):
            digest.update(f"{folder.name}/{path.relative_to(folder)}".encode())
            digest.update(path.read_bytes())
    return f"{gdm_core.__version__}+{digest.hexdigest()[:12]}"
