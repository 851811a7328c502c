"""A study from files: it survives other pages, asks before a reload, and reopens from its file."""

import io

import numpy as np
import pandas as pd
from playwright.sync_api import expect

from datasets import cohort


def _files() -> list[dict]:
    """Return states of twelve animals and their sheet."""
    made = cohort.simulate(6, change=cohort.Change("groom", times=3.0), minutes=2, seed=1)
    archive = io.BytesIO()
    np.savez(archive, **made.states)
    sheet = pd.DataFrame(made.sheet).rename(columns={"animal": "mouse"}).assign(sex=["f", "m"] * 6)
    contents = {"states.npz": archive.getvalue(), "sheet.csv": sheet.to_csv(index=False).encode()}
    return [{"name": name, "mimeType": "application/octet-stream", "buffer": one} for name, one in contents.items()]


def test_study_survives_pages_and_reopens_from_its_file(visit, tmp_path):
    page = visit("/study?data=Your+files&hold=States+from+another+tool").ready("input[type=file]")
    states, sheet = _files()
    page.locator("[data-testid=stFileUploader]:visible input[type=file]").first.set_input_files(states)
    expect(page.get_by_role("button", name="Sheet to fill in (CSV)")).to_be_visible()
    page.locator("[data-testid=stFileUploader]:visible input[type=file]").last.set_input_files(sheet)
    result = page.get_by_text("between control and treated")
    expect(result).to_be_visible()
    page.get_by_role("combobox", name="Measure").click()
    page.get_by_role("option", name="Mean bout duration").click()
    expect(page.locator(".gdm-panel-title", has_text="Mean bout duration")).to_be_visible()

    page.on("dialog", lambda dialog: dialog.dismiss())
    page.locator("[data-testid=stTopNavLink]", has_text="Compare").click()
    expect(page.locator("h1", has_text="Compare")).to_be_visible()
    with page.expect_event("dialog") as asked:
        page.evaluate("() => void setTimeout(() => location.reload())")  # refused: the study is not saved
    assert asked.value.type == "beforeunload"
    page.locator("[data-testid=stTopNavLink]", has_text="Study").click()
    expect(result).to_be_visible()
    expect(page.get_by_text("One dot per mouse")).to_be_visible()
    table = page.locator(".dvn-scroller").first
    table.wait_for(state="attached")
    page.set_viewport_size({"width": 1024, "height": 900})
    page.wait_for_timeout(500)  # the table is drawn again
    assert table.evaluate("element => element.scrollWidth - element.clientWidth") <= 1, "the table fits"

    page.get_by_role("tab", name="Export").click()
    with page.expect_download() as taken:
        page.get_by_role("button", name="Study file").click()
    path = tmp_path / "mice.study"
    taken.value.save_as(path)
    later = visit("/study?data=A+saved+study").ready("input[type=file]")
    later.locator("[data-testid=stFileUploader]:visible input[type=file]").set_input_files(path)
    expect(later.get_by_text("between control and treated")).to_be_visible()
    expect(later.locator(".gdm-panel-title", has_text="Mean bout duration")).to_be_visible()
