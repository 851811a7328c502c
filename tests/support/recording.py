"""A look at a recording without a page around it, for tests of what is drawn and exported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from gdm_core.analysis.bouts import BoutRule
from pages import lab
from pages.lab import live
from pages.lab.live.records import Records
from pages.recording.data import Data
from pages.recording.naming import Naming
from pages.recording.view import View
from pages.ui.shell import Frame

FRAME = Frame("behaviour", "Behaviour", *(None,) * 5)


def view_of(
    data: Data, naming: Naming, rule: BoutRule, *, fit: Any = None, shown: Any = None, look: Any = None, index: int = 0
) -> View:
    """The trial `index` of `data`, as a fit shows it; without one, before any fit."""
    choice: Any = SimpleNamespace(label="GDM", facts=[])
    fit = SimpleNamespace(records=Records()) if fit is None else fit
    setting = lab.Setting(data, choice)
    return View(FRAME, setting, fit, shown or live.Shown("running"), look, index=index, naming=naming, rule=rule)
