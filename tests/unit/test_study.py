"""Studies: measures, matching of the sheet, fitting, and files."""

import itertools
import json
import re
import warnings
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest

from gdm_core import ARHMM, Study, Trial
from gdm_core.analysis.bouts import BoutRule
from gdm_core.analysis.suggestions import Recommendation
from gdm_core.errors import ConfigError, DataError, ModelFileError
from gdm_core.study import fitting
from gdm_core.study.methods import describe_record, describe_search, make_record, write_methods
from gdm_core.study.sheet import match_sheet
from gdm_core.study.text import format_minutes, format_p
from tests.support.quick_model import quick_model

RATE = 10.0
STATES = {
    "m1.csv": np.array([0, 0, 0, 2, 2, -1, 2, 0, 0, 5]),
    "m2.csv": np.array([-1, 5, 5, -1, 0, 0, 0, 0]),
    "m3.csv": np.array([2, 2, 2, 2]),
}
SHEET = pd.DataFrame({"recording": list(STATES), "animal": ["a", "b", "c"], "group": ["x", "y", "x"]})


def make_study(states=STATES, sheet=SHEET, **more) -> Study:
    return Study.from_states(states, sheet, rate_hz=RATE, **more)


# ---- counting -----------------------------------------------------------------------------------------------------
def test_measures_equal_a_plain_loop():
    rng = np.random.default_rng(0)
    states = {f"r{i}": rng.integers(-1, 4, n) for i, n in enumerate((50, 3, 200, 1))}
    states["r4"] = np.full(6, -1)
    table = Study.from_states(
        states, pd.DataFrame({"recording": list(states), "dose": range(5)}), rate_hz=RATE
    ).measures()
    columns = "recording dose state name usage log_ratio bouts bouts_per_min median_bout_s mean_bout_s"
    assert list(table.columns) == columns.split()
    assert len(table) == 5 * 4
    for _, row in table.iterrows():
        labels = states[row["recording"]]
        runs = [len(list(part)) for state, part in itertools.groupby(labels) if state == row["state"]]
        known = (labels >= 0).sum()
        if not known:
            assert np.isnan([row["usage"], row["bouts"], row["bouts_per_min"], row["mean_bout_s"]]).all()
            continue
        assert row["bouts"] == len(runs)
        assert row["usage"] == pytest.approx(sum(runs) / known)
        assert row["bouts_per_min"] == pytest.approx(len(runs) / (known / RATE / 60))
        for name, of in (("median_bout_s", np.median), ("mean_bout_s", np.mean)):
            assert row[name] == pytest.approx(of(runs) / RATE if runs else np.nan, nan_ok=True)


def test_gap_ends_a_bout_but_keeps_the_change():
    study = make_study()
    table = study.measures().set_index(["recording", "state"])
    assert table.loc[("m1.csv", 2), "bouts"] == 2
    assert table["bouts"].dtype == np.int64
    changes = study.transitions().set_index(["recording", "from_state", "to_state"])["changes"]
    assert changes[("m2.csv", 5, 0)] == 1  # 5, a gap, 0
    assert changes[("m1.csv", 0, 2)] == changes[("m1.csv", 2, 0)] == changes[("m1.csv", 0, 5)] == 1
    assert study.counts.changes.sum() == 4
    rates = study.transitions().set_index(["recording", "from_state", "to_state"])
    assert rates.loc[("m1.csv", 0, 2), "transitions"] == pytest.approx(1 / (5 / RATE / 60))
    assert rates.loc[("m1.csv", 0, 2), "changes_per_min"] == pytest.approx(1 / (7 / RATE / 60))
    assert rates.loc[("m2.csv", 5, 0), "changes_per_min"] == 0  # the time is unknown
    assert rates.loc[("m1.csv", 0, 2), "transition_shares"] == 0.5
    assert np.isnan(rates.loc[("m3.csv", 2, 0), "transition_shares"])


def test_states_keep_numbers_and_accept_names():
    study = make_study(names={2: "rear"})
    assert study.states == (0, 2, 5)
    assert study.measures()["name"].tolist()[:3] == ["state 0", "rear", "state 5"]
    assert study.with_names(["rest", "", "dig"]).state_name(2) == "dig"
    with pytest.raises(ConfigError, match="no state 7"):
        study.with_names({7: "fly"})


