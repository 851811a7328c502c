"""The note next to each panel, made from the results that the panel shows."""

from __future__ import annotations

from statistics import fmean

from gdm_core.text import format_percent
from gdm_studio import paper
from pages.paper import numbers
from pages.paper.panels import Material, format_score
from pages.ui.shipped import load_card

USED = 0.01  # mean share of a state that counts as used
SAME = 0.01  # difference in accuracy that tells nothing


def write_note(panel: str, material: Material) -> str:
    """Return the note of a panel; "" if its fits are missing."""
    return {"table": _table, "nascar": _nascar, "formula1": _formula1, "usage": _usage, "mice": _mice}[panel](material)


def _mean(material: Material, experiment: str, label: str, score: str) -> float | None:
    known = [cell.scores[score] for cell in material.cells(experiment).get(label, []) if score in cell.scores]
    return fmean(known) if known else None


def _table(material: Material) -> str:
    experiment, released = f"table/{material.setting}/fair", numbers.RELEASED[material.setting]
    names = ("matched_accuracy", "untrained.matched_accuracy", "paper_accuracy", "untrained.paper_accuracy")
    ours = [mean for name in names if (mean := _mean(material, experiment, "GDM", name)) is not None]
    if len(ours) < len(names):
        return ""
    theirs = [float(released[label].split()[0]) for label in ("GDM", "GDM, untrained")]
    return (
        "GDM, trained and untrained: {:.2f} and {:.2f} by matched accuracy, {:.2f} and {:.2f} by the paper's metric (ours, new "
        "tracks), {:.2f} and {:.2f} with the released code. Compare models by the last column."
    ).format(*ours, *theirs)


def _nascar(material: Material) -> str:
    return "Soft states blend where the track blends. p-dLDS, whose weights can be negative, does not recover them."


def _formula1(material: Material) -> str:
    label = f"GDM, K = {paper.SHOWN_STATES}"
    trained, untrained = (
        _mean(material, "formula1", label, score) for score in ("paper_accuracy", "untrained.paper_accuracy")
    )
    if trained is None or untrained is None:
        return ""
    advice = " Compare at small K." if trained - untrained < SAME else ""
    return f"{label}: {trained:.3f} trained, {untrained:.3f} untrained.{advice}"


def _usage(material: Material) -> str:
    cell = material.find_fit("formula1", f"GDM, K = {paper.SHOWN_STATES}")
    if cell is None:
        return ""
    shares = cell.states.mean(axis=0)
    used = shares[shares >= USED]
    many = "All" if len(used) == len(shares) else f"{len(used)} of"
    low, high = format_percent(float(used.min())), format_percent(float(used.max()))
    return f"{many} {len(shares)} states are used, {low} to {high} each. The fit is that of Figure 3."


def _mice(material: Material) -> str:
    theirs, majority = (float(numbers.CALMS21[row][-1]) for row in ("GDM", "majority class"))
    notes = [f"CalMS21: GDM {theirs:.3f}, always guessing the most common label {majority:.3f} (released code)."]
    gdm, lines = material.cells("mice").get("GDM", []), material.baselines("mice")
    if gdm and "majority class" in lines:
        data, guess = material.data_name("mice"), format_score([lines["majority class"]], "paper_accuracy")
        notes.append(f"{data}, paper's settings: GDM {format_score(gdm, 'paper_accuracy')}, guessing {guess}.")
    card = load_card("behaviour")
    if card is not None:
        guesses = dict(card.score.references)
        notes.append(
            f"Behaviour's settings on other simulated mice: GDM {card.score.value:.3f}, guessing "
            f"{guesses['majority class']:.3f}."
        )
    return " ".join(notes)
