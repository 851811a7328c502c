"""The frame around every page, run as a script without a browser."""

from __future__ import annotations

import asyncio
import gc
import gzip
import re
import sys

import numpy as np
import pytest
from starlette.applications import Starlette
from streamlit.testing.v1 import AppTest

from gdm_core import __version__
from gdm_core.errors import DataError
from pages.lab.live import screen
from pages.ui import card, navigation, result_files, server, streamlit_internals
from pages.ui.card import Score
from pages.ui.result_files import Card, load_card, write_card
from tests.support.asgi import ask
from tests.support.compared import lines, made_up
from tests.support.page import APP, turned
from tests.support.sliders import slider

GET_READY = server.get_ready  # before tests are kept from starting workers


def _html(app: AppTest) -> str:
    return "\n".join(element.proto.body for element in app.get("html"))


@pytest.mark.parametrize("script", [APP, str(server.MAIN)])
def test_home_opens_through_the_app(script):
    app = AppTest.from_file(script).run()
    text = _html(app)
    assert "Soft switching" in text
    for title in ("Formula 1", "NASCAR", "Mice"):
        assert title in text
    assert f"GDM Studio {__version__}" in text


def test_the_menu_holds_the_pages_that_exist():
    folders = [entry.folder for entry in navigation.available()]
    assert folders[0] == "home"
    assert "playground" in folders
    assert all(entry.path.is_file() for entry in navigation.available())
    assert len({entry.url for entry in navigation.REGISTRY}) == len(navigation.REGISTRY)


def test_no_page_can_be_taken_for_an_old_style_one():
    # Streamlit would run pages/*.py by itself, past app.py.
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
        shell.say(shell.running_html("fitting", 1.7))
    shell.footer(["CC BY 4.0"])


def test_empty_error_and_running_states_say_what_to_do():
    app = AppTest.from_function(_broken).run()
    text = _html(app)
    assert "Choose a file." in text
    assert 'role="alert"' in text
    assert "Try later &amp; often." in text
    assert "about &lt;b&gt;" in text, "words from data must not become markup"
    assert "100 %" in text
    assert "tried again" not in text
    app.button(key="again").click().run()
    assert "tried again" in _html(app)
    app.button(key="begin").click().run()
    assert "Not begun" not in _html(app)
    app.button(key="begin").click().run()
    assert "It goes on already." in _html(app)
    assert "It goes on already." not in _html(app.run()), "what is refused is said once"


def _overtaken() -> None:
    import streamlit as st

    from pages.ui import shell

    number = st.number_input("Number", key="number")
    if st.session_state.pop("overtaken", False):
        st.stop()
    shell.begin_button("Begin", lambda: st.session_state.update(begun=number), key="begin")


def test_a_click_waits_for_the_run_that_comes_to_it_and_means_what_was_set_right_before():
    app = AppTest.from_function(_overtaken).run()
    app.session_state["overtaken"] = True
    app.number_input(key="number").set_value(3)
    app.button(key="begin").click().run()
    assert "begun" not in app.session_state
    assert app.run().session_state["begun"] == 3
    app.number_input(key="number").set_value(4).run()
    assert app.session_state["begun"] == 3, "once"


@pytest.mark.parametrize(
    ("value", "line", "spread", "higher", "verdict"),
    [
        (0.93, 0.90, 0.01, True, "beats"),
        (0.93, 0.90, 0.05, True, "level"),
        (0.80, 0.90, 0.01, True, "below"),
        (0.93, 0.90, None, True, "unknown"),
        (0.10, 0.20, 0.01, False, "beats"),
        (0.93, None, 0.01, True, None),
        (float("nan"), 0.9, 0.01, True, None),
    ],
)
def test_green_only_beyond_the_spread(value, line, spread, higher, verdict):
    score = card.Score("s", value, line=line, line_name="x", spread=spread, higher_is_better=higher)
    assert score.verdict == verdict


def test_the_card_puts_each_score_beside_its_line():
    rows = [
        card.Score("Matches <corners>", 0.86, line=0.19, line_name="chance", spread=0.02, others=[("untrained", 0.61)]),
        card.Score("Next second", float("nan"), line=0.9, line_name="stands still"),
    ]
    text = card.scores_html(rows, status="1.3 s · seed 0")
    for words in (
        "0.860",
        "± 0.020",
        "chance 0.190",
        "untrained 0.610",
        "not measured",
        "1.3 s · seed 0",
        "&lt;corners&gt;",
    ):
        assert words in text
    assert text.count('data-verdict="beats"') == 1


