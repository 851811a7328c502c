"""Controls whose value belongs to one recording: another recording finds its own start in them, and never a value left over.

Streamlit keeps a control's value under its key, and an address under its name. A key that names the recording, too, needs
nothing to be cleared: also not where a run that would have cleared it was overtaken by the next one.
"""

from __future__ import annotations

import hashlib


def of(*what: object) -> str:
    """A short name of what a control belongs to."""
    return hashlib.sha256(repr(what).encode()).hexdigest()[:6]


def key(name: str, of: str = "") -> str:
    """The key of a control, in the session and in the address; "" belongs to no recording in particular."""
    return f"{name}-{of}" if of else name
