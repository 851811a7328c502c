"""Exports of Behaviour and Your data: clock, names, bouts and scripts."""

import io
import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from datasets import mice
from datasets.splits import split_recording
from gdm_core.analysis import bout_scores
from gdm_core.analysis.bouts import BoutRule
from gdm_core.analysis.tables import csv, harmless
from gdm_core.trials import Trial
from gdm_studio.plot import figures, palette
from pages.behaviour import recordings
from pages.lab import Dataset, PageSpec, export, live
from pages.lab import export as lab_export
from pages.lab import figures as made
from pages.lab.naming import StateNames, arrange, colour_key
from pages.lab.poses.tracking import from_recordings
from pages.lab.view import View
from pages.ui import exports
from pages.ui.exports import Recipe
from tests.support.live_engine import QuickEngine
from tests.support.recording import SMALL, reading_of, view_of
from tests.support.scripts import run_script, same_from_script

CONFIG = {"n_states": 3, "seed": 0}
FIT_S = 180 / 30  # the fitted part of 300 frames


@pytest.fixture(scope="module")
def data() -> Dataset:
    """Return one recording whose first 60 % are the training trial."""
    train, test = split_recording(mice.simulate_recordings(1, 300, seed=3)[0])
    return from_recordings("one", "one recording", train, test, "egocentric", Recipe([], []))


def fitted(data: Dataset, config: dict, engine: QuickEngine, naming: StateNames) -> View:
    """Return a view of the held-out part with its exact states."""
    fit = live.FitSession(engine, "s")
    choice: Any = SimpleNamespace(label="GDM", facts=[], family="gdm", config=config)
    fit.request(PageSpec.from_choice(data, choice))
    shown = fit.poll()
    rule = BoutRule(0.2, 0.2)
    return view_of(data, naming, rule, fit=fit, shown=shown, index=len(data.train))


@pytest.fixture(scope="module")
def view(data) -> View:
    """Return a view with default names."""
    return fitted(data, CONFIG, QuickEngine(), StateNames.plain(3))


@pytest.fixture(scope="module")
def merged(view) -> View:
    """Return the view with the third state merged into the first."""
    return replace(view, naming=arrange(["rest", "", "lost"], [0, 1, 0]))


def offered(view, monkeypatch) -> lab_export.Export:
    """Return what the export panel receives."""
    given = []
    monkeypatch.setattr(lab_export, "show_files", given.append)
    lab_export.show_export(view, view.read())
    return given[0]


# ---- the clock ----------------------------------------------------------------------------------------------------
def test_held_out_files_continue_the_clock_of_the_recording(view, data):
    here = view.read()
    times = FIT_S + np.arange(120) / 30
    np.testing.assert_allclose(export.named_states(here)["time"], times)
    np.testing.assert_allclose(export.features_table(here)["time"], times)
    bouts = export.trial_bouts(here)
    assert bouts["Start (s)"].iloc[0] == pytest.approx(FIT_S)
    assert bouts["Stop (s)"].iloc[-1] == pytest.approx(300 / 30)


# ---- names --------------------------------------------------------------------------------------------------------
def test_expert_labels_have_names_and_codes(view, data):
    here = view.read()
    expert = np.array(here.expert)
    expert[:5] = -1
    marked = replace(here, trial=replace(here.trial, labels=expert))
    table = export.named_states(marked, data.every_label)
    assert list(table["expert_code"]) == list(expert)
    assert list(table["expert"][:5]) == [""] * 5
    assert [data.train.label_names.index(word) for word in table["expert"][5:]] == list(expert[5:])


def test_strips_have_a_legend_of_states_and_labels(merged, data):
    figure = made.strips(merged.read(), cut=True)
    shown = [trace["name"] for trace in figure["data"] if trace.get("showlegend")]
    expert = [f"expert: {word}" for word in data.train.label_names]
    assert shown[-2:] == ["inferred: rest", "inferred: S2"]
    assert set(shown[:-2]) <= set(expert)
    assert shown[:-2]
    assert figure["layout"]["showlegend"]
    assert figure["data"][0]["x0"] == pytest.approx(FIT_S)


