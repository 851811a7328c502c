"""The Study page as a script: first visit, files and sheets, fits, labels and exports."""

import io
import re
import threading
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from datasets import cohort, cohort_files
from gdm_core import Trial
from gdm_core.analysis.suggestions import Probe
from gdm_core.analysis.tables import csv
from gdm_core.study import Study
from gdm_core.study.robustness import list_variants
from pages.study import checks, export, files, pictures, questions, reading, sources, work
from pages.ui import exports
from pages.ui.uploads import Upload
from tests.support.controls import control
from tests.support.drawn import record, words
from tests.support.known_studies import study_of
from tests.support.offered import file_makers
from tests.support.page import opened
from tests.support.patience import until
from tests.support.quick_model import quick_model

PERMUTATIONS = 499
STATES = {"data": "A folder below the data folder", "hold": "States from another tool"}


@pytest.fixture(autouse=True)
def _no_hurry(engine, monkeypatch):
    monkeypatch.setattr(work, "AT_ONCE_S", 60.0)
    monkeypatch.setattr(sources, "MINUTES", 1.0)
    monkeypatch.setattr(sources, "list_variants", lambda *_: {})  # refits would outlast their test
    for module in (questions, export):
        monkeypatch.setattr(module, "N_PERMUTATIONS", PERMUTATIONS)


def test_first_visit_draws_groups_and_no_recordings(monkeypatch):
    drawn = record(monkeypatch)
    app = opened("study")
    until(lambda: "study-dots" in drawn or not app.run())  # permutations run in the background
    assert "study-strips" not in drawn, "only the open tab is computed"


def test_recordings_tab_draws_one_strip_per_recording(monkeypatch):
    drawn = record(monkeypatch)
    opened("study", view="Recordings")
    assert len(drawn["study-strips"][0]["data"][0]["y"]) == 41, "40 recordings and a line between the groups"


def test_state_is_explained_over_all_recordings():
    app = opened("study", explain="5")
    card = file_makers(app)["simulated-animals-groom.html"]().decode()
    assert card.count("data:image/svg+xml;base64") == 5
    assert "low feature" in card
    app.button(key="explain-close").click().run()
    assert "Leads to" not in words(app)


def test_saved_states_are_explained_without_pictures():
    states = {name: np.repeat([0, 1, 0, 2], 20) for name in "abcd"}
    sheet = pd.DataFrame({"recording": list(states), "group": list("xyxy")})
    card = words(of_file(Study.from_states(states, sheet, 10.0).to_bytes(), explain="2"))
    assert "25% of the time" in card
    assert "2 s (median of 4 bouts" in card
    assert "<figure>" not in card


def test_recording_names_lose_their_common_prefix():
    names = ["task1/test/mouse_070", "task1/test/mouse_071"]
    assert pictures.drop_common_prefix(names) == ["070", "071"]
    assert pictures.drop_common_prefix(["mice/", "mice/x"]) == ["mice/", "x"]
    assert pictures.drop_common_prefix(["one/and/only"]) == ["one/and/only"]


def folder(tmp_path, misspelt: str = "", lone: str = "", **columns: Any) -> str:
    """Write states of twelve animals and their sheet, with more columns, into the data folder; return the folder."""
    made = cohort.simulate(6, change=cohort.Change("groom", times=3.0), minutes=2, seed=1)
    place = tmp_path / "mice"
    place.mkdir()
    for name, codes in made.states.items():
        np.savez(place / f"{name}.npz", **{name: codes})
    sheet = pd.DataFrame(made.sheet).replace({"recording": {misspelt: f"{misspelt}x"}})
    if lone:
        sheet.loc[sheet["animal"] != lone, "group"] = "control"
        sheet.loc[sheet["animal"] == lone, "group"] = "treated"
    sheet.assign(**columns).to_csv(place / "sheet.csv", index=False)
    return "mice"


def test_unusable_files_are_listed_once_and_can_be_left_out(tmp_path):
    place = folder(tmp_path, misspelt="animal03")
    for name in ("x", "y", "z"):
        (tmp_path / place / f"{name}.npz").write_bytes(b"no archive")
    app = opened("study", **STATES, path=place, view="Recordings")
    said = words(app).replace("&#x27;", "'")
    assert "'animal03x'" in said
    app.toggle(key="leave-out").set_value(True).run()
    assert "11 recordings" in words(app)
    assert words(app).count("3 recordings are not read: x.npz, y.npz, z.npz") == 1


