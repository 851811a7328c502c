"""Scripts packed into an exported report."""

from __future__ import annotations

import base64
import zlib


def sources_in(html: str) -> list[str]:
    """Return the unpacked scripts: the plotting library, then the drawing calls."""
    found = []
    for part in html.split('<script type="text/plain" data-bytes="')[1:]:
        size, text = part.split("</script>", 1)[0].split('">', 1)
        packed = base64.b85decode(text.replace(".", "<"))
        found.append(zlib.decompress(packed[: int(size)]).decode())
    return found
