"""Small Altair charts: they update in place under a key and weigh next to nothing."""

from __future__ import annotations

from collections.abc import Sequence

import altair as alt
import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from pages.ui import theme


def _styled(chart: alt.Chart | alt.LayerChart | alt.FacetChart) -> alt.Chart | alt.LayerChart | alt.FacetChart:
    tokens = theme.TOKENS[theme.current()]
    return (
        chart.configure(background="transparent", font="Source Sans")
        .configure_view(strokeWidth=0)
        .configure_axis(
            labelColor=tokens["muted"],
            titleColor=tokens["muted"],
            gridColor=tokens["grid"],
            domainColor=tokens["line"],
            tickColor=tokens["line"],
            labelFontSize=11,
            titleFontSize=11,
            titleFontWeight="normal",
        )
    )


def bars(
    names: Sequence[str],
    values: npt.ArrayLike,
    reference: npt.ArrayLike | None = None,
    *,
    key: str,
    colours: Sequence[str],
    height: int = 120,
    value_format: str = ".1%",
) -> None:
    """Horizontal bars with, where given, a tick at the value each should have."""
    frame = pd.DataFrame({"name": list(names), "value": np.asarray(values, float), "colour": list(colours)})
    tokens = theme.TOKENS[theme.current()]
    y = alt.Y(
        "name:N",
        title=None,
        sort=None,
        axis=alt.Axis(ticks=False, domain=False, labelFontSize=12, labelColor=tokens["ink"]),
    )
    top = max(float(frame["value"].max()), float(np.max(reference)) if reference is not None else 0.0, 1e-9)
    x = alt.X("value:Q", title=None, axis=None, scale=alt.Scale(domain=[0, top * 1.25]))
    base = alt.Chart(frame)
    layers = [
        base.mark_bar(cornerRadius=3, height={"band": 0.62}).encode(
            x=x,
            y=y,
            color=alt.Color("colour:N", scale=None),
            tooltip=["name:N", alt.Tooltip("value:Q", format=value_format)],
        ),
        base.mark_text(align="left", dx=7, color=tokens["ink"], fontSize=12).encode(
            x=x, y=y, text=alt.Text("value:Q", format=value_format)
        ),
    ]
    if reference is not None:
        marks = frame.assign(reference=np.asarray(reference, float))
        layers.append(
            alt.Chart(marks)
            .mark_tick(color=tokens["ink"], thickness=2.5, height={"band": 0.95})
            .encode(x=alt.X("reference:Q", scale=alt.Scale(domain=[0, top * 1.25])), y=y)
        )
    st.altair_chart(_styled(alt.layer(*layers).properties(height=height)), key=key, theme=None)
