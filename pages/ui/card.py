"""The honest card: each score beside the line it has to beat, green only when it beats it by more than its spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np

from pages.ui import shell

Verdict = Literal["beats", "level", "below", "unknown", "short"]

WORDS: dict[Verdict, str] = {
    "beats": "✓ beats it",
    "level": "level with it",
    "below": "not past it",
    "unknown": "ahead so far",
    "short": "too little to say",
}
EXPLAINED: dict[Verdict, str] = {
    "beats": "Ahead of the line by more than the score varies.",
    "level": "The difference is smaller than the score varies, or than what is printed.",
    "below": "Something simpler does as well or better here. Another number of states, states made of places instead of moves, "
    "or more data may change that; it may also be that these data need no states.",
    "unknown": "Ahead of the line in one fit. Whether it stays ahead with other seeds is measured when the page is quiet.",
    "short": "There are too few pieces of data to tell the difference from chance.",
}
# What scores are held against: how it is called on the screen, and what it is.
METHODS = {
    "k-means": ("k-means", "Sorts single {what} into groups, without any idea of time."),
    "Gaussian HMM": (
        "hidden Markov model",
        "A classic model of switching, on {what} alone: one state at a time, no dynamics.",
    ),
    "10-NN": (
        "10 neighbours",
        "Supervised: gives each sample the most frequent label of its ten nearest {what}.",
    ),
}
FEATURES = {"steps": "moves", "position": "places"}
BASELINES = {
    "majority class": "Always says what is most frequent in the fitted part.",
    "untrained model": "The same model before it has learned anything.",
    "stands still": "Guesses that nothing changes from now on.",
    "linear AR(1)": "One linear rule for all times, without states.",
    "should hold": "What a band of that name promises.",
    "the sample before": "Repeats the sample before.",
    "as fitted": "The states as they are, before smoothing and without joining short bouts.",
}


def explained(line: str) -> tuple[str, str]:
    """(what a line to beat is called on the screen, what it is)."""
    method, _, feature = line.partition(" on ")
    if method in METHODS and feature:
        name, text = METHODS[method]
        what = FEATURES.get(feature, feature)
        return f"{name} of {what}", text.format(what=what)
    return line, BASELINES.get(line, "")


def term(text: str, explanation: str) -> str:
    """Words with an explanation that opens under the pointer, by keyboard and by touch (HTML)."""
    if not explanation:
        return escape(text)
    tip = f'<span class="gdm-tip" role="tooltip">{escape(explanation)}</span>'
    return f'<button type="button" class="gdm-term">{escape(text)}{tip}</button>'


@dataclass(frozen=True)
class Score:
    """One number and what to hold it against.

    value     the score; NaN where it could not be measured
    line      the score to beat and line_name what reaches it; None where there is nothing to beat
    spread    by how much it varies, over seeds, trials or blocks; None after a single measurement (then never green)
    over      what it was measured over ("12 blocks of about 8 s"), "" where that goes without saying
    short     whether that is too little to carry a verdict
    others    further reference scores, shown in small: (name, value)
    span      the ends of the bar
    ahead     by how much it is ahead of the line on average over `over`; None where this one value is all there is
    target    (what it should be, how far off is near enough), where neither more nor less is better
    """

    name: str
    value: float
    line: float | None = None
    line_name: str = ""
    spread: float | None = None
    others: Sequence[tuple[str, float]] = ()
    digits: int = 3
    unit: str = ""
    span: tuple[float, float] = (0.0, 1.0)
    help: str = ""
    over: str = ""
    short: bool = False
    target: tuple[float, float] | None = None
    ahead: float | None = None

    @property
    def verdict(self) -> Verdict | None:
        """Whether the score clears its line, or None without one."""
        if self.line is None or not np.isfinite([self.value, self.line]).all():
            return None
        if _number(self, self.value) == _number(self, self.line):
            return "level"  # nobody can check a difference that is not printed
        if self.short:
            return "short"
        ahead = self.value - self.line if self.ahead is None else self.ahead
        if self.spread is None:
            return "unknown" if ahead > 0 else "below" if ahead < 0 else "level"
        return "beats" if ahead > self.spread else "below" if ahead < -self.spread else "level"


def _number(score: Score, value: float) -> str:
    return f"{value:.{score.digits}f}{escape(score.unit)}" if np.isfinite(value) else "not measured"


def _share(score: Score, value: float) -> float:
    low, high = score.span
    return float(np.clip((value - low) / (high - low), 0, 1) * 100)


def _row(score: Score) -> str:
    verdict = score.verdict
    spread = f" <small>± {score.spread:.{score.digits}f}</small>" if score.spread is not None else ""
    bar = ""
    if np.isfinite(score.value):
        tick = f'<b style="left:calc({_share(score, score.line):.1f}% - 1px)"></b>' if score.line is not None else ""
        bar = f'<div class="bar" aria-hidden="true"><i style="width:{_share(score, score.value):.1f}%"></i>{tick}</div>'
    parts = []
    if score.line is not None:
        parts.append(f"to beat: {_line(score, score.line_name, score.line)}")
    if score.target is not None:
        parts.append(_target(score))
    parts += [_line(score, name, value) for name, value in score.others]
    mark = f'<span class="verdict">{term(WORDS[verdict], EXPLAINED[verdict])}</span>' if verdict else ""
    over = f"over {escape(score.over)}" if score.over else ""
    lines = " · ".join([p for p in (mark, over, *parts) if p])
    return (
        f'<div class="gdm-score" data-verdict="{verdict or ""}"><span class="name">{term(score.name, score.help)}</span>'
        f'<span class="value">{_number(score, score.value)}{spread}</span>{bar}'
        f'<span class="lines">{lines}</span></div>'
    )


def _line(score: Score, name: str, value: float) -> str:
    return f"{term(*explained(name))} {_number(score, value)}"


HELD = {
    "as it should be": "Outcomes fall inside the band about as often as it promises.",
    "too few": "The model is too sure of itself: what happens leaves the band more often than it promises.",
    "too many": "The model is too careful: the band is wider than it has to be.",
}


def held(value: float, wanted: float, near: float) -> str:
    """Whether a band holds what it promises: a key of HELD."""
    return "as it should be" if abs(value - wanted) <= near else "too few" if value < wanted else "too many"


def _target(score: Score) -> str:
    """Whether the value is near enough to what it should be."""
    assert score.target is not None
    wanted, near = score.target
    said = held(score.value, wanted, near)
    return f"{term(said, HELD[said])}: {wanted:g}{escape(score.unit)} would be right"


def scores_html(
    items: Sequence[Score],
    *,
    status: str = "",
    earlier: str = "",
    meanwhile: str = "",
    to_come: Sequence[Score] = (),
) -> str:
    """The card as HTML. `status` is one line on the run: time, cache, seed, which posterior.

    meanwhile  what has to happen before there are newer ones
    earlier  whose scores these are, where that is not the result on the screen: they are dimmed, and it is said
    to_come  scores that are not measured yet, whose room it keeps below those that are
    """
    foot = " ".join([f"Scores of the earlier result: {earlier}.", meanwhile]).strip() if earlier else status
    line = f'<div class="gdm-status">{escape(foot)}</div>' if foot else ""
    rows = "".join([*map(_row, items), *map(_waiting, to_come)])
    body = f'<p class="gdm-panel-title">How good is it</p><div class="gdm-scores">{rows}</div>{line}'
    return shell.marked(body, "") if earlier else body


def _waiting(score: Score) -> str:
    """The place of a score that is not known yet, as high as the score will be."""
    lines = '<span class="lines">&nbsp;</span>' if score.line is not None or score.others else ""
    return (
        f'<div class="gdm-score"><span class="name">{term(score.name, score.help)}</span>'
        f'<span class="value">…</span><div class="bar" aria-hidden="true"></div>{lines}</div>'
    )