def test_files_of_states_are_offered_as_states(tmp_path):
    place = tmp_path / "mice"
    place.mkdir()
    for name in ("a", "b"):
        (place / f"{name}.csv").write_text("start,stop,behaviour\n0,1,rest\n1,2,dig\n")
    app = opened("study", data="A folder below the data folder", path="mice")
    assert "Only states found" in words(app)
    app.button(key="study-use-states").click().run()
    assert "Add a sheet" in words(app)


def test_litters_can_be_the_unit(tmp_path):
    path = folder(tmp_path, litter=lambda rows: rows["group"] + (rows.index % 3).astype(str))
    app = opened("study", **STATES, path=path, view="Checks")
    assert "Animals of one litter may resemble each other" in words(app)
    (unit,) = [each for each in app.selectbox if each.label == "Statistical unit"]
    unit.set_value("litter").run()
    assert "n = 6 litters" in words(app)
    assert "may resemble" not in words(app)
    assert "In a mixed model of all recordings" in words(app)


def test_suffix_of_file_names_is_offered(tmp_path):
    for path in (tmp_path / folder(tmp_path)).glob("*.npz"):
        arrays = {f"{name}_behavior": codes for name, codes in np.load(path).items()}
        np.savez(path, **arrays)
    app = opened("study", **STATES, path="mice")
    (offer,) = [each for each in app.toggle if "_behavior" in each.label]
    assert words(app).count("Correct the name") == 1, "one error for all recordings"
    offer.set_value(True).run()
    assert "between control and treated" in words(app)


def test_template_of_the_sheet_lists_the_recordings(tmp_path):
    (tmp_path / folder(tmp_path) / "sheet.csv").unlink()
    app = opened("study", **STATES, path="mice")
    assert "Add a sheet" in words(app)
    template = pd.read_csv(io.BytesIO(file_makers(app)["sheet.csv"]()))
    assert list(template.columns) == ["recording", "animal", "group"]
    assert len(template) == 12


def test_stopped_import_continues_where_it_was(tmp_path, monkeypatch):
    place, read, hold = folder(tmp_path), [], threading.Event()
    plain = cohort_files.read_states

    def slowly(paths: list[Path], *how: object) -> object:
        read.extend(path.name for path in paths)
        if len(read) == 4:
            hold.wait(30)
        return plain(paths, *how)

    monkeypatch.setattr(cohort_files, "read_states", slowly)
    monkeypatch.setattr(work, "AT_ONCE_S", 0.2)
    app = opened("study", **STATES, path=place)
    until(lambda: len(read) == 4)
    app.run()
    app.button(key="study-read-stop").click().run()
    hold.set()
    monkeypatch.setattr(work, "AT_ONCE_S", 60.0)
    app.run()
    app.button(key="study-read-again").click().run()
    assert "12 recordings" in words(app)
    assert len(read) == 12, "no file is read twice"


def test_single_animal_group_and_empty_folder_are_reported(tmp_path):
    said = words(opened("study", **STATES, path=folder(tmp_path, lone="animal02")))
    assert "'treated'" in said.replace("&#x27;", "'")
    (tmp_path / "empty").mkdir()
    said = words(opened("study", data="A folder below the data folder", path="empty"))
    assert 'role="alert"' in said


def test_one_model_is_fitted_to_all_animals(engine):
    app = opened("study", animals="3", found="Fitted")
    assert "12 recordings" in words(app)
    app.button(key="study-fit").click().run()
    request, _, *readings = [job.work for job in engine.jobs if job.session.endswith("/study")]
    assert request.use_cache, "simulated data may be cached on disk"
    assert len(readings) == 12


def test_failed_fit_has_a_reason_and_no_answer(engine):
    engine.failing = "The fit failed: its score is low. Try another seed."
    app = opened("study", animals="3", found="Fitted")
    app.button(key="study-fit").click().run()
    assert engine.failing in words(app)
    assert "Does it differ?" not in words(app)


