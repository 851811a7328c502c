"""The settings of a fit in words: what an earlier result was fitted with, and what the page waits for."""

from __future__ import annotations

from typing import Any

from pages.lab.data import Setting
from pages.lab.view import View

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


def what_for(view: View) -> str:
    """What the picture waits for to be of what the controls ask for; "" where it is."""
    if view.current:
        return ""
    shown = view.shown
    before: Setting | None = None if shown.wanted is None or not shown.train else shown.wanted.where
    if before is None:
        what = "the first fit"
    elif before.data.train.fingerprint != view.data.train.fingerprint:
        what = "a fit of these data"
    else:
        what = ", ".join(changed(view.setting, before)) or "the fit"
    return f"waiting for {what}" if view.fit.running or view.moving else f"{what} is not there yet"


def changed(one: Setting, other: Setting) -> list[str]:
    """The settings of `one` that the other has not, in words."""
    ours, theirs = one.choice, other.choice
    if ours.label != theirs.label:
        return [ours.label, f"K\u00a0{ours.n_states}"]
    return [said(name, value) for name, value in ours.config.items() if theirs.config.get(name) != value]


def earlier(now: Setting, before: Setting) -> str:
    """What the earlier result was fitted with, as far as it is not what the controls ask for now."""
    another = before.measure.words if before.measure != now.measure else ""
    return ", ".join(changed(before, now)) or another or "the finished fit of the same settings"


def said(name: str, value: Any) -> str:
    """A setting and its value."""
    shown = VALUES.get(value, value) if isinstance(value, str) else f"{value:g}"
    return f"{WORDS.get(name, name)}\u00a0{shown}"
