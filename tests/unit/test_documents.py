"""README and docs: their numbers are those that were measured, what they tell to type runs, and what they name is there."""

from __future__ import annotations

import re
import shlex
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageSequence

import gdm_core
from docs import moving_picture, render
from gdm_studio.cli import build_parser
from pages.ui.navigation import REGISTRY

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")])
PROCESSORS = ROOT / "benchmarks" / "processors.py"
README = (ROOT / "README.md").read_text(encoding="utf-8")
# Each paragraph, table and block of the README, by its first words, and the tests that hold what it says.
HELD = {
    "make app": ["everything_to_type_exists", "the_dashboard_opens"],
    "Both work on a fresh": [
        "the_command_fits_and_refuses",
        "studio_serves_from_any_folder",
        "what_was_tried_on_which_python_is_said_alike_everywhere",
    ],
    "![A hand holds": ["the_picture_of_the_readme_moves", "links_lead_somewhere"],
    "**Find the states": ["states_are_found", "true_numbers_of_states_are_found", "settings_are_suggested_and_used"],
    "| page | for |": ["the_table_of_pages_is_the_menu", "every_format_reads_the_same"],
    "Every page's state": ["every_export_arrives_and_reads_back", "the_link_in_the_script_opens_the_view_again"],
    "```python": ["the_example_of_the_readme_runs"],
    "`SLDS`, `ARHMM`": [
        "every_name_and_command_exists",
        "verbs_have_their_shapes_and_a_finite_score",
        "an_example_runs",
    ],
    "Simulated tracks, T": ["pages_state_what_was_measured", "reproduce_reports_every_seed_and_every_line_to_beat"],
    "<!-- numbers:": ["pages_state_what_was_measured"],
    "Read with care": ["what_is_concluded_follows_from_the_numbers"],
    "Every number above": ["every_block_of_numbers_stands_somewhere", "another_result_gives_another_page"],
    "[User guide]": ["links_lead_somewhere"],
    "MIT licence": ["the_licence_is_the_one_declared"],
}