def test_exports_reproduce_the_result(monkeypatch, tmp_path):
    zips = []
    monkeypatch.setattr(exports, "download_all", lambda name, make, **_: zips.append(make()))
    app = opened("study", view="Export", animals="4")
    given = {name: make() for name, make in file_makers(app).items()}
    drawn, packed = zips[-1]
    assert {"recordings", "subjects", "transitions"} == set(drawn)
    assert set(given.values()) <= set(packed.values()), "the zip has every single file"
    assert given["simulated-animals-tests.csv"].startswith(b"state,name,mean_control,mean_treated,effect")
    again = Study.from_bytes(given["simulated-animals.study"])
    table = again.compare("usage", "group", n_permutations=PERMUTATIONS)
    assert csv(table) == given["simulated-animals-tests.csv"]
    assert "Behavioural flow" in given["simulated-animals-methods.txt"].decode()
    assert "percentage points (treated minus control; 95% CI" in words(app)
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    exec(given["simulated-animals.py"].decode(), space)
    pd.testing.assert_frame_equal(space["table"], table)
    assert (tmp_path / "bouts.csv").read_text().startswith("recording,state,name,start_s")


def of_file(content: bytes, **address: str) -> AppTest:
    """Open a saved study."""
    app = opened("study", data="A saved study", **address)
    app.session_state[f"study-sent-{files.SAVED}"] = [Upload("a.study", content, "1")]
    return app.run()


def test_saved_study_reopens_with_its_question():
    app = opened("study", view="Export", animals="4", between="session", measured="Bouts a minute")
    content = file_makers(app)["simulated-animals.study"]()
    assert Study.from_bytes(content).questions[0]["between"] == ["session"]
    assert "between session 1 and session 2" in words(of_file(content))
    assert 'role="alert"' in words(of_file(content[:-40]))


def of_model() -> Study:
    """Return a study of four recordings with the states of a fitted model."""
    recordings = {f"r{i}": Trial(np.random.default_rng(i).normal(size=(150, 2)).cumsum(axis=0), 10.0) for i in range(4)}
    sheet = pd.DataFrame({"recording": list(recordings), "group": list("abab")})
    return Study.fit(recordings, sheet, quick_model(n_states=3))


def test_reason_for_k_is_asked_for_and_saved():
    app = of_file(of_model().to_bytes(), view="Export")
    assert "K was set by the analyst." in file_makers(app)["a-methods.txt"]().decode()
    (reason,) = [each for each in app.text_input if each.label == "Why this K?"]
    reason.set_value("as in our pilot study").run()
    assert "K was set by the analyst: as in our pilot study." in file_makers(app)["a-methods.txt"]().decode()
    assert Study.from_bytes(file_makers(app)["a.study"]()).why_k == "as in our pilot study"


def test_proposed_names_are_used_on_request(engine):
    app = opened("study", view="States", animals="4")
    app.button(key="study-use-names").click().run()
    kept = app.session_state[next(key for key in app.session_state if re.fullmatch(r"study-names-\w+", str(key)))]
    assert list(kept.values()) == list(cohort.BEHAVIOURS)


def test_two_factors_are_shown_in_the_legend(tmp_path, monkeypatch):
    drawn = record(monkeypatch)
    app = opened("study", **STATES, path=folder(tmp_path, sex=["f", "m"] * 6))
    (second,) = [each for each in app.selectbox if each.label == "Second factor"]
    second.set_value("sex").run()
    figure, _ = drawn["study-dots"]
    named = [trace["name"] for trace in figure["data"] if trace.get("showlegend")]
    assert named == [f"{one} (n = 3)" for one in ("control, f", "control, m", "treated, f", "treated, m")]


def test_long_table_needs_no_sheet(tmp_path):
    made = cohort.simulate(4, minutes=1, seed=1)
    sheet = pd.DataFrame(made.sheet).set_index("recording")
    rows = [
        pd.DataFrame({"label": z}).assign(recording=name, **sheet.loc[name, ["animal", "group"]])
        for name, z in made.states.items()
    ]
    (tmp_path / "long").mkdir()
    pd.concat(rows).to_csv(tmp_path / "long" / "everything.csv", index=False)
    said = words(opened("study", **STATES, path="long"))
    assert "8 recordings" in said
    assert "between control and treated" in said


def list_files(app: AppTest) -> list[str]:
    """Return what was read of each file, or why not."""
    (listed,) = [each.value for each in app.dataframe if list(each.value.columns) == ["file", "result"]]
    return list(listed["result"])