def test_usage_averages_soft_states():
    rng = np.random.default_rng(1)
    soft = rng.dirichlet(np.ones(3), 40).astype(np.float32)
    soft[30:] = np.nan
    study = Study.from_states({"r": soft}, pd.DataFrame({"recording": ["r"]}), rate_hz=RATE)
    table = study.measures()
    np.testing.assert_allclose(table["usage"], soft[:30].mean(axis=0), rtol=1e-5)
    assert table["bouts"].sum() == 1 + (np.diff(soft[:30].argmax(axis=1)) != 0).sum()
    (over,) = study.counts.usage_over_time(1.0)
    np.testing.assert_allclose(over[1], soft[10:20].mean(axis=0), rtol=1e-5)
    assert np.isnan(over[3]).all()


def test_usage_over_time_bouts_and_entropy():
    study = make_study()
    over, *_ = study.counts.usage_over_time(0.5)
    assert over.shape == (2, 3)
    assert over[0, 0] == pytest.approx(0.6)
    bouts = study.bouts()
    assert bouts.iloc[1].to_dict() == {
        "recording": "m1.csv",
        "state": 2,
        "name": "state 2",
        "start_s": 0.3,
        "stop_s": 0.5,
        "duration_s": pytest.approx(0.2),
    }
    share = np.array([5, 3, 1]) / 9
    entropy = study.counts.measure("entropy")
    assert entropy == pytest.approx([-(share * np.log(share)).sum() / np.log(3), 0.58, 0.0], abs=0.01)
    assert study.counts.measure("changes_per_min")[0] == pytest.approx(3 / (7 / RATE / 60))


# ---- the sheet ----------------------------------------------------------------------------------------------------
def test_matching_ignores_folder_extension_and_case():
    sheet = SHEET.assign(File=["data/M1.csv", "m2", "M3.CSV"]).drop(columns="recording")
    study = make_study(sheet=sheet[["File", "animal", "group"]].iloc[::-1])
    assert study.sheet.names == ("m3.csv", "m2.csv", "m1.csv")
    assert list(study.measures().columns[:4]) == ["recording", "File", "animal", "group"]


@pytest.mark.parametrize(
    ("sheet", "words"),
    [
        (
            SHEET.assign(recording=["m1.csv", "m22.csv", "m3.csv"]),
            r"'m2.csv' \(did you mean 'm22.csv'\?\).*Rows of the sheet without a recording: m22",
        ),
        (SHEET.iloc[:2], "1 recording is missing from the sheet: 'm3.csv'"),
        (SHEET.assign(recording=["m1.csv", "m1.csv", "m3.csv"]), "several rows for m1.csv"),
        (SHEET.assign(recording=["m1.csv", None, "m3.csv"]), "Row 2 of the sheet has no recording name"),
        (SHEET.drop(columns="recording"), "no column 'recording'.*it has animal, group"),
        (SHEET.assign(exclude=["no", "perhaps", ""]), "'perhaps'; use yes, no or an empty cell"),
        (SHEET.assign(exclude="yes"), "The sheet excludes every recording"),
        (pd.concat([SHEET, SHEET["group"]], axis=1), "several columns named group"),
        (["m1.csv"], "The sheet is a list"),
    ],
)
def test_invalid_sheet_raises_data_error(sheet, words):
    with pytest.raises(DataError, match=words):
        make_study(sheet=sheet)


def test_ambiguous_name_raises_data_error():
    with pytest.raises(DataError, match=r"matches several recordings: a/m1\.csv, b/m1\.csv"):
        make_study({"a/m1.csv": [0, 1], "b/m1.csv": [1, 0]}, pd.DataFrame({"recording": ["m1", "b/m1.csv"]}))


def test_unmatched_and_excluded_rows_are_noted():
    sheet = pd.concat([SHEET, pd.DataFrame({"recording": ["m9.csv"], "animal": ["z"]})], ignore_index=True)
    study = make_study(sheet=sheet.assign(exclude=["", "x", 0, None]))
    assert study.sheet.names == ("m1.csv", "m3.csv")
    assert study.sheet.set_aside == {"m2.csv": "excluded by the sheet"}
    assert "exclude" not in study.measures()
    assert any("Rows of the sheet without a recording" in note and "m9.csv" in note for note in study.notes)
    assert "m2.csv" in study.recordings  # nothing is lost


