"""Small Altair charts: they update in place under a key and weigh next to nothing."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import altair as alt
import numpy as np
import numpy.typing as npt
import pandas as pd
import streamlit as st

from pages.ui import theme

POINTS = "source"  # what Streamlit calls the data of a chart


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


def elbo(
    steps: Sequence[float] | npt.NDArray[np.floating],
    values: Sequence[float] | npt.NDArray[np.floating],
    *,
    key: str,
    total: int | None = None,
    height: int = 110,
    faded: bool = False,
) -> None:
    """The bound of the fitted data while it climbs (nats a time step); with `total` the axis is as long as the whole fit.

    A fit may fall far below what matters, at its beginning and now and then on its way. The line stops at the lower edge
    there, and a small triangle says so. `faded`: it is the curve of an earlier fit.
    """
    frame = pd.DataFrame({"step": np.asarray(steps, float), "elbo": np.asarray(values, float)}).dropna()
    end = float(total or (frame["step"].max() if len(frame) else 1))
    frame["shown"] = frame["elbo"].clip(lower=_floor(frame["elbo"]))
    frame["strength"] = 0.4 if faded else 1.0  # among the data: another chart would be set up anew in the browser
    st.vega_lite_chart(frame, _elbo_chart(theme.current(), end, height), key=key, theme=None)


def dips(values: Sequence[float] | npt.NDArray[np.floating]) -> bool:
    """Whether the curve falls far on its way, or beyond its lower edge: that wants a word."""
    known = pd.Series(np.asarray(values, float)).dropna()
    if len(known) < 3:
        return False
    fall = float((known.cummax() - known).max())
    return fall > 0.2 * (float(known.max()) - float(known.quantile(0.1)))


def _floor(values: pd.Series[float]) -> float:
    """The lower edge of the curve: half as far below nine tenths of it as these reach up."""
    if len(values) <= 20:
        return -np.inf
    most = float(values.quantile(0.1))
    return most - 0.5 * (float(values.max()) - most)


@lru_cache(maxsize=64)
def _elbo_chart(look: str, end: float, height: int) -> dict[str, Any]:
    """The chart without its data. It stays the same while a fit runs, so that the browser only takes new points in."""
    accent = theme.TOKENS[look]["accent"]
    # The range is asked of the points themselves: a scale that finds none, as at the start, complains to the console.
    reach = [
        {"expr": f"length(data('{POINTS}')) ? extent(pluck(data('{POINTS}'), 'shown'))[{i}] : {i}"} for i in (0, 1)
    ]
    base = alt.Chart(alt.NamedData(POINTS)).encode(
        x=alt.X("step:Q", title="step", axis=alt.Axis(tickCount=3, grid=False), scale=alt.Scale(domain=[0, end])),
        y=alt.Y(
            "shown:Q",
            title="evidence a step",
            axis=alt.Axis(tickCount=3),
            scale=alt.Scale(domain=reach, zero=False, nice=False),
        ),
        opacity=alt.Opacity("strength:O", scale=None, legend=None),
        tooltip=[
            alt.Tooltip("step:Q"),
            alt.Tooltip("elbo:Q", format=".3f", title="evidence a step, fitted trials (ELBO)"),
        ],
    )
    line = base.mark_line(color=accent, strokeWidth=1.6)
    cut = base.transform_filter("datum.elbo < datum.shown").mark_point(
        shape="triangle-down",
        size=22,
        filled=True,
        color=accent,
        aria=False,  # the chart has a name; its marks need none
    )
    spec: dict[str, Any] = _styled(alt.layer(line, cut).properties(height=height)).to_dict()
    spec.pop("data", None)
    return spec


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
