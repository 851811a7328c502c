"""Robustness of a conclusion: the same question to fits with other seeds, numbers of states and definitions of states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from gdm_core.errors import GdmError
from gdm_core.study.design import LEVEL
from gdm_core.study.finding import STATE_COLUMNS, order_findings, repeat_comparison
from gdm_core.study.flow import Flow
from gdm_core.study.study import Study
from gdm_core.study.text import format_p
from gdm_core.text import listed, plural

SAME = "this fit"
Settings = Mapping[str, Any]


def list_variants(family: str, settings: Settings) -> dict[str, dict[str, Any]]:
    """Return label -> settings of the refits: other seeds, K - 1, K + 1 and the other definition of states.

    family     name of the model family, such as "gdm"
    settings   parameters of the fit in the study
    """
    k, seed = int(settings["n_states"]), int(settings.get("seed", 0))
    changes: dict[str, dict[str, Any]] = {f"seed {seed + i}": {"seed": seed + i} for i in (1, 2)}
    changes |= {f"K = {n}": {"n_states": n} for n in (k - 1, k + 1) if n >= 2}
    if family == "gdm" and settings.get("transition", "linear") != "gru":
        linear = settings.get("posterior") == "linear"
        changes["states by dynamics" if linear else "states by position"] = {
            "posterior": "window" if linear else "linear"
        }
    return {label: {**settings, **change} for label, change in changes.items()}


def check_robustness(
    study: Study, table: pd.DataFrame, flow: Flow | None, refit: Callable[[str], Study], labels: Iterable[str]
) -> Iterator[pd.DataFrame]:
    """Yield a table with a row for each fit, after each refit; stop iterating to cancel.

    Columns are fit, flow_z, flow_p, significant (states after correction), tested, confirmed (findings of this fit with the
    same direction in the most similar state), agrees, and trouble.

    table    result of `compare` in this fit
    flow     result of the flow test in this fit, if any
    refit    returns the study for the settings of a label; a GdmError is reported as trouble
    labels   of the refits, as from `list_variants`
    """
    first = _count_findings(SAME, table, flow)
    rows = [first | {"confirmed": first["significant"], "agrees": True, "trouble": ""}]
    question, findings = table.attrs["question"], order_findings(table)
    yield pd.DataFrame(rows)
    for label in labels:
        try:
            other = refit(label)
            its, its_flow = repeat_comparison(other, table), None
            if flow is not None:
                its_flow = other.flow(question.between[0], n_permutations=len(flow.null), **question.options)
        except GdmError as error:
            rows.append({"fit": label, "agrees": None, "trouble": str(error)})
        else:
            row = _count_findings(label, its, its_flow)
            confirmed = _count_confirmed(study, table, findings, other, its)
            same = (row["significant"] > 0) == bool(findings)
            if flow is not None and its_flow is not None:
                same = (its_flow.p < LEVEL) == (flow.p < LEVEL) and same
            rows.append(row | {"confirmed": confirmed, "agrees": same, "trouble": ""})
        yield pd.DataFrame(rows)


def _count_findings(label: str, table: pd.DataFrame, flow: Flow | None) -> dict[str, Any]:
    numbers = {"flow_z": np.nan, "flow_p": np.nan} if flow is None else {"flow_z": flow.z, "flow_p": flow.p}
    return {"fit": label, **numbers, "significant": len(order_findings(table)), "tested": int(table["p"].notna().sum())}


def _count_confirmed(study: Study, table: pd.DataFrame, findings: list[int], other: Study, its: pd.DataFrame) -> int:
    """Return how many findings have the same direction, and survive correction, in the most similar states of another fit."""
    names = [name for name in study.sheet.names if name in other.recordings]
    ours, theirs = (np.concatenate([one.recordings[name].labels for name in names]) for one in (study, other))
    joint = pd.crosstab(ours, theirs)
    union = joint.sum(axis=1).to_numpy()[:, None] + joint.sum(axis=0).to_numpy() - joint
    partner = dict((joint / union).idxmax(axis=1)) | {"all": "all"}
    columns = [c for c in STATE_COLUMNS if c in table]
    signs = np.sign(its["effect"].to_numpy())
    known = {tuple(its.loc[place, columns]): signs[place] for place in order_findings(its)}
    wanted = [tuple(partner.get(value) for value in table.loc[row, columns]) for row in findings]
    mine = np.sign(table["effect"].to_numpy()[findings])
    return sum(known.get(states) == sign for states, sign in zip(wanted, mine, strict=True))


def describe_contradictions(rows: pd.DataFrame) -> str:
    """Return a warning that counts the refits with another conclusion; "" without any."""
    agrees = rows.loc[rows["fit"] != SAME, "agrees"].dropna().astype(bool)
    against = int((~agrees).sum())
    return f"Not robust: {against} of {plural(len(agrees), 'refit')} reach another conclusion." if against else ""


def describe_robustness(rows: pd.DataFrame, n_refits: int | None = None) -> str:
    """Return a sentence on whether the conclusion holds in the refits.

    n_refits   number of refits, if some of them still run
    """
    others = rows[rows["fit"] != SAME]
    fitted = others[others["trouble"] == ""]
    if fitted.empty or len(others) < (n_refits or 0):
        return f"Robustness: {len(fitted)} of {n_refits or len(others)} refits finished."
    against = fitted[~fitted["agrees"].astype(bool)]
    sentence = f"The conclusion holds in {len(fitted) - len(against)} of {plural(len(fitted), 'refit')}"
    if len(against):
        pairs = zip(against["fit"], against["flow_p"], strict=True)
        words = [label if np.isnan(p) else f"{label} (flow {format_p(p)})" for label, p in pairs]
        sentence += f"; it differs with {listed(words)}"
    failed = "" if len(fitted) == len(others) else f" {plural(len(others) - len(fitted), 'refit')} failed."
    return f"{sentence}.{failed}"
