"""The NASCAR lab in a browser: figures follow a slider, links restore the picture, exports download."""

import io
import json
import zipfile

import numpy as np
import pandas as pd
import pytest
from playwright.sync_api import Page, expect

INFERRED = ".st-key-inferred-track .gdm-figure"
STRIPS = ".st-key-strips .gdm-plot"
STROKES = f"document.querySelector('{INFERRED} .gdm-plot').layout.shapes"
LOOK = f"JSON.stringify({STROKES}.map(({{ line, path }}) => [line.color, path]))"


def rested(page: Page) -> Page:
    """Wait until the fit is done and scored."""
    page.wait_for_selector(f"{INFERRED}[data-state=fresh][data-updates]")
    page.wait_for_selector(".gdm-score")
    page.wait_for_function(
        "document.querySelector('[data-testid=stApp]')?.dataset.testScriptState === 'notRunning'"
        " && window.gdmChannel && !window.gdmChannel.moves"  # no query is pending whose result would rerun the page
    )
    return page


def press(page: Page, slider: str, key: str) -> None:
    page.get_by_role("slider", name=slider).focus()
    page.keyboard.press(key)


def moved(page: Page, slider: str, key: str) -> Page:
    """Press a key on a slider and wait for the next finished picture."""
    before = page.evaluate(LOOK)
    press(page, slider, key)
    page.wait_for_function(f"{LOOK} !== {json.dumps(before)}")
    return rested(page)


@pytest.fixture
def short() -> str:
    return "/nascar?T=200"


def test_exports_download_and_read_back(revisit, short, tmp_path):
    opened = revisit(short + "&view=Export")
    page = rested(opened.page)

    def get(label: str) -> bytes:
        button = page.get_by_role("button", name=label, exact=True)
        button.scroll_into_view_if_needed()
        with page.expect_download() as waiting:
            button.click()
        waiting.value.save_as(tmp_path / waiting.value.suggested_filename)
        return (tmp_path / waiting.value.suggested_filename).read_bytes()

    page.get_by_role("button", name="States (CSV)").wait_for()
    table = pd.read_csv(io.BytesIO(get("States (CSV)")))
    shares = table[[f"p_{k}" for k in range(1, 5)]].to_numpy()
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-4)
    assert len(table) == 200
    assert rb"\"n_states\": 4" in get("Model (safetensors)")
    assert b"model.fit(train)" in get("Python script")
    assert get("SVG").lstrip().startswith(b"<svg")
    assert get("PNG").startswith(b"\x89PNG")
    with zipfile.ZipFile(io.BytesIO(get("Download all (.zip)"))) as archive:
        assert archive.testzip() is None
        names = {"README.md", "reproduce.py", "reproduce.ipynb", "nascar-model.safetensors"}
        assert names | {f"figures/state-map.{ending}" for ending in ("svg", "png")} <= set(archive.namelist())
        assert b'width="85mm"' in archive.read("figures/state-map.svg")[:300]


def test_shares_follow_a_pointed_moment_and_space_plays(visit, short):
    page = rested(visit(short).page)
    canvas = page.locator(".st-key-moment canvas")
    box = page.locator(STRIPS).bounding_box()
    page.mouse.move(box["x"] + 0.6 * box["width"], box["y"] + 30)
    expect(page.locator(".gdm-cursor-path:not([hidden])")).to_have_count(2)
    at = int(canvas.get_attribute("data-sample"))
    assert at > 40
    page.locator(".gdm-head h1").click()
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Pause", exact=True)).to_be_visible()
    expect(canvas).not_to_have_attribute("data-sample", str(at))
    page.keyboard.press("Space")
    expect(page.get_by_role("button", name="Play", exact=True)).to_be_visible()


def test_click_on_a_state_explains_it(visit, short):
    page = rested(visit(short).page)
    page.get_by_role("button", name="S2", exact=True).click()
    expect(page.locator(".gdm-explain")).to_contain_text("Comes after")
    page.get_by_role("button", name="Close").click()
    expect(page.locator(".gdm-explain")).to_have_count(0)
