"""What a page fits: two sets of trials, and how pictures, files and scripts call them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from gdm_core.analysis import looks
from gdm_core.trials import Trial, Trials
from pages.ui.exports import Recipe
from pages.ui.model_controls import Choice
from pages.ui.units import Unit, unit_for


@dataclass(frozen=True, eq=False)
class Data:
    """Trials, ready to fit.

    about      in a line, for the header of the page and the titles of files
    train      what the model is fitted to; test, which it has never seen. The same objects from run to run of a page, so
               that their fingerprints are computed once
    recipe     how a script of one's own makes or reads the same
    truth      known soft states of the training trials, [T, any number] each: they get the first colours
    unit       "s", or "step" where samples have no time
    tested     what `test` is called in sentences
    facts      (name, value) for reports
    keep       whether finished fits may stay on disk: not for what somebody uploaded
    source     the page's own record of where the data come from
    moving     whether a slider that the data depend on is still held
    name       of the recording, for names of files; "" where the page's own says enough
    called     what channels are called on the screen, by their names, where those say little
    """

    about: str
    train: Trials
    test: Trials
    recipe: Recipe
    truth: tuple[npt.NDArray[np.float32], ...] | None = None
    unit: Literal["s", "step"] = "s"
    tested: str = "new trial"
    facts: tuple[tuple[str, str], ...] = ()
    licences: tuple[str, ...] = ()
    keep: bool = True
    source: Any = None
    moving: bool = False
    name: str = ""
    called: Mapping[str, str] = field(default_factory=dict)

    @property
    def trials(self) -> tuple[Trial, ...]:
        """Fitted ones first, then the new ones."""
        return (*self.train, *self.test)

    @property
    def time_unit(self) -> Unit:
        """What time is written in: it suits all that lies between the earliest and the latest moment of any trial."""
        ends = [trial.start_seconds + trial.n_samples / trial.rate_hz for trial in self.trials]
        return unit_for(max(ends) - min(trial.start_seconds for trial in self.trials), self.unit)

    def step(self, trial: Trial) -> float:
        """From one sample to the next, in `unit`."""
        return 1.0 if self.unit == "step" else 1.0 / trial.rate_hz


@dataclass(frozen=True)
class Measure:
    """What the card's scores are, where a page has its own.

    scores        (model_bytes, train, test, *options, seed) yields what the rows are made of: what is known so far, and
                  under "under_way" what comes next; in the end all of it
    seed_scores   (family, config, train, test, *options) the same of one more fit, None while it is not done
    options       plain values that they depend on besides
    words         what the options are, for scores of an earlier result that differs in them
    """

    scores: Callable[..., Any] = field(default_factory=lambda: looks.score_parts)
    seed_scores: Callable[..., Any] = field(default_factory=lambda: looks.seed_parts)
    options: tuple[Any, ...] = ()
    words: str = ""


@dataclass(frozen=True, eq=False)
class Setting:
    """What a fit was asked with: it travels with the fit, so that an earlier picture keeps its own words."""

    data: Data
    choice: Choice
    measure: Measure = field(default_factory=Measure)
