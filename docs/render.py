"""Write the measured numbers of docs/results.json and the API tables into README.md and docs: `make pages`.

A page marks each place with `<!-- numbers: NAME -->` and `<!-- end -->`. With `--check`, write nothing and exit with
status 1 if a page is out of date.
"""

from __future__ import annotations

import inspect
import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", "docs/api.md", "docs/scores.md", "docs/performance.md")
MARKED = re.compile(r"(<!-- numbers: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.S)
Stored = dict[str, Any]

STATES = {
    "gdm": "**GDM**",
    "gdm-mixture": "GDM, three-level mixture",
    "gdm-network": "GDM with network transitions",
    "gdm-rnn": "GDM with a GRU",
    "gdm-paper": "GDM, the paper's recipe",
    "arhmm": "AR-HMM",
    "arhmm-sticky": "AR-HMM, sticky",
    "arhmm-ro": "AR-HMM, recurrent only",
    "slds-sticky": "SLDS, sticky",
    "rslds-sticky": "rSLDS, sticky",
    "rslds-ro": "rSLDS, recurrent only",
    "pdlds": "p-dLDS, largest coefficient",
    "gdm, untrained": "GDM, untrained",
    "gdm-paper, untrained": "GDM, the paper's recipe, untrained",
    "arhmm-ro, untrained": "AR-HMM, recurrent only, untrained",
    "pdlds, untrained": "p-dLDS, untrained",
    "majority class": "majority class",
    "k-means on position": "k-means on positions",
    "k-means on steps": "k-means on steps",
    "Gaussian HMM on position": "Gaussian HMM on positions",
    "Gaussian HMM on steps": "Gaussian HMM on steps",
    "10-NN on position": "10-NN on positions (uses labels)",
    "10-NN on steps": "10-NN on steps (uses labels)",
}
FORECASTS = (
    *("gdm", "gdm-mixture", "gdm-rnn", "gdm-paper", "arhmm-sticky", "arhmm-ro", "slds-sticky", "rslds-ro", "pdlds"),
    *("linear AR(1)", "persistence"),
)


def claims(stored: Stored) -> list[str]:
    """Return README's table of measured claims."""
    found = stored["nascar"]["values"]
    soft, standard = found["soft"], found["standard"]
    accuracy, metric = "matched_accuracy", "paper_accuracy"
    fast, paper = (row[1] for row in stored["speed"]["values"]["rows"][:2])
    fit_s, _, peak = stored["mice"]["values"]["rows"][0]
    app = stored["app"]["values"]
    rates = {name: one["value"] for name, one in app.items() if name.endswith("pictures per second")}
    k = min(rate for name, rate in rates.items() if "K dragged" in name)
    temperature = min(rate for name, rate in rates.items() if "K dragged" not in name)
    covered = [100 * row[i] for row in stored["intervals"]["values"]["rows"] if row[2] for i in (3, 5)]
    crowd = next(name for name in app if name.endswith("action to picture, 95th percentile"))
    return [
        *table_head("claim", "measured", "how"),
        table_row(
            "State accuracy, soft tracks",
            f"{spread(soft['gdm'], accuracy)} (untrained {soft['gdm, untrained'][accuracy]['mean']:.3f}, "
            f"paper's recipe {soft['gdm-paper'][accuracy]['mean']:.3f}, k-means {soft['k-means on steps'][accuracy]['mean']:.3f})",
            "`make numbers`",
        ),
        table_row(
            "State accuracy, standard tracks",
            f"{spread(standard['gdm'], accuracy)} ({STATES['arhmm-ro']}: {standard['arhmm-ro'][accuracy]['mean']:.3f})",
            "the same",
        ),
        table_row(
            "Paper's metric (10-NN), trained and untrained",
            "; ".join(
                f"{name} {found[name]['gdm'][metric]['mean']:.3f} and {found[name]['gdm, untrained'][metric]['mean']:.3f}"
                for name in ("soft", "standard")
            ),
            "the same",
        ),
        table_row("Coverage of 90 % intervals", f"{min(covered):.1f}-{max(covered):.1f} %", "`make numbers`"),
        table_row(
            "Fit of 1,000 x 10 samples", f"{fast:.2f} s (paper's recipe {paper:.1f} s), processor time", "`make bench`"
        ),
        table_row(
            "Fit of 507,738 x 28 samples", f"{fit_s:.1f} s, processor time; {peak / 1000:.2f} GB", "`make bench`"
        ),
        table_row(
            "Pictures per second while dragging",
            f"temperature {temperature:.0f}, K {k:.0f} or more",
            "`make bench-app`",
        ),
        table_row(
            f"{crowd.partition(',')[0]}, action to picture",
            f"95 % within {app[crowd]['value']:.1f} s",
            "`make bench-app`",
        ),
    ]


def states(stored: Stored) -> list[str]:
    """Return the accuracy of every model and baseline on both tracks."""
    found = stored["nascar"]["values"]
    lines = table_head(
        "", "soft: matched (worst)", "soft: 10-NN", "standard: matched (worst)", "standard: 10-NN", "fit, s"
    )
    for row, title in STATES.items():
        soft, standard = found["soft"][row], found["standard"][row]
        cells = [
            spread(one, score, worst=score == "matched_accuracy")
            for one in (soft, standard)
            for score in ("matched_accuracy", "paper_accuracy")
        ]
        lines.append(table_row(title, *cells, seconds(soft, standard)))
    theirs = stored["elsewhere"]["authors"]
    names = ("soft_matched", "soft_paper", "standard_matched", "standard_paper", "seconds")
    return [*lines, table_row("authors' released GDM, one simulation", *(theirs[name] or "-" for name in names))]


def forecasts(stored: Stored) -> list[str]:
    """Return forecasts and bounds on held-out tracks."""
    found = stored["nascar"]["values"]
    lines = table_head(
        "",
        "soft: R², 10 steps",
        "soft: coverage",
        "soft: score",
        "standard: R², 10 steps",
        "standard: coverage",
        "standard: score",
    )
    for row in FORECASTS:
        cells = []
        for setting in ("soft", "standard"):
            one = found[setting][row]
            coverage = one.get("coverage_90")
            cells.append(spread(one, "r2_10", 4))
            cells.append("-" if coverage is None else f"{coverage['worst']:.2f}-{coverage['best']:.2f}")
            cells.append(spread(one, "elbo_test", 2))
        lines.append(table_row(STATES.get(row, row), *cells))
    return lines


def intervals(stored: Stored) -> list[str]:
    """Return the coverage of 90 % intervals over horizons 1 to 10, as calibrated and adaptive."""
    found: dict[str, dict[bool, Sequence[float]]] = {}
    for name, n, rate, *measured in stored["intervals"]["values"]["rows"]:
        found.setdefault(f"{n} {name}" if n > 1 else name, {})[rate > 0] = measured
    lines = table_head("", "calibrated: coverage", "calibrated: width", "adaptive: coverage", "adaptive: width")
    for title, by_kind in found.items():
        cells = []
        for adaptive in (False, True):
            low, _, high, width, widest = by_kind[adaptive]
            cells += [f"{low:.3f}-{high:.3f}", f"{width:.2f} ({widest:.2f})"]
        lines.append(table_row(title, *cells))
    return lines


def ceiling(stored: Stored) -> list[str]:
    """Return the sentence on the accuracy that labels could reach."""
    one = stored["ceiling"]["values"]
    return [
        f"A network trained on 150,000 labelled samples of the same simulation reaches {one['mean']:.3f} on the",
        f"{one['n']} reported soft tracks ({one['worst']:.3f} on the worst).",
    ]


def costs(stored: Stored) -> list[str]:
    """Return the cost of a fit, by recipe, by length and on recordings of mice."""
    lines = []
    for part in ("speed", "scale", "mice"):
        values = stored[part]["values"]
        lines += [f"**{values['title']}**", "", *table_head(*values["columns"])]
        lines += [table_row(*(number(cell) for cell in row)) for row in values["rows"]]
        lines.append("")
    return lines[:-1]


def visits(stored: Stored) -> list[str]:
    """Return the waiting times of visitors next to the goals."""
    lines = table_head("action", "measured", "goal", "load")
    for title, one in stored["app"]["values"].items():
        goal = "" if one["goal"] is None else f"{one['goal']:g} {one['unit']}".strip()
        lines.append(table_row(title, f"{number(one['value'])} {one['unit']}".strip(), goal, number(one["load"])))
    return lines


def origin(stored: Stored) -> list[str]:
    """Return the code version and machine of each part."""
    lines = table_head("part", "code", "machine", "load")
    for name, part in stored.items():
        if name != "elsewhere":
            machine = part["machine"]
            words = f"{machine['cores']} cores, {machine['processor']}"
            lines.append(table_row(name, part["code"], words, number(machine["load_1min"])))
    return lines


def exports(_: Stored) -> list[str]:
    """Return the names of gdm_core with the first sentence of their docstrings."""
    import gdm_core

    found = {name: getattr(gdm_core, name) for name in gdm_core.__all__ if not name.endswith(("__", "Error"))}
    return [*table_head("name", "content"), *(table_row(f"`{name}`", summary(one)) for name, one in found.items())]


def methods(_: Stored) -> list[str]:
    """Return the public methods of models with the first sentence of their docstrings."""
    from gdm_core.models.base import StateModel
    from gdm_core.models.estimator import Estimator
    from gdm_core.models.switching.base import SwitchingModel

    lines = table_head("method", "content")
    for kind in (StateModel, SwitchingModel, Estimator):
        for name, one in vars(kind).items():
            if inspect.isfunction(one) and not name.startswith("_"):
                given = inspect.signature(one).parameters.values()
                call = ", ".join(str(each.replace(annotation=each.empty)) for each in given if each.name != "self")
                lines.append(table_row(f"`{name}({call})`", summary(one)))
    return lines


def summary(thing: Any) -> str:
    """Return the first clause of a docstring."""
    return re.split(r"[.;]\s|\.$", inspect.getdoc(thing) or "", maxsplit=1)[0].replace("\n", " ")


BLOCKS: dict[str, Callable[[Stored], list[str]]] = {
    block.__name__: block
    for block in (claims, states, forecasts, intervals, ceiling, costs, visits, origin, exports, methods)
}


# ---- formatting ---------------------------------------------------------------------------------------------------
def table_row(*cells: str) -> str:
    return f"| {' | '.join(cells)} |"


def table_head(*cells: str) -> list[str]:
    return [table_row(*cells), "|" + "---|" * len(cells)]


def number(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float) and abs(value) < 1000:
        return f"{value:.3g}"
    return f"{value:,.0f}" if isinstance(value, int | float) else str(value)


def spread(columns: Stored, name: str, digits: int = 3, *, worst: bool = False) -> str:
    """Return mean ± standard deviation over seeds, and the worst seed if requested."""
    one = columns.get(name)
    if one is None:
        return "-"
    text = f"{one['mean']:.{digits}f}" + (f"±{one['sd']:.{digits}f}" if "sd" in one else "")
    return f"{text} ({one['worst']:.{digits}f})" if worst and "worst" in one else text


def seconds(*settings: Stored) -> str:
    """Return the median processor times of several settings as a range."""
    found = sorted(f"{one['cpu_seconds']['median']:.1f}" for one in settings if "cpu_seconds" in one)
    return "-" if not found else found[0] if found[0] == found[-1] else f"{found[0]}-{found[-1]}"


# ---- pages --------------------------------------------------------------------------------------------------------
def load() -> Stored:
    """Read docs/results.json."""
    stored: Stored = json.loads((ROOT / "docs" / "results.json").read_text(encoding="utf-8"))
    return stored


def render(text: str, stored: Stored) -> str:
    """Return the page with every marked place filled in."""

    def fill(match: re.Match[str]) -> str:
        return match.group(1) + "\n".join(BLOCKS[match["name"]](stored)) + "\n" + match.group(3)

    return MARKED.sub(fill, text)


def main() -> int:
    stored, stale = load(), []
    for name in PAGES:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        if (new := render(text, stored)) != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(new, encoding="utf-8")
    print("\n".join(stale) or "All pages are up to date.")
    return int("--check" in sys.argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
