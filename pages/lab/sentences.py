"""A fit in words: its settings, what the page waits for, and the effect of the last change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_core.text import format_percent
from pages.lab.spec import PageSpec
from pages.lab.view import View

SYMBOLS = {"n_states": "K", "temperature": "τ", "stickiness": "γ", "n_latent": "D"}
NAMES = {"posterior": "states defined by"}
VALUES = {"window": "dynamics", "linear": "position", "learn": "learned"}


def describe_wait(view: View) -> str:
    """Return what the picture waits for; "" if it is current."""
    if view.current:
        return ""
    if not view.fit.running:
        return "Not fitted yet"
    before = view.state.spec if view.state.states else None
    if before is None or before.trials.fingerprint != view.dataset.train.fingerprint:
        return "Fitting"
    return f"Fitting {', '.join(describe_changes(view.spec, before))}".strip()


def describe_changes(one: PageSpec, other: PageSpec) -> list[str]:
    """Return the settings of `one` that differ from `other`, in words."""
    ours, theirs = one.choice, other.choice
    if ours.label != theirs.label:
        return [ours.label, describe_setting("n_states", ours.n_states)]
    return [describe_setting(name, value) for name, value in ours.config.items() if theirs.config.get(name) != value]


def describe_earlier(now: PageSpec, before: PageSpec) -> str:
    """Return the settings of the earlier result that differ from the requested ones."""
    other_measure = before.measure.words if before.measure != now.measure else ""
    return ", ".join(describe_changes(before, now)) or other_measure or "the same settings"


def describe_setting(name: str, value: Any) -> str:
    """Return a setting in words, such as "K = 4"."""
    shown = VALUES.get(value, value) if isinstance(value, str) else f"{value:g}"
    if name in SYMBOLS:
        return f"{SYMBOLS[name]}\u00a0=\u00a0{shown}"
    return f"{NAMES.get(name, name)}\u00a0{shown}"


@dataclass(frozen=True, eq=False)
class FinishedFit:
    """A finished fit in the memory of a page.

    key       name of the fit
    content   fingerprints of its data, without which two fits cannot be compared
    settings  its settings in words by name; first the "model"
    labels    [T] strongest state of each sample of the training trials
    """

    key: str
    content: tuple[str, ...]
    settings: dict[str, str]
    labels: npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class LastChange:
    """The displayed fit and the one before it."""

    now: FinishedFit
    before: FinishedFit | None = None

    def then(self, now: FinishedFit) -> LastChange:
        """Return the change after `now`, which may be the same fit."""
        return LastChange(now, self.before if now.key == self.now.key else self.now)

    @property
    def sentence(self) -> str:
        """The effect of the change; "" if unknown."""
        before, now = self.before, self.now
        if before is None or before.content != now.content or len(before.labels) != len(now.labels):
            return ""
        changed = [words for name, words in now.settings.items() if before.settings.get(name) != words]
        if not changed:
            return ""
        if changed[0] == now.settings["model"]:
            changed = changed[:1]  # models have different settings
        return f"{', '.join(changed)}: changed {format_percent(changed_share(before.labels, now.labels))} of state assignments."


def changed_share(before: npt.NDArray[np.int64], after: npt.NDArray[np.int64]) -> float:
    """Return the share of samples whose state does not match their state before."""
    from scipy.optimize import linear_sum_assignment

    shared = np.zeros((before.max(initial=0) + 1, after.max(initial=0) + 1))
    np.add.at(shared, (before, after), 1)
    return 1 - float(shared[linear_sum_assignment(shared, maximize=True)].sum() / max(1, len(before)))