def test_reserved_column_gets_a_suffix():
    study = make_study(sheet=SHEET.assign(usage=[1.0, 2.0, 3.0], duration_s=9))
    table = study.measures()
    assert table["usage (sheet)"].tolist()[::3] == [1, 2, 3]
    assert "duration_s" in table
    assert any("usage." in note and "(sheet)" in note for note in study.notes)


@pytest.mark.parametrize(
    ("states", "rate", "words"),
    [
        ({}, 1, "at least one recording"),
        ({"m": np.array(["a", "b"])}, 1, "If states are strings, number them"),
        ({"m": np.array([0.5, 1.0])}, 1, "not integers"),
        ({"m": np.array([0, -2])}, 1, "range from -2 to 0"),
        ({"m": np.array([[0.5, 0.6]])}, 1, "not proportions"),
        ({"m": np.array([0, 1])}, 0, "rate_hz is 0"),
        ({"m": np.array([0, 1])}, {"n": 1}, "rate_hz has no value for m"),
        ({"m": np.array([-1, -1])}, 1, "No recording has a labelled sample"),
    ],
)
def test_invalid_states_raise(states, rate, words):
    with pytest.raises((DataError, ConfigError), match=words):
        Study.from_states(states, pd.DataFrame({"recording": ["m"]}), rate_hz=rate)


def test_mixed_rates_are_measured_in_seconds():
    study = Study.from_states(
        {"a": [0] * 10 + [1] * 10, "b": [0] * 20 + [1] * 20},
        pd.DataFrame({"recording": ["a", "b"]}),
        rate_hz={"a": 10, "b": 20},
    )
    assert study.measures()["mean_bout_s"].tolist() == [1, 1, 1, 1]
    assert any("2 rates, 10 to 20 Hz" in note for note in study.notes)


