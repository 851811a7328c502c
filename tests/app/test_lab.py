"""pages/lab on a small test page, and functions that all lab pages share."""

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets.nascar import train_test
from gdm_core.trials import Trials
from pages import lab
from pages.lab import view as views
from pages.lab.decoded import mark_differences
from pages.ui.card import Score
from pages.ui.exports import Recipe
from pages.ui.model_controls import Choice
from tests.support import live_fit
from tests.support.drawn import record, verdicts
from tests.support.offered import script_of
from tests.support.recording import reading_of

PAGE = Path(__file__).parents[1] / "support" / "pendulum_page.py"


def opened(**address: str) -> AppTest:
    app = AppTest.from_file(str(PAGE))
    for name, value in address.items():
        app.query_params[name] = value
    for _ in range(4):
        app.run()
    return app


# ---- a new page ---------------------------------------------------------------------------------------------------
def test_new_page_has_a_fit_scores_and_tabs(engine, monkeypatch):
    drawn = record(monkeypatch)
    app = opened()
    assert verdicts(app)
    for tab, key in (("Dwell times", "dwell-inferred"), ("Prediction", "envelope")):
        app.session_state["view"] = tab
        app.run().run()
        assert key in drawn, tab


def test_exported_script_recreates_the_data(engine):
    code = script_of(opened(view="Export"))
    assert "train, test = swing(0), swing(1)" in code
    assert "GDM(n_states=2" in code


# ---- states ---------------------------------------------------------------------------------------------------------
def test_states_of_two_fits_are_never_drawn_together():
    trial = train_test("standard", 0, 200)[0]
    one, other = object(), object()
    first = reading_of(trial, np.zeros((200, 8), np.float32), state="stale", origin=one)
    second = reading_of(trial, np.zeros((200, 9), np.float32), origin=other)
    unread = lab.Undecoded(trial=trial, state="running")
    assert lab.together([unread, first, second]) == [first]
    assert lab.together([second, first]) == [second]
    assert lab.together([unread]) == []


# ---- questions ----------------------------------------------------------------------------------------------------
def test_query_key_depends_on_all_arguments():
    one, other = (Trials((trial,)) for trial in train_test("standard", 0, 200))
    same = Trials((train_test("standard", 0, 200)[0],))
    key = views.query_key("fit", views.query_key, (one, 3, [np.arange(3)]))
    assert key == views.query_key("fit", views.query_key, (same, 3, [np.arange(3)]))
    for fit, function, args in (
        ("another", views.query_key, (one, 3, [np.arange(3)])),
        ("fit", lab.together, (one, 3, [np.arange(3)])),
        ("fit", views.query_key, (other, 3, [np.arange(3)])),
        ("fit", views.query_key, (one, 4, [np.arange(3)])),
        ("fit", views.query_key, (one, 3, [np.arange(4)])),
        ("fit", views.query_key, (one, 3, [np.arange(3.0)])),
    ):
        assert views.query_key(fit, function, args) != key


# ---- the earlier result -------------------------------------------------------------------------------------------
def setting(label: str = "GDM", **changes) -> lab.PageSpec:
    config = {"n_states": 4, "temperature": 0.99, "stickiness": "learn", "posterior": "window", "seed": 0} | changes
    dataset = lab.Dataset("a track", live_fit.TRAIN, live_fit.TEST, Recipe([], []))
    return lab.PageSpec.from_choice(dataset, Choice(label, "gdm", config, label))


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (setting(temperature=0.5), "temperature τ 0.5"),
        (setting(stickiness=0.2, seed=3), "stickiness γ 0.2, seed 3"),
        (setting("AR-HMM", n_states=6), "AR-HMM, K 6"),
        (setting(posterior="linear"), ""),
    ],
)
def test_earlier_result_is_named_by_its_changed_setting(before, words):
    assert before.describe_changes(setting()) == words


