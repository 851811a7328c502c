"""Suggested settings: a search for the model and its number of states.

Finished fits are cached, so a search that was stopped continues.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, Literal

import pandas as pd

from gdm_core.analysis.suggestions import Probe, Recommendation, choose_states, halves, probe, thinned
from gdm_core.engine.job import Bulk, BulkView, Progress
from gdm_core.engine.runner import Grid, Runner
from gdm_core.engine.spec import config_text
from gdm_core.errors import ConfigError, FitError
from gdm_core.models.extrapolation import describe_held_out
from gdm_core.models.latent import principal_components
from gdm_core.models.registry import NAMED_MODELS, TITLES, available, import_family
from gdm_core.trials import Trials

MODELS = ("gdm", "arhmm-sticky")
SEEDS = (0,)
MAX_STATES = 9
# Limits on samples, which keep a search within about a minute on one core, and the seconds of a fit to so many.
LIMITS = {"gdm": (6000, 0.4), "gdm-linear": (6000, 0.4), "arhmm": (6000, 0.2), "arhmm-sticky": (6000, 0.2)}
LIMITS |= {"gdm-paper": (1500, 1.7), "gdm-network": (1500, 2.5), "gdm-rnn": (1500, 4.0), "gdm-mixture": (1500, 1.3)}
LIMITS |= {"pdlds": (1500, 0.6)}
DEFAULT_LIMIT = 3000, 0.6
BESIDES_S = 0.05  # of each fit, whatever its samples


def max_samples(models: Iterable[str]) -> int:
    """Return the number of samples to use: the limit of the slowest model."""
    return min(LIMITS.get(name, DEFAULT_LIMIT)[0] for name in models)


@dataclass(frozen=True, eq=False)
class SuggestQuestion(Grid["SuggestView"]):
    """Models to compare, parameters that stay fixed, and the data."""

    models: Sequence[str]
    trials: Trials
    n_latent: int | Literal["auto"] = "auto"
    fixed: Mapping[str, Any] = field(default_factory=dict)
    states: Sequence[int] = tuple(range(1, MAX_STATES + 1))
    seeds: Sequence[int] = SEEDS

    def __post_init__(self) -> None:
        for model in self.models:
            if model not in available():
                raise ConfigError(f"There is no model {model!r}; choose one of {', '.join(available())}.")
        if not self.models:
            raise ConfigError("models is empty; name at least one.")
        if unknown := set(self.fixed).difference(*map(_parameters, self.models)):
            raise ConfigError(f"{', '.join(self.models)} has no parameter {', '.join(sorted(unknown))}.")
        if len(set(self.states)) < 2 or min(self.states) < 1:
            raise ConfigError(f"states is {list(self.states)}; give at least two different numbers, each at least 1.")
        if not 1 <= self.n_dimensions <= self.trials.n_channels:
            raise ConfigError(
                f"n_latent (D) is {self.n_latent} but the data has {self.trials.n_channels} channel(s); it must be from 1 to that."
            )
        if not self.seeds:
            raise ConfigError("seeds is empty; at least one fit of each setting is needed.")

    @cached_property
    def n_dimensions(self) -> int:
        """Latent dimensions of all fits."""
        return principal_components(self.trials).choose_latent() if self.n_latent == "auto" else self.n_latent

    @cached_property
    def read(self) -> Trials:
        """Trials to fit: all of them, or stretches of a long recording."""
        return thinned(self.trials, max_samples(self.models))

    @property
    def note(self) -> str:
        """A sentence about the samples in use, or "" for all."""
        if self.read is self.trials:
            return ""
        return f"Uses {self.read.n_samples:,} of {self.trials.n_samples:,} samples, in {len(self.read)} evenly spread stretches."

    @property
    def usual_s(self) -> float:
        """Rough duration of all fits on one idle core, in seconds."""
        found = (LIMITS.get(model, DEFAULT_LIMIT) for model, _ in self.settings.values())
        return self.fits_each * sum(BESIDES_S + s * self.read.n_samples / limit for limit, s in found)

    def base(self, model: str) -> dict[str, Any]:
        """Return the family of a model and its parameters, except the number of states."""
        family, given = NAMED_MODELS[model]
        fixed = {name: value for name, value in self.fixed.items() if name in _parameters(model)}
        return {"family": family, **given, "n_latent": self.n_dimensions, **fixed}

    @cached_property
    def settings(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """Model and parameters of each setting, by everything that its probe depends on except the code version."""
        found = {}
        for model in self.models:
            for k in sorted(set(self.states)):
                setting = {**self.base(model), "n_states": int(k)}
                name = f"{model}/{config_text(setting)}/{list(self.seeds)}/{self.read.fingerprint}"
                found[name] = (model, setting)
        return found

    def cells(self) -> Mapping[str, Any]:
        """Return `settings`."""
        return self.settings

    @property
    def fits_each(self) -> int:
        """Number of fits for one setting: two halves from each seed."""
        return 2 * len(self.seeds)

    @property
    def n_fits(self) -> int:
        """Number of all fits."""
        return self.fits_each * len(self.settings)

    def start(self, engine: Runner, session: str, progress: Progress | None = None) -> Bulk[SuggestView]:
        """Start all fits."""
        data = self.read, tuple(self.seeds)
        calls = {name: (*setting, *data) for name, setting in self.settings.items()}
        how: dict[str, Any] = {"usual_s": self.usual_s, "fits_each": self.fits_each, "progress": progress}
        return Bulk(engine.map(probe, calls, session=session, **how).jobs, self.collect)

    def collect(self, view: BulkView) -> SuggestView:
        """Return the probes so far, and finally the suggestion."""
        probes = tuple(Probe.from_dict(view.results[name]) for name in self.settings if name in view.results)
        if not view.finished:
            return SuggestView(probes)
        if len(probes) < 2:
            reason = next(iter(view.failures.values()), "their fits were cancelled.")
            return SuggestView(probes, message=f"Settings cannot be compared: {reason}")
        try:
            verdict = choose_states(probes, self.trials.n_channels)
        except ConfigError as error:
            return SuggestView(probes, message=str(error))
        left_out = tuple(
            f"{TITLES.get(model, model)}, K = {setting['n_states']} is left out. {view.failures[name]}"
            for name, (model, setting) in self.settings.items()
            if name in view.failures
        )
        settings = {**self.base(verdict.model), "n_states": verdict.n_states}
        sides, half = halves(self.read), "Values of one half"
        outside = next(filter(None, (describe_held_out(*pair, half) for pair in (sides, sides[::-1]))), "")
        note = " ".join(filter(None, (self.note, outside)))
        return SuggestView(probes, Suggestion(settings, verdict, note, left_out))


def _parameters(model: str) -> set[str]:
    return {one.name for one in fields(import_family(NAMED_MODELS[model][0]).config_class)}


@dataclass(frozen=True)
class Suggestion:
    """Recommended model and number of states.

    settings  the family and its parameters
    verdict   the recommendation, and the settings that were compared
    note      sentences about the samples in use and on extrapolation
    left_out  a sentence for each setting that could not be judged
    """

    settings: dict[str, Any]
    verdict: Recommendation
    note: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """Name of the recommended model."""
        return self.verdict.model

    @property
    def sentences(self) -> tuple[str, str]:
        """Recommendation and certainty."""
        return self.verdict.sentences

    def to_frame(self) -> pd.DataFrame:
        """Return a table of all settings: held-out score in nats per sample, agreement, and whether it was chosen."""
        return pd.DataFrame(
            {
                "model": one.model,
                "n_states": one.n_states,
                "held_out": score,
                "agreement": one.agreement,
                "taken": (one.model, one.n_states) == (self.model, self.verdict.n_states),
            }
            for one, score in zip(self.verdict.probes, self.verdict.scores, strict=True)
        )

    def __str__(self) -> str:
        return "\n".join([*self.sentences, *self.left_out, *([self.note] if self.note else [])])


@dataclass(frozen=True)
class SuggestView:
    """Finished probes, and finally the suggestion or a message."""

    probes: tuple[Probe, ...]
    suggestion: Suggestion | None = None
    message: str = ""


def suggest(question: SuggestQuestion, engine: Runner | None = None, progress: Progress | None = None) -> Suggestion:
    """Recommend a model and its number of states.

    engine    runs the fits; None for this process
    progress  called with the number of finished fits and the total
    """
    view = question.run(engine, progress)
    if view.suggestion is None:
        raise FitError(view.message)
    return view.suggestion