def test_merged_state_has_no_row_in_figures(view):
    emptied = replace(view, naming=arrange(["", "walk", ""], [1, 1, 2]))
    here = emptied.read()
    assert list(here.used) == [1, 2]
    colours = palette.colours(3)
    use, stays = made.usage(here), made.stays(here)
    for figure in (use, stays):
        assert figure["layout"]["yaxis"]["ticktext"] == ["walk", "S3"]
    assert list(use["data"][0]["marker"]["color"]) == colours[1:]
    assert [trace["marker"]["color"] for trace in stays["data"]] == colours[1:]
    assert sum(use["data"][0]["x"]) == pytest.approx(1)


def test_entropy_ignores_unused_colours(view):
    here = replace(view, naming=arrange([""] * 3, [0, 1, 2], start=[5, 0, 3])).read()
    table = export.named_states(here)
    mean = float(table["entropy"].mean())
    assert f"on average {mean:.2f}." in made.entropy(here)["alt"]
    assert mean == pytest.approx(float(figures.state_entropy(view.read().states).mean()), abs=1e-6)
    shares = made.shares(here)
    assert shares["alt"].startswith("Stacked shares of 3 states")
    assert [trace["name"] for trace in shares["data"]] == ["S1", "S2", "S3"]
    assert [trace["fillcolor"] for trace in shares["data"]] == [palette.colours(6)[k] for k in (5, 0, 3)]


def test_exports_hold_the_exact_states(view, monkeypatch):
    """A precomputed result is drawn in 8 bits, but exported exactly."""
    given = offered(replace(view), monkeypatch)
    exact = view.state.result.model().predict_proba(view.dataset.test)[0]
    states = pd.read_csv(
        io.BytesIO(dict((label, make) for label, make, _ in given.trial_files(view.index))["States (CSV)"]())
    )
    soft = np.asarray(exact)[:, list(view.state.order)]
    np.testing.assert_allclose(states["p_1"], view.naming.apply(soft)[:, 0], atol=1e-6)


def test_name_with_markup_is_escaped_in_figures(view, data, monkeypatch):
    named = "Bremsen <b>A&B"
    marked = replace(view, naming=arrange([named, "", ""], [0, 1, 2]))
    given, here = offered(marked, monkeypatch), marked.read()
    assert named in set(export.named_states(here)["bout"])
    assert named in set(export.trial_bouts(here)["Behavior"])
    assert export.state_key(here)["name"][0] == named
    assert repr(named) in "\n".join(given.recipe.after)
    for name, make in given.figures.items():
        if name == lab_export.PREDICTION:  # shows channels, not states
            continue
        drawn = json.dumps([make()["data"], make()["layout"]])
        assert "Bremsen &lt;b&gt;A&amp;B" in drawn, name
        assert "<b>" not in drawn, name
    key = colour_key("states", here.names, here.used)
    assert "Bremsen &lt;b&gt;A&amp;B</span>" in key


# ---- scripts -----------------------------------------------------------------------------------------------------
@pytest.mark.bulk
def test_script_reproduces_the_bouts_of_the_page(tmp_path):
    data = recordings.load_simulated(SMALL)
    config = {"n_states": 3, "n_latent": 3, "seed": 0, "n_steps": 40}
    naming = arrange(["=rest", 'a "fast" one', ""], [0, 1, 0])
    view = fitted(data, config, QuickEngine(real=True), naming)
    view = lab_export.with_exact_states(view)
    assert view.precise is not None
    fit = exports.Fit("gdm", config, view.state.order)
    recipe = replace(data.recipe, after=lab_export.bouts_code(view, view.naming))
    printed = run_script(exports.script(recipe, fit, "Behaviour"), tmp_path)
    scores = bout_scores.scores(view.state.result.model_bytes, data.train, data.test, 0.2, 0.2, 0)
    for name in lab_export.SCORES:
        assert f"{name}: {scores[name]:.3f}" in printed
    found = pd.read_csv(tmp_path / "bouts.csv")
    expected = pd.concat(
        [
            export.trial_bouts(view.select_trial(i).read(), data.observation(data.trials[i]), data.subject)
            for i in range(len(data.trials))
        ],
        ignore_index=True,
    )
    assert list(found["Behavior"]) == [harmless(name) for name in expected["Behavior"]]
    assert list(found) == list(expected)
    for column in ("Observation id", "Subject", "FPS", "Image index start", "Image index stop"):
        assert list(found[column]) == list(expected[column])
    np.testing.assert_allclose(found["Mean share"], expected["Mean share"], atol=2e-4)
    for name in ("Start (s)", "Stop (s)"):
        np.testing.assert_allclose(found[name], expected[name], atol=1e-6)


