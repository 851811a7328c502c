"""Every first visit finds its result where simulations have other last bits, as on another processor: nothing is fitted."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from datasets import nascar
from gdm_core.errors import DataError
from gdm_core.trials import as_trials
from gdm_studio import paper
from pages.behaviour import recordings
from pages.formula1 import data as laps
from pages.lab import shipped
from pages.lab.labelling import labels
from pages.nascar import simulator
from pages.ui.result_files import load_card
from tests.support.last_bits import other_last_bits
from tests.support.page import opened

KEPT = (simulator.simulate, recordings.load, laps.simulated, laps.circuit, laps.laps_of)
KEPT_FOR_PAPER = (paper._tracks, paper._race, paper._mice)


def forget() -> None:
    """What this process has simulated."""
    for kept in KEPT:
        kept.clear()
    for kept in KEPT_FOR_PAPER:
        kept.cache_clear()


@pytest.fixture
def elsewhere() -> Iterator[list[str]]:
    """A processor that rounds every simulated number otherwise: what it has made."""
    forget()
    with other_last_bits() as made:
        yield made
    forget()


@pytest.mark.bulk
@pytest.mark.parametrize(
    ("page", "name"), [("nascar", "nascar-soft"), ("behaviour", "behaviour"), ("formula1", "formula1")]
)
def test_a_page_and_its_card_on_home_open_with_the_result_that_ships(elsewhere, engine, page, name):
    card, found = load_card(name), shipped.load(name)
    engine.auto = False  # whatever is asked for waits, and is seen
    app = opened(page)
    for query in ({}, card.query):
        app.query_params.update({key: str(value) for key, value in query.items()})
        app.run()
        shown = app.session_state[f"live-{page}"].poll()
        assert shown.state == "fresh"
        assert found.stands(shown.result)
        assert [job.slot for job in engine.waiting() if not job.slot.startswith("ask-")] == [], "no fit"
    assert {trial.recipe for trial in (*shown.wanted.train, *shown.wanted.test)} <= set(elsewhere), "made there"


@pytest.mark.bulk
def test_the_paper_opens_with_its_tables_and_figures(elsewhere, engine):
    app = opened("paper")
    assert app.table[0].value.loc["GDM", "ours, fair"]
    for panel in ("nascar", "formula1", "usage", "mice"):
        app.radio(key="panel").set_value(panel).run()
        name = {"nascar": "table/soft/paper", "usage": "formula1"}.get(panel, panel)
        asked = paper.experiment(name)
        assert asked.keys == paper.load().made[name]
        assert asked.comparisons[0].test[0].recipe in elsewhere, "made there"
    assert engine.jobs == [], "no fit"


def test_a_link_from_there_means_the_same_here():
    """Names of controls in an address, and where those begin that a link leaves out."""
    asked = recordings.ChosenRecordings("simulated", "egocentric", (("frames", 1000), ("seed", 3)))
    here = recordings.load_simulated(asked)
    with other_last_bits() as made:
        there = recordings.load_simulated(asked)
    assert there.train[0].recipe in made
    assert (here.bouts_of, here.start, labels.key_of(here)) == (there.bouts_of, there.start, labels.key_of(there))
    assert here.train.fingerprint == there.train.fingerprint


def test_what_does_not_say_what_made_it_cannot_ship():
    lap, another = map(as_trials, nascar.train_test("soft", T=50))
    changed = replace(another, trials=(another[0].slice(0, 50),))
    found = shipped.load("nascar-soft")
    with pytest.raises(DataError, match="another processor would not know that 'mine' is its result"):
        shipped.write("mine", lap, changed, found.family, found.config, found.result, {})