def test_unlabelled_recording_is_excluded_with_a_note():
    states = {f"r{i}": np.arange(20) // (2 + i % 3) % 2 for i in range(8)} | {"empty": np.full(9, -1)}
    study = Study.from_states(states, pd.DataFrame({"recording": list(states), "g": ["a", "b"] * 4 + ["a"]}), rate_hz=1)
    table = study.compare("usage", "g", n_permutations=9)
    assert table["n"][0] == 8
    assert any("without labelled samples: empty" in note for note in table.attrs["notes"])


# ---- fitting ------------------------------------------------------------------------------------------------------
def tracks(lengths=(600, 600, 300, 900), seed=0) -> dict[str, Trial]:
    rng = np.random.default_rng(seed)
    return {f"t{i}": Trial(rng.normal(size=(n, 3)).cumsum(axis=0), RATE, name=f"t{i}") for i, n in enumerate(lengths)}


def sheet_of(recordings, **columns) -> pd.DataFrame:
    return pd.DataFrame({"recording": list(recordings)} | columns)


def test_animals_have_equal_weight_in_the_fit():
    recordings = tracks((600, 600, 300, 900, 40))
    sheet = match_sheet(sheet_of(recordings, animal=["a", "a", "b", "c", "d"]), recordings)
    trials, sheet = fitting.balance(recordings, sheet)
    of_animal: dict[str, int] = {"t0": 0, "t2": 0, "t3": 0, "t4": 0}
    for trial in trials:
        of_animal["t0" if trial.name == "t1" else trial.name] += trial.n_samples
    # at least a quarter of the median, split over two recordings
    assert of_animal == pytest.approx({"t0": 150, "t2": 150, "t3": 150, "t4": 40}, abs=6)
    assert {t.name for t in trials} == set(recordings)
    assert max(t.seconds[-1] for t in trials if t.name == "t3") > 89  # spread over the recording
    assert any("1 animal is underrepresented" in note and "d" in note for note in sheet.notes)


def test_fit_is_blind_to_conditions():
    recordings = tracks()
    model = quick_model(n_states=3, n_latent=2)
    study = Study.fit(recordings, sheet_of(recordings, group=["a", "b", "a", "b"]), model, rule=BoutRule())
    assert not model.params_
    other = Study.fit(recordings, sheet_of(recordings, group=["b", "b", "a", "a"]), model, rule=BoutRule())
    for name, trial in recordings.items():
        np.testing.assert_array_equal(study.recordings[name].labels, study.model.predict(trial))
        np.testing.assert_array_equal(study.recordings[name].labels, other.recordings[name].labels)
        np.testing.assert_array_equal(study.recordings[name].soft, study.model.predict_proba(trial))
    np.testing.assert_allclose(study.measures()["usage"][:3], study.recordings["t0"].soft.mean(axis=0), rtol=1e-4)
    again = Study.fit(tracks(seed=5), sheet_of(recordings), study.model)
    assert again.model is study.model  # fitted already
    rule = BoutRule(0.5, 1.0)
    usual = Study.fit(recordings, sheet_of(recordings), study.model).recordings["t2"].labels
    np.testing.assert_array_equal(usual, BoutRule(0.2, 0.2).labels(study.recordings["t2"].soft, RATE))
    calm = Study.fit(recordings, sheet_of(recordings), study.model, rule=rule)
    np.testing.assert_array_equal(calm.recordings["t2"].labels, rule.labels(study.recordings["t2"].soft, RATE))
    assert "averaged over 0.5 s. Bouts below 1 s were merged" in write_methods(calm)


def test_empty_recording_is_excluded_and_gaps_are_unlabelled():
    recordings = tracks()
    gone = np.array(recordings["t1"].y)
    gone[100:150] = np.nan
    gone[200:205] = np.nan
    recordings |= {"t1": Trial(gone, RATE, name="t1"), "arena": Trial(np.full((500, 3), np.nan), RATE, name="arena")}
    study = Study.fit(recordings, sheet_of(recordings), quick_model(n_states=3))
    assert study.sheet.set_aside == {"arena": "more than 50% of samples missing"}
    assert any("1 recording is excluded" in note and "arena" in note for note in study.notes)
    assert (study.recordings["t1"].labels == -1).nonzero()[0].tolist() == list(range(100, 150))
    with pytest.raises(DataError, match="Every recording lacks data"):
        Study.fit({"arena": recordings["arena"]}, sheet_of(["arena"]), quick_model(n_states=3))


def test_outlying_recording_is_flagged(monkeypatch):
    recordings = tracks((300,) * 8)
    scores = {name: -5.0 - 0.1 * i for i, name in enumerate(recordings)} | {"t5": -60.0}
    monkeypatch.setattr(ARHMM, "score", lambda self, data, y=None: scores[data[0].name])
    study = Study.fit(recordings, sheet_of(recordings, group=["a", "b"] * 4), quick_model(n_states=3))
    assert list(study.flagged) == ["t5"]
    assert study.find_confounds("group").set_index("column").loc["model_score", "n"] == 8
    assert dict(Study.from_bytes(study.to_bytes()).scores) == scores
    assert any(note.startswith("t5 is a possible outlier: low log-likelihood (-60.00 nats") for note in study.notes)


def test_recordings_outside_the_fit_are_flagged():
    recordings = tracks()
    model = quick_model(n_states=3).fit([one.y for one in recordings.values()])
    recordings |= {"far": Trial(recordings["t0"].y + 1000, RATE, name="far")}
    assert list(Study.fit(recordings, sheet_of(recordings), model).flagged) == ["far"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"t1": Trial(np.zeros((300, 3)), 25.0)}, r"1 recording is not at 10 Hz: t1 \(25 Hz\).*Resample"),
        ({"t1": Trial(np.zeros((300, 2)), RATE)}, "different channels.*t1: y1, y2"),
        ({"t1": np.zeros((300, 3))}, "t1 is not a Trial"),
    ],
)
def test_incompatible_recordings_raise_data_error(change, words):
    recordings = tracks() | change
    with pytest.raises(DataError, match=words):
        Study.fit(recordings, sheet_of(recordings), quick_model(n_states=3))


# ---- the file -----------------------------------------------------------------------------------------------------
def test_saved_study_opens_unchanged(tmp_path):
    recordings = tracks() | {"arena": Trial(np.full((500, 3), np.nan), RATE)}
    sheet = sheet_of(
        recordings, group=["a", "b", "a", None, "b"], dose=[0, 0.3, 0.3, 0, 1], exclude=["", "yes", "", "", ""]
    )
    study = Study.fit(recordings, sheet, quick_model(n_states=3), names=["rest", "go", "dig"], rule=BoutRule())
    study = replace(study, questions=[{"measure": "usage", "between": "group"}])
    study.save(tmp_path / "a.study")
    again = Study.open(tmp_path / "a.study")
    pd.testing.assert_frame_equal(again.measures().fillna(""), study.measures().fillna(""))
    pd.testing.assert_frame_equal(again.sheet.frame.fillna(""), study.sheet.frame.fillna(""))
    assert (again.states, again.names, again.notes) == (study.states, study.names, study.notes)
    assert again.sheet.set_aside == study.sheet.set_aside
    assert again.questions == study.questions
    np.testing.assert_array_equal(again.model.predict(recordings["t0"]), study.recordings["t0"].labels)


