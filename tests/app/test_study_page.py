"""Study: a first visit, other questions, files and a sheet, and what is wrong with them."""

from __future__ import annotations

import importlib
import re
import sys
import threading
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from streamlit.testing.v1 import AppTest

from datasets import cohort, cohort_files
from datasets.mice import simulate_recordings
from gdm_core.analysis.suggestions import Probe
from gdm_core.analysis.tables import csv
from gdm_core.study import Study
from pages.lab.poses import clips
from pages.study import words as marking
from pages.study import work
from pages.study.bring import Brought
from tests.support.drawn import record, words
from tests.support.page import opened
from tests.support.patience import until


@pytest.fixture(autouse=True)
def _no_hurry(engine, monkeypatch):
    monkeypatch.setattr(work, "AT_ONCE_S", 60.0)


def test_a_first_visit_finds_an_answer_its_dots_and_all_recordings(monkeypatch):
    drawn = record(monkeypatch)
    app = opened("study")
    until(lambda: "study-dots" in drawn or not app.run())  # what takes long is worked out beside the script
    said = words(app)
    assert "As a whole, no difference between control and treated can be told from chance." in said  # p = .0503
    assert "changes per minute of valid time" in said
    assert "groom, share of the labelled time: treated minus control" in said
    assert "What this design cannot say" in said
    figure, _ = drawn["study-dots"]
    assert "treated" in figure["alt"]
    assert "5 of 6" in said
    assert len(drawn["study-strips"][0]["data"][0]["y"]) == 41, "40 recordings, and a line between the groups"


def test_another_question_gives_another_answer():
    said = words(opened("study", between="session"))
    assert "no difference between session 1 and session 2 can be told from chance" in said
    assert "No single one differs" in said


def folder(tmp_path, *, misspelt: str = "", lone: str = "") -> str:
    """States of another tool of twelve animals, and their sheet, in a folder below the data folder."""
    made = cohort.simulate(6, change=cohort.Change("groom", times=3.0), minutes=2, seed=1)
    place = tmp_path / "mice"
    place.mkdir()
    for name, labels in made.states.items():
        np.savez(place / f"{name}.npz", **{name: labels})
    sheet = pd.DataFrame(made.sheet).replace({"recording": {misspelt: f"{misspelt}x"}})
    if lone:
        sheet.loc[sheet["animal"] != lone, "group"] = "control"
        sheet.loc[sheet["animal"] == lone, "group"] = "treated"
    sheet.to_csv(place / "sheet.csv", index=False)
    return "mice"


def of_folder(tmp_path, **more: str) -> AppTest:
    return opened(
        "study", data="A folder below the data folder", path=folder(tmp_path, **more), hold="States of another tool"
    )


def test_a_folder_of_states_and_its_sheet_become_a_study(tmp_path):
    said = words(of_folder(tmp_path))
    assert "12 recordings, in states of another tool" in said
    assert "between control and treated" in said
    assert "state 4, share of the labelled time: treated minus control" in said


def test_a_misspelt_file_is_listed_and_can_be_left_out(tmp_path):
    app = of_folder(tmp_path, misspelt="animal03")
    said = words(app).replace("&#x27;", "'")
    assert "did you mean 'animal03x'" in said
    assert "Correct the name or add a row, or leave it out." in said
    assert "Does it differ?" not in said
    app.toggle(key="leave-out").set_value(True).run()
    said = words(app)
    assert "11 recordings, in states of another tool" in said
    assert "animal03 is left out: 1 recording is in no row of the sheet" in said, (
        "above the picture, once the list has gone"
    )
    assert "What does not fit" not in said


