"""The frame around every page: entry points, errors, score card and turning pages."""

import gzip
import json
import re

import numpy as np
import pytest
from starlette.applications import Starlette
from starlette.responses import HTMLResponse, PlainTextResponse
from streamlit.testing.v1 import AppTest

from gdm_core.errors import DataError
from pages.ui import card, component, navigation, server, shipped
from pages.ui.card import Score
from pages.ui.shipped import Card, load_card, write_card
from tests.support.asgi import ask
from tests.support.compared import lines, made_up
from tests.support.page import APP, turned
from tests.support.sliders import slider


def _html(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


def test_menu_lists_existing_pages():
    assert all(entry.path.is_file() for entry in navigation.REGISTRY)
    assert len({entry.url for entry in navigation.REGISTRY}) == len(navigation.REGISTRY)


def test_no_script_is_discovered_as_a_page():
    # Streamlit would run pages/*.py without app.py.
    stray = [path.name for path in (navigation.ROOT / "pages").glob("*.py") if path.name != "__init__.py"]
    assert stray == []
    assert not (server.MAIN.parent / "pages").exists()


def _broken() -> None:
    import streamlit as st

    from gdm_core.errors import FitError
    from pages.ui import shell

    def done(what):
        if what in st.session_state:
            raise FitError("It goes on already.")
        st.session_state[what] = True

    page = shell.frame("home", title="Broken")
    page.header("about <b>", [("states K", "4")])
    with page.picture:
        shell.empty("Nothing yet", "Choose a file.")
        shell.error("No network", "Try later & often.", retry="again", again=lambda: done("tried"))
        shell.begin_button("Begin", lambda: done("begun"), "Not begun", key="begin")
        if "tried" in st.session_state:
            shell.quiet("tried again")
        shell.html(shell.running_html("fitting", 1.7))
    shell.footer(["CC BY 4.0"])


def test_retry_and_begin_buttons_run_their_callbacks():
    app = AppTest.from_function(_broken).run()
    text = _html(app)
    assert 'role="alert"' in text
    assert "about &lt;b&gt;" in text, "text is escaped"
    assert "tried again" not in text
    app.button(key="again").click().run()
    assert "tried again" in _html(app)
    app.button(key="begin").click().run()
    assert "Not begun" not in _html(app)
    app.button(key="begin").click().run()
    assert "It goes on already." in _html(app)
    assert "It goes on already." not in _html(app.run())


def _overtaken() -> None:
    import streamlit as st

    from pages.ui import shell

    number = st.number_input("Number", key="number")
    if st.session_state.pop("overtaken", False):
        st.stop()
    shell.begin_button("Begin", lambda: st.session_state.update(begun=number), key="begin")


def test_click_in_an_interrupted_run_is_not_lost():
    app = AppTest.from_function(_overtaken).run()
    app.session_state["overtaken"] = True
    app.number_input(key="number").set_value(3)
    app.button(key="begin").click().run()
    assert "begun" not in app.session_state
    assert app.run().session_state["begun"] == 3
    app.number_input(key="number").set_value(4).run()
    assert app.session_state["begun"] == 3


@pytest.mark.parametrize(
    ("value", "line", "spread", "verdict"),
    [
        (0.93, 0.90, 0.01, "beats"),
        (0.93, 0.90, 0.05, "level"),
        (0.80, 0.90, 0.01, "below"),
        (0.93, 0.90, None, "unknown"),
        (0.80, 0.90, None, "unknown"),
        (0.93, None, 0.01, None),
        (float("nan"), 0.9, 0.01, None),
        (0.9979, 0.9984, 1e-4, "level"),
        (0.8301, 0.8293, 1e-4, "level"),
        (0.9974, 0.9986, 1e-4, "below"),
    ],
)
def test_verdict_depends_on_the_spread_and_the_last_digit(value, line, spread, verdict):
    score = card.Score("s", value, line=line, line_name="x", spread=spread)
    assert score.verdict == verdict


def test_card_shows_scores_and_baselines():
    rows = [
        card.Score("Matches <corners>", 0.86, line=0.19, line_name="chance", spread=0.02, others=[("untrained", 0.61)]),
        card.Score("Next second", float("nan"), line=0.9, line_name="persistence"),
    ]
    text = card.scores_html(rows, status="1.3 s · seed 0")
    for part in ("0.860", "± 0.020", "chance 0.190", "untrained 0.610", "1.3 s · seed 0", "&lt;corners&gt;"):
        assert part in text
    assert text.count('data-verdict="beats"') == 1


def test_card_unfolds_scores_beyond_the_fourth():
    rows = [card.Score(f"score {i}", 0.5) for i in range(6)]
    visible, rest = card.scores_html(rows).split("<details")
    assert [visible.count("data-verdict"), rest.count("data-verdict")] == [card.SHOWN, 2]
    assert "<details" not in card.scores_html(rows[: card.SHOWN])


def _track(states) -> Card:
    turn = np.linspace(0, 6, len(states))
    score = Score("match", 0.93, 0.9, "k-means", spread=0.01)
    where = np.column_stack([np.cos(turn), np.sin(turn)])
    return Card(where, states, score, {"trial": "New"})


@pytest.fixture
def shipped_to(tmp_path, monkeypatch):
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    return tmp_path


def test_card_round_trips_through_its_file(shipped_to):
    assert load_card("nascar") is None
    given = _track(np.eye(2)[[0, 1, 1]])
    write_card("nascar", given)
    found = load_card("nascar")
    assert found.states.tolist() == given.states.tolist()
    np.testing.assert_allclose(found.position, given.position, atol=1e-6)
    assert (found.score, found.query) == (given.score, given.query)
    assert found.score.verdict == "beats"


def test_damaged_card_raises_data_error(shipped_to):
    write_card("nascar", _track(np.eye(3)))
    words = json.loads((shipped_to / "nascar.json").read_text())["card"]
    shipped.write_part("nascar", "card", {"states": np.eye(3)}, words)
    with pytest.raises(DataError, match="lacks position"):
        load_card("nascar")
    shipped.write_part("nascar", "card", {"states": np.eye(3), "position": np.zeros((4, 2))}, words)
    with pytest.raises(DataError, match="4 positions but 3 states"):
        load_card("nascar")


def _errors() -> None:
    from gdm_core.errors import DataError
    from pages.ui import server

    assert server.show_error(DataError("Channel <x> is constant. Drop it."))
    assert server.show_error(ValueError("an inner secret"))


def test_uncaught_error_shows_a_number_and_no_internals(caplog):
    app = AppTest.from_function(_errors).run()
    text = _html(app)
    assert "Channel &lt;x&gt; is constant. Drop it." in text
    assert "an inner secret" not in text
    number = text.rsplit("look for error ", 1)[1][:6]
    assert any(number in record.getMessage() for record in caplog.records)


@pytest.mark.parametrize("path", ["plotly.min.js", component.CARTESIAN, "plot.js"])
def test_modules_are_served_and_cacheable(path):
    app = Starlette(routes=server.routes(), middleware=server.MIDDLEWARE)
    status, headers, body = ask(app, f"{component.route()}/{path}")
    assert status == 200
    assert "javascript" in headers["content-type"]
    assert "immutable" in headers["cache-control"]
    assert len(body) > 1000


@pytest.mark.parametrize(("path", "preloads"), [("/", False), ("/nascar", True), ("/plain", False)])
def test_pages_with_figures_preload_their_modules(path, preloads):
    """Home has no figures."""
    answers = {"/": HTMLResponse("home"), "/nascar": HTMLResponse("a page"), "/plain": PlainTextResponse("no page")}
    app = Starlette(routes=server.routes(), middleware=server.MIDDLEWARE)
    for place, answer in answers.items():
        app.add_route(place, lambda _, answer=answer: answer)
    links = re.findall("<(.+?)>", ask(app, path)[1].get("link", ""))
    assert bool(links) == preloads
    assert [ask(app, link)[0] for link in links] == [200] * len(links)


def test_cartesian_build_has_the_version_of_plotly():
    app = Starlette(routes=server.routes())
    whole, packed = (ask(app, f"{component.route()}/{name}")[2] for name in ("plotly.min.js", component.CARTESIAN))
    version = re.compile(rb"plotly\.js (?:\(cartesian - minified\) )?v([\d.]+)")
    found = [version.findall(text[:200]) for text in (whole, gzip.decompress(packed))]
    assert len(found[0]) == 1
    assert found[0] == found[1]


def test_routes_follow_the_base_path(monkeypatch):
    monkeypatch.setattr(component.st, "get_option", lambda name: "/lab/")
    app = Starlette(routes=server.routes())
    assert [ask(app, f"{base}{component.route()}/plot.js")[0] for base in ("/lab", "")] == [200, 404]


# ---- turning pages --------------------------------------------------------------------------------------------------
@pytest.fixture
def app(engine, monkeypatch) -> AppTest:
    # Compare would fit nine models.
    monkeypatch.setattr("gdm_core.engine.compare.fit_cell", made_up)
    monkeypatch.setattr("gdm_core.engine.compare.measure_baselines", lines)
    return AppTest.from_file(APP).run()


def test_each_page_has_its_own_settings(app):
    turned(app, "nascar")
    slider(app, "K").set_value(9).run()
    app.segmented_control(key="stay").set_value("fix").run()
    turned(app, "behaviour")
    assert slider(app, "K").value == 5
    assert app.segmented_control(key="stay").value == "learn"
    turned(app, "nascar")
    assert slider(app, "K").value == 9


@pytest.mark.bulk
def test_every_page_opens_from_every_other(app):
    folders = [entry.folder for entry in navigation.REGISTRY]
    turned(app, "nascar")
    app.segmented_control(key="stay").set_value("fix").run()
    turned(app, "playground")
    slider(app, "noise").set_value(0.6).run()
    for k, first in enumerate(folders):
        turned(app, first)
        for second in folders[k + 1 :]:
            turned(app, second)
            turned(app, first)


def test_link_replaces_earlier_settings(app):
    turned(app, "nascar")
    slider(app, "K").set_value(9).run()
    turned(app, "home")
    turned(app, "nascar", T="400")
    assert slider(app, "T").value == 400
    assert slider(app, "K").value == 4


def test_awaited_scores_keep_their_places():
    rows = [Score("One", 0.5), Score("Two", 0.6), Score("Three", 0.7)]
    found = card.scores_html(rows, awaited=["Two"])
    assert re.findall(r'class="value">([^<]*)<', found) == ["0.500", "…", "0.700"]
