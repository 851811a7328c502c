"""Suggested settings: a search for the model and K first, then for the parameters that depend on them.

Finished fits are cached, so a search that was stopped continues.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

import pandas as pd

from gdm_core.analysis.suggestions import Probe, Recommendation, choose_states, choose_value, probe, thinned
from gdm_core.engine.grid import grid_key
from gdm_core.engine.job import Bulk, BulkView, Progress
from gdm_core.engine.runner import LocalEngine, Runner
from gdm_core.engine.spec import config_text
from gdm_core.errors import ConfigError, FitError, GdmError
from gdm_core.models.registry import NAMED_MODELS, TITLES, available, import_family
from gdm_core.trials import Trials

MODELS = ("gdm", "arhmm-sticky")
SEEDS = (0,)
MAX_STATES = 9
# Limits on samples, which keep a search within about a minute on one core.
MAX_SAMPLES = {"gdm": 6000, "gdm-linear": 6000, "arhmm": 6000, "arhmm-sticky": 6000}
MAX_SAMPLES |= {"gdm-paper": 1500, "gdm-network": 1500, "gdm-rnn": 1500, "gdm-mixture": 1500, "pdlds": 1500}
DEFAULT_MAX_SAMPLES = 3000
TEMPERATURES = (0.3, 0.6, 0.99)
STICKINESSES = ("learn", 0.0, 0.5, 0.9)

Settings = dict[str, tuple[str, dict[str, Any]]]  # model and setting, by cache key


def max_samples(models: Iterable[str]) -> int:
    """Return the number of samples to use: the limit of the slowest model."""
    return min(MAX_SAMPLES.get(name, DEFAULT_MAX_SAMPLES) for name in models)


@dataclass(frozen=True, eq=False)
class SuggestQuestion:
    """Models to compare, parameters that stay fixed, and the data."""

    models: Sequence[str]
    trials: Trials
    n_latent: int = 2
    fixed: Mapping[str, Any] = field(default_factory=dict)
    states: Sequence[int] = tuple(range(1, MAX_STATES + 1))
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
        return self.n_fits() * (0.3 + 0.6 * self.read.n_samples / max_samples(self.models))

    def base(self, model: str) -> dict[str, Any]:
        """Return the family of a model and its parameters, except the number of states."""
        family, given = NAMED_MODELS[model]
        known = _defaults(model)
        usual = {name: value for name, value in known.items() if name in ("temperature", "stickiness")}
        fixed = {name: value for name, value in self.fixed.items() if name in known}
        return {"family": family, **usual, **given, "n_latent": self.n_latent, **fixed}

    def name_of(self, model: str, setting: Mapping[str, Any]) -> str:
        """Return the cache name of a probe: everything that it depends on except the code version."""
        return f"{model}/{config_text(setting)}/{list(self.seeds)}/{self.read.fingerprint}"

    @property
    def key(self) -> str:
        """Cache key of the whole question."""
        return grid_key(f"{self.name_of(model, self.base(model))}/{sorted(set(self.states))}" for model in self.models)

    @property
    def fits_each(self) -> int:
        """Number of fits for one setting: two halves from each seed."""
        return 2 * len(self.seeds)

    def n_fits(self) -> int:
        """Return the maximum number of fits."""
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
    note      a sentence about the samples in use
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
        """Return a table of all settings: held-out score in nats per sample, agreement, and whether it was chosen."""
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


@dataclass(frozen=True)
class SuggestView:
    """Progress of a suggestion: fits done and in total, the suggestion so far, and the reason of an early end.

    probes  finished probes of the first round, before there is a suggestion
    """

    done: int
    total: int
    finished: bool
    suggestion: Suggestion | None
    message: str = ""
    probes: tuple[Probe, ...] = ()


class SuggestJob:
    """A suggestion that runs on an engine at low priority; `poll` advances it."""

    def __init__(
        self, question: SuggestQuestion, engine: Runner, session: str, progress: Progress | None = None
    ) -> None:
        self.question, self.message = question, ""
        self.suggestion: Suggestion | None = None
        self._engine, self._session, self._progress = engine, session, progress
        self._left_out: list[str] = []
        self._tried: set[str] = set()
        self._done = self._cached = 0  # fits of earlier rounds; settings of this round that an earlier one has tried
        self._bulk: Bulk | None = None
        self._rounds = self._decide()
        self._settings = next(self._rounds)

    @property
    def finished(self) -> bool:
        return not self._settings

    def poll(self) -> SuggestView:
        """Decide on finished rounds, start the next one and return at once."""
        done = self._done
        probes: tuple[Probe, ...] = ()
        while not self.finished:
            view = self._start().poll()
            if not view.finished:
                done = self._count(view.done)
                probes = () if self.suggestion else tuple(map(Probe.from_dict, view.results.values()))
                break
            self.advance()
            done = self._done
        total = max(done, self.question.n_fits())
        return SuggestView(done, total, self.finished, self.suggestion, self.message, probes)

    def advance(self) -> None:
        """Wait for this round of settings, and decide on it."""
        bulk = self._start()
        bulk.wait()
        view, self._bulk = bulk.poll(), None
        self._done = self._count(view.done)
        try:
            self._settings = self._rounds.send(view)
        except StopIteration:
            self._settings = {}
        except GdmError as error:
            self._settings, self.message = {}, str(error)

    def cancel(self) -> None:
        """Cancel the remaining fits; finished ones stay cached."""
        self._settings = {}
        if self._bulk is not None:
            self._bulk.cancel()

    def _start(self) -> Bulk:
        """Return the fits of this round, which start if they have not."""
        if self._bulk is None:
            data = self.question.read, tuple(self.question.seeds)
            calls = {name: (*setting, *data) for name, setting in self._settings.items()}
            self._bulk = self._engine.map(probe, calls, session=self._session, progress=self._report)
        return self._bulk

    def _report(self, done: int, _: int) -> None:
        if self._progress is not None:
            self._progress(self._count(done), self.question.n_fits())

    def _count(self, done: int) -> int:
        """Return the number of finished fits, when `done` settings of this round are finished."""
        return self._done + self.question.fits_each * max(0, done - self._cached)

    def _decide(self) -> Generator[Settings, BulkView, None]:
        """Yield the settings of each round, receive their probes and update the suggestion."""
        question = self.question
        view = yield self._name_settings(
            (model, {**question.base(model), "n_states": int(k)})
            for model in question.models
            for k in sorted(set(question.states))
        )
        probes = self._read_probes(view, "n_states", "K")
        if len(probes) < 2:
            reason = next(iter(view.failures.values()), "their fits were cancelled.")
            raise FitError(f"Settings cannot be compared: {reason}")
        verdicts = [choose_states(probes, question.trials.n_channels)]
        model, k = verdicts[0].model, verdicts[0].value
        chosen = {**question.base(model), "n_states": k}
        self._suggest(chosen, verdicts)
        for name, symbol, values in question.further(model, k):
            view = yield self._name_settings((model, {**chosen, name: value}) for value in values)
            probes = self._read_probes(view, name, symbol)
            if len(probes) < 2 or values[0] not in {probe.setting[name] for probe in probes}:
                continue  # there is nothing to choose from
            verdicts.append(choose_value(name, symbol, values[0], probes))
            chosen[name] = verdicts[-1].value
            self._suggest(chosen, verdicts)

    def _suggest(self, chosen: Mapping[str, Any], verdicts: Sequence[Recommendation]) -> None:
        left_out = tuple(self._left_out)
        self.suggestion = Suggestion(dict(chosen), tuple(verdicts), self.question.note, left_out)

    def _read_probes(self, view: BulkView, name: str, symbol: str) -> list[Probe]:
        """Return the probes of this round; list the settings that failed, each with its reason."""
        for key, (model, setting) in self._settings.items():
            if key in view.failures:
                title = TITLES.get(model, model)
                self._left_out.append(f"{title}, {symbol} = {setting[name]} is left out. {view.failures[key]}")
        return [Probe.from_dict(view.results[key]) for key in self._settings if key in view.results]

    def _name_settings(self, settings: Iterable[tuple[str, dict[str, Any]]]) -> Settings:
        named = {self.question.name_of(*setting): setting for setting in settings}
        self._cached = len(self._tried & named.keys())
        self._tried |= named.keys()
        return named


def suggest(
    question: SuggestQuestion, engine: Runner | None = None, progress: Progress | None = None
) -> Iterator[Suggestion]:
    """Yield a suggestion that gains a verdict each time, model and K first.

    engine    runs the fits; None for this process
    progress  called with the number of finished fits and the total
    """
    job = SuggestJob(question, engine or LocalEngine(), "suggest", progress)
    while not job.finished:
        job.advance()
        if job.message:
            raise FitError(job.message)
        if job.suggestion is not None:
            yield job.suggestion
