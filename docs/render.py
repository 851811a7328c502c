"""Write the numbers of README and docs from docs/results.json, so that no two pages can disagree: `make pages`.

A page says where: `<!-- numbers: NAME -->`, what this writes, `<!-- end -->`. `--check` writes nothing and exits with 1
where a page is not what it should be.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
PAGES = ("README.md", *(f"docs/{name}.md" for name in ("scores", "performance", "method", "switching-models", "pdlds")))
MARKED = re.compile(r"(<!-- numbers: (?P<name>[\w-]+) -->\n).*?(<!-- end -->)", re.S)
Stored = dict[str, Any]

# row of the comparison -> what README calls it
MODELS = {
    "gdm": "**GDM**",
    "gdm, untrained": "the same, untrained",
    "gdm-mixture": "3-level mixture (one setting tuned on four of these ten)",
    "gdm-rnn": "GDM-RNN",
    "arhmm-ro": "AR-HMM, recurrent only",
    "rslds-ro": "rSLDS, recurrent only",
    "slds-sticky": "SLDS, sticky",
    "pdlds": "p-dLDS, largest coefficient",
    "k-means on steps": "k-means on steps, no model",
    "Gaussian HMM on steps": "Gaussian HMM on steps",
    "gdm-paper": 'the paper\'s recipe here, `preset="paper"`',
    "gdm-paper, untrained": "the same, untrained",
}
SWITCHING = {
    "arhmm": "AR-HMM stationary",
    "arhmm-sticky": "AR-HMM sticky",
    "arhmm-ro": "AR-HMM recurrent only",
    "slds-sticky": "SLDS sticky",
    "rslds-sticky": "rSLDS sticky recurrent",
    "rslds-ro": "rSLDS recurrent only",
}
BASELINES = (
    "majority class",
    "k-means on position",
    "Gaussian HMM on position",
    "10-NN on position",
    "k-means on steps",
    "Gaussian HMM on steps",
    "10-NN on steps",
)


def comparison(stored: Stored) -> list[str]:
    """README's table: every model, its untrained control, and what has to be beaten."""
    found = stored["nascar"]["values"]
    lines = table_head(
        "", "soft: matched (worst)", "soft: paper's", "standard: matched", "standard: paper's", "processor s"
    )
    for row, words in MODELS.items():
        soft, standard = found["soft"][row], found["standard"][row]
        cells = [
            spread(soft, "matched_accuracy", worst=True),
            spread(soft, "paper_accuracy"),
            spread(standard, "matched_accuracy"),
            spread(standard, "paper_accuracy"),
            seconds(soft, standard),
        ]
        lines.append(table_row(words + earlier(soft["code"]), *cells))
    taught, theirs = stored["ceiling"]["values"], stored["elsewhere"]["authors"]
    best = f"*{taught['mean']:.3f} ({taught['worst']:.3f})*"
    words = "*a network taught by 150 labelled tracks*" + earlier(stored["ceiling"]["code"])
    lines.append(table_row(words, best, "", "", "", ""))
    cells = [theirs[name] for name in ("soft_matched", "soft_paper", "standard_matched", "standard_paper", "seconds")]
    return [*lines, table_row("authors' released GDM, their one simulation", *cells)]


def all_models(stored: Stored) -> list[str]:
    """Every model of the comparison with every score."""
    lines = []
    for setting, found in stored["nascar"]["values"].items():
        lines += [f"**{setting.capitalize()} track**", ""]
        lines += table_head(
            "", "matched (worst)", "paper's", "majority vote", "R², 10 steps", "90 % holds", "test ELBO"
        )
        for row, columns in found.items():
            if row in BASELINES:
                continue
            coverage = columns.get("coverage_90")
            held = (
                "-" if coverage is None else f"{coverage['mean']:.2f} ({coverage['worst']:.2f}-{coverage['best']:.2f})"
            )
            marked = row + earlier(columns["code"])
            cells = [
                spread(columns, "matched_accuracy", worst=True),
                spread(columns, "paper_accuracy"),
                spread(columns, "majority_map_accuracy"),
                spread(columns, "r2_10", 4),
                held,
                spread(columns, "elbo_test", 2),
            ]
            lines.append(table_row(marked, *cells))
        lines.append("")
    return [
        *lines,
        "\\* of an earlier version of the code, before results were kept; rounded as it was printed.",
    ]


def baselines(stored: Stored) -> list[str]:
    """What learns no dynamics."""
    found = stored["nascar"]["values"]
    lines = table_head("", "soft: matched", "soft: paper's metric", "standard: matched", "standard: paper's metric")
    for row in BASELINES:
        cells = [
            spread(found[setting][row], score)
            for setting in ("soft", "standard")
            for score in ("matched_accuracy", "paper_accuracy")
        ]
        lines.append(table_row(row, *cells))
    return lines


