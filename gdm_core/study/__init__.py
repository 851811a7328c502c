"""Studies: many recordings, their conditions on a sheet, and what differs between them, with animals as the unit.

`gdm_core.study(recordings, sheet, model)` begins one: the package is the verb, too.
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
    """This package as what people do with it."""

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
        """One model fitted to all animals, none outweighing another, blind to the sheet; then every recording read with it.

        recordings   name -> Trial; or Trials or a list of them, each known by its own name
        sheet        a row for each recording: its name in "recording" (or "file"), "animal", and any columns
        model        of any family; it is left as it is. A fitted one is not fitted again
        on           recordings to fit to, where not all; the others are only read
        names        of states, by number, or a list that begins with state 0
        rule         how soft states become bouts
        """
        if isinstance(recordings, Mapping):
            return Study.fit(recordings, sheet, model, on, names, rule)
        found: dict[str, Trial] = {}
        for trial in recordings:
            if not isinstance(trial, Trial):
                raise DataError(
                    f"A study takes Trials, and one of these is a {type(trial).__name__}. Use Trial(y, name=...)."
                )
            if trial.name in found:
                raise DataError(
                    f"Two recordings are called {trial.name!r}, so the sheet cannot tell them apart. Give each Trial a name of "
                    "its own, or pass {name: Trial}."
                )
            found[trial.name] = trial
        return Study.fit(found, sheet, model, on, names, rule)


sys.modules[__name__].__class__ = StudyVerb
