"""Every example runs from an empty folder."""

from __future__ import annotations

import pytest

from docs.site import gallery

QUICK = ("first_fit", "own_model", "own_reader")
NAMES = sorted(path.stem for path in gallery.EXAMPLES.glob("*.py"))
FILES = {"first_fit": ("lap.gdm",), "own_reader": ("driver-VER-states.csv", "driver-PIA-states.csv")}


def test_gallery_lists_every_example():
    assert sorted(gallery.ORDER) == NAMES


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.bulk) for name in NAMES]
)
def test_example_runs(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path / "data"))
    example = gallery.run(gallery.EXAMPLES / f"{name}.py")
    printed = "\n".join(cell.said for cell in example.cells)
    assert printed.strip()
    assert "nan" not in printed.replace("nanosecond", ""), printed
    assert all((tmp_path / file).stat().st_size for file in FILES.get(name, ()))
