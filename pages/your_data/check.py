"""What was understood of a file, before any fit: roles, clock, gaps and outliers, each of which can be changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from datasets import keypoints
from datasets.keypoints import KeypointTable
from datasets.readers.roles import numeric_values
from datasets.tables import Role, Table
from gdm_core.errors import GdmError
from pages.behaviour.data import FEATURES
from pages.behaviour.recordings import cleaning
from pages.ui import figures, shell
from pages.ui.figures.base import Figure, axis, layout, note, typed
from pages.ui.figures.states import plain
from pages.ui.plot import plot
from pages.your_data.intake import Opened, PoseOptions, TableOptions

UNITS = {"auto": "as guessed", "s": "seconds", "ms": "milliseconds", "min": "minutes", "frames": "frames"}
ROLE_HELP = (
    "time: the clock. channel: what the model explains. position: x and y of a map, also explained. label: what an "
    "expert saw, never fitted. group: one trial for each value. score: a tracker's confidence. ignore: left out."
)
MAX_LINES, MAX_POINTS = 6, 1_200


def table_options(file: Opened) -> TableOptions:
    """The controls of a table, in the sidebar."""
    shell.section("Samples")
    rate = st.number_input(
        "Samples a second (0: as found)",
        0.0,
        1e6,
        0.0,
        key="rate",
        bind="query-params",
        help="As found in the time column; without one, a sample counts as a second.",
    )
    fill = st.slider(
        "Fill gaps up to (s)", 0.0, 5.0, 0.0, 0.1, key="fill", bind="query-params",
        help="Straight lines across short gaps. Longer ones stay missing, and models skip them.",
    )  # fmt: skip
    outliers = st.toggle(
        "Drop outliers", False, key="outliers", bind="query-params", help="Values that jump and return."
    )
    resample = st.toggle(
        "Even clock", False, key="even", bind="query-params", help="For irregular time: samples at a fixed step."
    )
    place = st.toggle("Explain positions too", True, key="places", bind="query-params")
    roles = edited_roles(file)
    return TableOptions(
        tuple(roles.items()),
        rate_hz=float(rate) if rate else None,
        resample=bool(resample),
        fill_seconds=min(max(float(fill), 0.0), 5.0),
        drop_outliers=bool(outliers),
        position_is_channel=bool(place),
    )


def edited_roles(file: Opened) -> dict[str, str]:
    """The roles as they stand in the editor of this file, the guesses where it has not been touched."""
    table = file.content
    assert isinstance(table, Table)
    roles = {name: str(role) for name, role in table.roles.items()}
    changes = st.session_state.get(f"your-data-roles-{file.digest}", {}).get("edited_rows", {})
    names = list(roles)
    for row, values in changes.items():
        if "role" in values and int(row) < len(names):
            roles[names[int(row)]] = values["role"] or str(Role.IGNORE)
    return roles


def table_panel(file: Opened, options: TableOptions) -> bool:
    """Roles, the report and a first look. Whether the table can be fitted as it stands."""
    table = file.content
    assert isinstance(table, Table)
    guessed = pd.DataFrame(
        {
            "column": list(table.roles),
            "role": [str(role) for role in table.roles.values()],
            "missing": [f"{100 * share:.3g} %" for share in table.frame.isna().mean()],
            "examples": [_examples(table.frame[name]) for name in table.columns],
        }
    )
    with shell.panel("roles", "What the columns are for"):
        shell.quiet("Guessed from names and values; every role can be changed.")
        st.data_editor(
            guessed,
            hide_index=True,
            key=f"your-data-roles-{file.digest}",
            disabled=["column", "missing", "examples"],
            height=min(38 + 36 * len(guessed), 400),
            column_config={
                "role": st.column_config.SelectboxColumn(
                    "role", options=[str(role) for role in Role], required=True, help=ROLE_HELP
                )
            },
        )
    with shell.panel("report", "What was found"):
        try:
            said = table.report(dict(options.roles), options.unit).sentences()  # type: ignore[arg-type]
        except GdmError as error:
            shell.error("These roles do not work together", str(error))
            return False
        sentences(said)
        names = [name for name, role in options.roles if role in (Role.CHANNEL, Role.POSITION)]
        y = np.stack([numeric_values(table.frame[name]) for name in names[:MAX_LINES]], axis=1)
        plot(lines(y, names), key="first-look")
    return True


def pose_options(file: Opened) -> PoseOptions:
    """The controls of a tracking file, in the sidebar."""
    table = file.content
    assert isinstance(table, KeypointTable)
    shell.section("Poses")
    rate = st.number_input(
        "Frames a second", 1.0, 1000.0, float(table.rate_hz), key="fps", bind="query-params",
        help="Most tracking files do not say.",
    )  # fmt: skip
    features = st.segmented_control(
        "Features",
        list(FEATURES),
        default="egocentric" if len(table.parts) > 1 else "keypoints",
        format_func=lambda name: FEATURES.get(name, name),
        required=True,
        key="features",
        bind="query-params",
        help="What they do: body shape, speeds and the relation to a partner. Raw keypoints: every coordinate.",
    )
    return PoseOptions(
        float(rate or table.rate_hz), features if features in FEATURES else "egocentric", tuple(cleaning().items())
    )


def pose_panel(file: Opened, options: PoseOptions) -> None:
    """Animals and parts, and the report."""
    table = file.content
    assert isinstance(table, KeypointTable)
    with shell.panel("poses", "What was understood"):
        shell.quiet(f"Animals: {', '.join(table.animals)}. Parts: {', '.join(table.parts)}. {table.n_frames:,} frames.")
        least = max(dict(options.repairs)["min_score"], 1e-6)
        sentences(keypoints.report(table, least).sentences())


def sentences(said: list[str]) -> None:
    """The report in words."""
    if not said:
        shell.quiet("Nothing is missing and nothing stands out.")
    for line in said:
        shell.quiet(f"· {line}")


def lines(y: Any, names: list[str]) -> Figure:
    """A first look at some channels, each on its own level: [rows, channels]."""
    values, width = figures.strips.averaged(np.asarray(y, np.float32), MAX_POINTS)
    low, high = np.nanmin(values, axis=0, initial=np.inf), np.nanmax(values, axis=0, initial=-np.inf)
    span = np.where(high > low, high - low, 1.0)
    x = np.arange(len(values)) * width
    return {
        "data": [
            {
                "type": "scatter",
                "mode": "lines",
                "x": typed(x),
                "y": typed((values[:, j] - low[j]) / span[j] * 0.86 + len(names[:MAX_LINES]) - 1 - j),
                "line": {"width": 1.1, "color": "$accent"},
                "hoverinfo": "skip",
            }
            for j in range(values.shape[1])
            if np.isfinite(low[j])
        ],
        "layout": layout(
            xaxis=axis("row", showgrid=False),
            yaxis=axis(showticklabels=False, fixedrange=True, showgrid=False),
            annotations=[
                note(
                    plain(name),
                    0,
                    len(names[:MAX_LINES]) - j - 0.06,
                    xref="paper",
                    yref="y",
                    xanchor="left",
                    yanchor="top",
                )
                | {"bgcolor": "$surface", "font": {"size": 11, "color": "$muted"}}
                for j, name in enumerate(names[:MAX_LINES])
            ],
        ),
        "caption": f"The first {min(len(names), MAX_LINES)} of {len(names)} channels over rows, each on its own scale.",
        "alt": f"Lines of {', '.join(names[:MAX_LINES])}.",
        "height": 60 + 52 * len(names[:MAX_LINES]),
    }


def _examples(column: pd.Series) -> str:
    seen = column.dropna()
    return ", ".join(f"{value:.5g}" if isinstance(value, float) else str(value)[:18] for value in seen.iloc[:3])
