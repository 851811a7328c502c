"""Checks and keys that grids of fits share: sweeps, comparisons and suggestions."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gdm_core.engine.spec import config_text
from gdm_core.errors import ConfigError
from gdm_core.trials import Trials


def cell_name(family: str, config: Mapping[str, Any], train: Trials, test: Trials, scorer: str = "") -> str:
    """Return the cache name of a fit: everything that its scores depend on except the code version."""
    return "/".join([family, config_text(config), scorer, train.fingerprint, test.fingerprint])


def grid_key(names: Iterable[str]) -> str:
    """Return one key for a set of cell names, in any order."""
    return hashlib.sha256("\n".join(sorted(names)).encode()).hexdigest()


def check_seeds(seeds: Sequence[int], configs: Iterable[Mapping[str, Any]]) -> None:
    """Raise ConfigError for missing or repeated seeds, and for configurations that contain one."""
    if not seeds or len(set(seeds)) != len(seeds):
        raise ConfigError(f"seeds is {list(seeds)}; it must hold one seed or more, each once.")
    if any("seed" in config for config in configs):
        raise ConfigError("Put seeds in `seeds`, not in a setting: results are averaged over them.")
