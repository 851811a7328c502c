"""Bars, stays and transitions of states: numbers that can be read, axes that make sense, names as they were typed."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import untyped


def _span(figure: figures.Figure) -> tuple[float, float]:
    low, high = figure["layout"]["xaxis"]["range"]
    return 10**low, 10**high


def test_a_single_stay_lies_in_the_middle_of_a_decade_and_on_its_median():
    figure = figures.dwell(np.zeros(41, int), 2, step=1 / 30, unit="s")
    low, high = _span(figure)
    assert high / low == pytest.approx(10)
    dot = float(untyped(figure["data"][0]["x"])[0])
    assert dot == pytest.approx(np.sqrt(low * high), rel=1e-5)
    assert figure["layout"]["shapes"][0]["x0"] == dot, "the bar stands exactly where the dot is"


@pytest.mark.parametrize("lengths", [[1], [40, 41], [3, 500], [2, 90_000]])
def test_ticks_of_stays_are_few_round_and_in_order(lengths):
    labels = np.concatenate([np.full(n, i % 2) for i, n in enumerate(lengths)])
    axis = figures.dwell(labels, 2)["layout"]["xaxis"]
    ticks = axis["tickvals"]
    assert 2 <= len(ticks) <= 9
    assert all(b > a for a, b in pairwise(ticks))
    assert all(axis["range"][0] <= np.log10(tick) <= axis["range"][1] for tick in ticks)
    assert [float(text.replace(",", "")) for text in axis["ticktext"]] == pytest.approx(ticks)


def test_values_stand_beside_the_axes_where_nothing_crosses_them():
    labels = np.repeat([0, 1, 0, 2], [4, 4, 8, 5])
    hot = figures.one_hot(labels, 3)
    for figure in (figures.dwell(labels, 3), figures.usage(hot, reference=[0.9, 0.1, 0.0])):
        words = figure["layout"]["annotations"]
        assert [note["y"] for note in words] == [0, 1, 2]
        assert all(note["xref"] == "paper" and note["x"] == 1 and note["xanchor"] == "left" for note in words)
        assert figure["layout"]["margin"]["r"] >= 40
    assert [note["text"] for note in figures.dwell(labels, 3)["layout"]["annotations"]] == ["6", "4", "5"]


def test_a_state_without_stays_has_no_median():
    figure = figures.dwell([0, 0, 0], 2)
    assert len(figure["layout"]["annotations"]) == len(figure["layout"]["shapes"]) == 1
    assert figures.dwell([-1, -1], 2)["layout"]["annotations"] == []


def test_use_is_counted_among_what_is_known():
    figure = figures.usage(figures.one_hot([0, -1, 1, 1, -1], 2))
    assert figure["data"][0]["x"] == pytest.approx([1 / 3, 2 / 3])
    assert figures.usage(figures.one_hot([-1, -1], 2))["data"][0]["x"] == [0, 0]


def test_names_stay_as_they_were_typed():
    labels = np.repeat([0, 1, 0], 5)
    names = ["<b>run</b>", "a & b"]
    made = [
        figures.dwell(labels, 2, names=names),
        figures.usage(figures.one_hot(labels, 2), names=names),
        figures.usage_by_segment(figures.one_hot(labels, 2), np.zeros(15), names=names),
        figures.transition_matrix(np.eye(2), names=names),
    ]
    for figure in made:
        drawn = json.dumps([figure["data"], figure["layout"]])
        assert "<b>" not in drawn
        assert "&lt;b&gt;run&lt;/b&gt;" in drawn


def test_two_states_of_one_name_keep_a_row_each():
    figure = figures.transition_matrix([[0.1, 0.9], [0.4, 0.6]], names=["walk", "walk"])
    trace = figure["data"][0]
    assert len(set(trace["y"])) == len(set(trace["x"])) == 2
    assert trace["hovertext"][0][1] == "walk to walk: 90.0%"
