"""The site and the release: docstrings, diagrams and links as they are laid out, and in bulk a whole strict build."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from docs import release
from docs.make_pictures import CARD
from docs.site import gallery, make, sequences

ROOT = Path(__file__).resolve().parents[2]


def test_a_sequence_is_drawn_with_all_its_words():
    text = "sequenceDiagram\n participant A as hand\n participant B as browser\n A->>B: near <K>\n B-->>B: draws\n"
    drawn = sequences.svg(text + " loop while it moves\n B->>A: a picture\n end\n Note over B: rests\n")
    for words in ("hand", "browser", "near &lt;K&gt;", "draws", "while it moves", "a picture", "rests"):
        assert words in drawn
    assert drawn.count("marker-end") == 3
    with pytest.raises(ValueError, match="'alt x' is not understood"):
        sequences.svg(text + "alt x\n")
    with pytest.raises(ValueError, match="no sequence diagram"):
        sequences.svg("flowchart TD\n")


def test_links_into_the_repository_lead_to_pages_of_the_site():
    listed: set[Path] = set()
    page = ROOT / "docs" / "guide.md"
    text = "[a](../examples/study.py) [b](../gdm_core/trials.py) [c](scores.md#what) [d](../CONTRIBUTING.md) [e](https://x.org)"
    assert make.laid_out(page, text, listed) == (
        "[a](gallery/study.md) [b](source/gdm_core-trials.md) [c](scores.md#what) [d](contributing.md) [e](https://x.org)"
    )
    assert listed == {ROOT / "gdm_core" / "trials.py"}
    with pytest.raises(ValueError, match="is a folder"):
        make.laid_out(page, "[f](../gdm_core)", listed)


def test_a_figure_cannot_end_its_own_place_on_the_page():
    figure = {"data": [], "layout": {"title": "</script><b>", "height": 300, "meta": {"alt": "a curve"}}}
    example = gallery.Example("x", "X", "Lead.", [gallery.Cell("", "", "pass", figures=[figure])])
    page = gallery.page(example)
    assert page.count("</script>") == 1
    assert 'aria-label="a curve"' in page


def test_every_card_of_the_gallery_has_a_picture():
    """`make figures ONLY=gallery` takes them from the site."""
    for name in gallery.ORDER:
        path = gallery.ROOT / "docs" / "pictures" / "gallery" / f"{name}.webp"
        with Image.open(path) as card:
            assert card.size == (2 * CARD[0], 2 * CARD[1]), name
            assert len(set(card.convert("L").resize((60, 38)).tobytes())) > 5, f"{name} shows nothing"
        assert path.stat().st_size < 40_000
        assert f":img-top: ../pictures/gallery/{name}.webp" in gallery._card(
            gallery.parse(gallery.EXAMPLES / f"{name}.py")
        )


def test_a_release_finds_the_pythons_that_start_and_no_others(monkeypatch, tmp_path):
    """A name on the path may be one that only says that it is not chosen, as pyenv leaves it."""
    path, beside = tmp_path / "bin", tmp_path / "pyenv" / "versions" / "9.9.1" / "bin"
    for folder, ends in ((path, 127), (beside, 0)):
        folder.mkdir(parents=True)
        (folder / "python9.9").write_text(f"#!/bin/sh\nexit {ends}\n")
        (folder / "python9.9").chmod(0o755)
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "pyenv"))
    assert release.installed("python9.9") == str(beside / "python9.9")
    assert release.installed("python9.8") is None
    assert release.tried("python9.8", tmp_path, []) == "python9.8: not on this machine"


def test_the_notes_of_a_release_hold_what_changed_and_what_was_tried(monkeypatch):
    text = "# Changes\n\n## 2.0.0\n- new\n\n## 1.0.0\n- old\n"
    assert release.changes("2.0.0", text) == "- new"
    with pytest.raises(SystemExit, match=r"says nothing of 3\.0\.0"):
        release.changes("3.0.0", text)
    made = release.notes(["python3.11: all run"])
    assert "- python3.11: all run" in made
    assert "- [ ] nascar" in made


def test_who_cites_cites_this_version():
    from gdm_core import __version__

    assert f"\nversion: {__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.bulk
def test_the_site_builds_without_a_warning_and_needs_no_network():
    done = subprocess.run([sys.executable, "-m", "docs.site.make"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    site = ROOT / "build" / "site"
    for page in site.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        assert 'src="http' not in text, page
        assert not [part for part in text.split("<link")[1:] if 'href="http' in part.split(">")[0]], page
    notebooks = list((site / "_downloads").rglob("*.ipynb"))
    assert {path.stem for path in notebooks} == set(gallery.ORDER)
    assert all(json.loads(path.read_text(encoding="utf-8"))["nbformat"] == 4 for path in notebooks)
