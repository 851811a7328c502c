"""The documentation site builds strictly and works without a network."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from docs import render

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("name", render.PAGES)
def test_rendered_tables_are_current(name):
    """Run `make pages` to write the numbers of docs/results.json into the pages."""
    text = (ROOT / name).read_text(encoding="utf-8")
    assert render.render(text, render.load()) == text


@pytest.mark.bulk
def test_site_builds_and_needs_no_network():
    done = subprocess.run([sys.executable, "-m", "docs.site.make"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in (ROOT / "build" / "site").rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'src="http' not in text, page
        assert not [part for part in text.split("<link")[1:] if 'href="http' in part.split(">")[0]], page
