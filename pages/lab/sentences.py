"""A fit in words: settings, what the page waits for, findings, and the effect of the last change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import median_bout
from gdm_core.analysis.suggestions import NUMBERS
from gdm_core.text import listed
from gdm_core.units import STEPS
from pages.lab.decoded import Decoded, Undecoded
from pages.lab.spec import PageSpec
from pages.lab.view import View
from pages.ui.card import Score, describe_baseline

# How the settings of a fit are called where two fits are told apart, and the words of their values.
WORDS = {
    "n_states": "K",
    "temperature": "softness τ",
    "stickiness": "stay γ",
    "posterior": "states made of",
    "n_latent": "D",
    "seed": "seed",
}
VALUES = {"window": "moves", "linear": "places", "learn": "learned"}


def describe_wait(view: View) -> str:
    """Return what the picture waits for; "" if it is current."""
    if view.current:
        return ""
    shown = view.state
    before = shown.spec if shown.states else None
    if before is None:
        what = "the first fit"
    elif before.trials.fingerprint != view.dataset.train.fingerprint:
        what = "a fit of these data"
    else:
        what = ", ".join(describe_changes(view.spec, before)) or "the fit"
    return f"waiting for {what}" if view.fit.running else f"{what} is not there yet"


def describe_changes(one: PageSpec, other: PageSpec) -> list[str]:
    """Return the settings of `one` that differ from `other`, in words."""
    ours, theirs = one.choice, other.choice
    if ours.label != theirs.label:
        return [ours.label, f"K\u00a0{ours.n_states}"]
    return [describe_setting(name, value) for name, value in ours.config.items() if theirs.config.get(name) != value]


def describe_earlier(now: PageSpec, before: PageSpec) -> str:
    """Return the settings of the earlier result that differ from the requested ones."""
    another = before.measure.words if before.measure != now.measure else ""
    return ", ".join(describe_changes(before, now)) or another or "the finished fit of the same settings"


def describe_setting(name: str, value: Any) -> str:
    """Return a setting in words."""
    shown = VALUES.get(value, value) if isinstance(value, str) else f"{value:g}"
    return f"{WORDS.get(name, name)}\u00a0{shown}"


IDLE = 0.01  # of the time: below, a state is called unused
WORTH = {
    "beats": "{name}: ahead of {line}.",
    "level": "{line} does as well.",
    "below": "{line} does better.",
    "unknown": "{name}: ahead of {line} in this one fit.",
    "short": "There is too little data to say what that is worth.",
}


def finding(reading: Decoded | Undecoded, of: str, rows: Sequence[Score]) -> str:
    """Return the main finding in words; "" without states.

    of   what the trial is called in a sentence
    """
    if isinstance(reading, Undecoded):
        return ""
    share = reading.states.mean(axis=0)
    n_states, most = len(share), int(share.argmax())
    used = int((share >= IDLE).sum())
    counted = NUMBERS.get(n_states, f"{n_states} states")
    idle = f", {n_states - used} of them hardly used" if used < n_states else ""
    timing = reading.lengths(reading.bouts)
    stay = median_bout([reading.bouts]) * timing["step"]
    lasts = f"{stay:.3g} {timing['unit']}" if reading.unit is not STEPS else f"{stay:.0f} step{'s' * (stay >= 1.5)}"
    held = f"{reading.names[most]} holds {100 * share[most]:.0f} % of {of}"
    said = [f"{counted.capitalize()}{idle}. {held}; half of all stays last {lasts} or less."]
    first = next((row for row in rows if row.verdict is not None and np.isfinite(row.value)), None)
    if first is not None and first.verdict is not None:
        line = describe_baseline(first.line_name)[0]
        begins = first.verdict in ("level", "below")
        said.append(WORTH[first.verdict].format(name=first.name, line=line[:1].upper() + line[1:] if begins else line))
    return " ".join(said)


MINE = 0.7  # of a state's moments that come from (or go to) one other: then it is a part of that one
PART = 0.15  # of the whole that a part has to be
WHOLE = 0.8  # of the whole that its parts have to be together
SAME, MOST = 0.98, 0.85  # of all moments in states that match: nothing to speak of, and the same but for some
CLEAR = 2.0  # how many times the spread two scores have to be apart

Labels = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Settled:
    """A finished fit with its scores.

    key       of the fit; `content` that of the data, without which two fits cannot be compared
    settings  what it was fitted with, in the words of the controls, by name; first the "model"
    labels    [T] the strongest state of each moment of the fitted trials, `names` of the states
    row       the first score
    """

    key: str
    content: tuple[str, ...]
    settings: dict[str, str]
    labels: Labels
    names: tuple[str, ...]
    row: Score | None


@dataclass(frozen=True, eq=False)
class LastChange:
    """The displayed fit and the one before it."""

    now: Settled
    before: Settled | None = None

    def then(self, now: Settled) -> LastChange:
        """Return the change after `now`, which may be the same fit with more scores."""
        return LastChange(now, self.before if now.key == self.now.key else self.now)

    @property
    def sentence(self) -> str:
        """What the change did; "" if unknown."""
        before, now = self.before, self.now
        if before is None or before.content != now.content or len(before.labels) != len(now.labels):
            return ""
        changed = [words for name, words in now.settings.items() if before.settings.get(name) != words]
        if changed and changed[0] == now.settings["model"]:
            changed = changed[:1]  # another model has settings of its own
        said = states_change(before.labels, now.labels, before.names, len(now.names))
        if not changed or not said:
            return ""
        moved = score_change(before.row, now.row)
        return f"{', '.join(changed)} {said}{f'; {moved}' if moved else ''}."


def states_change(before: Labels, after: Labels, names: Sequence[str], n_after: int) -> str:
    """Which of the states `names` before were split or joined by `n_after` states, else how many moments changed theirs.

    before, after   [T] the state of each moment, of two fits to the same trials
    """
    shared = np.zeros((len(names), n_after))
    np.add.at(shared, (before, after), 1)
    split = [names[old] for old in range(len(names)) if len(_parts(shared, old)) > 1]
    joined = [
        " with ".join(names[old] for old in parts) for new in range(n_after) if len(parts := _parts(shared.T, new)) > 1
    ]
    found = [f"{did} {listed(states)}" for did, states in (("splits", split), ("joins", joined)) if states]
    if found:
        return " and ".join(found)
    share = _matched(shared)
    if share >= SAME:
        return "leaves the states as they were"
    others = f"{100 * (1 - share):.0f} % of moments"
    if share >= MOST:
        return f"leaves the states as they were but for {others}"
    return f"gives {others} another state" if len(names) == n_after else ""


def score_change(before: Score | None, now: Score | None) -> str:
    """Return how a score changed, relative to its spread over seeds; "" if that is unknown."""
    if before is None or now is None or before.name != now.name:
        return ""
    known = [row.spread for row in (before, now) if row.spread is not None]
    if not known or not np.isfinite([before.value, now.value]).all():
        return ""
    was, is_now = (f"{row.value:.{row.digits}f}{row.unit}" for row in (before, now))
    if was == is_now:
        return f"“{now.name}” stays at {was}"
    if abs(now.value - before.value) <= CLEAR * float(np.hypot(known[0], known[-1])):
        return f"“{now.name}” is {is_now} after {was}, no more apart than seeds are"
    return f"“{now.name}” {'rose' if now.value > before.value else 'fell'} from {was} to {is_now}"


def _parts(shared: npt.NDArray[Any], whole: int) -> list[int]:
    """The columns of `shared` that are parts of the row `whole`, if they make it up; one column is no part."""
    total = shared[whole].sum()
    if not total:
        return []
    share = shared[whole] / np.maximum(shared.sum(axis=0), 1)
    parts = np.flatnonzero((share >= MINE) & (shared[whole] >= PART * total))
    return [int(part) for part in parts] if shared[whole, parts].sum() >= WHOLE * total else []


def _matched(shared: npt.NDArray[Any]) -> float:
    """Return the share of samples whose state matches their state before."""
    from scipy.optimize import linear_sum_assignment

    return float(shared[linear_sum_assignment(shared, maximize=True)].sum() / max(1.0, shared.sum()))