def test_mixed_cells_and_states_survive_saving(tmp_path):
    soft = np.random.default_rng(0).dirichlet(np.ones(6), 12)
    study = make_study(STATES | {"m3.csv": soft}, SHEET.assign(day=["1", 2, None]))
    study.save(tmp_path / "a.study")
    again = Study.open(tmp_path / "a.study")
    np.testing.assert_array_equal(again.measures()["usage"], study.measures()["usage"])
    assert again.sheet.frame["day"].tolist()[:2] == ["1", "2"]


def test_invalid_study_files_raise(tmp_path):
    path = tmp_path / "a.study"
    with pytest.raises(DataError, match="no study at"):
        Study.open(path)
    make_study().save(path)
    whole = path.read_bytes()
    from pyarrow import feather

    table = feather.read_table(path)
    header = json.loads(table.schema.metadata[b"study"])

    def rewritten(header, drop=()):
        feather.write_feather(table.drop(list(drop)).replace_schema_metadata({"study": json.dumps(header)}), path)

    for change, words in (
        ({"format_version": 99}, "format version 99; this library reads version 1"),
        ({"format": "x"}, "not a study"),
        ({"states": [0]}, "states that the header does not list"),
        ({"names": [1]}, "header of the study is damaged"),
    ):
        rewritten(header | change)
        with pytest.raises(ModelFileError, match=words):
            Study.open(path)
    rewritten(header, ["rate_hz"])
    with pytest.raises(ModelFileError, match="parts of the study are missing"):
        Study.open(path)
    for broken in (b"nonsense", whole[:-40], whole[:200]):
        path.write_bytes(broken)
        with pytest.raises(ModelFileError, match="not a readable study"):
            Study.open(path)


# ---- a paragraph ----------------------------------------------------------------------------------------------------


def known_numbers(value) -> set[str]:
    """Return the numbers of a record as the methods paragraph may print them."""
    if isinstance(value, dict):
        return set().union(*map(known_numbers, [*value.keys(), *value.values()]), [])
    if isinstance(value, list | tuple):
        return set().union(*map(known_numbers, value), [])
    if isinstance(value, int | float) and not isinstance(value, bool):
        formats = ("{:,}", "{:g}", "{:.3g}", "{:.4g}", "{:.2f}", "{:.0%}", "{:.3f}")
        return {number for one in formats for number in re.findall(NUMBER, one.format(value))}
    return set(re.findall(NUMBER, str(value)))


NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?|\.\d+"


def test_every_number_of_the_methods_is_in_the_record():
    recordings = tracks((260, 200, 220, 240, 210, 230, 250, 270))
    recordings["t0"] = replace(recordings["t0"], y=np.full_like(recordings["t0"].y, np.nan))
    frame = sheet_of(recordings, group=[0, 0, 0, 1, 1, 2, 2, 2], age=[3.5, 4, 5, 6, 4, 5, 7, 6])
    study = Study.fit(recordings, frame, quick_model(n_states=3, seed=7), rule=BoutRule(0.3, 0.7))
    for asked in ({"between": "group", "covariates": ["age"]}, {"between": "group", "where": {"group": [0, 2]}}):
        found = study.compare("usage", n_permutations=87, **asked), study.flow(n_permutations=86, **asked)
        record = make_record(study, found)
        compared, flow = record.tests
        known = known_numbers(asdict(replace(record, tests=(compared,))))
        known |= known_numbers((flow.sizes, flow.distance, flow.z, len(flow.null), format_p(flow.p)))
        known |= set(re.findall(NUMBER, format_minutes(*record.minutes)))
        text = describe_record(record)
        assert set(re.findall(NUMBER, text.replace("(von Ziegler et al., 2024)", ""))) <= known
        assert "t0: more than 50% of samples missing" in text
        assert "averaged over 0.3 s. Bouts below 0.7 s" in text
        assert describe_record(replace(record, n_recordings=999)) != text
    slow = Study.from_bytes(study.to_bytes())
    slow = replace(slow, recordings={name: replace(one, rate_hz=1 / 60) for name, one in slow.recordings.items()})
    assert "averaged over" not in write_methods(slow), "0.2 s change nothing at a sample per minute"