@pytest.mark.parametrize(("value", "line", "word"), [(0.9979, 0.9984, "level"), (0.9974, 0.9976, "below")])
def test_nobody_is_below_by_less_than_is_printed(value, line, word):
    assert card.Score("s", value, line=line, line_name="x").verdict == word


def test_scores_of_an_earlier_result_are_dim_and_named():
    rows = [card.Score("Matches", 0.993, line=0.9, line_name="chance")]
    first = card.scores_html(rows, status="2.1 s · seed 0", earlier="GDM, K 4")
    second = card.scores_html([], to_come=rows)
    assert first.startswith('<div class="gdm-of" data-of="">'), "of settings that nobody can want: it fades"
    assert "gdm-of" not in second
    assert "Scores of the earlier result: GDM, K 4" in first
    assert "2.1 s" not in first, "the line on the run belongs to the new fit"
    assert "Matches" in second
    assert "0.993" not in second
    assert "chance" not in second


def _track(states) -> Card:
    turn = np.linspace(0, 6, len(states))
    score = Score("match", 0.93, 0.9, "k-means", spread=0.01)
    where = np.column_stack([np.cos(turn), np.sin(turn)])
    return Card(where, states, "Track", "1,000 steps", {"states K": "2"}, (score,), {"trial": "New"}, "simulated")


@pytest.fixture
def shipped_to(tmp_path, monkeypatch):
    monkeypatch.setattr(result_files, "FOLDER", tmp_path)
    return tmp_path


def test_cards_of_results_come_back(shipped_to):
    assert load_card("nascar") is None
    given = _track(np.eye(2)[[0, 1, 1]])
    write_card("nascar", given)
    found = load_card("nascar")
    assert found.states.tolist() == given.states.tolist()
    np.testing.assert_allclose(found.position, given.position, atol=1e-6)
    assert (found.title, found.facts, found.query, found.licence) == ("Track", given.facts, given.query, "simulated")
    assert found.scores == given.scores
    assert found.scores[0].verdict == "beats"


def test_parts_of_a_result_are_written_side_by_side(shipped_to):
    result_files.write("nascar", "fit", {"model": np.arange(3)}, {"elbo": 1.5})
    assert load_card("nascar") is None
    write_card("nascar", _track(np.eye(2)))
    write_card("nascar", _track(np.eye(3)))
    arrays, words = result_files.read("nascar", "fit")
    assert arrays["model"].tolist() == [0, 1, 2]
    assert words == {"elbo": 1.5}
    assert load_card("nascar").states.shape == (3, 3)


def test_home_shows_the_card_of_a_result(shipped_to):
    write_card("nascar-soft", _track(np.eye(2)[(np.arange(400) > 200).astype(int)]))
    app = AppTest.from_file(APP).run()
    text = _html(app)
    assert "data:image/svg+xml;base64," in text
    assert re.search(r"sorting single moments into groups: <?b?>?(0\.90|90 ?%)", text)
    assert "simulated" in text


def test_a_damaged_card_is_named(shipped_to):
    write_card("nascar", _track(np.eye(3)))
    _, words = result_files.read("nascar", "card")
    result_files.write("nascar", "card", {"states": np.eye(3)}, words)
    with pytest.raises(DataError, match="lacks position"):
        load_card("nascar")
    result_files.write("nascar", "card", {"states": np.eye(3), "position": np.zeros((4, 2))}, words)
    with pytest.raises(DataError, match="4 positions but 3 states"):
        load_card("nascar")


def _errors() -> None:
    from gdm_core.errors import DataError
    from pages.ui import server

    assert server.show_error(DataError("Channel <x> is constant. Drop it."))
    assert server.show_error(ValueError("an inner secret"))


def test_errors_that_no_page_caught_are_worded_for_a_reader(caplog):
    app = AppTest.from_function(_errors).run()
    text = _html(app)
    assert "Channel &lt;x&gt; is constant. Drop it." in text
    assert "an inner secret" not in text, "what a reader cannot use stays in the log"
    number = text.rsplit("under the number ", 1)[1][:6]
    assert any(number in record.getMessage() for record in caplog.records)


def _ask_for_plotly(encoding: bytes):
    from starlette.requests import Request

    path = server.plotly_address().split("?")[0]
    (route,) = [route for route in server.routes() if route.path == path]
    return asyncio.run(route.endpoint(Request({"type": "http", "headers": [(b"accept-encoding", encoding)]})))