# ---- verdicts -------------------------------------------------------------------------------------------------------
def rows(*pairs: tuple[float, float]) -> list[list[Score]]:
    return [[Score("matches", value, line, "k-means")] for value, line in pairs]


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [
        (((0.90, 0.80), (0.92, 0.80), (0.91, 0.80), (0.90, 0.79)), "beats"),
        (((0.95, 0.80), (0.70, 0.80), (0.85, 0.80), (0.78, 0.80)), "level"),  # the first seed was lucky
        (((0.70, 0.80), (0.71, 0.80), (0.69, 0.80), (0.70, 0.80)), "below"),
        (((0.90, 0.80), (0.92, 0.80)), "unknown"),  # two seeds give no spread
    ],
)
def test_verdict_uses_mean_and_spread_over_seeds(pairs, verdict):
    from pages.lab.card import with_spread

    first, *others = rows(*pairs)
    (row,) = with_spread(first, others)
    assert row.verdict == verdict
    assert row.value == pairs[0][0], "the value is that of the displayed fit"


def test_spread_combines_blocks_and_seeds():
    from pages.lab.card import with_spread

    first, *others = rows((0.90, 0.80), (0.92, 0.80), (0.91, 0.80))
    pieces = replace(first[0], spread=0.3, over="9 blocks")
    (row,) = with_spread([pieces], others)
    assert row.spread == pytest.approx(np.hypot(0.3, np.std([0.10, 0.12, 0.11], ddof=1)))
    assert row.over == "9 blocks and 3 seeds"
    assert row.verdict == "level", "over seeds alone it would beat the baseline"
    few = replace(first[0], short=True, over="2 blocks")
    assert with_spread([few], others) == [few]


def test_differences_mark_samples_with_another_strongest_state():
    states = np.array([[0.9, 0.1], [0.4, 0.6], [0.2, 0.8], [np.nan, np.nan]], np.float32)
    others = np.array([[0.6, 0.4], [0.6, 0.4], [0.1, 0.9], [0.5, 0.5]], np.float32)
    found, share = mark_differences(states, others)
    np.testing.assert_array_equal(found, np.array([[np.nan] * 2, [0, 1], [np.nan] * 2, [np.nan] * 2]))
    assert share == pytest.approx(1 / 3)


# ---- scores below sliders -------------------------------------------------------------------------------------------
def accuracies(*values: float) -> dict[float, dict[str, float]]:
    return {k: {"elbo_test": 1.0, "matched_accuracy": value} for k, value in enumerate(values, start=2)}


def bounds(*values: float) -> dict[float, dict[str, float]]:
    return {k: {"elbo_test": value} for k, value in enumerate(values, start=2)}


@pytest.mark.parametrize(
    ("known", "words", "n_best"),
    [
        (accuracies(0.5, 0.9, 0.895), "State accuracy 0.50 to 0.90: K 3 is enough, 4 no better", 2),
        (accuracies(0.9, 0.905), "State accuracy 0.90 to 0.91: hardly depends on K", 2),
        (bounds(-3.0, -1.0), "Held-out score −3.00 to −1.00: predicts best at K 3", 1),
        (bounds(-3.0, -1.1, -1.0), "Held-out score −3.00 to −1.00: predicts best at K 3, 4", 2),
        ({2: {"elbo_test": float("nan")}, 3: {"elbo_test": -1.0}}, "", 0),
        (accuracies(0.9), "", 0),
    ],
)
def test_curve_marks_all_values_that_are_as_good_as_the_best(known, words, n_best):
    from pages.lab.curves import curve_html

    seeds = [{"elbo_test": value, "matched_accuracy": 0.9} for value in (-1.0, -1.1, -1.2)]
    made = curve_html("n_states", known, seeds)
    assert re.findall("<p>(.*)</p>", made) == [words or "Scores at other values follow in idle time."]
    assert made.count("class=best") == n_best
    assert ":" not in re.findall("<p>(.*)</p>", curve_html("n_states", known))[0], "the spread over seeds is unknown"


@pytest.mark.parametrize(("bound", "verdict"), [(None, "beats"), (5.0, "beats"), (7.98, "level"), (9.0, "below")])
def test_elbo_is_above_only_if_it_also_beats_the_rival(bound, verdict):
    from pages.lab.card import with_rival

    (row,) = with_rival([Score("ELBO per sample", 8.0, 6.0, "linear AR(1)", spread=0.1, digits=2, ahead=2.0)], bound)
    assert row.verdict == verdict
    assert "linear AR(1)" in dict(row.references)
