"""README and docs: their numbers are those that were measured, and what they point at is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from docs import render

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])


@pytest.mark.parametrize("name", render.PAGES)
def test_pages_state_what_was_measured(name):
    """If this fails: `make pages` writes the numbers of docs/results.json into the pages."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert render.MARKED.search(text), "no place for numbers"
    assert render.rendered(text, render.load()) == text


def test_every_block_of_numbers_stands_somewhere():
    placed = [match["name"] for page in render.PAGES for match in render.MARKED.finditer((ROOT / page).read_text())]
    assert sorted(placed) == sorted(render.BLOCKS)


def test_another_result_gives_another_page():
    stored = render.load()
    stored["nascar"]["values"]["soft"]["gdm"]["matched_accuracy"]["mean"] = 0.1234
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert "| **GDM** | 0.123 ± " in render.rendered(text, stored)


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 90


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)", text)
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert not missing