def test_the_plotting_library_is_sent_small_and_kept():
    small, plain = _ask_for_plotly(b"gzip, br"), _ask_for_plotly(b"identity")
    assert small.headers["content-encoding"] == "gzip"
    assert len(small.body) < 2_000_000
    assert "immutable" in small.headers["cache-control"]
    assert "content-encoding" not in plain.headers
    assert gzip.decompress(small.body) == plain.body


def test_a_page_that_a_link_leads_to_knows_where_its_server_is():
    """Else it asks below its own address first: two answers 404 each time (tests/browser hears of those)."""
    status, headers, body = ask(Starlette(routes=server.routes()), "/nascar")
    assert (status, headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert b"BACKEND_BASE_URL: new URL('.'" in body.partition(b"</script>")[0]
    assert b'<div id="root">' in body


def test_workers_are_started_and_libraries_loaded_behind_the_first_page(monkeypatch):
    class Recorder:
        started = 0

        def start(self) -> None:
            self.started += 1

    engine = Recorder()
    monkeypatch.setattr(screen, "engine", lambda: engine)
    monkeypatch.setattr(server, "QUIET_S", 0.0)
    thread = GET_READY.__wrapped__()  # not the one visit of this process that it is for
    thread.join(60)
    assert engine.started == 1
    assert set(server.LOAD_AHEAD) <= set(sys.modules)


def test_copies_of_an_upload_share_its_bytes(monkeypatch):
    from copy import deepcopy

    from streamlit.proto.Common_pb2 import FileURLs
    from streamlit.runtime.uploaded_file_manager import UploadedFile, UploadedFileRec

    content = bytes(range(256)) * 4096
    file = UploadedFile(UploadedFileRec("id", "walk.csv", "text/csv", content), FileURLs())
    monkeypatch.setattr(UploadedFile, "__deepcopy__", None, raising=False)  # put back after the test
    streamlit_internals.share_uploads()
    file.seek(100)
    copy = deepcopy(file)
    assert copy is not file
    assert copy.getvalue() is content
    assert copy == file
    assert (copy.name, copy.type, copy.size, copy.tell()) == ("walk.csv", "text/csv", len(content), 0)
    copy.write(b"mine")
    assert file.getvalue() is content


def test_garbage_collection_leaves_loaded_modules_alone(monkeypatch):
    monkeypatch.setattr(server, "_modules_kept", 0)
    gc.unfreeze()
    try:
        assert server.keep_modules()
        kept = gc.get_freeze_count()
        assert kept > 10_000
        assert not server.keep_modules(), "nothing new: no second walk"
        monkeypatch.setattr(server, "_modules_kept", len(sys.modules) - server.NEW_MODULES)
        assert server.keep_modules(), "more libraries were loaded"
    finally:
        gc.unfreeze()


# ---- turning from page to page: none meets the settings of another (that each keeps its own: tests/browser/test_turning.py)
@pytest.fixture
def app(engine, monkeypatch) -> AppTest:
    # Compare fits nine models when it is entered; what it makes of them is in test_compare.py.
    monkeypatch.setattr("gdm_core.engine.compare.fitted_cell", made_up)
    monkeypatch.setattr("gdm_core.engine.compare.lines_to_beat", lines)
    return AppTest.from_file(APP).run()


def test_another_page_starts_with_its_own_settings(app):
    turned(app, "nascar")
    slider(app, "K").set_value(9).run()
    app.segmented_control(key="stay").set_value("fix").run()
    for folder, n_states in (("formula1", 3), ("behaviour", 5)):
        turned(app, folder)
        assert slider(app, "K").value == n_states
        assert app.segmented_control(key="stay").value == "learn"


@pytest.mark.bulk
def test_every_page_can_be_entered_from_every_other(app):
    """Also with one key of different meaning on both, which `stay` is on the playground."""
    folders = [entry.folder for entry in navigation.available()]
    turned(app, "nascar")
    app.segmented_control(key="stay").set_value("fix").run()
    turned(app, "playground")
    slider(app, "stay").set_value(0.6).run()
    for k, first in enumerate(folders):
        turned(app, first)
        for second in folders[k + 1 :]:
            turned(app, second)
            turned(app, first)


def test_a_link_brings_its_own_settings_and_not_those_left_before(app):
    turned(app, "nascar")
    slider(app, "K").set_value(9).run()
    turned(app, "home")
    turned(app, "nascar", T="400")
    assert slider(app, "T").value == 400
    assert slider(app, "K").value == 4