def test_a_sheet_is_typed_on_the_page_with_columns_of_ones_own(tmp_path, monkeypatch):
    (tmp_path / folder(tmp_path) / "sheet.csv").unlink()
    asked = {"data": "A folder below the data folder", "path": "mice", "hold": "States of another tool"}
    written: dict[str, list[str]] = {}

    def typed(shown: pd.DataFrame, **_: object) -> pd.DataFrame:
        """The editor, which a test cannot type into."""
        return shown.assign(**{c: its for c, its in written.items() if c in shown})

    monkeypatch.setattr("pages.study.files.st.data_editor", typed)
    app = opened("study", **asked)
    assert "Bring" not in words(app)
    (columns,) = [each for each in app.text_input if each.label == "Columns"]
    columns.set_value("animal, dose , =1+1, dose, recording").run()
    written |= {"animal": [f"m{i // 2}" for i in range(12)]}
    assert "Does it differ?" not in words(app.run()), "animals alone can be compared by nothing"
    written |= {"dose": ["0", "0", "1", "1", "3", "3", "0", "0", "1", "1", "", ""]}
    said = words(app.run())
    assert "Not filled in yet: dose of 2 recordings." in said
    assert "2 recordings are left out, with nothing in &#x27;dose&#x27;" in said
    assert "Does it differ?" in said
    columns.set_value("=1+1").run()
    assert "Does it differ?" not in words(app)
    written.clear()
    columns.set_value("animal, dose").run()
    assert "dose of 2 recordings" in words(app), "what was written before comes back with its column"


def test_an_import_that_was_stopped_goes_on_where_it_was(tmp_path, monkeypatch):
    place, read, hold = folder(tmp_path), [], threading.Event()
    plain = cohort_files.read_states

    def slowly(paths: list[Path], rate: float) -> object:
        read.extend(path.name for path in paths)
        if len(read) == 4:
            hold.wait(30)
        return plain(paths, rate)

    monkeypatch.setattr(cohort_files, "read_states", slowly)
    monkeypatch.setattr(work, "AT_ONCE_S", 0.2)
    app = opened("study", data="A folder below the data folder", path=place, hold="States of another tool")
    until(lambda: len(read) == 4)
    app.run()
    app.button(key="study-read-stop").click().run()
    hold.set()
    monkeypatch.setattr(work, "AT_ONCE_S", 60.0)
    said = words(app.run())
    assert "The import was stopped" in said
    assert "5 of 12. What was read before that is kept." in said
    app.button(key="study-read-again").click().run()
    assert "12 recordings, in states of another tool" in words(app)
    assert len(read) == 12, "nothing twice"


def test_a_group_of_one_and_an_empty_folder_are_told_in_a_sentence(tmp_path):
    said = words(of_folder(tmp_path, lone="animal02"))
    assert "Of group 'treated' there is a single animal" in said.replace("&#x27;", "'")
    (tmp_path / "empty").mkdir()
    said = words(opened("study", data="A folder below the data folder", path="empty"))
    assert "holds no file that could be a recording" in said
    assert "nothing called" in words(opened("study", data="A folder below the data folder", path="nowhere"))


def test_one_model_is_fitted_to_all_animals(engine):
    app = opened("study", animals="3", found="Found by a fit")
    assert "12 recordings" in words(app)
    app.button(key="study-fit").click().run()
    said = words(app)
    assert "8 states found by one model" in said
    assert "Does it differ?" in said
    request, *readings = [job.work for job in engine.jobs if job.session.endswith("/study")]
    assert request.use_cache, "what was simulated may stay on disk"
    assert len(readings) == 12


def test_what_leaves_repeats_the_answer_and_opens_again(monkeypatch, tmp_path):
    drawn = record(monkeypatch)
    app = opened("study", view="Take along", animals="4")
    given = {key: file.make() for key, file in app.session_state["_downloads"].files.items()}
    assert given["study-tests-csv"].startswith(b"state,name,mean_control,mean_treated,effect")
    again = Study.from_bytes(given["study-file"])
    assert csv(again.compare("usage", "group")) == given["study-tests-csv"]
    assert {"study-dots", "study-strips", "study-changes", "study-graph"} <= set(drawn), (
        "what is saved stands on the page"
    )
    assert "minus control" in drawn["study-changes"][0]["data"][0]["colorbar"]["title"]["text"]
    assert {"rest", "sniff"} < {trace.get("name") for trace in drawn["study-strips"][0]["data"]}, (
        "a key in the file itself"
    )
    report = given["study-report"].decode()
    assert "against 10,000 studies with animals re-labelled" in report
    monkeypatch.chdir(tmp_path)
    space: dict = {}
    exec(given["study-script"].decode(), space)
    pd.testing.assert_frame_equal(space["table"], again.compare("usage", "group"))
    assert (tmp_path / "bouts.csv").read_text().startswith("recording,state,name,start_s")