def test_exported_bouts_are_named_and_merged():
    soft = np.eye(3, dtype=np.float32)[np.repeat([0, 1, 2, 0], [30, 20, 40, 10])]
    trial = Trial(np.zeros((100, 2)), 10.0, labels=np.repeat([0, 1], 50), name="t")
    named = arrange(["", "walk", ""], [0, 1, 1])
    states = named.apply(soft)
    here = replace(reading_of(trial, states), naming=named)
    bouts = export.trial_bouts(here)
    assert list(bouts["Behavior"]) == ["S1", "walk", "S1"]
    assert list(bouts["Stop (s)"]) == [3.0, 9.0, 10.0]
    assert (bouts["Mean share"] == 1).all()
    table = export.named_states(here)
    assert [name for name in table if name.startswith("p_")] == ["p_1", "p_2"]
    assert list(table["bout"][[0, 40, 99]]) == ["S1", "walk", "S1"]
    assert set(table["state"]) == {1, 2}
    assert list(export.features_table(here)) == ["time", "frame", "y1", "y2"]


@pytest.mark.parametrize("features", ["egocentric", "keypoints"])
def test_script_loads_the_same_trials(features):
    data = recordings.load_simulated(replace(SMALL, features=features))
    same_from_script(data)


def test_script_of_a_tracking_file_loads_the_same_trials(engine, tmp_path):
    whole = mice.simulate_recordings(1, 300, seed=3)[0]
    xy = np.array(whole.xy)
    xy[:, 1, 0, 3] = np.nan  # a part that is never tracked cannot be fitted
    np.savez(tmp_path / "pair.npz", keypoints=xy, scores=whole.scores)
    repairs = {"min_score": 0.3, "fill_seconds": 0.2, "drop_outliers": True}
    options = {"file": "pair.npz", "rate": 30.0, "repairs": tuple(repairs.items()), "answers": ()}
    data = recordings.load(recordings.ChosenRecordings("file", "keypoints", tuple(options.items())))
    assert any("are constant" in note for note in data.notes)
    made = same_from_script(data, {"pair.npz": (tmp_path / "pair.npz").read_bytes()})
    for ours, theirs in zip((data.train, data.test), made, strict=True):
        assert ours[0].start_seconds == theirs[0].start_seconds


# ---- other programs ----------------------------------------------------------------------------------------------
def test_bouts_name_recording_animals_and_frames(view, data):
    here = view.read()
    table = export.trial_bouts(here, data.observation(here.trial), data.subject)
    assert set(table["Observation id"]) == {data.train.name}
    assert "last 40" not in table["Observation id"].iloc[0]
    assert set(table["Subject"]) == {", ".join(data.poses[0].animals)}
    assert table["Image index start"].iloc[0] == 180
    assert table["Image index stop"].iloc[-1] == 300
    assert set(table["FPS"]) == {30.0}
    assert list(export.named_states(here)["frame"]) == list(range(180, 300))


def test_key_maps_columns_to_states(merged):
    here = merged.read()
    key = export.state_key(here)
    states = export.named_states(here)
    assert list(key["column"]) == [name for name in states if name.startswith("p_")] == ["p_1", "p_2"]
    assert list(key["name"]) == ["rest", "S2"]
    assert list(key["colour"]) == [palette.colours(3)[column] for column in here.used]


def test_exported_text_is_never_a_formula():
    table = pd.DataFrame({"time": [-1.5, 0.0], "Behavior": ['=HYPERLINK("http://x")', "rest"], "@x": [-2.0, 1.0]})
    lines = csv(table).decode().splitlines()
    assert lines[0] == "time,Behavior,'@x"
    assert lines[1].startswith("-1.5,")
    assert "'=HYPERLINK" in lines[1]
    assert lines[1].endswith(",-2"), "numbers stay numbers"
    assert lines[2] == "0.0,rest,1"
