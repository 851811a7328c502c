"""Choice of a model and its number of states by cross-validation between two halves of the data.

Each setting is fitted to two halves of the data: alternating blocks of time, or whole trials if there are many. Each fit is
scored on the blocks of the other half, and the states of both fits are compared on all of the data. Superfluous states
improve the training fit but not the held-out score, and differ between halves.

Scores of blocks are compared pairwise by trimmed means: models that extrapolate can fail in single blocks by any amount.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.score_uncertainty import SHORTEST, blocks
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_core.errors import ConfigError, DataError, FitError
from gdm_core.maths.threads import one_thread
from gdm_core.models.progress import Status
from gdm_core.models.registry import TITLES, import_family
from gdm_core.trials import Trials

if TYPE_CHECKING:
    from gdm_core.models.base import StateModel

N_BLOCKS = 10
MANY_TRIALS = 8  # from here on halves are made of whole trials
N_STRETCHES = 20  # of a long recording
SHORTEST_STRETCH = 100  # samples
TRIMMED = 0.2  # share of the blocks left out at each end
ERRORS = 2.0  # standard errors between two settings that differ
NEGLIGIBLE = 0.02  # of the gain of the best setting over one state
MARGIN = 0.1  # nats per sample and channel by which one model must be better to outweigh agreement
STABLE = 0.9  # share of time steps on which two halves agree
UNSTABLE = 0.7
SAME = 0.05  # difference in agreement that does not count
MIN_DIFFERENCE = 0.01  # nats per sample: smaller differences do not count against a recommendation
NUMBERS = {1: "one state", 2: "two states", 3: "three states", 4: "four states", 5: "five states", 6: "six states"}

Float = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Probe:
    """Scores of one setting.

    model         name of the model in `NAMED_MODELS`
    setting       family and parameters
    held_out      nats per sample of each block, by the model of the other half
    agreement     share of time steps that the models of both halves assign to the same state, states matched one to one
    """

    model: str
    setting: dict[str, Any]
    held_out: tuple[float, ...]
    agreement: float

    @property
    def n_states(self) -> int:
        return int(self.setting["n_states"])

    @property
    def mean(self) -> float:
        return float(np.mean(self.held_out))

    @property
    def found_again(self) -> float:
        """Agreement of both halves above chance. Halves always agree on a single state, which is no evidence for it."""
        chance = 1 / self.n_states
        return UNSTABLE if self.n_states == 1 else (self.agreement - chance) / (1 - chance)

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Probe:
        return cls(**{**plain, "held_out": tuple(plain["held_out"])})


@dataclass(frozen=True)
class Recommendation:
    """The recommended model and number of states.

    sure       "clear", "likely" or "open"
    sentences  the recommendation and its reason; how certain it is
    alternative  setting of another model that predicts better by more than `ERRORS` standard errors, if any
    probes     all settings that were compared
    scores     held-out score of each probe, nats per sample
    """

    model: str
    n_states: int
    sure: str
    sentences: tuple[str, str]
    probes: tuple[Probe, ...] = field(repr=False)
    scores: tuple[float, ...] = field(repr=False)
    alternative: Probe | None = field(default=None, repr=False)


# ---- data -----------------------------------------------------------------------------------------------------------
def thinned(trials: Trials, most: int) -> Trials:
    """Return the trials, or about `most` samples in stretches that are spread evenly over them."""
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


def halves(trials: Trials) -> tuple[Trials, Trials]:
    """Split trials into alternating blocks of time, or many trials into alternating trials."""
    if len(trials) >= MANY_TRIALS:
        pieces = list(trials)
    else:
        wanted = max(2, math.ceil(N_BLOCKS / len(trials)))
        pieces = [trial.slice(*block) for trial in trials for block in blocks(trial.n_samples, wanted)]
    if len(pieces) < 4:
        raise DataError(
            f"{trials.name!r} has {trials.n_samples} samples, which make {len(pieces)} blocks of {SHORTEST} or more; "
            "at least 4 are needed to compare settings. Use a longer recording."
        )
    first, second = (Trials(tuple(pieces[half::2]), f"{trials.name}, half {half + 1}") for half in (0, 1))
    return first, second


def probe(
    model: str, setting: Mapping[str, Any], trials: Trials, seeds: Sequence[int] = (0,)
) -> Iterator[dict[str, Any] | None]:
    """Fit one setting to both halves and score it; of several seeds, the fit with the highest ELBO represents its half.

    Yields None after each fit, to let the caller stop, and finally the probe as plain values.
    """
    family: Any = import_family(setting["family"])
    parameters = {name: value for name, value in setting.items() if name != "family"}
    sides = halves(trials)
    models: list[StateModel] = []
    scores = []
    with one_thread():  # several threads are five times as slow on a busy machine
        for side, other in (sides, sides[::-1]):
            sound = []
            for seed in seeds:
                fit = family(**parameters, seed=seed).fit(side, calibrate=False)  # calibration takes as long as the fit
                if fit.status_ is not Status.FAILED:
                    sound.append(fit)
                yield None
            if not sound:
                raise FitError(f"Every fit of this setting failed. {fit.failure_message}")
            models.append(max(sound, key=lambda fit: fit.elbo_))
            scores.append([models[-1].score(block) for block in other])
        soft = [np.concatenate(model.predict_proba(trials)) for model in models]
    held_out = [score for pair in zip_longest(*scores[::-1]) for score in pair if score is not None]  # in time order
    agreement = matched_accuracy(*(states.argmax(axis=1) for states in soft))
    yield asdict(Probe(model, dict(setting), tuple(held_out), agreement))


# ---- comparing ------------------------------------------------------------------------------------------------------
def trimmed_mean(values: Float) -> tuple[float, float]:
    """Return the mean without the `TRIMMED` lowest and highest values, and its standard error (Tukey and McLaughlin)."""
    ordered = np.sort(values)
    n, cut = len(ordered), math.ceil(TRIMMED * len(ordered))
    if n <= 2 * cut + 1:
        cut = 0
    kept = ordered[cut : n - cut]
    winsorised = np.clip(ordered, kept[0], kept[-1])
    error = winsorised.std(ddof=1) / ((1 - 2 * cut / n) * math.sqrt(n)) if n > 1 else math.inf
    return float(kept.mean()), float(error)


def deficit(probe: Probe, best: Probe) -> tuple[float, float]:
    """Return by how many nats per sample a setting is below the best in the same blocks, and the standard error."""
    return trimmed_mean(np.asarray(best.held_out) - np.asarray(probe.held_out))


def held_out_scores(probes: Sequence[Probe]) -> list[float]:
    """Return the score of each setting: the trimmed mean of its difference to the median setting of each block."""
    table = np.array([probe.held_out for probe in probes])
    middle = np.median(table, axis=0)
    level = trimmed_mean(middle)[0]
    return [level + trimmed_mean(row - middle)[0] for row in table]


# ---- deciding -------------------------------------------------------------------------------------------------------
def choose_states(probes: Sequence[Probe], n_channels: int = 1) -> Recommendation:
    """Choose a model and its number of states (K) together.

    The candidate of each model is the smallest K that predicts as well as the best and whose states both halves find. Among
    candidates, prediction decides, or within `MARGIN` the agreement of the halves.
    """
    tried = sorted((p for p in probes if np.isfinite(p.held_out).all()), key=lambda p: p.n_states)
    by_model = {name: [p for p in tried if p.model == name] for name in dict.fromkeys(p.model for p in probes)}
    candidates = [_fewest_states(group) for group in by_model.values() if len(group) > 1]
    if not candidates:
        raise ConfigError(f"{len(tried)} number(s) of states could be tried; at least 2 are needed to choose from.")
    scores = dict(zip(map(id, tried), held_out_scores(tried), strict=True))

    def score(probe: Probe) -> float:
        return scores[id(probe)]

    best = max(candidates, key=score)
    near = [p for p in candidates if _is_near(p, best, MARGIN * n_channels)]
    steadiest = max(p.found_again for p in near)
    steady = [p for p in near if p.found_again >= steadiest - SAME]
    chosen = min(steady, key=lambda p: (p.n_states, -score(p)))
    fewer = [p for p in by_model[chosen.model] if p.n_states < chosen.n_states]
    rivals = [p for p in tried if score(p) - score(chosen) > MIN_DIFFERENCE]
    # Of those that only a few blocks favour, the mean of all blocks decides.
    better = rivals or [p for p in tried if p.mean - chosen.mean > MIN_DIFFERENCE]
    rival = max(better, key=score if rivals else lambda p: p.mean, default=None)
    alternative = _alternative(chosen, rivals)
    sure = _grade(chosen, fewer, better)
    return Recommendation(
        chosen.model,
        chosen.n_states,
        sure,
        (
            f"Use {_describe(chosen)}: {_why(chosen, by_model[chosen.model])}.",
            _certainty(chosen, sure, alternative or rival),
        ),
        tuple(tried),
        tuple(map(score, tried)),
        alternative,
    )


def _alternative(chosen: Probe, rivals: Sequence[Probe]) -> Probe | None:
    """Return the best setting of another model that predicts clearly better than the chosen one."""
    others = [p for p in rivals if p.model != chosen.model and _is_apart(chosen, p)]
    return max(others, key=lambda p: deficit(chosen, p)[0], default=None)


def _why(chosen: Probe, tried: Sequence[Probe]) -> str:
    """Say why `_fewest_states` took this setting of a model and none with fewer states."""
    fewer = [p for p in tried if p.n_states < chosen.n_states]
    if not fewer:
        return "more states do not predict held-out data better"
    best, near = _best_and_near(tried)
    if also := [p for p in near if p in fewer]:
        closest = max(also, key=lambda p: p.agreement)
        return (
            f"{_count(closest)} would predict held-out data about as well, but two halves of the data agree on only "
            f"{closest.agreement:.0%} of time steps"
        )
    scores = held_out_scores(tried)
    lost, error = deficit(max(fewer, key=lambda p: scores[tried.index(p)]), best)
    than = "" if best is chosen else f" than {_count(best)}"
    return f"fewer states predict held-out data worse{than}, by {_with_error(lost, error)} nats per sample"


def _with_error(value: float, error: float) -> str:
    """Format both with two significant digits of the error, so that a reader can tell how many errors it is."""
    digits = 2 if error <= 0 or not math.isfinite(error) else max(2, 1 - math.floor(math.log10(error)))
    return f"{value:.{digits}f} ± {error:.{digits}f}"


def _certainty(chosen: Probe, sure: str, rival: Probe | None) -> str:
    agree = f"two halves of the data agree on {chosen.agreement:.0%} of time steps"
    if sure == "open":
        return f"Uncertain: {agree}; compare seeds before you interpret single states."
    if sure == "clear":
        return f"Certain: {agree if chosen.n_states > 1 else 'no other setting predicts held-out data better'}."
    if rival is not None and rival.model != chosen.model and _is_apart(chosen, rival):
        return f"Fairly certain: {_weigh(chosen, rival)}"
    reasons = [agree] if chosen.n_states > 1 else []
    if rival is not None:
        reasons.append(_advantage(rival, chosen))
    return f"Fairly certain: {', but '.join(reasons)}."


def _weigh(chosen: Probe, rival: Probe) -> str:
    """Say by how much a setting of another model predicts better, and what speaks for the chosen one."""
    ours, theirs = (TITLES.get(probe.model, probe.model) for probe in (chosen, rival))
    same = chosen.n_states == rival.n_states
    which = f"K = {chosen.n_states} for both models. {theirs}" if same else f"{theirs} with K = {rival.n_states}"
    better = f"{which} predicts held-out data better, by {_with_error(*deficit(chosen, rival))} nats per sample"
    more = "more" if chosen.found_again > rival.found_again + SAME else "as"
    return f"{better}; {ours}'s states are {more} repeatable ({chosen.agreement:.0%} against {rival.agreement:.0%})."


def _advantage(rival: Probe, chosen: Probe) -> str:
    """Say how much better another setting predicts, in most blocks or in a single one."""
    gained, error = deficit(chosen, rival)
    if gained <= MIN_DIFFERENCE:
        most = max(np.asarray(rival.held_out) - np.asarray(chosen.held_out))
        where = f"one of {len(rival.held_out)} blocks of time"
        return f"{_describe(rival)} would predict {where} better, by {most:.2f} nats per sample"
    how = "about as well, better by" if gained <= ERRORS * error else "better, by"
    return f"{_describe(rival)} would predict held-out data {how} {_with_error(gained, error)} nats per sample"


def _is_apart(probe: Probe, best: Probe) -> bool:
    """Return whether a setting is clearly worse than another."""
    lost, error = deficit(probe, best)
    return lost > ERRORS * error


def _is_near(probe: Probe, best: Probe, tolerance: float) -> bool:
    """Return whether a setting is not clearly worse than the best, or by less than the tolerance."""
    lost, error = deficit(probe, best)
    return lost <= max(ERRORS * error, tolerance)


def _fewest_states(tried: Sequence[Probe]) -> Probe:
    """Return the setting of one model with the fewest states that predicts as well as any and that both halves find."""
    _, near = _best_and_near(tried)
    steadiest = max(p.agreement for p in near)
    return next(p for p in near if p.agreement >= STABLE * steadiest)


def _best_and_near(tried: Sequence[Probe]) -> tuple[Probe, list[Probe]]:
    """Return the setting of one model that predicts best, and those that are not clearly worse."""
    scores = held_out_scores(tried)
    best = tried[int(np.argmax(scores))]
    return best, [p for p in tried if _is_near(p, best, NEGLIGIBLE * (max(scores) - scores[0]))]


def _grade(chosen: Probe, fewer: Sequence[Probe], better: Sequence[Probe]) -> str:
    if chosen.agreement < UNSTABLE:
        return "open"
    if better or (chosen.n_states > 1 and chosen.agreement < STABLE):
        return "likely"
    return "clear" if all(_is_apart(p, chosen) for p in fewer) else "likely"


def _describe(probe: Probe) -> str:
    return f"{_count(probe)} ({TITLES.get(probe.model, probe.model)})"


def _count(probe: Probe) -> str:
    return NUMBERS.get(probe.n_states, f"{probe.n_states} states")
