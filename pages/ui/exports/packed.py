"""Scripts in an HTML file at a third of their size: deflated, and unpacked by the browser that opens it.

The drawing library is 4.8 of the 5 MB that a report had. Base 85 takes a quarter more than the bytes themselves, base 64 a third.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Sequence
from functools import lru_cache

from plotly.offline import get_plotlyjs

_STOPS, _OURS = "<", "."  # what could end a script in HTML, and a letter that base 85 does not have

_UNPACK = """
const ALPHABET =
  "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;.=>?@^_`{|}~";
async function unpacked(place) {
  const value = new Uint8Array(128);
  [...ALPHABET].forEach((letter, i) => (value[letter.charCodeAt(0)] = i));
  const text = place.textContent;
  const bytes = new DataView(new ArrayBuffer((text.length / 5) * 4));
  for (let i = 0, at = 0; i < text.length; i += 5, at += 4) {
    let word = 0;
    for (let j = 0; j < 5; j++) word = word * 85 + value[text.charCodeAt(i + j)];
    bytes.setUint32(at, word);
  }
  const whole = new Blob([new Uint8Array(bytes.buffer, 0, Number(place.dataset.bytes))]);
  return new Response(whole.stream().pipeThrough(new DecompressionStream("deflate"))).text();
}
Promise.all([...document.querySelectorAll("script[data-bytes]")].map(unpacked)).then(
  (sources) => {
    for (const source of sources) {
      const script = document.createElement("script");
      script.textContent = source;
      document.head.append(script);
    }
  },
  (error) => {
    const said = `This browser cannot draw the figures (${error.message}); any of 2023 or later can.`;
    for (const figure of document.querySelectorAll("figure > div")) figure.textContent = said;
  },
);
"""


def scripts(sources: Sequence[str]) -> str:
    """The drawing library and `sources`, which run in their order once all are unpacked (HTML)."""
    parts = [_library(), *map(_packed, sources)]
    return "".join([*parts, f"<script>{_UNPACK}</script>"])


@lru_cache(maxsize=1)
def _library() -> str:
    return _packed(get_plotlyjs())


def _packed(source: str) -> str:
    small = zlib.compress(source.encode(), 9)
    text = base64.b85encode(small, pad=True).decode("ascii").replace(_STOPS, _OURS)
    return f'<script type="text/plain" data-bytes="{len(small)}">{text}</script>'