def known() -> set[str]:
    sources = [path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py")]
    return {name for source in sources for name in re.findall(r"^def test_(\w+)\(", source, re.MULTILINE)}


def test_no_line_of_the_readme_is_without_its_test():
    text = re.sub(r"^#.*\n", "", README, flags=re.MULTILINE)
    text = re.sub(r"```.*?```", lambda code: re.sub(r"\n\s*\n", "\n", code[0]), text, flags=re.DOTALL)
    parts = [part.strip() for part in re.split(r"\n\s*\n", text) if part.strip()]
    assert not [part[:80] for part in parts if not part.startswith(tuple(HELD))], "say in HELD which tests hold it"
    assert not [start for start in HELD if not any(part.startswith(start) for part in parts)]
    assert not {name for names in HELD.values() for name in names} - known()


def test_the_picture_of_the_readme_moves():
    """It plays for ever, is no heavier than it may be, and shows another picture at nearly every step."""
    (name,) = re.findall(r"!\[[^]]*\]\((docs/pictures/[^)]+)\)", README)
    path = ROOT / name
    assert path.stat().st_size < moving_picture.LARGEST
    with Image.open(path) as shown:
        assert shown.info["loop"] == 0
        assert shown.size == tuple(moving_picture.WINDOW.values())
        frames = [np.asarray(frame.convert("L"), float) for frame in ImageSequence.Iterator(shown)]
    changed = [np.abs(after - before).mean() > 0.05 for before, after in pairwise(frames)]
    assert len(frames) >= 30
    assert np.mean(changed) > 0.9


def test_docs_name_tests_that_there_are():
    """Long names in one word, with "..." for the rest of one: what else is written like that, docs do not say."""
    there, unknown = known(), []
    for page in (ROOT / "docs").glob("*.md"):
        for name in re.findall(r"(?<![\w.`/])(?:test_)?([a-z0-9]+(?:_[a-z0-9]+){4,}_?(?:\.\.\.)?)", page.read_text()):
            begun = [test for test in there if test.startswith(name.rstrip("._"))] if name.endswith("...") else []
            unknown += [f"{page.name}: {name}"] if name not in there and not begun else []
    assert not unknown
    listed = re.findall(r'"tests/(\w+)/test_\{name\}\.py" for name in \((.*?)\)\)', PROCESSORS.read_text(), re.DOTALL)
    files = [
        ROOT / f"tests/{folder}/test_{name}.py" for folder, names in listed for name in re.findall(r'"(\w+)"', names)
    ]
    assert len(files) > 20
    assert all(path.is_file() for path in files), "other processors run tests that there are"


def test_every_decision_is_listed_where_it_stands():
    folder = ROOT / "docs" / "decisions"
    rows = re.findall(r"^\| \[.*\]\((\w+\.md)\) \| ([\d, ]+) \|$", (folder / "README.md").read_text(), re.MULTILINE)
    listed = {name: sorted(map(int, numbers.split(", "))) for name, numbers in rows}
    files = [path for path in folder.glob("*.md") if path.name != "README.md"]
    stand = {path.name: re.findall(r"^\*\*(\d+)\.", path.read_text(), re.MULTILINE) for path in files}
    assert listed == {name: sorted(map(int, numbers)) for name, numbers in stand.items()}
    given = [number for numbers in listed.values() for number in numbers]
    assert len(given) == len(set(given)), "a number is given once"


def test_everything_to_type_exists():
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    wanted = re.compile(r"(?:`|^ {4}|^)make ([\w-]+)(?:`| {2,}#)", re.MULTILINE)
    typed = {name for page in PAGES for name in wanted.findall(page.read_text())}
    assert {"app", "test", "numbers"} <= typed <= set(targets)


def test_the_table_of_pages_is_the_menu():
    rows = [line.split("|")[1] for line in README.split("|---|---|\n")[1].split("\n\n")[0].splitlines()]
    named = [name.strip() for row in rows for name in row.split(",")]
    assert sorted([*named, "Home"]) == sorted(page.title for page in REGISTRY)


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = re.search(r"```python\n(.*?)```", README, re.DOTALL)
    assert code
    space: dict = {}
    exec(code[1], space)
    assert space["shares"].shape == (1000, 4)
    assert not (space["low"] >= space["high"]).any()
    assert (tmp_path / "lap.gdm").stat().st_size


def test_every_name_and_command_exists(capsys):
    line = next(part for part in README.split("\n\n") if part.startswith("`SLDS`"))
    names = [name for name in re.findall(r"`(\w+)[`(]", line) if name.isidentifier() and name[0].isupper()]
    assert set(names) <= set(gdm_core.__all__)
    commands = re.search(r"`gdm ([\w|]+)`, each with `--json`", line)
    assert commands
    for command in commands[1].split("|"):
        with pytest.raises(SystemExit, match="0"):
            build_parser().parse_args([command, "--help"])
        assert "--json" in capsys.readouterr().out
    for typed in re.findall(r"`gdm (reproduce [^`|]+)`", README):
        build_parser().parse_args(shlex.split(typed))
    number = (
        "no",
        "one",
        "two",
        "three",
        "four",
        "five",
        "six",
        "seven",
        "eight",
        "nine",
        "ten",
        "eleven",
        "twelve",
    ).index(
        re.search(r"(\w+) \[examples\]", line)[1].lower()  # type: ignore[index]
    )
    assert number == len(list((ROOT / "examples").glob("*.py")))


def test_what_is_concluded_follows_from_the_numbers():
    stored = render.load()
    values, taught = stored["nascar"]["values"], stored["ceiling"]["values"]["mean"]

    def mean(setting: str, row: str, score: str) -> float:
        return float(values[setting][row][score]["mean"])

    trained = {score: mean("standard", "gdm", score) for score in ("paper_accuracy", "matched_accuracy")}
    above = {score: value - mean("standard", "gdm, untrained", score) for score, value in trained.items()}
    assert above["paper_accuracy"] < 0.1 < above["matched_accuracy"]
    assert max(row.get("matched_accuracy", {"mean": 0})["mean"] for row in values["soft"].values()) < taught
    assert mean("standard", "arhmm-ro", "matched_accuracy") > mean("standard", "gdm", "matched_accuracy")
    assert mean("standard", "arhmm-ro", "cpu_seconds") <= mean("standard", "gdm", "cpu_seconds") + 0.05


def test_the_licence_is_the_one_declared():
    assert (ROOT / "LICENSE").read_text().startswith("MIT License")
    assert 'license = "MIT"' in (ROOT / "pyproject.toml").read_text()
    assert "MIT licence" in README


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
    text = README
    assert "| **GDM** | 0.123 ± " in render.rendered(text, stored)


def test_readme_is_short():
    assert len(README.splitlines()) <= 90


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)#\s]+)(?:#[\w-]+)?\)", text)
    missing = [target for target in targets if "://" not in target and not (page.parent / target).exists()]
    assert not missing
