"""Many fits on the Formula 1 page: accuracy against the number of states."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from streamlit.testing.v1 import AppTest

from pages.formula1 import accuracy
from tests.support.formula1_page import PAPER, arrange, visit, words


@pytest.fixture(autouse=True)
def feed(monkeypatch, tmp_path):
    return arrange(monkeypatch, tmp_path)


def test_the_tab_starts_the_fits_only_when_asked(feed, monkeypatch):
    asked = []
    monkeypatch.setattr(feed, "bulk", lambda key: asked.append(key))
    app = visit(source="real", view="Accuracy against K", **PAPER)
    assert not app.exception
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
    app = visit(source="real", view="Accuracy against K", **PAPER, seeds="2", rslds="false")
    feed.auto = False
    _press(app, "Fit 18 models")
    _end_fits(feed, 5)
    app.run()
    _press(app, "Stop")
    assert not app.exception
    assert "Stopped after 5 of 18 fits" in words(app)
    assert feed.waiting() == []
    _press(app, "Go on with 13 fits")
    assert len([job for job in feed.waiting() if job.slot is None]) == 8, "only what is missing, a few at a time"
    while feed.waiting():
        _end_fits(feed, 8)
    app.run()
    assert not app.exception
    assert _sweep_buttons(app) == []


def test_nobody_stops_the_sweep_of_somebody_else(feed, monkeypatch):
    link = {"source": "real", "view": "Accuracy against K", "seeds": "1", "rslds": "false"} | PAPER
    app, other = visit(**link), visit(**link)
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