def test_files_of_one_kind_are_asked_once(tmp_path):
    (tmp_path / "ticks").mkdir()
    for i in range(4):
        walk = np.random.default_rng(i).normal(size=80).cumsum()
        rows = pd.DataFrame({"time" if i else "time_s": np.arange(80) * 20, "walk": walk})
        rows.to_csv(tmp_path / "ticks" / f"m{i}.csv", index=False)
    (tmp_path / "ticks" / "bad.csv").write_text("nothing")
    app = opened("study", data=STATES["data"], path="ticks")
    asked = [each for each in app.selectbox if "unit" in each.label]
    assert len(asked) == 1
    assert "3 files with the columns time, walk" in words(app)
    assert "Add a sheet" not in words(app), "nothing is fitted before the answer"
    asked[0].set_value("ms").run()
    assert "Add a sheet" in words(app)
    results = list_files(app)
    rates = [result.rpartition(", ")[2] for result in results if "samples" in result]
    assert rates == ["0.05 Hz", "50 Hz", "50 Hz", "50 Hz"]
    assert sum("header but no rows" in result for result in results) == 1


def test_script_reads_each_file_with_its_answers(tmp_path):
    for name in ("a.csv", "b.csv"):
        pd.DataFrame({"time": np.arange(40) * 20, "walk": np.sin(np.arange(40))}).to_csv(tmp_path / name, index=False)
    scope = {"cohort_files": cohort_files, "files": cohort_files.list_files(tmp_path)}
    answers = {"a.csv": {"unit": "ms"}, "b.csv": {"unit": "s"}}
    exec("\n".join(reading.write_code(answers, None, "egocentric")), scope)
    assert [one.rate_hz for one in scope["recordings"].values()] == pytest.approx([50, 0.05])


def test_states_keep_the_rate_of_their_time_column(tmp_path):
    place = tmp_path / folder(tmp_path, recording=lambda rows: rows["recording"] + ".csv")
    for path in place.glob("*.npz"):
        (codes,) = np.load(path).values()
        pd.DataFrame({"time": np.arange(len(codes)) / 5, "state": codes}).to_csv(path.with_suffix(".csv"), index=False)
        path.unlink()
    results = list_files(opened("study", **STATES, path="mice"))
    assert len(results) == 12
    assert all(result.endswith(" with states, 5 Hz") for result in results)


def test_suggestion_uses_a_part_of_every_animal(engine, monkeypatch):
    tried = []

    def made_up(model, setting, trials, seeds):
        tried.append(trials)
        better = {1: 10.0, 2: 18.0, 3: 25.0}.get(setting["n_states"], 25.0)
        return asdict(Probe(model, dict(setting), tuple(better + 0.01 * i for i in range(10)), 1.0))

    monkeypatch.setattr("gdm_core.engine.suggest.probe", made_up)
    monkeypatch.setattr(sources.fits, "fit_study", lambda *_, **__: lambda say: of_model())
    app = opened("study", animals="4", found="Fitted", view="Export")
    app.button(key="study-suggest").click().run()
    names = [trial.name.partition("_")[0] for trial in tried[0]]
    assert len(names) == len(set(names)) == 8, "one part of each animal"
    app.button(key="study-suggest-use").click().run()
    assert control(app, "slider", "K").value == 3
    app.button(key="study-fit").click().run()
    methods = file_makers(app)["simulated-animals-fitted-methods.txt"]().decode()
    assert "K was chosen by fits to one half of the data, scored on the other: fewer states predict" in methods


def test_experiments_are_not_pooled_without_a_choice(tmp_path):
    app = opened("study", **STATES, path=folder(tmp_path, experiment=["first", "second"] * 6))
    assert "Which experiment do you want to analyse?" in words(app)
    assert "n = 6 animals" in words(app)
    (choice,) = [each for each in app.selectbox if each.label == "experiment to analyse"]
    choice.set_value("all, pooled").run()
    assert "Recordings are pooled over experiment" in words(app)
    assert "n = 12 animals" in words(app)


def test_associated_column_is_adjusted_for_on_request(tmp_path):
    path = folder(tmp_path, age=lambda rows: 10.0 + (rows["group"] == "treated") * 2.5 + np.arange(12) % 4)
    app = opened("study", **STATES, path=path, view="Checks")
    assert "Groups also differ in age: see Checks." in words(app)
    app.button(key="study-adjust-age").click().run()
    assert "Groups also differ" not in words(app)
    (covariates,) = [each for each in app.multiselect if each.label == "Covariates"]
    assert covariates.value == ["age"]


