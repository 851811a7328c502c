"""The model families, each imported when first asked for."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

# family name in saved files -> (module, class)
FAMILIES: dict[str, tuple[str, str]] = {
    "gdm": ("gdm_core.models.gdm", "GDM"),
    "slds": ("gdm_core.models.slds", "SLDS"),
    "arhmm": ("gdm_core.models.arhmm", "ARHMM"),
    "pdlds": ("gdm_core.models.pdlds", "PDLDS"),
    "gdm_mixture": ("gdm_core.models.gdm_mixture", "GDMMixture"),
}


def import_family(family: str) -> type[StateModel]:
    """The class of a family."""
    module, name = FAMILIES[family]
    found: type[StateModel] = getattr(import_module(module), name)
    return found
