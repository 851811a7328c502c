"""Suggested settings: models and K first, then what depends on them, in this process or on an engine.

Finished fits are cached, so a suggestion that was stopped continues where it was.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import pandas as pd

from gdm_core.analysis.suggestions import Probe, Recommendation, choose_states, choose_value, probe, thinned
from gdm_core.engine.cache import ResultCache
from gdm_core.engine.engine import Engine
from gdm_core.engine.estimate import Estimate
from gdm_core.engine.grid import Grid, grid_key
from gdm_core.engine.job import Bulk, BulkView, Progress
from gdm_core.errors import ConfigError, FitError, GdmError
from gdm_core.models.registry import NAMED_MODELS, TITLES, available, import_family
from gdm_core.trials import Trials

MODELS = ("gdm", "arhmm-sticky")
SEEDS = (0,)
MOST_STATES = 9
# Samples that are read at most, so that all fits of a question take about a minute of one core.
MOST_READ = {"gdm": 6000, "gdm-linear": 6000, "arhmm": 6000, "arhmm-sticky": 6000}
MOST_READ |= {"gdm-paper": 1500, "gdm-rnn": 1500, "gdm-mixture": 1500, "pdlds": 1500}
MOST_READ_OF_OTHERS = 3000
TEMPERATURES = (0.3, 0.6, 0.99)
STICKINESSES = ("learn", 0.0, 0.5, 0.9)

Settings = dict[str, tuple[str, dict[str, Any]]]  # model and setting, by cache key


def most_read(models: Iterable[str]) -> int:
    """Return how many samples are read at most: as many as the slowest of these models can."""
    return min(MOST_READ.get(name, MOST_READ_OF_OTHERS) for name in models)


@dataclass(frozen=True, eq=False)
class SuggestQuestion:
    """Models to compare, parameters that stay fixed, and the data."""

    models: Sequence[str]
    trials: Trials
    n_latent: int = 2
    fixed: Mapping[str, Any] = field(default_factory=dict)
    states: Sequence[int] = tuple(range(1, MOST_STATES + 1))
    seeds: Sequence[int] = SEEDS

    def __post_init__(self) -> None:
        for model in self.models:
            if model not in available():
                raise ConfigError(f"There is no model {model!r}; choose one of {', '.join(available())}.")
        if not self.models:
            raise ConfigError("models is empty; name at least one.")
        if unknown := set(self.fixed).difference(*map(_defaults, self.models)):
            raise ConfigError(f"{', '.join(self.models)} has no parameter {', '.join(sorted(unknown))}.")
        if len(set(self.states)) < 2 or min(self.states) < 1:
            raise ConfigError(f"states is {list(self.states)}; give at least two different numbers, each at least 1.")
        if not 1 <= self.n_latent <= self.trials.n_channels:
            raise ConfigError(
                f"n_latent (D) is {self.n_latent} but the data has {self.trials.n_channels} channel(s); it must be from 1 to that."
            )
        if not self.seeds:
            raise ConfigError("seeds is empty; at least one fit of each setting is needed.")

    @cached_property
    def read(self) -> Trials:
        """The trials that are fitted: all of them, or stretches of a long recording."""
        return thinned(self.trials, most_read(self.models))

    @property
    def note(self) -> str:
        """A sentence about samples that are not read, or "" if all are."""
        if self.read is self.trials:
            return ""
        return f"Uses {self.read.n_samples:,} of {self.trials.n_samples:,} samples, in {len(self.read)} evenly spread stretches."

    @property
    def usual_s(self) -> float:
        """Rough time of all fits on one idle core."""
        return self.n_fits() * (0.3 + 0.6 * self.read.n_samples / most_read(self.models))

    def base(self, model: str) -> dict[str, Any]:
        """Return the family of a model and every parameter but the number of states that is tried or fixed."""
        family, given = NAMED_MODELS[model]
        known = _defaults(model)
        usual = {name: value for name, value in known.items() if name in ("temperature", "stickiness")}
        fixed = {name: value for name, value in self.fixed.items() if name in known}
        return {"family": family, **usual, **given, "n_latent": self.n_latent, **fixed}

    def name_of(self, model: str, setting: Mapping[str, Any]) -> str:
        """Return a cache key of everything that a probe depends on except the code version."""
        return f"{model}/{json.dumps(setting, sort_keys=True)}/{list(self.seeds)}/{self.read.fingerprint}"

    @property
    def key(self) -> str:
        """Cache key of the whole question."""
        return grid_key(f"{self.name_of(model, self.base(model))}/{sorted(set(self.states))}" for model in self.models)

    @property
    def fits_each(self) -> int:
        """Number of fits of one setting: two halves from each seed."""
        return 2 * len(self.seeds)

    def n_fits(self) -> int:
        """Return the largest number of fits that may be needed."""
        further = max(sum(len(grid) - 1 for _, _, grid in self.further(model, 2)) for model in self.models)
        return self.fits_each * (len(set(self.states)) * len(self.models) + further)

    def further(self, model: str, n_states: int) -> list[tuple[str, str, list[Any]]]:
        """Return (parameter, symbol, values with the usual one first) to try after K is chosen."""
        usual = _defaults(model) | self.base(model)
        wanted: list[tuple[str, str, Sequence[Any]]] = [
            ("temperature", "temperature (tau)", TEMPERATURES),
            ("stickiness", "stickiness (gamma)", STICKINESSES),
        ]
        found = []
        for name, symbol, values in wanted:
            if name in usual and n_states > 1:
                found.append((name, symbol, [usual[name], *(value for value in values if value != usual[name])]))
        d, most = self.n_latent, self.trials.n_channels
        dimensions = [d, *(n for n in (d - 1, d + 1) if 1 <= n <= most)]
        return [*found, ("n_latent", "dimensions (D)", dimensions)] if len(dimensions) > 1 else found


def _defaults(model: str) -> dict[str, Any]:
    return {one.name: one.default for one in fields(import_family(NAMED_MODELS[model][0]).config_class)}


@dataclass(frozen=True)
class Suggestion:
    """Recommended settings with the verdict on each parameter, model and K first.

    settings  the family and its parameters
    note      a sentence about samples that were not used
    left_out  a sentence for each setting that could not be judged
    """

    settings: dict[str, Any]
    verdicts: tuple[Recommendation, ...]
    note: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def model(self) -> str:
        """Name of the recommended model."""
        return self.verdicts[0].model

    @property
    def sentences(self) -> tuple[str, str]:
        """The verdict on the model and K: recommendation and certainty."""
        return self.verdicts[0].sentences

    def to_frame(self) -> pd.DataFrame:
        """Return a row for each setting that was tried: held-out score (nats per sample), agreement, whether it was taken."""
        return pd.DataFrame(
            {
                "parameter": verdict.name,
                "model": one.model,
                "value": one.setting[verdict.name],
                "held_out": score,
                "agreement": one.agreement,
                "taken": (one.model, one.setting[verdict.name]) == (verdict.model, verdict.value),
            }
            for verdict in self.verdicts
            for one, score in zip(verdict.probes, verdict.scores, strict=True)
        )

    def __str__(self) -> str:
        sentences = [sentence for verdict in self.verdicts for sentence in verdict.sentences]
        return "\n".join([*sentences, *self.left_out, *([self.note] if self.note else [])])


@dataclass
class Plan:
    """Steps to a suggestion: `settings` to be tried next, by the model and the setting; `take` moves on."""

    question: SuggestQuestion
    suggestion: Suggestion | None = None
    settings: Settings = field(default_factory=dict)
    known: int = 0  # of the settings, how many an earlier step has tried: the usual value of each parameter
    _failures: Mapping[str, str] = field(default_factory=dict)  # of `settings`, by name
    _left_out: list[str] = field(default_factory=list)
    _tried: set[str] = field(default_factory=set)
    _steps: Generator[Settings, dict[str, Probe], None] = field(init=False)

    def __post_init__(self) -> None:
        self._steps = self._go()
        self.settings = next(self._steps)

    @property
    def finished(self) -> bool:
        return not self.settings

    def grid(self) -> Grid:
        """Return the grid that probes `settings`."""
        trials, seeds = self.question.read, tuple(self.question.seeds)
        return Grid(probe, {name: (*setting, trials, seeds) for name, setting in self.settings.items()})

    def take(self, view: BulkView) -> None:
        """Decide from the probes of `settings`, and move on."""
        found = {name: Probe.from_dict(view.results[name]) for name in self.settings if name in view.results}
        self._failures = view.failures
        if len(found) < 2 and self.suggestion is None:
            reason = next(
                iter(view.failures.values()), "the search was stopped before two numbers of states were tried"
            )
            raise FitError(f"Settings cannot be compared: {reason}")
        try:
            self.settings = self._steps.send(found)
        except StopIteration:
            self.settings = {}

    def _go(self) -> Generator[Settings, dict[str, Probe], None]:
        question = self.question
        found = yield self._named(
            (model, {**question.base(model), "n_states": int(k)})
            for model in question.models
            for k in sorted(set(question.states))
        )
        self._leave_out("n_states", "K")
        verdicts = [choose_states(list(found.values()), question.trials.n_channels)]
        model, k = verdicts[0].model, verdicts[0].value
        chosen = {**question.base(model), "n_states": k}
        self.suggestion = Suggestion(dict(chosen), tuple(verdicts), question.note, tuple(self._left_out))
        for name, symbol, values in question.further(model, k):
            found = yield self._named((model, {**chosen, name: value}) for value in values)
            self._leave_out(name, symbol)
            usual = {probe.setting[name] for probe in found.values()}
            if len(found) < 2 or values[0] not in usual:
                continue  # only one value can be fitted: there is nothing to choose from
            verdicts.append(choose_value(name, symbol, values[0], list(found.values())))
            chosen[name] = verdicts[-1].value
            self.suggestion = Suggestion(dict(chosen), tuple(verdicts), question.note, tuple(self._left_out))

    def _leave_out(self, name: str, symbol: str) -> None:
        """List the settings of this step that failed, each with its reason."""
        for key, (model, setting) in self.settings.items():
            if key in self._failures:
                title = TITLES.get(model, model)
                self._left_out.append(f"{title}, {symbol} = {setting[name]} is left out. {self._failures[key]}")

    def _named(self, settings: Iterable[tuple[str, dict[str, Any]]]) -> Settings:
        named = {self.question.name_of(*setting): setting for setting in settings}
        self.known = len(self._tried & named.keys())
        self._tried |= named.keys()
        return named


def suggest(
    question: SuggestQuestion,
    cache: ResultCache | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Iterator[Suggestion]:
    """Yield a suggestion that gains a verdict each time, model and K first.

    progress  called with the number of finished fits and the total
    engine    runs the fits; None for this process
    """
    plan, each, before = Plan(question), question.fits_each, 0

    def report(done: int, _: int) -> None:
        if progress is not None:
            progress(before + each * done, question.n_fits())

    while not plan.finished:
        before -= each * plan.known  # cached, and already counted
        view = plan.grid().run(engine, "suggest", cache=cache, progress=report)
        before += each * view.done
        plan.take(view)
        if plan.suggestion is not None:
            yield plan.suggestion


@dataclass(frozen=True)
class SuggestView:
    """Progress of a suggestion: fits done and in total, the suggestion so far, and why it ended early."""

    done: int
    total: int
    finished: bool
    suggestion: Suggestion | None
    message: str = ""


class SuggestJob:
    """A suggestion that runs on an engine at low priority; `poll` advances it."""

    def __init__(self, question: SuggestQuestion, engine: Engine, session: str) -> None:
        self.question = question
        self._plan, self._engine, self._session = Plan(question), engine, session
        self._done, self._message, self._cancelled = 0, "", False
        self.estimate = Estimate()
        self._bulk: Bulk | None = None
        self.poll()

    def poll(self) -> SuggestView:
        """Collect finished probes, start the next ones and return at once."""
        each, done = self.question.fits_each, self._done
        while not (self._plan.finished or self._message or self._cancelled):
            if self._bulk is None:
                self._bulk = self._plan.grid().start(self._engine, self._session)
            view = self._bulk.poll()
            if not view.finished:
                done = self._done + each * max(0, view.done - self._plan.known)
                break
            self._done = done = self._done + each * (len(self._plan.settings) - self._plan.known)
            self._bulk = None
            try:
                self._plan.take(view)
            except GdmError as error:
                self._message = str(error)
        finished = self._plan.finished or bool(self._message) or self._cancelled
        total = max(done, self.question.n_fits())
        return SuggestView(done, total, finished, self._plan.suggestion, self._message)

    def cancel(self) -> None:
        """Start no more fits; finished ones stay cached."""
        self._cancelled = True
        if self._bulk is not None:
            self._bulk.cancel()
