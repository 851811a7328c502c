"""pages/lab: a page for a new kind of data takes a screenful, and what all pages with a fit share holds there, too."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from streamlit.testing.v1 import AppTest

from datasets.nascar import train_test
from gdm_core.trials import Trials
from pages import lab
from pages.lab import view as views
from pages.lab.live.pictures import Origin
from pages.ui.card import Score
from pages.ui.model_controls import Choice
from tests.support.nascar_page import text
from tests.support.recording import reading_of

PAGE = Path(__file__).parents[1] / "support" / "pendulum_page.py"


def opened(**address: str) -> AppTest:
    app = AppTest.from_file(str(PAGE))
    for name, value in address.items():
        app.query_params[name] = value
    for _ in range(4):
        app.run()
    return app


# ---- a page of its own --------------------------------------------------------------------------------------------
def test_a_new_page_has_a_fit_scores_and_tabs_in_less_than_200_lines(engine):
    page = text(opened())
    for words in ("Pendulum", "Ten steps ahead", "90 % band holds", "Use of each state"):
        assert words in page
    assert len(PAGE.read_text().splitlines()) < 200


@pytest.mark.parametrize(
    ("view", "words"), [("How long", "Stays"), ("Prediction", "the 90 % band"), ("Export & reproduce", "SVG and PNG")]
)
def test_its_tabs_open(engine, view, words):
    assert words in text(opened(view=view))


def test_its_export_says_how_to_get_the_data(engine):
    (code,) = [element.value for element in opened(view="Export & reproduce").code]
    assert "train, test = swing(0), swing(1)" in code
    assert "GDM(n_states=2" in code


def test_no_button_is_read_by_what_it_gives():
    """Another run may overtake a script before it comes to that line, and the click would be lost."""
    for path in Path(lab.__file__).parents[1].rglob("*.py"):
        nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
        stands = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
        pressed = [node for node in nodes if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "button"]
        assert all(id(node) in stands for node in pressed), path.name


# ---- states belong to a fit ---------------------------------------------------------------------------------------
def test_states_of_two_fits_never_meet_in_one_figure():
    trial = train_test("standard", 0, 200)[0]
    one, other = Origin(), Origin()
    first = reading_of(trial, np.zeros((200, 8), np.float32), state="stale", origin=one)
    second = reading_of(trial, np.zeros((200, 9), np.float32), origin=other)
    unread = lab.Unread(trial=trial, state="running")
    assert lab.together([unread, first, second]) == [first]
    assert lab.together([second, first]) == [second]
    assert lab.together([unread]) == []


# ---- questions ----------------------------------------------------------------------------------------------------
def test_a_question_is_named_by_the_content_of_all_that_it_depends_on():
    one, other = (Trials((trial,)) for trial in train_test("standard", 0, 200))
    same = Trials((train_test("standard", 0, 200)[0],))
    key = views.question_key("fit", views.question_key, (one, 3, [np.arange(3)]))
    assert key == views.question_key("fit", views.question_key, (same, 3, [np.arange(3)]))
    for fit, function, args in (
        ("another", views.question_key, (one, 3, [np.arange(3)])),
        ("fit", lab.together, (one, 3, [np.arange(3)])),
        ("fit", views.question_key, (other, 3, [np.arange(3)])),
        ("fit", views.question_key, (one, 4, [np.arange(3)])),
        ("fit", views.question_key, (one, 3, [np.arange(4)])),
        ("fit", views.question_key, (one, 3, [np.arange(3.0)])),
    ):
        assert views.question_key(fit, function, args) != key


# ---- the earlier result -------------------------------------------------------------------------------------------
def setting(label: str = "GDM", **changes) -> lab.Setting:
    config = {"n_states": 4, "temperature": 0.99, "stickiness": "learn", "posterior": "window", "seed": 0} | changes
    return lab.Setting(None, Choice(label, "gdm", config, label))


@pytest.mark.parametrize(
    ("before", "words"),
    [
        (setting(temperature=0.5), "softness τ\u00a00.5"),
        (setting(stickiness=0.2, seed=3), "stay γ\u00a00.2, seed\u00a03"),
        (setting(posterior="linear"), "states made of\u00a0places"),
        (setting(n_states=6), "K\u00a06"),
        (setting("AR-HMM"), "AR-HMM, K\u00a04"),
        (setting(), "the finished fit of the same settings"),
    ],
)
def test_the_earlier_result_is_told_by_every_setting_that_changed(before, words):
    from pages.lab.sentences import earlier

    assert earlier(setting(), before) == words


# ---- what is earned -----------------------------------------------------------------------------------------------
def rows(*pairs: tuple[float, float]) -> list[list[Score]]:
    return [[Score("matches", value, line, "k-means")] for value, line in pairs]


@pytest.mark.parametrize(
    ("pairs", "verdict"),
    [
        (((0.90, 0.80), (0.92, 0.80), (0.91, 0.80), (0.90, 0.79)), "beats"),
        (((0.95, 0.80), (0.70, 0.80), (0.85, 0.80), (0.78, 0.80)), "level"),  # the first one was lucky
        (((0.70, 0.80), (0.71, 0.80), (0.69, 0.80), (0.70, 0.80)), "below"),
        (((0.90, 0.80), (0.92, 0.80)), "unknown"),  # two are no spread
    ],
)
def test_a_verdict_over_seeds_goes_by_their_mean_and_spread(pairs, verdict):
    from pages.lab.card import with_spread

    first, *others = rows(*pairs)
    (row,) = with_spread(first, others)
    assert row.verdict == verdict
    assert row.value == pairs[0][0], "the number is that of the fit that stands"


def test_a_row_that_varies_over_pieces_of_the_data_varies_over_both_and_too_few_pieces_carry_nothing():
    from pages.lab.card import with_spread

    first, *others = rows((0.90, 0.80), (0.92, 0.80), (0.91, 0.80))
    pieces = replace(first[0], spread=0.3, over="9 blocks")
    (row,) = with_spread([pieces], others)
    assert row.spread == pytest.approx(np.hypot(0.3, np.std([0.10, 0.12, 0.11], ddof=1)))
    assert row.over == "9 blocks and 3 seeds"
    assert row.verdict == "level", "over seeds alone it would be ahead"
    few = replace(first[0], short=True, over="2 blocks")
    assert with_spread([few], others) == [few]
