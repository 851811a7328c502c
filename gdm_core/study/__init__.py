"""Comparisons of conditions over many recordings, with the animal as the unit.

The package is callable: `gdm_core.study(recordings, sheet, model)` makes a `Study`.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from types import ModuleType

import pandas as pd

from gdm_core.analysis.bouts import BoutRule
from gdm_core.errors import DataError
from gdm_core.models.base import StateModel
from gdm_core.study.fitting import STEADY
from gdm_core.study.flow import Flow
from gdm_core.study.power import Power
from gdm_core.study.study import Names, Study
from gdm_core.trials import Trial

__all__ = ["Flow", "Power", "Study"]


class StudyVerb(ModuleType):
    """The package `gdm_core.study` as a callable."""

    def __call__(
        self,
        recordings: Mapping[str, Trial] | Iterable[Trial],
        sheet: pd.DataFrame,
        model: StateModel,
        *,
        on: Sequence[str] | None = None,
        names: Names = None,
        rule: BoutRule = STEADY,
    ) -> Study:
        """Fit one model to all animals, blind to conditions, and find all states.

        recordings   name -> Trial; or a sequence of named Trials
        sheet        one row per recording: "recording" (or "file"), "animal", and any other columns
        model        of any family; not modified. A fitted model is not fitted again
        on           recordings to fit to; all by default
        names        names of states: a mapping from number to name, or a list that starts with state 0
        rule         turns soft states into bouts
        """
        if isinstance(recordings, Mapping):
            return Study.fit(recordings, sheet, model, on, names, rule)
        found: dict[str, Trial] = {}
        for trial in recordings:
            if not isinstance(trial, Trial):
                raise DataError(
                    f"recordings contains a {type(trial).__name__}; each must be a Trial. Use Trial(y, name=...)."
                )
            if trial.name in found:
                raise DataError(
                    f"Two recordings are named {trial.name!r}. Give each Trial a different name, or pass {{name: Trial}}."
                )
            found[trial.name] = trial
        return Study.fit(found, sheet, model, on, names, rule)


sys.modules[__name__].__class__ = StudyVerb