def test_a_study_that_its_owner_keeps_opens_from_its_address_with_its_question(engine, tmp_path):
    app = opened("study", view="Take along", animals="4", between="session", measured="Bouts a minute")
    app.button(key="study-keep").click().run()
    (file,) = (tmp_path / "studies").glob("*.study")
    kept = Study.open(file)
    assert kept.questions[0]["between"] == ["session"]
    later = opened("study", data="A saved study", kept=f"studies/{file.name}")  # another visitor, after a restart
    said = words(later)
    assert "between session 1 and session 2" in said
    assert "Bouts a minute" in said
    assert "cannot be opened" in words(opened("study", data="A saved study", kept="studies/gone.study"))
    assert "cannot be opened" in words(opened("study", data="A saved study", kept="../outside.study"))


@pytest.mark.bulk
def test_what_is_marked_in_some_animals_is_said_of_all(engine, monkeypatch):
    engine.real = True
    app = opened("study", animals="2", found="Found by a fit", view="Clips and words", K="3")
    app.button(key="study-fit").click().run()
    until(lambda: "Name clips of two words at least" in words(app.run()))  # a real fit, on a machine that may be busy
    marks = [("animal01_session1", 100 * i, 100 * i + 40, ["calm", "lively"][i % 2]) for i in range(1, 9)]
    monkeypatch.setattr(marking, "marks_of", lambda brought: marks)
    app.run()
    app.segmented_control(key="said").set_value("words").run()
    said = words(app)
    assert "2 words found in all" in said
    assert "8 moments of 1 animal are named" in said


def test_clips_of_poses_are_loops_in_a_grid_under_their_names(monkeypatch):
    shown: dict = {}
    monkeypatch.setattr(clips, "_grid", lambda key, data: shown.update(data))
    made = cohort.simulate(2, minutes=1, seed=0)
    study = Study.of_states(made.states, pd.DataFrame(made.sheet), made.rate_hz, cohort.BEHAVIOURS)
    mice = simulate_recordings(1, 3000, 0)[0]
    brought = Brought("clips", "", "mine", "", study, False, (), (), poses=lambda name: mice)
    found = study.clips(2, n=3)
    monkeypatch.setattr(work, "outcome", lambda name, key, do, failed: do(lambda what, share: None))
    marking._pictures(brought, found, ["1: treated", "2", "3"], 2)
    assert [one["said"] for one in shown["clips"]] == ["1: treated", "2", "3"]
    assert [one["start"] for one in shown["clips"]] == found["first"].tolist()
    assert [one["poses"]["n"] for one in shown["clips"]] == (found["after"] - found["first"]).tolist()
    assert shown["name"] == "mine-clips"
    assert cohort.BEHAVIOURS[2] in shown["alt"]


def test_what_was_said_last_of_a_moment_counts():
    marks = [("a", 0, 10, "rest"), ("a", 20, 30, "walk"), ("b", 0, 10, "rest")]
    new = marking.with_words(marks, {("a", 5, 12): "groom", ("b", 0, 10): "", ("c", 1, 2): "walk"})
    assert new == [("a", 20, 30, "walk"), ("a", 5, 12, "groom"), ("c", 1, 2, "walk")]


def test_what_is_written_into_an_editor_is_heard_with_the_click_that_ends_it(session):
    session["editor"] = {"edited_rows": {1: {"word": " groom "}, 2: {"word": None}}}
    assert marking._typed("editor", "word", ["rest", "", "walk"]) == ["rest", "groom", ""]


def test_names_of_states_are_used_on_request(engine):
    app = opened("study", view="Names", animals="4")
    app.button(key="study-use-names").click().run()
    kept = app.session_state[next(key for key in app.session_state if re.fullmatch(r"study-names-\w+", str(key)))]
    assert list(kept.values()) == list(cohort.BEHAVIOURS)
    assert "Two states have one name" not in words(app)


