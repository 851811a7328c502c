"""Precomputed results are found where simulations round differently, as on another processor."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from datasets import nascar
from gdm_core.engine import FitSpec
from gdm_core.errors import DataError
from gdm_core.trials import as_trials
from gdm_studio import paper
from pages.behaviour import recordings
from pages.formula1 import sessions
from pages.lab.labelling import labels
from pages.nascar import simulator
from pages.ui import shipped
from pages.ui.shipped import load_card
from tests.support.last_bits import other_last_bits
from tests.support.page import opened

KEPT = (simulator.simulate, recordings.load, sessions.simulated)
KEPT_FOR_PAPER = (paper._simulate_tracks, paper._simulate_race, paper._simulate_mice)


def forget() -> None:
    """Clear all cached simulations."""
    for kept in KEPT:
        kept.clear()
    for kept in KEPT_FOR_PAPER:
        kept.cache_clear()


@pytest.fixture
def elsewhere() -> Iterator[list[str]]:
    """Round every simulated number differently; return the recipes that were simulated."""
    forget()
    with other_last_bits() as made:
        yield made
    forget()


@pytest.mark.bulk
@pytest.mark.parametrize(
    ("page", "name"), [("nascar", "nascar-soft"), ("behaviour", "behaviour"), ("formula1", "formula1")]
)
def test_page_and_card_open_with_the_precomputed_result(elsewhere, engine, page, name):
    card, found = load_card(name), shipped.load(name)
    engine.auto = False  # jobs wait, so that they can be seen
    app = opened(page, **({"view": "States"} if page == "formula1" else {}))
    for query in ({}, card.query):
        app.query_params.update({key: str(value) for key, value in query.items()})
        app.run()
        shown = app.session_state[f"fit-{page}"].poll()
        assert shown.status == "fresh"
        assert found.result.model_bytes == shown.result.model_bytes
        assert [job.name for job in engine.waiting() if not job.name.startswith("ask-")] == [], "no fit"
    assert {trial.recipe for trial in (*shown.spec.trials, *shown.spec.dataset.test)} <= set(elsewhere), (
        "simulated with other rounding"
    )


@pytest.mark.bulk
def test_paper_opens_with_stored_results(elsewhere, engine):
    app = opened("paper")
    assert app.table[0].value.loc["GDM", "ours, new tracks"]
    for panel in ("nascar", "formula1", "usage", "mice"):
        app.radio(key="panel").set_value(panel).run()
        name = {"nascar": "table/soft/paper", "usage": "formula1"}.get(panel, panel)
        asked = paper.experiment(name)
        assert asked.keys == paper.load().made[name]
        assert asked.comparisons[0].test[0].recipe in elsewhere, "simulated with other rounding"
    assert engine.jobs == [], "no fit"


def test_link_is_independent_of_rounding():
    asked = recordings.ChosenRecordings("simulated", "egocentric", (("frames", 1000), ("seed", 3)))
    here = recordings.load_simulated(asked)
    with other_last_bits() as made:
        there = recordings.load_simulated(asked)
    assert there.train[0].recipe in made
    assert (here.bouts_of, here.start, labels.key_of(here)) == (there.bouts_of, there.start, labels.key_of(there))
    assert here.train.fingerprint == there.train.fingerprint


def test_result_of_data_without_a_recipe_is_not_written():
    lap, another = map(as_trials, nascar.train_test("soft", T=50))
    changed = replace(another, trials=(another[0].slice(0, 50),))
    found = shipped.load("nascar-soft")
    with pytest.raises(DataError, match="another processor could not match it with 'mine'"):
        shipped.write("mine", FitSpec(found.family, found.config, lap, test=changed), found.result, {})
