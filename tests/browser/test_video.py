"""A video next to the poses in a browser: cursor, offset, playing and saving. Its frames show their number as squares."""

from __future__ import annotations

import base64
import struct
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

WIDTH, HEIGHT, BITS = 320, 240, 10
_ENCODE = """async ({ frames, rate, width, height, bits }) => {
  const canvas = new OffscreenCanvas(width, height);
  const pen = canvas.getContext("2d");
  const parts = [];
  const encoder = new VideoEncoder({
    output: (chunk) => {
      const bytes = new Uint8Array(chunk.byteLength);
      chunk.copyTo(bytes);
      parts.push(btoa(String.fromCharCode(...bytes)));
    },
    error: (error) => { throw error; },
  });
  encoder.configure({ codec: "vp8", width, height, bitrate: 2e6 });
  for (let n = 0; n < frames; n++) {
    pen.fillStyle = "#404040";
    pen.fillRect(0, 0, width, height);
    for (let bit = 0; bit < bits; bit++) {
      pen.fillStyle = (n >> bit) & 1 ? "#ffffff" : "#000000";
      pen.fillRect((bit * width) / bits, 0, width / bits, 48);
    }
    const frame = new VideoFrame(canvas, { timestamp: (n * 1e6) / rate });
    encoder.encode(frame, { keyFrame: n % 15 === 0 });
    frame.close();
    if (n % 30 === 0) await encoder.flush();
  }
  await encoder.flush();
  return parts;
}"""
# Reads the number in the player's picture from the majority colour of each square, since poses cover parts of it.
READ = """(canvas) => {
  const [width, height, bits] = [WIDTH, HEIGHT, BITS];
  const pen = canvas.getContext("2d");
  const ratio = canvas.width / canvas.clientWidth;
  const scale = Math.min(canvas.clientWidth / width, canvas.clientHeight / height);
  const left = (canvas.clientWidth - width * scale) / 2;
  const side = (scale * ratio * width) / bits;
  const bright = (bit) => {
    const inner = [left * ratio + (bit + 0.2) * side, 8 * scale * ratio, 0.6 * side, 32 * scale * ratio];
    const { data } = pen.getImageData(...inner.map(Math.round));
    let white = 0;
    for (let i = 0; i < data.length; i += 4) white += data[i] > 128;
    return white > data.length / 8;
  };
  return Array.from({ length: bits }, (_, bit) => (bright(bit) ? 1 << bit : 0)).reduce((sum, part) => sum + part, 0);
}""".replace("[WIDTH, HEIGHT, BITS]", str([WIDTH, HEIGHT, BITS]))


def make_video(page: Page, path: Path, frames: int, rate: float) -> Path:
    """Write the video as WebM; the page must have a secure origin, such as the app's."""
    about = {"frames": frames, "rate": rate, "width": WIDTH, "height": HEIGHT, "bits": BITS}
    parts = [base64.b64decode(part) for part in page.evaluate(_ENCODE, about)]
    clusters = b""
    for first in range(0, frames, 15):
        began = round(1000 * first / rate)
        blocks = b""
        for n in range(first, min(first + 15, frames)):
            later, flags = round(1000 * n / rate) - began, b"\x80" if n == first else b"\0"
            blocks += _element(0xA3, b"\x81" + later.to_bytes(2, "big") + flags + parts[n])
        clusters += _element(0x1F43B675, _element(0xE7, _number(began)) + blocks)
    video = _element(0xE0, _element(0xB0, _number(WIDTH)) + _element(0xBA, _number(HEIGHT)))
    track = _element(0xD7, b"\1") + _element(0x73C5, b"\1") + _element(0x83, b"\1") + _element(0x86, b"V_VP8") + video
    length = struct.pack(">d", 1000 * frames / rate)
    info = _element(0x2AD7B1, _number(1_000_000)) + _element(0x4489, length)
    body = _element(0x1549A966, info) + _element(0x1654AE6B, _element(0xAE, track)) + clusters
    head = _element(0x4282, b"webm") + _element(0x4287, b"\4") + _element(0x4285, b"\2")
    path.write_bytes(_element(0x1A45DFA3, head) + _element(0x18538067, body))
    return path


def _number(value: int) -> bytes:
    return value.to_bytes(4, "big")


def _element(name: int, content: bytes) -> bytes:
    """Return an EBML element: id, length in eight bytes, and content."""
    return name.to_bytes((name.bit_length() + 7) // 8, "big") + b"\x01" + len(content).to_bytes(7, "big") + content


pytestmark = pytest.mark.bulk
PLAYER = ".st-key-player canvas"


def frame_number(page: Page) -> int:
    """Return the frame number drawn in the picture."""
    return int(page.locator(PLAYER).evaluate(READ))


def seek(page: Page, frame: int, video: int) -> None:
    """Move to a frame of the recording and check the frame of the video."""
    detail = {"group": "page", "time": frame / 30, "follow": True}
    page.evaluate("detail => window.dispatchEvent(new CustomEvent('gdm:cursor', { detail }))", detail)
    expect(page.locator(PLAYER)).to_have_attribute("data-video", str(video))
    assert frame_number(page) == video


def test_local_video_follows_the_cursor(visit, app_server, tmp_path: Path):
    seen = visit("/behaviour", fresh=True)
    page = seen.ready(f"{PLAYER}[data-ready]")
    film = make_video(page, tmp_path / "numbered.webm", 300, 30.0)
    page.locator(".film summary").click()
    page.locator("[data-role=fromDisk]").set_input_files(film)
    drift = page.locator("[data-role=drift]")
    expect(drift).to_contain_text("300 frames, 30 per second")
    expect(drift).to_contain_text("the video ends 56.67 s before the recording")
    for frame in (100, 101, 102, 7, 250, 64):
        seek(page, frame, frame)
    page.locator(PLAYER).focus()
    for key, frame in ((".", 65), (".", 66), (",", 65)):
        page.keyboard.press(key)
        expect(page.locator(PLAYER)).to_have_attribute("data-video", str(frame))
        assert frame_number(page) == frame
    expect(page.locator(".st-key-player [data-role=time]")).to_contain_text("frame 65 · video 65")

    # While it plays, poses and video show the same frame.
    page.keyboard.press(" ")
    page.wait_for_function("canvas => Number(canvas.dataset.video) > 90", arg=page.locator(PLAYER).element_handle())
    both = page.locator(PLAYER).evaluate("canvas => [Number(canvas.dataset.frame), Number(canvas.dataset.video)]")
    assert both[0] == pytest.approx(both[1], abs=1)
    page.keyboard.press(" ")

    page.locator("[data-role=offset]").fill("12")
    page.locator("[data-role=offset]").press("Enter")
    seek(page, 100, 112)

    # Beyond the end of the video the poses continue alone.
    page.evaluate("window.dispatchEvent(new CustomEvent('gdm:cursor', { detail: { group: 'page', time: 60 } }))")
    expect(page.locator(PLAYER)).to_have_attribute("data-video", "")
    page.get_by_role("button", name="Close video").click()
    expect(drift).to_have_text("")

    # An invalid file has a message.
    (tmp_path / "broken.mp4").write_bytes(b"no video")
    page.locator("[data-role=fromDisk]").set_input_files(tmp_path / "broken.mp4")
    expect(drift).to_contain_text("broken.mp4 cannot be played by this browser")