def test_methods_say_why_k():
    recordings = tracks((200,) * 4)
    study = Study.fit(recordings, sheet_of(recordings), quick_model(n_states=3))
    assert "and blind to conditions. K was set by the analyst. " in write_methods(study)
    with_reason = Study.from_bytes(replace(study, why_k="A pilot study had 3 postures.").to_bytes())
    assert "K was set by the analyst: A pilot study had 3 postures. " in write_methods(with_reason)
    sentences = (
        "Use GDM with K = 3: fewer states predict worse.",
        "Uncertain: two halves agree on 60%; compare seeds.",
    )
    verdict = Recommendation("gdm", 3, "open", sentences, (), ())
    chosen = "K was chosen by fits to one half of the data, scored on the other: "
    assert f"{chosen}fewer states predict worse (uncertain: two halves agree on 60%)." in write_methods(
        replace(study, why_k=describe_search(verdict, 3))
    )
    assert "K was set by the analyst; fits to" in describe_search(verdict, 4)
    assert "favoured K = 3: fewer states" in describe_search(verdict, 4)


def test_many_unused_states_give_advice():
    rng = np.random.default_rng(0)
    states = {f"r{i}": np.repeat(rng.integers(0, 5, 200), 4) for i in range(6)}
    states["r0"][:8] = np.repeat([6, 7], 4)
    sheet = pd.DataFrame({"recording": list(states), "rat": list(states), "group": ["a", "b"] * 3})
    study = Study.from_states(states, sheet, rate_hz=10, names={5: "never"})
    assert study.occurrence.unused == {
        "never": "0 bouts in 0 of 6 rats, mean share 0.00%",
        "state 6": "1 bout in 1 of 6 rats, mean share 0.08%",
        "state 7": "1 bout in 1 of 6 rats, mean share 0.08%",
    }
    assert "3 of 8 states are rare and not tested. Fit fewer, about 5." in study.notes
    text = write_methods(study, study.compare("usage", "group", n_permutations=9))
    assert "corrected over 5 tests" in text
    assert "3 rare states (strongest in fewer than 3 rats, a mean share below 0.05%" in text


def test_soft_state_never_strongest_gives_no_advice():
    soft = np.tile(np.array([[0.5, 0.3, 0.1, 0.1], [0.3, 0.5, 0.1, 0.1]], np.float32).repeat(5, axis=0), (20, 1))
    study = Study.from_states({"a": soft, "b": soft}, pd.DataFrame({"recording": ["a", "b"]}), rate_hz=10)
    assert "2 states are rarely the strongest (mean share up to 10%) and not tested." in study.notes
    assert "Fit fewer" not in " ".join(study.notes)


@pytest.mark.parametrize(
    ("column", "groups"),
    [
        (pd.Categorical(["b", "a"] * 4, categories=["b", "a", "never"]), ["b", "a"]),
        (pd.to_datetime(["2025-01-02", "2025-01-01"] * 4), ["2025-01-01", "2025-01-02"]),
        (np.array([True, False] * 4), ["False", "True"]),
        (np.array([1, "1", "x", "x"] * 2, dtype=object), ["1", "x"]),
    ],
    ids=["categories with one that nobody has", "dates", "yes or no", "1 and '1' are one group"],
)
def test_groups_of_any_type_are_selected_by_text(column, groups):
    sheet = pd.DataFrame({"file": [f"r{i}" for i in range(8)], "participant": range(8), "state": column}).set_index(
        "file"
    )
    labels = {f"r{i}": np.arange(40 + i) // 3 % 3 for i in range(8)}
    study = Study.from_states(labels, sheet, rate_hz=10)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        table = study.compare("usage", between="state", where={"state": groups}, n_permutations=9)
    assert [name for name in table if name.startswith("mean_")] == [f"mean_{group}" for group in groups]
    assert table["n"][0] == 8


def test_booleans_and_column_vectors_are_states():
    sheet = pd.DataFrame({"recording": ["a", "b"]})
    freezing = np.array([True, True, False, True])
    study = Study.from_states({"a": freezing, "b": freezing.astype(int)[:, None]}, sheet, rate_hz=1)
    assert study.measures()["usage"].tolist() == [0.25, 0.75] * 2
