"""Accuracy against the number of states stands beside what has to be beaten at as many states."""

from __future__ import annotations

import numpy as np
import pytest

from gdm_core.errors import FitError
from gdm_studio.plot.figures.base import untyped
from pages.formula1 import accuracy
from pages.formula1.accuracy import CLUSTERS, MAJORITY, STATES, UNTRAINED
from tests.app.test_formula1_sweep import _end_fits, _press
from tests.support.formula1_page import PAPER, arrange, visit, words

KNOWN = {"untrained model": 0.8, "k-means on steps": 0.4, "Gaussian HMM on steps": 0.45, "majority class": 0.2}


@pytest.fixture
def feed(monkeypatch, tmp_path):
    return arrange(monkeypatch, tmp_path)


def test_the_best_clusters_and_the_untrained_model_are_lines_at_each_number_of_states():
    found = {
        3: {"untrained model": {"s": 0.5}, "k-means on steps": {"s": 0.2}, "Gaussian HMM on position": {"s": 0.4}},
        5: {"untrained model": {"s": 0.6}, "k-means on steps": {"s": 0.7}, "majority class": {"s": 0.9}},
    }
    lines = accuracy.lines_to_beat(found, "s")
    assert set(lines) == {UNTRAINED, CLUSTERS}
    at = [STATES.index(3), STATES.index(5)]
    np.testing.assert_allclose(lines[UNTRAINED][at, 0], [0.5, 0.6])
    np.testing.assert_allclose(lines[CLUSTERS][at, 0], [0.4, 0.7])
    assert np.isnan(np.delete(lines[CLUSTERS], at, axis=0)).all()
    assert accuracy.lines_to_beat({}, "s") == {}


def test_the_tab_shows_what_has_to_be_beaten_beside_the_fits(feed, monkeypatch):
    drawn = {}
    monkeypatch.setattr(accuracy, "plot", lambda figure, key, **more: drawn.update({key: figure}))
    app = visit(source="real", view="Accuracy against K", **PAPER, seeds="1", rslds="false")
    feed.auto = False
    _press(app, "Fit 9 models")
    _end_fits(feed, 8)
    _end_fits(feed, 1)
    for _ in STATES:
        app.run()
        for job in feed.waiting():
            job.succeed({name: dict.fromkeys(accuracy.SCORES, value) for name, value in KNOWN.items()})
    app.run()
    assert not app.exception
    figure = drawn["against-paper_accuracy"]
    labels = [mark["text"] for mark in figure["layout"]["annotations"]]
    assert any(UNTRAINED in text for text in labels)
    assert any(CLUSTERS in text for text in labels)
    assert any(MAJORITY in text for text in labels)
    curves = [untyped(trace["y"]) for trace in figure["data"] if trace.get("mode") == "lines+markers"]
    assert len(curves) == 3
    assert all(np.isfinite(curve).all() for curve in curves)


def test_what_has_to_be_beaten_and_cannot_be_known_is_said_and_asked_for_again(feed, monkeypatch):
    monkeypatch.setattr(accuracy, "plot", lambda figure, key, **more: None)
    app = visit(source="real", view="Accuracy against K", **PAPER, seeds="1", rslds="false")
    feed.auto = False
    _press(app, "Fit 9 models")
    _end_fits(feed, 8)
    _end_fits(feed, 1)
    app.run()
    (job,) = feed.waiting()
    job.fail(FitError("It was given up after 120 s."))
    for _ in STATES[1:]:
        app.run()
        (job,) = feed.waiting()
        job.succeed({name: dict.fromkeys(accuracy.SCORES, value) for name, value in KNOWN.items()})
    app.run()
    assert not app.exception
    assert "It was given up after 120 s." in words(app)
    next(one for one in app.button if f"-again-controls-{STATES[0]}" in str(one.key)).click().run()
    assert not app.exception
    assert "It was given up" not in words(app)
    (job,) = feed.waiting()
    assert job.work.deadline_s == 240.0