def test_two_factors_and_their_legend_are_told_in_words(tmp_path, monkeypatch):
    drawn, place = record(monkeypatch), folder(tmp_path)
    path = tmp_path / place / "sheet.csv"
    sheet = pd.read_csv(path)
    sheet.assign(sex=["f", "m"] * 6).to_csv(path, index=False)
    app = opened("study", data="A folder below the data folder", path=place, hold="States of another tool")
    (second,) = [each for each in app.selectbox if each.label == "and (a second factor)"]
    second.set_value("sex").run()
    assert "The flow test compares the groups of one column" in words(app)
    figure, _ = drawn["study-dots"]
    named = [trace["name"] for trace in figure["data"] if trace.get("showlegend")]
    assert named == [f"{one} (n = 3)" for one in ("control, f", "control, m", "treated, f", "treated, m")]
    assert "group, sex" in figure["layout"]["legend"]["title"]["text"]


def test_a_long_table_needs_no_sheet(tmp_path):
    made = cohort.simulate(4, minutes=1, seed=1)
    sheet = pd.DataFrame(made.sheet).set_index("recording")
    rows = [
        pd.DataFrame({"label": z}).assign(recording=name, **sheet.loc[name, ["animal", "group"]])
        for name, z in made.states.items()
    ]
    (tmp_path / "long").mkdir()
    pd.concat(rows).to_csv(tmp_path / "long" / "everything.csv", index=False)
    said = words(opened("study", data="A folder below the data folder", path="long", hold="States of another tool"))
    assert "8 recordings, in states of another tool" in said
    assert "between control and treated" in said


def test_settings_are_suggested_from_half_of_the_animals_and_judged_by_the_others(engine, monkeypatch):
    tried = []

    def made_up(family, setting, trials, seeds):
        tried.append(trials)
        better = {1: 10.0, 2: 18.0, 3: 25.0}.get(setting["n_states"], 25.0)
        return asdict(Probe(dict(setting), tuple(better + 0.01 * i for i in range(10)), 1.0, better, 0, 4.0, 10))

    monkeypatch.setattr("gdm_core.engine.suggest.probe", made_up)
    app = opened("study", animals="4", found="Found by a fit")
    app.button(key="study-suggest").click().run()
    assert "Take three states" in "\n".join(element.value for element in app.markdown)
    names = [trial.name.partition("_")[0] for trial in tried[0]]
    assert len(names) == len(set(names)) == 8, "a stretch of each animal"
    app.button(key="study-suggest-use").click().run()
    assert app.session_state["K-study"] == 3


def test_a_model_is_fitted_to_some_animals_and_applied_to_the_rest(engine):
    app = opened("study", animals="3", found="Found by a fit")
    (choice,) = [each for each in app.selectbox if each.label == "Fitted to"]
    choice.set_value("group").run()
    assert app.button(key="study-fit").label == "Fit one model to 6 of them"
    app.button(key="study-fit").click().run()
    request, *readings = [job.work for job in engine.jobs if job.session.endswith("/study")]
    assert {trial.name[:8] for trial in request.trials} == {"animal01", "animal02", "animal03"}
    assert len(readings) == 12


def test_work_begins_once_torch_is_whole_and_what_nobody_foresaw_is_said(session, monkeypatch, tmp_path):
    """scipy looks for the Tensor of a torch that another thread still imports: seen at a busy start of the server."""
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "__init__.py").write_text("import time\ntime.sleep(0.5)\nTensor = float\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torch")
    threading.Thread(target=importlib.import_module, args=("torch",)).start()
    until(lambda: "torch" in sys.modules)
    looks = work.of("looks", lambda say: sys.modules["torch"].Tensor)
    fails = work.of("fails", lambda say: {}["nothing"])
    assert looks.wait(30)
    assert fails.wait(30)
    assert (looks.value, looks.error) == (float, None)
    assert "Something went wrong that should not (KeyError)" in str(fails.error)