def test_other_analyses_are_named_next_to_the_result(tmp_path):
    groups = {"animal": np.repeat([f"m{i}" for i in range(6)], 2), "group": np.repeat(["a", "b"], 6)}
    app = opened("study", **STATES, path=folder(tmp_path, **groups, age=np.arange(12) % 5))
    assert "In a mixed model of all recordings:" in words(app)
    assert "Adjusted for" not in words(app)
    (covariates,) = [each for each in app.multiselect if each.label == "Covariates"]
    covariates.set_value(["age"]).run()
    assert "Adjusted for age. Without:" in words(app)


def test_results_are_hidden_until_the_plan_is_locked(monkeypatch):
    drawn = record(monkeypatch)
    app = opened("study", view="Export", animals="4", plan="True")
    assert "Results are hidden" in words(app)
    assert not {"study-dots", "study-strips"} & set(drawn)
    app.button(key="study-lock-plan").click().run()
    methods = file_makers(app)["simulated-animals-methods.txt"]().decode()
    assert "compared by: group" in methods
    assert "Nothing was changed afterwards." in methods
    (measure,) = [each for each in app.selectbox if each.label == "Measure"]
    measure.set_value("bouts_per_min").run()
    given = {name: make() for name, make in file_makers(app).items()}
    methods = given["simulated-animals-methods.txt"].decode()
    assert (
        "Changed after results were seen: primary measure (mean share over the labelled time in the plan, now bouts"
        in methods
    )
    assert "2 questions were answered in all." in methods
    assert len(pd.read_csv(io.BytesIO(given["simulated-animals-tried.csv"]))) == 2
    again = file_makers(of_file(given["simulated-animals.study"], view="Export"))["a-methods.txt"]().decode()
    assert "Changed after results were seen: primary measure" in again


def test_refits_are_listed_next_to_the_result(engine, monkeypatch):
    begun, release = [], threading.Event()

    def prepared(recordings, known, family, config, preparation=(), **more):
        """Stand in for a fit; refits wait."""

        def do(say):
            begun.append((config["n_states"], config["seed"]))
            while more.get("priority") is not None and not release.wait(0.01):
                say("", 0.0)
            return study_of(cohort.simulate(4, minutes=2))

        return do

    monkeypatch.setattr(sources.fits, "fit_study", prepared)
    monkeypatch.setattr(sources, "list_variants", list_variants)
    app = opened("study", animals="4", found="Fitted", view="Export")
    app.button(key="study-fit").click().run()
    until(lambda: len(begun) == 2)
    app.run()
    app.button(key="study-robustness-stop").click().run()
    until(lambda: any(one.key == "study-robustness-again" for one in app.run().button))
    release.set()
    app.button(key="study-robustness-again").click().run()
    until(lambda: "The conclusion holds in 5 of 5 refits." in words(app.run()))
    given = {name: make() for name, make in file_makers(app).items()}
    assert "The conclusion holds in 5 of 5 refits." in given["simulated-animals-fitted-methods.txt"].decode()
    assert "The conclusion holds in 5 of 5 refits." in words(of_file(given["simulated-animals-fitted.study"]))
    assert begun == [(8, 0), (8, 1), (8, 1), (8, 2), (7, 0), (9, 0), (8, 0)]


def test_recordings_are_cropped_before_the_states_are_counted(tmp_path):
    asked = STATES | {"path": folder(tmp_path)}
    app = opened("study", **asked, view="Export")
    (first,) = [each for each in app.number_input if each.label == "First minutes (0 = all)"]
    first.set_value(1.0).run()
    given = {name: make() for name, make in file_makers(app).items()}
    assert "Recordings were cropped to the first 60 s." in given["mice-methods.txt"].decode()
    script = given["mice.py"].decode()
    assert "crop_recordings(states, match_sheet(sheet, states), Crop(first_min=1.0" in script
    assert "Study.from_states(states, sheet, 25, words, starts)" in script
    measures = pd.read_csv(io.BytesIO(given["mice-bouts.csv"]))
    assert measures["start_s"].max() < 60


def test_labels_are_aligned_with_cropped_states(tmp_path):
    path = tmp_path / folder(tmp_path, from_s=np.arange(12) / 2)
    app = opened("study", **STATES, path="mice", view="Checks", check="Agreement")
    (start,) = [each for each in app.selectbox if each.label == "From" and "from_s" in each.options]
    second = [Upload(one.name, one.read_bytes(), one.name) for one in path.glob("*.npz")]
    app.session_state[f"study-sent-{checks.SECOND}"] = second
    start.set_value("from_s").run()
    assert "Cohen's kappa is 1.00" in words(app).replace("&#x27;", "'")
