"""The scorecard: each score next to its baseline, green only if it is better by more than its interval."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np

from gdm_core.text import format_number
from pages.ui import shell

Verdict = Literal["beats", "level", "below", "unknown", "short"]

VERDICTS: dict[Verdict, tuple[str, str]] = {  # label and help
    "beats": ("above baseline", "The difference is larger than the interval."),
    "level": ("no clear difference", "The difference is smaller than the interval, or than the last digit."),
    "below": ("below baseline", "A simpler method scores higher here. Try another number of states or more data."),
    "unknown": ("not tested yet", "One seed. Fits from other seeds run when the page is idle and give the interval."),
    "short": ("too little data", "There is too little held-out data for a comparison."),
}
METHODS = {
    "k-means": "Clusters {feature} without using time.",
    "Gaussian HMM": "A hidden Markov model of {feature}: one state at a time, no dynamics.",
    "10-NN": "Supervised: the most frequent label of the ten nearest {feature}.",
}
FEATURES = {"steps": "changes from one sample to the next", "position": "positions"}
PERSISTENCE = "persistence"
SHOWN = 4  # scores; the others unfold
BASELINES = {  # label and help, by the name in scores
    "majority class": ("Majority class", "Always predicts the most frequent label of the training trials."),
    "untrained model": ("Untrained model", "The same model before training."),
    PERSISTENCE: ("Persistence (last value)", "Predicts the last known value."),
    "linear AR(1)": ("Linear AR(1)", "One linear model for all times, without states."),
    "unsmoothed": ("Unsmoothed", "States before smoothing, with short bouts kept."),
}


def describe_baseline(name: str) -> tuple[str, str]:
    """Return the label and the help of a baseline, by its name in scores."""
    method, _, feature = name.partition(" on ")
    if method in METHODS and feature:
        return name, METHODS[method].format(feature=FEATURES.get(feature, feature))
    return BASELINES.get(name, (name, ""))


def term_html(text: str, *details: str) -> str:
    """Return words whose details open on hover, focus or touch (HTML)."""
    lines = "".join(f"<span>{escape(line)}</span>" for line in details if line)
    if not lines:
        return escape(text)
    tip = f'<span class="gdm-tip" role="tooltip">{lines}</span>'
    return f'<button type="button" class="gdm-term">{escape(text)}{tip}</button>'


@dataclass(frozen=True)
class Score:
    """A score and its references.

    value     NaN if it could not be measured
    line      score of the best baseline, named `line_name`; None without one
    spread    half of its interval over seeds, trials or blocks; None after a single measurement, which is never green
    over      what the interval was measured over, such as "12 blocks of about 8 s"
    short     whether there is too little data for a verdict
    others    further reference scores: (name, value)
    span      ends of the bar
    ahead     mean difference from the baseline over `over`; None for a single value
    target    (best value, tolerance) of a score that may be too high or too low
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
        """The comparison with the baseline; None without one."""
        if self.line is None or not np.isfinite([self.value, self.line]).all():
            return None
        rounded = round(abs(round(self.value, self.digits) - round(self.line, self.digits)), self.digits)
        if self.format(self.value) == self.format(self.line) or rounded <= 10.0**-self.digits:
            return "level"  # numbers that differ in the last digit may be nearly equal
        if self.short:
            return "short"
        ahead = self.value - self.line if self.ahead is None else self.ahead
        if self.spread is None:
            return "unknown"
        return "beats" if ahead > self.spread else "below" if ahead < -self.spread else "level"

    def format(self, value: float) -> str:
        """Return a value of this score with its unit."""
        return f"{format_number(value, self.digits)}{self.unit}" if np.isfinite(value) else "not measured"

    @property
    def interval(self) -> str:
        """The interval as "± 0.020"; "" if unknown."""
        return "" if self.spread is None else f"± {self.spread:.{self.digits}f}"

    @property
    def references(self) -> list[tuple[str, float]]:
        """Baselines, the best first, and other reference scores."""
        best = [] if self.line is None else [(self.line_name, self.line)]
        return [*best, *self.others]


def _share(score: Score, value: float) -> float:
    low, high = score.span
    return float(np.clip((value - low) / (high - low), 0, 1) * 100)


def _row(score: Score) -> str:
    verdict = score.verdict
    interval = f" <small>{score.interval}</small>" if score.interval else ""
    filled = ""
    if np.isfinite(score.value):
        tick = f'<b style="left:calc({_share(score, score.line):.1f}% - 1px)"></b>' if score.line is not None else ""
        filled = f'<i style="width:{_share(score, score.value):.1f}%"></i>{tick}'
    value = f"{escape(score.format(score.value))}{interval}"
    return _cells(verdict or "", term_html(score.name, *_details(score)), value, filled, _comparison(score, verdict))


def _cells(verdict: str | None, name: str, value: str, filled: str, compared: str) -> str:
    """Return the line of one score from the HTML of its cells."""
    judged = "" if verdict is None else f' data-verdict="{verdict}"'
    return (
        f'<div class="gdm-score"{judged}><span class="name">{name}</span><span class="value">{value}</span>'
        f'<div class="bar" aria-hidden="true">{filled}</div><span class="verdict">{compared}</span></div>'
    )


def _details(score: Score) -> list[str]:
    """Return the lines of the popover: what the score is, its baselines, and what its interval is over."""
    lines = [score.help]
    for name, value in score.references:
        shown, explanation = describe_baseline(name)
        lines.append(f"{shown} {score.format(value)}. {explanation}".strip())
    if lines[1:]:
        lines[1] = f"Baselines: {lines[1]}" if score.line is not None else lines[1]
    return [*lines, f"Interval over {score.over}." if score.over and score.interval else ""]


def _comparison(score: Score, verdict: Verdict | None) -> str:
    """Return the verdict or target in words (HTML)."""
    if verdict:
        label, help = VERDICTS[verdict]
        return term_html(label.replace(" baseline", ""), help)
    if score.target is not None:
        return escape(f"target {score.target[0]:g}{score.unit}")
    return escape(" · ".join(f"{name} {score.format(value)}" for name, value in score.others[:1]))


def scores_html(
    items: Sequence[Score],
    *,
    status: str = "",
    earlier: str = "",
    meanwhile: str = "",
    awaited: Collection[str] = (),
) -> str:
    """Return the card as HTML.

    status     one line on the fit, such as its time and seed
    earlier    settings of the earlier fit that the scores belong to; they are dimmed
    meanwhile  what the card waits for
    awaited    names of scores that are not measured yet

    The first SHOWN scores are visible, the others unfold.
    """
    if earlier:
        foot = f"Scores for {earlier}. {meanwhile}" if meanwhile else f"Scores for {earlier} until the fit ends."
    else:
        foot = status
    line = f'<div class="gdm-status">{escape(foot)}</div>'  # keeps its place without words
    rows = [
        _cells(None, term_html(score.name, score.help), "…", "", "") if score.name in awaited else _row(score)
        for score in items
    ]
    more = ""
    if rest := rows[SHOWN:]:
        more = f'<details class="gdm-more"><summary>More scores ({len(rest)})</summary>{_list(rest)}</details>'
    title = '<p class="gdm-panel-title">Fit quality <small>line: best baseline</small></p>'
    body = f'<div class="gdm-card">{title}{_list(rows[:SHOWN])}{more}{line}</div>'
    return shell.marked(body, "") if earlier else body


def _list(rows: Sequence[str]) -> str:
    return f'<div class="gdm-scores">{"".join(rows)}</div>'