def forecasts(stored: Stored) -> list[str]:
    """Prediction ten steps ahead beside what needs no model of states."""
    found = stored["nascar"]["values"]
    lines = table_head("10-step R²", "soft", "standard")
    for row, words in (("gdm", "GDM"), ("linear AR(1)", "linear AR(1)"), ("persistence", "persistence")):
        lines.append(table_row(words, *(spread(found[setting][row], "r2_10", 4) for setting in ("soft", "standard"))))
    return lines


def switching(stored: Stored) -> list[str]:
    """The models with hard states."""
    lines = []
    for setting, found in stored["nascar"]["values"].items():
        lines += table_head(setting, "paper's metric", "matched", "test ELBO a sample", "processor s")
        for row, words in SWITCHING.items():
            one = found[row]
            cells = [
                spread(one, "paper_accuracy"),
                spread(one, "matched_accuracy"),
                spread(one, "elbo_test", 2),
                seconds(one),
            ]
            lines.append(table_row(words, *cells))
        lines.append("")
    return lines[:-1]


def pdlds(stored: Stored) -> list[str]:
    """What p-dLDS reaches, beside itself untrained and a linear prediction."""
    found = stored["nascar"]["values"]
    lines = table_head("", *found)
    for words, row, score, digits in (
        ("10-NN from `predict_proba`", "pdlds", "paper_accuracy", 3),
        ("the same, model untrained", "pdlds, untrained", "paper_accuracy", 3),
        ("state accuracy, matched one to one", "pdlds", "matched_accuracy", 3),
        ("R² ten steps ahead", "pdlds", "r2_10", 3),
        ("R² ten steps ahead, linear AR(1)", "linear AR(1)", "r2_10", 3),
        ("90 % envelope as calibrated holds, mean over horizons", "pdlds", "coverage_90", 3),
    ):
        lines.append(table_row(words, *(spread(one[row], score, digits) for one in found.values())))
    return [
        *lines,
        table_row("fit with calibration of forecasts, processor s", *(seconds(one["pdlds"]) for one in found.values())),
    ]


def ceiling(stored: Stored) -> list[str]:
    """The sentence on what labels could reach."""
    one = stored["ceiling"]["values"]
    others = f", {one['others']:.3f} on ten others for each of them" if "others" in one else ""
    return [
        "A network trained on 150,000 *labelled* samples of the very simulation reaches "
        f"{one['mean']:.3f} over the {one['n']} reported tracks,",
        f"{one['worst']:.3f} on the worst of them{others}.",
    ]


def speed(stored: Stored) -> list[str]:
    """The sentence on what a fit costs."""
    fast, paper, whole, _ = (row[1] for row in stored["speed"]["values"]["rows"])
    held = stored["envelopes"]["values"]["rows"]
    fixed, learning = (
        " and ".join(
            f"{100 * low:.1f}-{100 * high:.1f} % ({name.split()[0]})"
            for name, _, rate, steps, low, _, high, *_ in held
            if steps == "all" and name.endswith("tracks") and (rate > 0) == adaptive
        )
        for adaptive in (False, True)
    )
    return [
        f"A fit at T = 1,000 takes {fast:.2f} processor seconds; the paper's recipe, in the same process, {paper:.1f} until",
        f"it stops itself ({paper / fast:.0f} times ours), {whole:.0f} for all of its 4,000 steps (extrapolated). 90 % envelopes",
        f"that learn on the way hold {learning} of ten new tracks each, at any horizon to 10; as calibrated, {fixed}.",
    ]


def envelopes(stored: Stored) -> list[str]:
    """What 90 % envelopes hold, by horizon, and how wide they are."""
    found: dict[tuple[str, int, float], dict[Any, Sequence[float]]] = {}
    for name, n, rate, steps, *measured in stored["envelopes"]["values"]["rows"]:
        found.setdefault((name, n, rate), {})[steps] = measured
    shown = (1, 5, 10)
    lines = table_head(
        "", "bands", *(f"{h} step{'s' * (h > 1)} ahead" for h in shown), "all horizons", "width (widest)"
    )
    for (name, n, rate), by_steps in found.items():
        cells = [
            f"{mean:.3f}" + (f" ({low:.3f}-{high:.3f})" if n > 1 else "")
            for low, mean, high, *_ in (by_steps[h] for h in shown)
        ]
        low, _, high, wide, widest = by_steps["all"]
        words = f"{n} {name}" if n > 1 else name
        kind = "adaptive" if rate else "as calibrated"
        lines.append(table_row(words, kind, *cells, f"{low:.3f}-{high:.3f}", f"{wide:.2f} ({widest:.2f})"))
    return lines


