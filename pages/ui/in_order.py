"""What a page draws reaches the browser in the order in which it was drawn, and whole.

Where a part of a page looks again by itself before all that the page has drawn has left the server, Streamlit (1.67) takes
that part out of what waits: it will be drawn anew. But it comes after the rest then. Where the browser has no such part in
that place yet, what stands below it has nothing to stand on: "Bad delta path index", and the whole page is white for good.
"""

from __future__ import annotations

from streamlit.runtime.forward_msg_queue import ForwardMsgQueue


def keep() -> None:
    """Have all sessions leave in place what waits; at once, and again without effect."""
    if hasattr(ForwardMsgQueue, "_cleared_by_streamlit"):
        return
    clear = ForwardMsgQueue._cleared_by_streamlit = ForwardMsgQueue.clear  # type: ignore[attr-defined]

    def cleared(
        queue: ForwardMsgQueue, retain_lifecycle_msgs: bool = False, fragment_ids_this_run: list[str] | None = None
    ) -> None:
        waiting = queue._queue
        clear(queue, retain_lifecycle_msgs, fragment_ids_this_run)
        if retain_lifecycle_msgs and fragment_ids_this_run is not None:
            queue._queue = list(waiting)

    ForwardMsgQueue.clear = cleared  # type: ignore[method-assign, assignment]
