"""Views and readings of a recording without a page."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy.typing as npt

from gdm_core.analysis.bouts import BoutRule
from gdm_core.trials import Trial
from pages import lab
from pages.behaviour import recordings
from pages.lab import Dataset, View, live
from pages.lab.decoded import D, Decoded
from pages.lab.naming import StateNames
from pages.ui.shell import Frame

SMALL = recordings.ChosenRecordings("simulated", "egocentric", (("frames", 300), ("seed", 1)))
FRAME = Frame("behaviour", "Behaviour", *(None,) * 5)


def view_of(
    data: Dataset, naming: StateNames, rule: BoutRule, *, fit: Any = None, shown: Any = None, index: int = 0
) -> View:
    """Return a view of trial `index`, before any fit unless one is given."""
    choice: Any = SimpleNamespace(label="GDM", facts=[], family="gdm", config={"n_states": 4})
    fit = SimpleNamespace(memory={}, last=None, completing=False) if fit is None else fit
    spec = lab.PageSpec.from_choice(data, choice)
    return View(FRAME, spec, fit, shown or live.FitState("running"), index=index, naming=naming, rule=rule)


def reading_of(
    trial: Trial, states: npt.NDArray[Any], names: Sequence[str] = (), kind: type[D] = Decoded, **more: Any
) -> D:
    """Return a reading of a trial with these states, without merges or smoothing."""
    naming = StateNames.from_names(names) if names else StateNames.plain(states.shape[1])
    known: dict[str, Any] = {"state": "fresh", "origin": object(), "bouts": states.argmax(axis=1)} | more
    return kind(trial=trial, states=states, soft=states, naming=naming, **known)
