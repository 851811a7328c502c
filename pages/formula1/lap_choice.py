"""Which laps are fitted and applied: all, racing laps, a range, or by stint, compound, tyre age or part of qualifying."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from datasets import formula1
from datasets.f1.qualifying import is_race
from datasets.formula1 import LapTable, Session
from pages.formula1.choices import choose_one, choose_range

KINDS = {
    "all": "All laps",
    "racing": "Racing laps only",
    "range": "From lap to lap",
    "stint": "One stint",
    "compound": "One compound",
    "age": "By age of the tyres",
    "part": "Fast laps of qualifying",
    "quick": "Fast laps",
}
HELP = (
    "Racing laps leave out lap 1, laps into and out of the pits, and safety-car laps. A stint is what is driven on one set of "
    "tyres. Fast laps are those within 107 % of the driver's best, without those into and out of the pits."
)


def choose_laps(session: Session, train: str, test: str, among: str) -> str:
    """The choice as `Looked.laps` has it; only what is known of both drivers is offered."""
    tables = [session.driver(code).laps for code in dict.fromkeys((train, test))]
    stints = _both(tables, lambda laps: {str(n) for n in laps.stint[laps.stint > 0]})
    compounds = _both(tables, lambda laps: {name for name in laps.compound if name})
    parts = _both(tables, lambda laps: {formula1.PARTS[n - 1] for n in laps.part[laps.part > 0]})
    oldest = min(int(np.nanmax(laps.tyre_age, initial=0)) for laps in tables)
    known = {"stint": len(stints) > 0, "compound": len(compounds) > 0, "age": oldest > 1, "part": len(parts) > 0}
    known["quick"] = not (known["part"] or is_race(session))
    kind = choose_one(
        "Laps",
        "laps-of",
        {kind: words for kind, words in KINDS.items() if known.get(kind, True)},
        "part" if known["part"] else "quick" if known["quick"] else "racing",
        HELP,
        among="" if not any(known.values()) else "-".join(kind for kind in known if known[kind]),
    )
    if kind == "range":
        last = max(2, *(int(laps.number.max()) for laps in tables))
        ends = ("First lap", "Last lap")
        first, end = choose_range("Laps from, to", ends, "laps", last, (1, min(10, last)), among=among)
        return f"{first}-{end}"
    if kind == "age":
        ends = ("Youngest (laps)", "Oldest (laps)")
        start = (1, min(10, oldest))
        first, end = choose_range("Laps on the tyres from, to", ends, "tyres", oldest, start, among=among)
        return f"age={first}-{end}"
    lists = {"stint": stints, "compound": compounds, "part": ["all", *parts]}
    if kind in lists:
        shown = {value: _shown(value) for value in lists[kind]}
        value = choose_one(kind.capitalize(), f"laps-{kind}", shown, lists[kind][0], among=f"{among}-{'-'.join(shown)}")
        return f"{kind}={value}"
    return kind


def _both(tables: list[LapTable], of: Callable[[LapTable], set[str]]) -> list[str]:
    """What all drivers have, in order."""
    return sorted(set.intersection(*(of(laps) for laps in tables)))


def _shown(value: str) -> str:
    if value == "all":
        return "Q1 to Q3"
    return value.capitalize() if len(value) > 2 else value
