"""What a visitor asks for, where a page asks to be run again at the same time."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from streamlit.proto.WidgetStates_pb2 import WidgetStates
from streamlit.runtime.scriptrunner import RerunData
from streamlit.runtime.scriptrunner_utils.script_requests import ScriptRequests

from pages.ui import precedence

HERE, THERE = "page-of-the-run", "page-asked-for"


@pytest.fixture
def requests(monkeypatch: pytest.MonkeyPatch) -> ScriptRequests:
    """Of a run of the page HERE that is under way, in Streamlit as it comes, which is as it was afterwards."""
    plain = getattr(ScriptRequests, "_joined_by_streamlit", ScriptRequests._request_rerun_locked)
    monkeypatch.setattr(ScriptRequests, "_request_rerun_locked", plain)
    monkeypatch.setattr(
        ScriptRequests, "_joined_by_streamlit", plain, raising=False
    )  # so that it goes where it was not
    monkeypatch.delattr(ScriptRequests, "_joined_by_streamlit")
    running = SimpleNamespace(page_script_hash=HERE)
    monkeypatch.setattr(precedence, "get_script_run_ctx", lambda suppress_warning: running)
    return ScriptRequests()


def shown(**values: str) -> WidgetStates:
    """What controls of a browser's page say."""
    states = WidgetStates()
    for name, value in values.items():
        states.widgets.add(id=name, string_value=value)
    return states


def by_browser(page: str, address: str, *, back: bool = False) -> RerunData:
    return RerunData(
        page_script_hash=page, query_string=address, widget_states=shown(stay="Set"), is_history_navigation=back
    )


def by_itself(page: str = HERE, address: str = "stay=Set") -> RerunData:
    """As st.rerun and st.switch_page ask."""
    return RerunData(page_script_hash=page, query_string=address)


def by_clock(fragment: str = "part") -> RerunData:
    """As the browser asks for a part that looks again by itself."""
    return RerunData(
        page_script_hash=HERE,
        query_string="stay=Set",
        fragment_id=fragment,
        is_auto_rerun=True,
        widget_states=shown(stay="Set"),
    )


def next_run(requests: ScriptRequests) -> RerunData:
    return requests.on_scriptrunner_ready().rerun_data


@pytest.mark.parametrize("after", [[by_itself()], [by_clock()], [by_clock(), by_itself()], [by_itself(), by_clock()]])
@pytest.mark.parametrize("asked", [by_browser(HERE, "", back=True), by_browser(THERE, "K=3")])
def test_a_step_back_and_a_click_on_another_page_outlast_what_the_page_asks_for(requests, asked, after):
    precedence.keep()
    for data in (asked, *after):
        assert requests.request_rerun(data)
    run = next_run(requests)
    assert (run.page_script_hash, run.query_string) == (asked.page_script_hash, asked.query_string)
    assert run.is_history_navigation == asked.is_history_navigation
    assert run.widget_states == asked.widget_states
    assert not run.fragment_id_queue


@pytest.mark.parametrize("after", [by_itself(), by_clock()])
def test_streamlit_still_forgets_them_by_itself(requests, after):
    """Once this fails, the mend can go."""
    requests.request_rerun(by_browser(THERE, "K=3"))
    requests.request_rerun(after)
    assert next_run(requests).page_script_hash == HERE


def test_a_script_that_turns_to_another_page_is_followed(requests):
    precedence.keep()
    requests.request_rerun(by_browser(HERE, "K=3"))
    requests.request_rerun(by_itself(THERE, "K=5"))
    run = next_run(requests)
    assert (run.page_script_hash, run.query_string) == (THERE, "K=5")


def test_the_visitor_s_last_wish_is_the_one_that_counts(requests):
    precedence.keep()
    requests.request_rerun(by_browser(HERE, "K=3", back=True))
    requests.request_rerun(by_browser(THERE, "K=5"))
    run = next_run(requests)
    assert (run.page_script_hash, run.query_string, run.is_history_navigation) == (THERE, "K=5", False)


def test_parts_that_look_again_by_themselves_all_look_and_bring_no_values(requests):
    precedence.keep()
    for part in ("one", "two"):
        requests.request_rerun(by_clock(part))
    run = next_run(requests)
    assert run.fragment_id_queue == ["one", "two"]
    assert run.widget_states == WidgetStates()  # and not None, with which buttons would stay pressed


def test_a_part_keeps_the_values_that_a_click_in_it_brought(requests):
    precedence.keep()
    clicked = RerunData(page_script_hash=HERE, query_string="", fragment_id="part", widget_states=shown(name="left"))
    requests.request_rerun(clicked)
    requests.request_rerun(by_clock())
    run = next_run(requests)
    assert run.fragment_id_queue == ["part"]
    assert run.widget_states == shown(name="left")


def test_twice_is_once(requests):
    precedence.keep()
    patched = ScriptRequests._request_rerun_locked
    precedence.keep()
    assert ScriptRequests._request_rerun_locked is patched
