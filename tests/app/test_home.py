"""Home: each card opens the page and the result that it shows."""

import re
from dataclasses import replace

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets.f1.race import LAYOUTS
from gdm_core.engine.results import from_levels
from pages.formula1.circuit import turned
from pages.home.pictures import score_html
from pages.lab.live import FitSession
from pages.ui import shipped
from pages.ui.shipped import Card, load_card
from tests.support.drawn import pieces
from tests.support.live_engine import QuickEngine
from tests.support.page import APP, opened


@pytest.fixture(autouse=True)
def _nothing_is_fitted(engine):
    engine.auto = False  # precomputed results need no job


def followed(page: str, card: Card | None) -> AppTest:
    """Open the picture of a card: the page at its address, and Formula 1 at its states."""
    assert card is not None
    states = {"view": "States"} if page == "formula1" else {}
    return opened(page, **{name: str(value) for name, value in card.query.items()} | states)


def standing(engine: QuickEngine, page: str, card: Card | None) -> tuple[AppTest, FitSession]:
    """Return the page and its live fit, which has a result without any job."""
    app = followed(page, card)
    live = app.session_state[f"fit-{page}"]
    assert live.poll().status == "fresh"
    assert engine.waiting("fit") == []
    return app, live


def test_track_card_opens_its_lap(engine):
    card = load_card("nascar-soft")
    app, live = standing(engine, "nascar", card)
    trial, states = live.poll().spec.dataset.test[0], live.poll().result.states.soft(1)[:, list(live.poll().order)]
    assert trial.name == "nascar soft, seed 100"
    np.testing.assert_allclose(trial.position, card.position, atol=1e-4)
    assert np.abs(states - card.states).mean() < 0.02, "same states and colours"
    assert app.button_group(key="trial").value == "test"


def test_race_card_opens_its_driver(engine):
    card = load_card("formula1")
    app, live = standing(engine, "formula1", card)
    assert next(one for one in app.button_group if one.key.startswith("who~")).value == "test"
    shown = turned(live.poll().spec.dataset.test[0].position, LAYOUTS["shanghai"].rotation)
    assert np.isin(card.position.round(2), shown.round(2)).all()


def test_race_card_opens_the_first_view(engine):
    card = load_card("formula1")
    assert card is not None
    app = opened("formula1", **card.query)
    assert any("s/lap" in text and "Biggest gain" in text for text in pieces(app))
    assert engine.waiting("fit") == []


def test_mice_card_opens_its_trial(engine):
    card = load_card("behaviour")
    app, live = standing(engine, "behaviour", card)
    assert len(card.position) == live.poll().spec.dataset.test[0].n_samples
    np.testing.assert_allclose(card.states, from_levels(shipped.load("behaviour").result.states.test[0]), atol=0.01)
    assert "new-" in app.selectbox(key="trial").value


@pytest.mark.parametrize(
    ("page", "name"), [("nascar", "nascar-soft"), ("formula1", "formula1"), ("behaviour", "behaviour")]
)
def test_card_shows_the_scores_of_its_page(engine, page, name):
    card = load_card(name)
    app = followed(page, card)
    html = "".join(pieces(app))
    rows = [re.sub(r"<[^>]+>", " ", row) for row in html.split('<div class="gdm-score"')[1:]]
    told = [f" {score.value:.{score.digits}f}" for score in (card.score, replace(card.score, value=card.score.line))]
    assert any(all(part in row for part in told) for row in rows), (told, rows)


@pytest.mark.parametrize("name", ["formula1", "nascar-soft", "behaviour"])
def test_cards_show_a_score_that_is_not_below_its_baseline(name):
    card = load_card(name)
    html = "".join(pieces(AppTest.from_file(APP).run()))
    assert card.score.verdict in ("beats", "level")
    assert score_html("", card.score).removeprefix("<li></li>") in html


def test_close_score_and_baseline_get_another_digit():
    score = replace(load_card("nascar-soft").score, value=0.9034, line=0.8977)
    assert re.findall(r"[\d.]+%", score_html("{value}", score)) == ["90.3%", "89.8%"]


def test_mice_card_names_the_majority_class_of_its_record():
    card, stored = load_card("behaviour"), shipped.load("behaviour")
    assert dict(card.score.others)["majority class"] == pytest.approx(stored.result.scores["scores"]["majority"])
    assert f"{stored.result.scores['scores']['majority']:.0%}" in "".join(pieces(AppTest.from_file(APP).run()))


def test_links_hold_the_settings_of_their_pictures():
    app = AppTest.from_file(APP).run()
    links = {link.proto.page: link.proto.query_string for link in app.get("page_link")}
    assert any("trial=Held-out" in query for query in links.values())
    assert any("who=" in query for query in links.values())
    assert "trial=" in next(query for page, query in links.items() if page == "nascar")
