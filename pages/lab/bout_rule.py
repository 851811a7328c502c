"""How bouts are read, in seconds or, where nobody has said how fast a recording was, in steps."""

from __future__ import annotations

from gdm_core.analysis.bouts import LONGEST_S, BoutRule

LONGEST_STEPS = 50.0


def longest(counted: str) -> float:
    """The most that bouts are smoothed over."""
    return LONGEST_STEPS if counted == "step" else LONGEST_S


def rule_words(rule: BoutRule, counted: str) -> str:
    """How bouts are read, as a part of a sentence."""
    if rule.plain:
        return "as fitted"
    unit = "steps" if counted == "step" else "s"
    return f"smoothed over {rule.smooth_s:g} {unit}, none below {rule.shortest_s:g} {unit}"
