"""Views and readings of a recording without a page."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy.typing as npt

from gdm_core.analysis.bouts import BoutRule
from gdm_core.trials import Trial
from pages import lab
from pages.behaviour import recordings
from pages.lab import Data, View, live
from pages.lab.live.pictures import Origin
from pages.lab.live.session import PageRecords
from pages.lab.naming import Naming
from pages.lab.view import R, Reading
from pages.ui.shell import Frame

SMALL = recordings.ChosenRecordings("simulated", "egocentric", (("frames", 300), ("seed", 1)))
FRAME = Frame("behaviour", "Behaviour", *(None,) * 5)


def view_of(
    data: Data, naming: Naming, rule: BoutRule, *, fit: Any = None, shown: Any = None, look: Any = None, index: int = 0
) -> View:
    """Return a view of trial `index`, before any fit unless one is given."""
    choice: Any = SimpleNamespace(label="GDM", facts=[])
    fit = SimpleNamespace(records=PageRecords()) if fit is None else fit
    setting = lab.Setting(data, choice)
    return View(FRAME, setting, fit, shown or live.Shown("running"), look, index=index, naming=naming, rule=rule)


def reading_of(
    trial: Trial, states: npt.NDArray[Any], names: Sequence[str] = (), kind: type[R] = Reading, **more: Any
) -> R:
    """Return a reading of a trial with these states, without merges or smoothing."""
    naming = Naming.called(names) if names else Naming.plain(states.shape[1])
    known: dict[str, Any] = {"state": "fresh", "origin": Origin(), "bouts": states.argmax(axis=1)} | more
    return kind(trial=trial, states=states, soft=states, naming=naming, **known)
