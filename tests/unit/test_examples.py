"""Every example runs as it stands, from an empty folder, and says what its reader came for."""

from __future__ import annotations

import json

import pytest

from docs.site import gallery

# name -> what it must say, and the files it must leave
SAYS = {
    "first_fit": (("the same model from its file: True", "states that match the truth"), ("lap.gdm",)),
    "choose_k": (("Take four states", "n_states      5", "halves agree on"), ()),
    "compare_models": (("GDM", "ARHMM", "SLDS", "matches the labels: ", "to beat"), ()),
    "forecast": (("a 90 % envelope held", "+10"), ()),
    "mouse_bouts": (("bouts in 30 s", "of its frames"), ()),
    "teach": (("macro-F1 on a recording without marks", "states stand for"), ()),
    "study": (("flow: distance", "mean_treated", "blind to the sheet"), ()),
    "qualifying_lap": (("of the time, speed", "simulated race"), ()),
    "own_model": (("Steps() [converged", "matched", "(400, 3, 10)"), ()),
    "own_reader": (
        ("2 trials at 20 Hz", "driver is group", "logger.bin (600, 4)"),
        ("driver-VER-states.csv", "driver-PIA-states.csv"),
    ),
    "out_of_memory": (("20,000 rows of 4 shares on disk", "bound of everything"), ("states.npy",)),
    "on_a_cluster": (("8 fits", "elbo_test"), ()),
}


def test_each_example_is_known_here():
    assert {path.stem for path in gallery.EXAMPLES.glob("*.py")} == set(SAYS) == set(gallery.ORDER)


QUICK = ("first_fit", "forecast", "mouse_bouts", "own_model", "own_reader")


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.bulk) for name in SAYS]
)
def test_an_example_runs(name, tmp_path, monkeypatch):
    """As the gallery runs it, cell by cell; its page and its notebook hold what it said."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GDM_DATA_DIR", str(tmp_path / "data"))
    example = gallery.run(gallery.EXAMPLES / f"{name}.py")
    words, files = SAYS[name]
    said = "\n".join(cell.said for cell in example.cells)
    assert all(word in said for word in words), said
    assert "nan" not in said.replace("nanosecond", ""), said
    assert all((tmp_path / file).stat().st_size for file in files)
    page, notebook = gallery.page(example), json.dumps(gallery.notebook(example))
    assert all(cell.said in page and cell.code in page for cell in example.cells)
    assert all(json.dumps(line)[1:-1] in notebook for cell in example.cells for line in cell.said.splitlines())


def test_what_is_no_example_is_refused(tmp_path):
    for source, why in (('"""A title"""\n# %%\n', "full stop"), ('"""A title."""\nprint(1)\n', "no cell")):
        (tmp_path / "one.py").write_text(source)
        with pytest.raises(ValueError, match=why):
            gallery.parse(tmp_path / "one.py")
