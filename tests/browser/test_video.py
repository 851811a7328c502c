"""A video next to the poses in a browser: cursor, offset, playing and saving."""

from __future__ import annotations

from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from tests.support import numbered_video

pytestmark = pytest.mark.bulk
PLAYER = ".st-key-player canvas"


def frame_number(page: Page) -> int:
    """Return the frame number drawn in the picture."""
    return int(page.locator(PLAYER).evaluate(numbered_video.READ))


def seek(page: Page, frame: int, video: int) -> None:
    """Move to a frame of the recording and check the frame of the video."""
    detail = {"group": "page", "time": frame / 30, "follow": True}
    page.evaluate("detail => window.dispatchEvent(new CustomEvent('gdm:cursor', { detail }))", detail)
    expect(page.locator(PLAYER)).to_have_attribute("data-video", str(video))
    assert frame_number(page) == video


def test_local_video_follows_the_cursor(visit, app_server, tmp_path: Path):
    seen = visit("/behaviour", fresh=True)
    page = seen.ready(f"{PLAYER}[data-ready]")
    film = numbered_video.make(page, tmp_path / "numbered.webm", 300, 30.0)
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


def test_video_of_the_data_folder_is_served_in_parts(visit, app_server, tmp_path: Path):
    seen = visit("/behaviour", fresh=True)
    page = seen.ready(f"{PLAYER}[data-ready]")
    folder = app_server.log.parent / "videos"
    folder.mkdir(exist_ok=True)
    film = numbered_video.make(page, folder / "numbered 25.webm", 200, 25.0)
    try:
        page.reload()
        seen.ready(f"{PLAYER}[data-ready]")
        asked = []
        page.on("response", lambda answer: asked.append(answer) if "/gdm/videos/" in answer.url else None)
        page.get_by_role("combobox", name="Video").click()
        page.get_by_role("option", name="videos/numbered 25.webm").click()
        page.locator(".film summary").click()
        page.locator("[data-role=rate]").fill("25")
        page.locator("[data-role=rate]").press("Enter")
        expect(page.locator("[data-role=drift]")).to_contain_text("200 frames, 25 per second")
        seek(page, 60, 50)
        assert asked[0].status == 206
        assert page.request.get(asked[0].url.replace("/gdm/videos/", "/gdm/videos/x")).status == 410
        assert seen.errors == []
    finally:
        film.unlink()
