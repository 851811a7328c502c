"""Many fits on the Formula 1 page: accuracy against the number of states, beside what has to be beaten at as many states."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from gdm_core.errors import FitError
from gdm_studio.plot.figures.base import untyped
from pages.formula1 import accuracy
from pages.formula1.accuracy import CLUSTERS, MAJORITY, STATES, UNTRAINED
from tests.support.formula1_page import PAPER, visit, words

pytestmark = pytest.mark.usefixtures("feed")
LINK = {"source": "real", "view": "Accuracy against K"} | PAPER
KNOWN = {"untrained model": 0.8, "k-means on steps": 0.4, "Gaussian HMM on steps": 0.45, "majority class": 0.2}


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
    app = _fitted(feed)
    for _ in STATES:
        app.run()
        for job in feed.waiting():
            job.succeed({name: dict.fromkeys(accuracy.SCORES, value) for name, value in KNOWN.items()})
    app.run()
    figure = drawn["against-paper_accuracy"]
    labels = " ".join(mark["text"] for mark in figure["layout"]["annotations"])
    assert all(name in labels for name in (UNTRAINED, CLUSTERS, MAJORITY)), labels
    curves = [untyped(trace["y"]) for trace in figure["data"] if trace.get("mode") == "lines+markers"]
    assert len(curves) == 3
    assert all(np.isfinite(curve).all() for curve in curves)


def test_what_has_to_be_beaten_and_cannot_be_known_is_said_and_asked_for_again(feed, monkeypatch):
    monkeypatch.setattr(accuracy, "plot", lambda figure, key, **more: None)
    app = _fitted(feed)
    app.run()
    (job,) = feed.waiting()
    job.fail(FitError("It was given up after 120 s."))
    for _ in STATES[1:]:
        app.run()
        (job,) = feed.waiting()
        job.succeed({name: dict.fromkeys(accuracy.SCORES, value) for name, value in KNOWN.items()})
    app.run()
    assert "It was given up after 120 s." in words(app)
    next(one for one in app.button if f"-again-controls-{STATES[0]}" in str(one.key)).click().run()
    assert "It was given up" not in words(app)
    (job,) = feed.waiting()
    assert job.work.deadline_s == 240.0


def _fitted(feed) -> AppTest:
    """The tab with all fits of one seed, whose lines to beat are still to come."""
    app = visit(**LINK, seeds="1", rslds="false")
    feed.auto = False
    _press(app, "Fit 9 models")
    _end_fits(feed, 8)
    _end_fits(feed, 1)
    return app


# ---- starting and stopping them -------------------------------------------------------------------------------------
def test_the_tab_starts_the_fits_only_when_asked(feed, monkeypatch):
    asked = []
    monkeypatch.setattr(feed, "bulk", lambda key: asked.append(key))
    app = visit(**LINK)
    assert len(set(asked)) == 2, "it looks whether they run already, for both models"
    assert any(button.label == "Fit 54 models" for button in app.button)


def _end_fits(feed, n: int) -> None:
    """The first `n` fits of sweeps that wait come to their end."""
    for job in [job for job in feed.waiting() if job.slot is None][:n]:
        scores = {name: 0.5 for name in accuracy.SCORES}
        value = {"elbo_train": 0.0, "elbo_test": 0.0, "scores": scores, "seconds": 0.1}
        feed.values[job.work.cache_key] = value
        job.succeed(value)


def _sweep_buttons(app: AppTest) -> list[str]:
    return [button.label for button in app.button if str(button.key).startswith("f1-sweep")]


def _press(app: AppTest, label: str) -> AppTest:
    assert _sweep_buttons(app) == [label]
    return next(button for button in app.button if str(button.key).startswith("f1-sweep")).click().run()


def test_a_stopped_sweep_says_so_and_goes_on_where_it_was(feed):
    app = visit(**LINK, seeds="2", rslds="false")
    feed.auto = False
    _press(app, "Fit 18 models")
    _end_fits(feed, 5)
    app.run()
    _press(app, "Stop")
    assert "Stopped after 5 of 18 fits" in words(app)
    assert feed.waiting() == []
    _press(app, "Go on with 13 fits")
    assert len([job for job in feed.waiting() if job.slot is None]) == 8, "only what is missing, a few at a time"
    while feed.waiting():
        _end_fits(feed, 8)
    app.run()
    assert _sweep_buttons(app) == []


def test_nobody_stops_the_sweep_of_somebody_else(feed, monkeypatch):
    app, other = (visit(**LINK, seeds="1", rslds="false") for _ in range(2))
    feed.auto = False

    def of(name: str) -> None:
        monkeypatch.setattr(accuracy, "this_run", lambda: SimpleNamespace(session=name))

    of("one")
    _press(app, "Fit 9 models")
    of("two")
    other.run()
    assert "fits go on here" in words(other)
    _press(other, "Go on with 9 fits")
    of("one")
    _press(app, "Stop")
    assert feed.waiting(), "the other has asked for them too"
    of("two")
    other.run()
    _press(other, "Stop")
    assert feed.waiting() == []
