"""Layouts of values for other programs: wide for R, grouped for Prism."""

from __future__ import annotations

import pandas as pd

_STATES = ("state", "name", "from_state", "to_state")


def to_wide(values: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each unit and condition, with a column for each state.

    values   result of `Study.per_unit`, whose last column is the measure
    """
    keys, measure = [c for c in values.columns[:-1] if c not in _STATES], str(values.columns[-1])
    columns = f"{measure} " + values["name"]
    wide = values.assign(column=columns).pivot(index=keys, columns="column", values=measure)
    return wide[columns.unique()].rename_axis(columns=None).reset_index()


def to_prism(values: pd.DataFrame) -> pd.DataFrame:
    """Return a row for each state, with side-by-side columns for the units of each group, as Prism's grouped tables have.

    values   result of `Study.per_unit`, whose last column is the measure
    """
    unit, *factors = [c for c in values.columns[:-1] if c not in _STATES]
    states = values["name"]
    order = {name: place for place, name in enumerate(dict.fromkeys(values[unit]))}  # one place for paired sessions
    groups = values[factors].astype(str).agg(" ".join, axis=1)
    paired = values.drop_duplicates([unit, *factors]).groupby(unit).size().max() > 1
    place = values[unit].map(order) if paired else values.groupby([states, groups]).cumcount()
    long = pd.DataFrame({"state": states, "group": groups, "place": place + 1, "value": values.iloc[:, -1]})
    wide = long.pivot(index="state", columns=["group", "place"], values="value")
    wide = wide.reindex(index=states.unique(), columns=groups.unique(), level=0)
    wide.columns = [" ".join(map(str, column)) for column in wide.columns]
    return wide.rename_axis("state").reset_index()
