"""Which K, and which other settings: what the data can tell, how sure it is, and what comes second.

Each setting is tried on two halves of the data (blocks of time, or whole trials where there are many). A model of one
half is judged by the likelihood of the other half's blocks, and by whether both halves' models find the same states
everywhere. More states than there are raise the likelihood of what was fitted, but not that of the other half, and
which of the surplus states stands for what differs from half to half.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import median_bout
from gdm_core.analysis.metrics import matched_accuracy
from gdm_core.analysis.score_uncertainty import SHORTEST, blocks
from gdm_core.errors import ConfigError, DataError, FitError
from gdm_core.maths.threads import one_thread, one_torch_thread
from gdm_core.models.base import StateModel, Status
from gdm_core.models.registry import import_family
from gdm_core.trials import Trials

N_BLOCKS = 10
MANY_TRIALS = 8  # from here on halves are made of whole trials
N_STRETCHES = 20  # that a long recording is read in
SHORTEST_STRETCH = 100  # samples
ERRORS = 2.0  # standard errors within which two settings are not told apart
NEGLIGIBLE = 0.02  # of what the best setting gains over one state
STABLE = 0.9  # of the moments in the same state, for both halves' models: found again
UNSTABLE = 0.7
IDLE = 0.01  # share of the time
NUMBERS = {1: "one state", 2: "two states", 3: "three states", 4: "four states", 5: "five states", 6: "six states"}


@dataclass(frozen=True)
class Probe:
    """What one setting came to.

    held_out      nats per sample of each block, by the model of the other half
    agreement     share of all moments that both halves' models put into the same state, states matched one to one
    elbo          nats per sample of what was fitted, mean of both halves
    seeds         the same share for models of one half from different seeds, mean of both halves; NaN with one seed
    idle          states that are used less than 1 % of the time, in the half with more of them
    copies        states that share their counterpart in the other half's model with another one, in the half with more of them
    stay          median stay in a state, samples
    parameters    how many numbers were learned
    """

    setting: dict[str, Any]
    held_out: tuple[float, ...]
    agreement: float
    elbo: float
    idle: int
    stay: float
    parameters: int
    seconds: float = 0.0
    seeds: float = math.nan
    copies: int = 0

    @property
    def mean(self) -> float:
        return float(np.mean(self.held_out))

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Probe:
        return cls(**{**plain, "held_out": tuple(plain["held_out"])})


@dataclass(frozen=True)
class Recommendation:
    """What is recommended of one parameter, and what it was decided from.

    sure       "clear", "likely" or "open": whether the data tell this value from others
    sentences  what is recommended and why; how sure it is; what comes second
    """

    name: str
    value: Any
    runner_up: Any
    sure: str
    sentences: tuple[str, str, str]
    probes: tuple[Probe, ...] = field(repr=False)


# ---- how much is read ---------------------------------------------------------------------------------------------
def thinned(trials: Trials, most: int) -> Trials:
    """The trials, or about `most` samples of them: whole stretches from all over them, so that each keeps its order in time."""
    if trials.n_samples <= most:
        return trials
    found = []
    for trial in trials:
        wanted = max(1, round(N_STRETCHES * trial.n_samples / trials.n_samples))
        found += [trial.slice(*block) for block in blocks(trial.n_samples, wanted)]
    usual = min(SHORTEST_STRETCH, trials.n_samples / len(found))
    some = np.linspace(0, len(found) - 1, min(len(found), max(1, int(most / usual)))).round().astype(int)
    found = [found[i] for i in some]  # of many trials not all
    share = min(1.0, most / sum(block.n_samples for block in found))
    parts = tuple(block.slice(0, max(min(SHORTEST, block.n_samples), int(share * block.n_samples))) for block in found)
    return Trials(parts, f"{trials.name}, {len(parts)} stretches")


# ---- trying one setting ---------------------------------------------------------------------------------------------
def halves(trials: Trials) -> tuple[Trials, Trials]:
    """Every other block of time, or of many trials every other one; both halves see beginning and end."""
    if len(trials) >= MANY_TRIALS:
        pieces = list(trials)
    else:
        wanted = max(2, math.ceil(N_BLOCKS / len(trials)))
        pieces = [trial.slice(*block) for trial in trials for block in blocks(trial.n_samples, wanted)]
    if len(pieces) < 4:
        raise DataError(
            f"{trials.name!r} has {trials.n_samples} samples, which make {len(pieces)} blocks of {SHORTEST} or more; "
            "at least 4 are needed to say anything about settings. Take a longer recording."
        )
    first, second = (Trials(tuple(pieces[half::2]), f"{trials.name}, half {half + 1}") for half in (0, 1))
    return first, second


def probe(
    family: str, setting: Mapping[str, Any], trials: Trials, seeds: Sequence[int] = (0, 1)
) -> Iterator[dict[str, Any] | None]:
    """Try one setting; of several seeds the fit with the higher ELBO stands for its half.

    None after each fit, where it may be stopped; in the end what it came to, as plain values for a store.
    """
    with one_thread(), one_torch_thread():  # on a busy machine threads wait for each other, and cost five times as much
        found = yield from _probe(family, setting, trials, seeds)
    yield asdict(found)


def _probe(
    family: str, setting: Mapping[str, Any], trials: Trials, seeds: Sequence[int]
) -> Generator[None, None, Probe]:
    sides = halves(trials)
    models, elbos, scores, between, seconds = [], [], [], [], 0.0
    for side, other in (sides, sides[::-1]):
        sound = []
        for seed in seeds:
            fit = _fitted(family, setting, side, seed)
            seconds += fit.seconds_
            if fit.status_ is not Status.FAILED:
                sound.append((fit.elbo_, fit))
            yield None
        if not sound:
            raise FitError(f"Every fit of this setting failed. {fit.failure_message}")
        elbo, best = max(sound, key=lambda one: one[0])
        models.append(best)
        elbos.append(elbo)
        said = [np.concatenate(fit.predict_proba(side)).argmax(axis=1) for _, fit in sound]
        between += [matched_accuracy(one, another) for one, another in itertools.combinations(said, 2)]
        scores.append([best.score(block) for block in other])
    soft = [np.concatenate(model.predict_proba(trials)) for model in models]
    found = [states.argmax(axis=1) for states in soft]
    lengths = np.cumsum([trial.n_samples for trial in trials])[:-1]
    held_out = [score for pair in zip(scores[1], scores[0], strict=False) for score in pair]  # in order of time
    held_out += scores[1][len(scores[0]) :]
    return Probe(
        setting=dict(setting),
        held_out=tuple(held_out),
        agreement=matched_accuracy(*found),
        elbo=float(np.mean(elbos)),
        idle=max(int((states.mean(axis=0) < IDLE).sum()) for states in soft),
        stay=median_bout(np.split(found[0], lengths)),
        parameters=sum(int(value.size) for value in models[0].params_.values()),
        seconds=seconds,
        seeds=float(np.mean(between)) if between else math.nan,
        copies=max(copies(*found), copies(*found[::-1])),
    )


def _fitted(family: str, setting: Mapping[str, Any], side: Trials, seed: int) -> StateModel:
    """Fit without calibrating forecasts, which a probe does not need and which cost half of it."""
    kind: Any = import_family(family)
    model: StateModel = kind(**setting, seed=seed)
    for _ in model.fit_iter(side, calibrate=False):
        pass
    return model


def copies(states: npt.NDArray[np.int64], others: npt.NDArray[np.int64]) -> int:
    """How many of the states in use are not the only one that mostly meets its counterpart among the others."""
    counterparts = []
    for state in np.unique(states):
        there = states == state
        if there.mean() >= IDLE:
            counterparts.append(int(np.bincount(others[there]).argmax()))
    return len(counterparts) - len(set(counterparts))


# ---- deciding -------------------------------------------------------------------------------------------------------
def deficit(probe: Probe, best: Probe) -> tuple[float, float]:
    """(nats per sample that a setting lies below the best, standard error), over the same blocks."""
    difference = np.asarray(best.held_out) - np.asarray(probe.held_out)
    return float(difference.mean()), float(difference.std(ddof=1) / math.sqrt(len(difference)))


def choose_states(probes: Sequence[Probe]) -> Recommendation:
    """How many states (K): the fewest that predict the other half as well as any, and that both halves find."""
    tried = sorted(_sound(probes), key=lambda p: p.setting["n_states"])
    if len(tried) < 2:
        raise ConfigError(f"{len(tried)} number(s) of states could be tried; at least 2 are needed to choose from.")
    best = max(tried, key=lambda p: p.mean)
    gain = best.mean - tried[0].mean
    level = [p for p in tried if _is_level(p, best, gain)]
    steadiest = max(p.agreement for p in level)
    chosen = next(p for p in level if p.agreement >= STABLE * steadiest)
    rivals = [p for p in level if p is not chosen]
    others = [p for p in tried if p is not chosen]
    second = max(rivals, key=lambda p: p.agreement) if rivals else max(others, key=lambda p: p.mean)
    fewer = [p for p in tried if p.setting["n_states"] < chosen.setting["n_states"]]
    sure = _how_sure(chosen, fewer, rivals, best)
    k = chosen.setting["n_states"]
    if fewer:
        loss, error = deficit(max(fewer, key=lambda p: p.mean), chosen)
        why = f"fewer lose {loss:.2f} ± {error:.2f} nats a sample on the half that was not fitted, more gain nothing there"
    else:
        why = "more do not predict the half that was not fitted any better"
    certainty = {
        "clear": f"That is clear: models of two halves of the data agree on {chosen.agreement:.0%} of the moments.",
        "likely": f"That is likely, not certain: models of two halves of the data agree on {chosen.agreement:.0%} of the moments.",
        "open": (
            f"The data do not settle it: models of two halves agree on {chosen.agreement:.0%} of the moments only. "
            "Take the number that you can name, and compare seeds before you build on single states."
        ),
    }[sure]
    if k == 1:  # whose halves agree whatever the data are
        better, within = deficit(chosen, best)
        certainty = (
            "That is clear: no other number predicts that half better."
            if sure == "clear"
            else f"That is likely, not certain: {_named(best.setting['n_states'])} would predict that half {better:.2f} ± "
            f"{within:.2f} nats a sample better, which may be chance."
        )
    lost, error = deficit(second, chosen)
    spare = second.copies + second.idle
    runner_up = (
        f"Next comes {_named(second.setting['n_states'])}: {abs(lost):.2f} ± {error:.2f} nats a sample "
        f"{'above' if lost < 0 else 'below'} that, halves agree on {second.agreement:.0%}"
        + (
            f", and {spare} of its states {'is' if spare == 1 else 'are'} a copy of another or hardly used."
            if spare
            else "."
        )
    )
    return Recommendation(
        "n_states",
        k,
        second.setting["n_states"],
        sure,
        (f"Take {_named(k)}: {why}.", certainty, runner_up),
        tuple(tried),
    )


def choose_value(name: str, symbol: str, usual: Any, probes: Sequence[Probe]) -> Recommendation:
    """Another parameter: as it usually is, unless another value predicts the other half better and is as well agreed on."""
    tried = _sound(probes)
    now = next((p for p in tried if p.setting.get(name) == usual), None)
    if now is None or len(tried) < 2:
        raise ConfigError(f"{name} could not be tried at {usual!r} and at another value; nothing can be said of it.")
    others = [p for p in tried if p is not now]
    ahead = []
    for other in others:
        gained, error = deficit(now, other)
        if gained > ERRORS * error:
            ahead.append(other)
    better = [other for other in ahead if other.agreement > now.agreement - 0.05]
    chosen = max(better, key=lambda p: p.mean) if better else now
    unsteady = ahead if chosen is now else []
    second = max(unsteady or [p for p in tried if p is not chosen], key=lambda p: p.mean)
    gained, error = deficit(second, chosen)
    told_apart, above = abs(gained) > ERRORS * error, gained < -ERRORS * error  # above: and found again less often
    value, other_value, kept = (_in_words(v) for v in (chosen.setting.get(name), second.setting.get(name), usual))
    if unsteady:
        first = (
            f"Keep {symbol} at {value}: {other_value} predicts the half that was not fitted better, but models of two halves "
            "agree on fewer moments."
        )
    elif chosen is now:
        first = f"Keep {symbol} at {value}: no other value predicts the half that was not fitted better by more than its error."
    else:
        first = f"Take {symbol} {value} instead of {kept}: it predicts the half that was not fitted better."
    if above:
        certainty = f"The data do not settle it: {other_value} lies {-gained:.2f} ± {error:.2f} nats a sample above it."
    else:
        certainty = (
            f"That is clear: {other_value} lies {gained:.2f} ± {error:.2f} nats a sample below it."
            if told_apart
            else f"It hardly matters: {other_value} is within {abs(gained):.2f} ± {error:.2f} nats a sample of it."
        )
    last = (
        f"Halves of the data agree on {chosen.agreement:.0%} of the moments with {value} and on {second.agreement:.0%} "
        f"with {other_value}; the median stay is {chosen.stay:g} and {second.stay:g} samples."
    )
    return Recommendation(
        name,
        chosen.setting.get(name),
        second.setting.get(name),
        "clear" if told_apart and not above else "open",
        (first, certainty, last),
        tuple(tried),
    )


def _in_words(value: Any) -> str:
    return "a learned value" if value == "learn" else f"{value}"


def _sound(probes: Sequence[Probe]) -> list[Probe]:
    return [p for p in probes if np.isfinite(p.held_out).all()]


def _is_level(probe: Probe, best: Probe, gain: float) -> bool:
    """Whether a setting cannot be told from the best, or loses next to nothing of what the best gains."""
    lost, error = deficit(probe, best)
    return lost <= max(ERRORS * error, NEGLIGIBLE * gain)


def _how_sure(chosen: Probe, fewer: Sequence[Probe], rivals: Sequence[Probe], best: Probe) -> str:
    if chosen.agreement < UNSTABLE:
        return "open"
    if chosen.setting["n_states"] == 1:
        return "clear" if chosen is best else "likely"
    apart = all(deficit(p, chosen)[0] > ERRORS * deficit(p, chosen)[1] for p in fewer)
    steadier = all(p.agreement < chosen.agreement for p in rivals)
    return "clear" if chosen.agreement >= STABLE and apart and steadier else "likely"


def _named(k: int) -> str:
    return NUMBERS.get(k, f"{k} states")