def costs(stored: Stored) -> list[str]:
    """What a fit costs, by length and on recordings of mice."""
    lines = []
    for part in ("speed", "scale", "mice"):
        values = stored[part]["values"]
        lines += [f"**{values['title']}**", "", *table_head(*values["columns"])]
        lines += [table_row(*(number(cell) for cell in row)) for row in values["rows"]]
        lines.append("")
    return lines[:-1]


def browser(stored: Stored) -> list[str]:
    """The sentence on what a visitor waits for."""
    found = {name: f"{number(one['value'])} {one['unit']}" for name, one in stored["app"]["values"].items()}
    home = found["first visit of Home, warm server, to a finished picture"]
    tau, k = found["tau released, picture changed"], found["K released, picture changed"]
    stands, seen = found["K released, finished fit stands"], found["K released, a fit already seen"]
    crowd = found["10 people, 120 s: picture p95"]
    rates = {name: one["value"] for name, one in stored["app"]["values"].items() if name.endswith("pictures a second")}
    k_rates = [rate for name, rate in rates.items() if "K held" in name]
    soft = [rate for name, rate in rates.items() if "K held" not in name]
    held = f"{min(soft):.0f} to {max(soft):.0f} pictures a second for softness and {min(k_rates):.1f} or more for K"
    where = f"In the browser{earlier(stored['app']['code'])}, server and browser on the same two cores"
    return [
        f"{where}: Home in {home}; tau released to a changed picture {tau};",
        f"K released to a changed picture {k} and to the finished fit {stands}; a fit already seen {seen}; while a thumb is held,",
        f"{held}; ten people at once, a move every 5 s each: 95 % of pictures within {crowd} ([all of it](docs/performance.md)).",
    ]


def visits(stored: Stored) -> list[str]:
    """What visitors wait for, beside the goals."""
    lines = table_head("what", "measured", "goal", "load")
    for name, one in stored["app"]["values"].items():
        goal = "" if one["goal"] is None else f"{one['goal']:g} {one['unit']}".strip()
        lines.append(table_row(name, f"{number(one['value'])} {one['unit']}".strip(), goal, number(one["load"])))
    return lines


def origin(stored: Stored) -> list[str]:
    """Which code and machine each part was measured with."""
    lines = table_head("part", "code", "machine", "load")
    for name, part in stored.items():
        if name != "elsewhere":
            machine, code = part["machine"], part["code"]
            if name == "nascar":
                rows = [row for found in part["values"].values() for row in found.values()]
                code = ", ".join(sorted({row["code"] for row in rows}))
            words = f"{machine['cores']} cores, {machine['processor']}"
            lines.append(table_row(name, code, words, number(machine["load_1min"])))
    return lines


BLOCKS: dict[str, Callable[[Stored], list[str]]] = {
    made.__name__.replace("_", "-"): made
    for made in (
        comparison,
        all_models,
        baselines,
        forecasts,
        envelopes,
        speed,
        switching,
        pdlds,
        ceiling,
        costs,
        browser,
        visits,
        origin,
    )
}


# ---- words --------------------------------------------------------------------------------------------------------
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


def earlier(code: str) -> str:
    """The mark of what was measured before results named the version of the code, and typed in from a page."""
    return "" if "+" in code else " \\*"


def spread(columns: Stored, name: str, digits: int = 3, *, worst: bool = False) -> str:
    """Mean ± standard deviation over seeds, the worst behind it where asked for."""
    one = columns.get(name)
    if one is None:
        return "-"
    text = f"{one['mean']:.{digits}f}" + (f" ± {one['sd']:.{digits}f}" if "sd" in one else "")
    return f"{text} ({one['worst']:.{digits}f})" if worst and "worst" in one else text


def seconds(*settings: Stored) -> str:
    """The medians of processor time, as a range."""
    found = sorted(f"{one['cpu_seconds']['median']:.1f}" for one in settings if "cpu_seconds" in one)
    return "" if not found else found[0] if found[0] == found[-1] else f"{found[0]}-{found[-1]}"


# ---- pages --------------------------------------------------------------------------------------------------------
def load() -> Stored:
    """The stored result."""
    stored: Stored = json.loads((ROOT / "docs" / "results.json").read_text(encoding="utf-8"))
    return stored


def rendered(text: str, stored: Stored) -> str:
    """A page with every marked place written anew."""

    def write(match: re.Match[str]) -> str:
        return match.group(1) + "\n".join(BLOCKS[match["name"]](stored)) + "\n" + match.group(3)

    return MARKED.sub(write, text)


def main() -> int:
    stored, stale = load(), []
    for name in PAGES:
        path = ROOT / name
        text = path.read_text(encoding="utf-8")
        if (wanted := rendered(text, stored)) != text:
            stale.append(name)
            if "--check" not in sys.argv:
                path.write_text(wanted, encoding="utf-8")
    print("\n".join(stale) or "Nothing to write.")
    return int("--check" in sys.argv and bool(stale))


if __name__ == "__main__":
    sys.exit(main())
