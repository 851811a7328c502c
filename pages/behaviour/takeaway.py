"""What to take along: named states, bouts and features beside the panel that all pages share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.trials import Trial
from pages.behaviour import drawn
from pages.behaviour.view import Here, View
from pages.ui import exports, figures, shell
from pages.ui.card import Score


def panel(page: str, view: View, here: Here, scores: Sequence[Score]) -> None:
    """Everything that the page shows, as files."""
    shown = view.shown
    assert here.states is not None
    rows = _rows(view, here)
    naming = here.naming or view.naming
    recipe = view.data.recipe
    if naming.changed:
        recipe = replace(recipe, after=naming.code(shown.order))
    facts = [
        ("data", view.data.about),
        ("figures show", view.data.title(view.index)),
        ("names", ", ".join(here.names[k] for k in naming.used)),
        ("bouts", f"{view.rule.smooth_s:g} s of smoothing, none below {view.rule.shortest_s:g} s"),
    ]
    used = {"step": here.step, "unit": here.unit.name}
    exports.panel(
        exports.Export(
            page=page,
            title=f"{_title(page)}: {view.data.about}",
            about=f"Figures show {here.trial.name}. {' '.join(view.data.licences)}",
            shown=shown,
            look=view.look,
            recipe=recipe,
            figures={
                "States over time": lambda: figures.state_strips(rows, **used),
                "Shares of each state": lambda: drawn.proportions(here),
                "Use of each state": lambda: drawn.usage(here),
                "Bouts": lambda: drawn.dwell(here),
            },
            keys={"States over time": "strips"},
            scores=scores,
            facts=facts,
            link=exports.link(),
            names=here.names,
            data=lambda: files(page, view),
        )
    )


def files(page: str, view: View) -> None:
    """States, bouts and features of one trial, named and merged as on the page."""
    data = view.data
    index = st.selectbox(
        "Trial",
        range(len(data.trials)),
        index=view.index,
        format_func=lambda i: data.title(i) if i is not None else "",
        key=f"{page}-take-trial",
    )
    at = replace(view, index=index if index is not None else view.index).at(view.shown)
    if at.states is None or not view.exact:
        shell.quiet("The exact states of this trial are on their way.")
        return
    trial, stem = at.trial, "".join(c if c.isalnum() else "-" for c in at.trial.name.lower())
    offers: list[tuple[str, Callable[[], bytes], str, str]] = [
        ("States (CSV)", lambda: exports.csv(named_states(at)), f"{stem}-states.csv", "text/csv"),
        (
            "States (Parquet)",
            lambda: exports.parquet(named_states(at)),
            f"{stem}-states.parquet",
            "application/octet-stream",
        ),
        ("Bouts (CSV, as in BORIS)", lambda: exports.csv(bouts_of(at)), f"{stem}-bouts.csv", "text/csv"),
        ("Features (CSV)", lambda: exports.csv(features_of(trial)), f"{stem}-features.csv", "text/csv"),
    ]
    for label, make, name, kind in offers:
        st.download_button(
            label,
            data=make,
            file_name=f"{page}-{name}",
            mime=kind,
            key=f"{page}-take-{label}",
            on_click="ignore",
            icon=":material/download:",
            width="stretch",
        )
    if view.naming.changed:
        shell.quiet("Names and mergers of the page are in these files.")


def named_states(here: Here) -> pd.DataFrame:
    """time, p_1 .. p_K, state, entropy, and the name of the bout at each moment; empty columns of merged states are left out."""
    assert here.states is not None
    assert here.bouts is not None
    kept = here.used
    table = exports.states_table(here.states[:, kept], here.trial)
    table["bout"] = [here.names[k] for k in here.bouts]
    if (expert := here.labels) is not None:
        table["expert"] = expert
    # Numbers stay those of the page: after a merger there may be p_1 and p_3 alone.
    table["state"] = np.array(kept)[table["state"] - 1] + 1
    return table.rename(columns={f"p_{j + 1}": f"p_{k + 1}" for j, k in enumerate(kept)})


def bouts_of(here: Here) -> pd.DataFrame:
    """One row a bout, in the columns of BORIS: bouts as shown, with the mean share of their state."""
    assert here.states is not None
    assert here.bouts is not None
    hot = np.asarray(figures.one_hot(here.bouts, len(here.names)), np.float32)
    table = exports.bouts_table(hot, here.trial, here.names)
    starts = np.flatnonzero(np.diff(here.bouts, prepend=-1))
    stops = np.append(starts[1:], len(here.bouts))
    state = here.bouts[starts]
    total = np.concatenate([np.zeros((1, hot.shape[1])), np.cumsum(here.states, axis=0, dtype=np.float64)])
    table["Mean share"] = ((total[stops, state] - total[starts, state]) / (stops - starts)).round(4)
    return table


def features_of(trial: Trial) -> pd.DataFrame:
    """time and every channel that the model saw."""
    table = pd.DataFrame(trial.y, columns=list(trial.channels))
    table.insert(0, "time", trial.seconds)
    return table


def _rows(view: View, here: Here) -> dict[str, np.ndarray]:
    assert here.states is not None
    rows: dict[str, np.ndarray] = {}
    if (expert := here.labels) is not None and (words := view.data.words) is not None:
        rows["expert"] = words.hot(expert)
    assert here.bouts is not None
    return rows | {"bouts": figures.one_hot(here.bouts, len(here.names)), "states": here.states}


def _title(page: str) -> str:
    from pages.ui import navigation

    return navigation.info(page).title
