"""What a worker is asked for and cannot give: the page says why in its place, and the answer can be asked for again."""

from __future__ import annotations

import pytest
from streamlit.testing.v1 import AppTest

from pages.formula1 import data
from pages.lab.teach.lessons import Entry
from tests.support import formula1_page, nascar_page, teach_page
from tests.support.offered import offered

WHY = "It was given up after 600 s."


def press_again(app: AppTest, name: str) -> AppTest:
    """Press the one button that asks this question again."""
    (button,) = [one for one in app.button if f"-again-{name}" in str(one.key)]
    button.click().run()
    return app.run()


def none_offers_again(app: AppTest) -> bool:
    return not [one for one in app.button if "-again-" in str(one.key)]


# ---- the exact states ---------------------------------------------------------------------------------------------
def test_exact_states_that_fail_are_said_and_asked_for_again(engine):
    engine.unable["ask-look"] = WHY
    app = nascar_page.opened(trial="test")
    page = nascar_page.text(app)
    assert "The exact states could not be worked out" in page
    assert WHY in page
    assert "takes a moment" not in page, "nothing is being read"
    asked = len([job for job in engine.jobs if job.slot == "ask-look"])
    app.run()
    assert len([job for job in engine.jobs if job.slot == "ask-look"]) == asked, "no run of the page asks by itself"
    engine.unable.clear()
    page = nascar_page.text(press_again(app, "look-page"))
    assert WHY not in page
    assert none_offers_again(app)


def test_files_that_need_the_exact_states_say_why_there_are_none(engine):
    engine.unable["ask-look"] = WHY
    app = nascar_page.opened(view="Export & reproduce")
    assert "States (CSV)" not in offered(app)
    assert nascar_page.text(app).count(WHY) == 2, "above the picture, and where the files would be"
    assert "on their way" not in nascar_page.text(app)
    engine.unable.clear()
    press_again(app, "look-export")
    assert "States (CSV)" in offered(app)
    assert none_offers_again(app)


# ---- questions of tabs --------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("tab", "name", "title"),
    [
        ("Prediction", "envelope-0", "The prediction could not be worked out"),
        ("Transitions", "map-0", "The map could not be worked out"),
    ],
)
def test_a_tab_says_why_its_figure_is_not_there(engine, tab, name, title):
    engine.unable[f"ask-{name}"] = WHY
    app = nascar_page.opened(view=tab)
    assert title in nascar_page.text(app)
    assert WHY in nascar_page.text(app)
    engine.unable.clear()
    assert WHY not in nascar_page.text(press_again(app, name))
    assert none_offers_again(app)


def test_a_figure_to_export_says_why_it_is_not_there(engine):
    engine.unable["ask-envelope-0"] = WHY
    app = nascar_page.opened(view="Export & reproduce")
    assert WHY not in nascar_page.text(app), "another figure is chosen"
    app.selectbox(key="nascar-export-figure").set_value("Prediction").run()
    assert WHY in nascar_page.text(app)
    engine.unable.clear()
    assert WHY not in nascar_page.text(press_again(app, "envelope-0"))


# ---- teaching -----------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("one_torch_thread", "real")
@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("next-clips", "Which moment next could not be worked out"),
        ("taught", "This could not be taught"),
        ("trust", "This could not be measured"),
        ("words-of-all", "The trials could not be named"),
    ],
)
def test_what_cannot_be_taught_is_said_and_asked_for_again(engine, name, title):
    engine.unable[f"ask-{name}"] = WHY
    app = teach_page.taught(teach_page.opened(), 3)
    if name == "next-clips":  # others are asked for when few are left of those that were offered at once
        passed = [Entry("skip", teach_page.name(trial), *rest[:2]) for trial, *rest in teach_page.kept(app).shown[:4]]
        teach_page.do(app, *passed)
    assert title in teach_page.said(app)
    assert WHY in teach_page.said(app)
    engine.unable.clear()
    press_again(app, name)
    assert WHY not in teach_page.said(app)


# ---- Formula 1 ----------------------------------------------------------------------------------------------------
def test_a_driver_who_cannot_be_read_is_named(monkeypatch, tmp_path):
    engine = formula1_page.arrange(monkeypatch, tmp_path, formula1_page.driven_race)
    engine.unable |= {"ask-look": WHY, "ask-test-quick": WHY}
    monkeypatch.setattr(data, "PREVIEW_HERE", 0)  # laps that are too many to be read in the server
    app = formula1_page.visit(source="real")
    app.query_params["who"] = "test"
    settled(app)
    assert "CCC could not be read" in formula1_page.words(app)
    assert WHY in formula1_page.words(app)
    engine.unable.clear()
    press_again(app, "look")
    assert WHY not in formula1_page.words(app)
    assert "could not be read" not in formula1_page.words(app)


def test_a_driver_compared_by_a_quick_look_alone_is_named(monkeypatch, tmp_path):
    engine = formula1_page.arrange(monkeypatch, tmp_path, formula1_page.driven_race)
    engine.unable["ask-driver-a-exact"] = WHY
    app = settled(formula1_page.visit(source="real", view="Drivers compared"))
    assert "could not be read exactly" in formula1_page.words(app)
    engine.unable.clear()
    press_again(app, "driver-a-exact")
    assert WHY not in formula1_page.words(app)


def settled(app: AppTest) -> AppTest:
    for _ in range(3):
        app.run()
    return app
