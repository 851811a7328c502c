"""A part of a page that looks again by itself while the page that holds it is still on its way to the browser."""

from __future__ import annotations

import pytest
from streamlit.proto.ForwardMsg_pb2 import ForwardMsg
from streamlit.runtime.forward_msg_queue import ForwardMsgQueue

from pages.ui import in_order

PART = "part-that-looks-again"


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> ForwardMsgQueue:
    """Streamlit's own, which is as it was afterwards."""
    plain = getattr(ForwardMsgQueue, "_cleared_by_streamlit", ForwardMsgQueue.clear)
    monkeypatch.setattr(ForwardMsgQueue, "clear", plain)
    monkeypatch.setattr(ForwardMsgQueue, "_cleared_by_streamlit", plain, raising=False)
    monkeypatch.delattr(ForwardMsgQueue, "_cleared_by_streamlit")
    return ForwardMsgQueue()


def block(*path: int, part: str = "") -> ForwardMsg:
    message = ForwardMsg()
    message.metadata.delta_path.extend(path)
    message.delta.add_block.vertical.SetInParent()
    message.delta.fragment_id = part
    return message


def words(text: str, *path: int, part: str = "") -> ForwardMsg:
    message = ForwardMsg()
    message.metadata.delta_path.extend(path)
    message.delta.new_element.markdown.body = text
    message.delta.fragment_id = part
    return message


def ended(status: int) -> ForwardMsg:
    return ForwardMsg(script_finished=status)


def page(queue: ForwardMsgQueue) -> None:
    """A panel with a title, a part that looks again, and a line below."""
    for message in (
        block(0),
        words("title", 0, 0),
        block(0, 1, part=PART),
        words("fitting", 0, 1, 0, part=PART),
        words("below", 0, 2),
        ended(ForwardMsg.FINISHED_SUCCESSFULLY),
    ):
        queue.enqueue(message)


def look_again(queue: ForwardMsgQueue, text: str) -> None:
    queue.clear(retain_lifecycle_msgs=True, fragment_ids_this_run=[PART])
    for message in (
        ForwardMsg(new_session={"name": "again"}),
        block(0, 1, part=PART),
        words(text, 0, 1, 0, part=PART),
        ended(ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY),
    ):
        queue.enqueue(message)


def shown(messages: list[ForwardMsg]) -> list:
    """The page as a browser puts it together that has nothing yet; which refuses a place beyond the next one."""
    root: list = []
    for message in messages:
        if message.WhichOneof("type") != "delta":
            continue
        *path, last = message.metadata.delta_path
        here = root
        for index in path:
            here = here[index]
        assert last <= len(here), f"Bad delta path index {last} (should be between [0, {len(here)}])"
        is_block = message.delta.WhichOneof("type") == "add_block"
        node = [] if is_block else message.delta.new_element.markdown.body
        if last == len(here):
            here.append(node)
        elif not (is_block and isinstance(here[last], list)):
            here[last] = node
    return root


def test_the_page_comes_whole_and_then_what_the_part_has_found(queue):
    in_order.keep()
    in_order.keep()
    page(queue)
    look_again(queue, "fitted")
    messages = queue.flush()
    assert shown(messages) == [["title", ["fitted"], "below"]]
    assert [m.script_finished for m in messages if m.WhichOneof("type") == "script_finished"] == [
        ForwardMsg.FINISHED_SUCCESSFULLY,
        ForwardMsg.FINISHED_FRAGMENT_RUN_SUCCESSFULLY,
    ]


def test_streamlit_by_itself_leaves_a_hole(queue):
    page(queue)
    look_again(queue, "fitted")
    with pytest.raises(AssertionError, match=r"Bad delta path index 2 \(should be between \[0, 1\]\)"):
        shown(queue.flush())


def test_a_run_of_the_whole_page_takes_the_place_of_the_one_before(queue):
    in_order.keep()
    page(queue)
    queue.clear(retain_lifecycle_msgs=True)
    page(queue)
    messages = queue.flush()
    assert shown(messages) == [["title", ["fitting"], "below"]]
    assert sum(message.WhichOneof("type") == "delta" for message in messages) == 5
    queue.enqueue(words("late", 0, 0))
    queue.clear()
    assert queue.is_empty()
