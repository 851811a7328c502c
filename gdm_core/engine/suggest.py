"""Suggested settings: a grid of K, then what depends on it, on an engine or here, with every fit kept in the store.

A suggestion that was stopped, with its page or with the server, goes on where it was when it is asked for again.
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
from gdm_core.engine.grid import Grid, key_of
from gdm_core.engine.job import Bulk, BulkView, Progress
from gdm_core.errors import ConfigError, FitError, GdmError
from gdm_core.models.registry import NAMED_MODELS, available, import_family
from gdm_core.trials import Trials

SEEDS = (0, 1)
MOST_STATES = 9
# Samples that are read at the most, so that all fits of a question take a minute of one core: by how long models take.
MOST_READ = {"gdm": 6000, "gdm-linear": 6000, "gdm-paper": 1500, "gdm-rnn": 1500, "gdm-mixture": 1500, "pdlds": 1500}
MOST_READ_OF_OTHERS = 3000
TEMPERATURES = (0.3, 0.6, 0.99)
STICKINESSES = ("learn", 0.0, 0.5, 0.9)

Settings = dict[str, dict[str, Any]]  # by the name of what a probe of each depends on


@dataclass(frozen=True, eq=False)
class SuggestQuestion:
    """What settings are wanted of: a model by its name, its fixed parameters, and the data."""

    model: str
    trials: Trials
    n_latent: int = 2
    fixed: Mapping[str, Any] = field(default_factory=dict)
    states: Sequence[int] = tuple(range(1, MOST_STATES + 1))
    seeds: Sequence[int] = SEEDS

    def __post_init__(self) -> None:
        if self.model not in available():
            raise ConfigError(f"There is no model {self.model!r}; choose one of {', '.join(available())}.")
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
        """What of the trials is fitted: all of them, or stretches of a long recording."""
        return thinned(self.trials, MOST_READ.get(self.model, MOST_READ_OF_OTHERS))

    @property
    def note(self) -> str:
        """What is not read, in words; "" where everything is."""
        if self.read is self.trials:
            return ""
        return (
            f"Reads {self.read.n_samples:,} of {self.trials.n_samples:,} samples, in {len(self.read)} stretches from all over "
            "them, so that it takes about a minute of a processor."
        )

    @property
    def usual_s(self) -> float:
        """What all fits take one after the other on a quiet machine, roughly: `MOST_READ` samples take a minute."""
        share = self.read.n_samples / MOST_READ.get(self.model, MOST_READ_OF_OTHERS)
        return self.n_fits() * (0.3 + 0.6 * share)

    @property
    def family(self) -> str:
        return NAMED_MODELS[self.model][0]

    def base(self) -> dict[str, Any]:
        """Every parameter but the number of states: those to be tried by name, so that no value is tried twice."""
        usual = {name: value for name, value in self._defaults.items() if name in ("temperature", "stickiness")}
        return {**usual, **NAMED_MODELS[self.model][1], "n_latent": self.n_latent, **self.fixed}

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        return {f.name: f.default for f in fields(import_family(self.family).config_class)}

    def name_of(self, setting: Mapping[str, Any]) -> str:
        """Names all that a probe depends on but the version of the code."""
        return f"{self.family}/{json.dumps(setting, sort_keys=True)}/{list(self.seeds)}/{self.read.fingerprint}"

    @property
    def key(self) -> str:
        """Names the whole question."""
        return key_of([f"{self.name_of(self.base())}/{sorted(set(self.states))}"])

    @property
    def fits_each(self) -> int:
        """Fits of one setting: two halves from each seed."""
        return 2 * len(self.seeds)

    def n_fits(self) -> int:
        """How many fits the question costs at the most."""
        return self.fits_each * (len(set(self.states)) + sum(len(grid) - 1 for _, _, grid in self.further(2)))

    def further(self, n_states: int) -> list[tuple[str, str, list[Any]]]:
        """(parameter, its symbol, values to try, the usual one first) once the number of states is chosen."""
        known = self._defaults
        wanted: list[tuple[str, str, Sequence[Any]]] = [
            ("temperature", "softness (tau)", TEMPERATURES),
            ("stickiness", "stickiness (gamma)", STICKINESSES),
        ]
        found = []
        for name, symbol, values in wanted:
            if name in known and n_states > 1:
                usual = self.base().get(name, known[name])
                found.append((name, symbol, [usual, *(value for value in values if value != usual)]))
        d, most = self.n_latent, self.trials.n_channels
        dimensions = [d, *(n for n in (d - 1, d + 1) if 1 <= n <= most)]
        return [*found, ("n_latent", "dimensions (D)", dimensions)] if len(dimensions) > 1 else found


@dataclass(frozen=True)
class Suggestion:
    """What to set, each with its verdict, K first. `note` says where not all of the data was read.

    left_out  a sentence for each setting that could not be judged
    """

    settings: dict[str, Any]
    verdicts: tuple[Recommendation, ...]
    note: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def sentences(self) -> tuple[str, str, str]:
        """What is recommended, how sure that is, and what comes second: the verdict on K."""
        return self.verdicts[0].sentences

    def to_frame(self) -> pd.DataFrame:
        """A row for each value that was tried of each parameter: nats per sample on the other half, how far both halves
        agree, and whether it was taken."""
        return pd.DataFrame(
            {
                "parameter": verdict.name,
                "value": one.setting[verdict.name],
                "held_out": one.mean,
                "agreement": one.agreement,
                "taken": one.setting[verdict.name] == verdict.value,
            }
            for verdict in self.verdicts
            for one in verdict.probes
        )

    def __str__(self) -> str:
        said = [sentence for verdict in self.verdicts for sentence in verdict.sentences]
        return "\n".join([*said, *self.left_out, *([self.note] if self.note else [])])


@dataclass
class Plan:
    """The way to a suggestion: `settings` to be tried next, and after `take` of their probes the next ones."""

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
        """The probes of `settings`."""
        question = self.question
        cells = {
            name: (question.family, setting, question.read, tuple(question.seeds))
            for name, setting in self.settings.items()
        }
        return Grid(probe, cells)

    def take(self, view: BulkView) -> None:
        """Decide from the probes of `settings`, and move on."""
        found = {name: Probe.from_dict(view.results[name]) for name in self.settings if name in view.results}
        self._failures = view.failures
        if len(found) < 2 and self.suggestion is None:
            said = (
                next(iter(view.failures.values()))
                if view.failures
                else "it was stopped before two numbers of states were tried"
            )
            raise FitError(f"Settings cannot be compared: {said}")
        try:
            self.settings = self._steps.send(found)
        except StopIteration:
            self.settings = {}

    def _go(self) -> Generator[Settings, dict[str, Probe], None]:
        question, base = self.question, self.question.base()
        found = yield self._named({**base, "n_states": int(k)} for k in sorted(set(question.states)))
        self._leave_out("n_states", "K")
        verdicts = [choose_states(list(found.values()))]
        chosen = {**base, "n_states": verdicts[0].value}
        self.suggestion = Suggestion(dict(chosen), tuple(verdicts), question.note, tuple(self._left_out))
        for name, symbol, values in question.further(chosen["n_states"]):
            found = yield self._named({**chosen, name: value} for value in values)
            self._leave_out(name, symbol)
            usual = {probe.setting[name] for probe in found.values()}
            if len(found) < 2 or values[0] not in usual:
                continue  # these data or this model take no other value: there is nothing to choose from
            verdicts.append(choose_value(name, symbol, values[0], list(found.values())))
            chosen[name] = verdicts[-1].value
            self.suggestion = Suggestion(dict(chosen), tuple(verdicts), question.note, tuple(self._left_out))

    def _leave_out(self, name: str, symbol: str) -> None:
        """List the settings of this step that failed, each with its reason."""
        for key, setting in self.settings.items():
            if key in self._failures:
                self._left_out.append(f"{symbol} = {setting[name]} is left out. {self._failures[key]}")

    def _named(self, settings: Iterable[dict[str, Any]]) -> Settings:
        named = {self.question.name_of(setting): setting for setting in settings}
        self.known = len(self._tried & named.keys())
        self._tried |= named.keys()
        return named


def suggest(
    question: SuggestQuestion,
    cache: ResultCache | None = None,
    progress: Progress | None = None,
    engine: Engine | None = None,
) -> Iterator[Suggestion]:
    """A suggestion that gains a verdict each time, K first. In this process, one setting after the other, or on an engine.

    progress  is told how many fits are done, and of how many
    """
    plan, each, before = Plan(question), question.fits_each, 0

    def told(cells: int, fits: int = 0) -> None:
        if progress is not None:
            progress(before + each * cells + fits, question.n_fits())

    while not plan.finished:
        before -= each * plan.known  # which come from the store, and were counted
        view = plan.grid().found(engine, "suggest", cache=cache, progress=lambda done, _: told(done), within=told)
        before += each * view.done
        plan.take(view)
        if plan.suggestion is not None:
            yield plan.suggestion


@dataclass(frozen=True)
class SuggestView:
    """How far a suggestion is: fits done and to do, what is suggested so far, and why it ended early, if it did."""

    done: int
    total: int
    finished: bool
    suggestion: Suggestion | None
    message: str = ""


class SuggestJob:
    """A suggestion on an engine, behind the fits that people watch. Ask it now and then: `poll` takes it further."""

    def __init__(self, question: SuggestQuestion, engine: Engine, session: str) -> None:
        self._plan, self._engine, self._session = Plan(question), engine, session
        self._done, self._message, self._cancelled = 0, "", False
        self.estimate = Estimate()
        self._bulk: Bulk | None = None
        self.poll()

    def poll(self) -> SuggestView:
        """Take in what is done, send out what comes next; returns at once."""
        each, done = self._plan.question.fits_each, self._done
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
        total = max(done, self._plan.question.n_fits())
        return SuggestView(done, total, finished, self._plan.suggestion, self._message)

    def cancel(self) -> None:
        """Start no more fits; what is done stays in the store, and asking again goes on from there."""
        self._cancelled = True
        if self._bulk is not None:
            self._bulk.cancel()
