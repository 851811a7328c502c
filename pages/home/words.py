"""Scores on Home, for somebody who has not met the measures."""

from __future__ import annotations

from html import escape

from pages.ui.card import Score, explained

# What was measured, for somebody who has not met the measure: what it says, and whether it is a share of the time.
PLAIN = {
    "Says what the car does": ("Says whether the car brakes, turns or pushes, without having been told", True),
    "Matches the true states": ("Finds the true state", True),
    "Macro-F1": ("Agrees with the expert, rare behaviours counting like common ones; 1 is always", False),
}
RIVALS = {"k-means": "sorting single moments into groups", "Gaussian HMM": "a classic model of hard switching"}


def score_line(score: Score) -> str:
    """A score and its line to beat in plain words, ticked where it is ahead by more than it varies."""
    words, of_time = PLAIN.get(score.name, (score.name, False))

    def number(value: float) -> str:
        return f"{value:.0%} of the time" if of_time else f"{value:.2f}"

    rival = RIVALS.get(score.line_name.partition(" on ")[0], explained(score.line_name)[0])
    line = "" if score.line is None else f" · {escape(rival)}: {number(score.line)}"
    mark = '<span class="good">✓</span> ' if score.verdict == "beats" else ""
    return f"<li>{mark}{escape(words)}: <b>{number(score.value)}</b>{line}</li>"
