"""Sweep over the number of states on the Formula 1 page, with baselines."""

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from gdm_studio.plot.figures.base import untyped
from pages.formula1 import scores
from pages.formula1.scores import CLUSTERS, MAJORITY, STATES, UNTRAINED
from pages.ui import settings
from tests.support.formula1_page import PAPER, visit

pytestmark = pytest.mark.usefixtures("feed")
LINK = {"source": "real", "view": "States", "detail": "Accuracy against K"} | PAPER
KNOWN = {"untrained model": 0.8, "k-means on steps": 0.4, "Gaussian HMM on steps": 0.45, "majority class": 0.2}


def test_baselines_are_drawn_at_each_number_of_states():
    found = {
        3: {"untrained model": {"s": 0.5}, "k-means on steps": {"s": 0.2}, "Gaussian HMM on position": {"s": 0.4}},
        5: {"untrained model": {"s": 0.6}, "k-means on steps": {"s": 0.7}, "majority class": {"s": 0.9}},
    }
    lines = scores.baseline_curves(found, "s")
    assert set(lines) == {UNTRAINED, CLUSTERS}
    at = [STATES.index(3), STATES.index(5)]
    np.testing.assert_allclose(lines[UNTRAINED][at, 0], [0.5, 0.6])
    np.testing.assert_allclose(lines[CLUSTERS][at, 0], [0.4, 0.7])
    assert np.isnan(np.delete(lines[CLUSTERS], at, axis=0)).all()
    assert scores.baseline_curves({}, "s") == {}


def test_tab_draws_fits_and_baselines(feed, monkeypatch):
    drawn = {}
    monkeypatch.setattr(scores, "STATES", (2, 3, 4))
    monkeypatch.setattr(scores, "plot", lambda figure, key, **more: drawn.update({key: figure}))
    app = _fitted(feed)
    for _ in scores.STATES:
        app.run()
        for job in feed.waiting():
            job.succeed({name: dict.fromkeys(scores.SCORES, value) for name, value in KNOWN.items()})
    app.run()
    figure = drawn["against-paper_accuracy"]
    labels = " ".join(mark["text"] for mark in figure["layout"]["annotations"])
    assert all(name in labels for name in (UNTRAINED, CLUSTERS, MAJORITY)), labels
    curves = [untyped(trace["y"]) for trace in figure["data"] if trace.get("mode") == "lines+markers"]
    assert len(curves) == 3
    assert all(np.isfinite(curve).all() for curve in curves)
    app.session_state[settings.widget_key("view")] = "Export"
    app.run()
    assert set(scores.SCORES.values()) <= set(app.selectbox(key="formula1-export-figure").options)


def _fitted(feed) -> AppTest:
    """Return the tab with all fits of one seed, before its baselines."""
    app = visit(**LINK, seeds="1", rslds="false")
    feed.auto = False
    _press(app, "Fit 3 models")
    _end_fits(feed, 3)
    return app


# ---- starting and stopping them -------------------------------------------------------------------------------------
def test_sweep_starts_on_request_only(feed):
    app = visit(**LINK)
    assert feed.waiting("run_cell") == []
    assert any(button.label == "Fit 54 models" for button in app.button)


def _end_fits(feed, n: int) -> None:
    """Finish the first `n` waiting fits of a sweep."""
    for job in [job for job in feed.waiting() if job.name == "run_cell"][:n]:
        values = {name: 0.5 for name in scores.SCORES}
        value = {"scores": values, "seconds": 0.1}
        feed.values[job.work.cache_key] = value
        job.succeed(value)


def _sweep_buttons(app: AppTest) -> list[str]:
    return [button.label for button in app.button if str(button.key).startswith("f1-sweep")]


def _press(app: AppTest, label: str) -> AppTest:
    assert _sweep_buttons(app) == [label]
    return next(button for button in app.button if str(button.key).startswith("f1-sweep")).click().run()


def test_stopped_sweep_continues_where_it_was(feed):
    app = visit(**LINK, seeds="2", rslds="false")
    feed.auto = False
    _press(app, "Fit 18 models")
    _end_fits(feed, 5)
    app.run()
    _press(app, "Stop")
    assert feed.waiting() == []
    _press(app, "Fit 18 models")
    assert len(feed.waiting("run_cell")) == 13, "finished fits are kept"
    while feed.waiting():
        _end_fits(feed, 8)
    app.run()
    assert _sweep_buttons(app) == []
