"""The score card: each score next to its best baseline, green only if it is better by more than its spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Literal

import numpy as np

from pages.ui import shell

Verdict = Literal["beats", "level", "below", "unknown", "short"]

VERDICTS: dict[Verdict, tuple[str, str]] = {  # label and help
    "beats": ("✓ above baseline", "The difference is larger than the spread of the score."),
    "level": ("no clear difference", "The difference is smaller than the spread of the score."),
    "below": ("below baseline", "A simpler method scores higher here. Try another number of states or more data."),
    "unknown": ("above baseline (1 seed)", "Fits from other seeds run when the page is idle and show the spread."),
    "short": ("too little data", "There is too little held-out data for a comparison."),
}
METHODS = {
    "k-means": "Clusters {feature} without using time.",
    "Gaussian HMM": "A hidden Markov model of {feature}: one state at a time, no dynamics.",
    "10-NN": "Supervised: the most frequent label of the ten nearest {feature}.",
}
FEATURES = {"steps": "changes from one sample to the next", "position": "positions"}
BASELINES = {  # label and help, by the name in scores
    "majority class": ("Majority class", "Always predicts the most frequent label of the training trials."),
    "untrained model": ("Untrained model", "The same model before training."),
    "the sample before": ("Persistence (last value)", "Repeats the previous sample."),
    "persistence": ("Persistence (last value)", "Predicts the last known value."),
    "linear AR(1)": ("Linear AR(1)", "One linear model for all times, without states."),
    "as fitted": ("As fitted", "States before smoothing, with short bouts kept."),
}


def describe_baseline(name: str) -> tuple[str, str]:
    """Return the label and the help of a baseline, by its name in scores."""
    method, _, feature = name.partition(" on ")
    if method in METHODS and feature:
        return name, METHODS[method].format(feature=FEATURES.get(feature, feature))
    return BASELINES.get(name, (name, ""))


def term_html(text: str, explanation: str) -> str:
    """Return text whose explanation opens on hover, focus and touch."""
    if not explanation:
        return escape(text)
    tip = f'<span class="gdm-tip" role="tooltip">{escape(explanation)}</span>'
    return f'<button type="button" class="gdm-term">{escape(text)}{tip}</button>'


@dataclass(frozen=True)
class Score:
    """A score and its baseline.

    value     NaN if it could not be measured
    line      score of the best baseline, None if there is none; line_name is its name
    spread    over seeds, trials or blocks; None after a single measurement, which is never green
    over      what the spread was measured over, such as "12 blocks of about 8 s"
    short     whether that is too little data for a verdict
    others    further baselines: (name, value)
    span      ends of the bar
    ahead     mean difference from the baseline over `over`; None if this value is the only one
    target    (target, tolerance) of a score that should be neither higher nor lower
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
        """Return how the score compares with its baseline, None without one."""
        if self.line is None or not np.isfinite([self.value, self.line]).all():
            return None
        if _format(self, self.value) == _format(self, self.line):
            return "level"  # the printed numbers are equal
        if self.short:
            return "short"
        ahead = self.value - self.line if self.ahead is None else self.ahead
        if self.spread is None:
            return "unknown" if ahead > 0 else "below" if ahead < 0 else "level"
        return "beats" if ahead > self.spread else "below" if ahead < -self.spread else "level"


def _format(score: Score, value: float) -> str:
    return f"{value:.{score.digits}f}{escape(score.unit)}" if np.isfinite(value) else "not measured"


def _percent(score: Score, value: float) -> float:
    low, high = score.span
    return float(np.clip((value - low) / (high - low), 0, 1) * 100)


def _row(score: Score) -> str:
    verdict = score.verdict
    spread = f" <small>± {score.spread:.{score.digits}f}</small>" if score.spread is not None else ""
    bar = ""
    if np.isfinite(score.value):
        tick = f'<b style="left:calc({_percent(score, score.line):.1f}% - 1px)"></b>' if score.line is not None else ""
        bar = (
            f'<div class="bar" aria-hidden="true"><i style="width:{_percent(score, score.value):.1f}%"></i>{tick}</div>'
        )
    lines = []
    if verdict:
        lines.append(f'<span class="verdict">{term_html(*VERDICTS[verdict])}</span>')
    if score.over:
        lines.append(f"over {escape(score.over)}")
    if score.line is not None:
        lines.append(f"Baseline: {_baseline(score, score.line_name, score.line)}")
    if score.target is not None:
        target, tolerance = score.target
        words = judge_coverage(score.value, target, tolerance)
        lines.append(f"{term_html(words, COVERAGE[words])}, target {target:g}{escape(score.unit)}")
    lines += [_baseline(score, name, value) for name, value in score.others]
    return (
        f'<div class="gdm-score" data-verdict="{verdict or ""}"><span class="name">{term_html(score.name, score.help)}</span>'
        f'<span class="value">{_format(score, score.value)}{spread}</span>{bar}'
        f'<span class="lines">{" · ".join(lines)}</span></div>'
    )


def _baseline(score: Score, name: str, value: float) -> str:
    return f"{term_html(*describe_baseline(name))} {_format(score, value)}"


COVERAGE = {
    "on target": "Outcomes fall inside the interval about as often as it promises.",
    "too narrow": "Outcomes fall outside the interval more often than it promises.",
    "too wide": "Outcomes fall inside the interval more often than it promises.",
}


def judge_coverage(value: float, target: float, tolerance: float) -> str:
    """Compare the coverage of an interval with its target; return a key of COVERAGE."""
    return "on target" if abs(value - target) <= tolerance else "too narrow" if value < target else "too wide"


def scores_html(
    items: Sequence[Score],
    *,
    status: str = "",
    earlier: str = "",
    meanwhile: str = "",
    to_come: Sequence[Score] = (),
) -> str:
    """Return the card as HTML.

    status     one line on the fit: time, cache, seed
    earlier    the previous fit, if the scores are its; they are dimmed
    meanwhile  why there are no newer scores yet
    to_come    scores that are still being measured; the card keeps room for them
    """
    foot = " ".join([f"Scores of the previous fit: {earlier}.", meanwhile]).strip() if earlier else status
    line = f'<div class="gdm-status">{escape(foot)}</div>' if foot else ""
    rows = "".join([*map(_row, items), *map(_pending_row, to_come)])
    body = f'<p class="gdm-panel-title">Fit quality</p><div class="gdm-scores">{rows}</div>{line}'
    return shell.marked(body, "") if earlier else body


def _pending_row(score: Score) -> str:
    """Return a row without a value, as high as the score will be."""
    lines = '<span class="lines">&nbsp;</span>' if score.line is not None or score.others else ""
    return (
        f'<div class="gdm-score"><span class="name">{term_html(score.name, score.help)}</span>'
        f'<span class="value">…</span><div class="bar" aria-hidden="true"></div>{lines}</div>'
    )
