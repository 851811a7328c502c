"""Experiments that a comparison would pool, and confounds, in sheets with known structure."""

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.metrics import roc_auc_score
from statsmodels.stats.multitest import multipletests

from datasets import cohort_files
from gdm_core.errors import DataError
from gdm_core.study.design import AFTER, BEFORE, DESIGN
from gdm_core.study.methods import write_methods
from gdm_core.study.sheet import match_sheet
from gdm_core.study.structure import find_pooling
from tests.support.real import recorded
from tests.support.small_studies import valued


def sheet(rows: dict[str, list[tuple[str, int]]], column: str, between: str) -> pd.DataFrame:
    """Return a sheet with `n` recordings of each group in each value of a column."""
    cells = [(value, group) for value, groups in rows.items() for group, n in groups for _ in range(n)]
    frame = pd.DataFrame(cells, columns=[column, between]).infer_objects()
    return frame.assign(recording=[f"r{i}" for i in range(len(frame))])


def test_controls_of_two_experiments_are_a_question():
    frame = sheet({"stress": [("control", 9), ("CSI", 8)], "swim": [("control", 5), ("swim", 5)]}, "protocol", "group")
    found = find_pooling(frame, "group")
    assert (found.column, found.default) == ("protocol", "stress")
    assert found.choices == {"stress": ["stress"], "swim": ["swim"]}
    assert found.question == (
        "group control occurs in several values of protocol (stress, swim). Which protocol do you want to analyse?"
    )
    assert find_pooling(frame[frame["protocol"] == "swim"], "group") is None
    assert find_pooling(frame, "group", ignored=["protocol"]) is None


def test_crossed_experiments_are_a_question_unlike_batches():
    crossed = {"1": [("a", 4), ("b", 4)], "2": [("a", 4), ("b", 5)]}
    assert find_pooling(sheet(crossed, "Experiment", "group"), "group").column == "Experiment"
    for column in ("batch", "sex"):
        assert find_pooling(sheet(crossed, column, "group"), "group") is None


def test_doses_of_two_drugs_are_a_question():
    doses = {"A": [(0.0, 4), (1.0, 4), (3.0, 4)], "B": [(0.0, 4), (1.0, 4), (3.0, 4)]}
    assert find_pooling(sheet(doses, "drug", "dose"), "dose").choices == {"A": ["A"], "B": ["B"]}
    shared = {"vehicle": [(0.0, 6)], "A": [(1.0, 4), (3.0, 4)], "B": [(1.0, 4), (3.0, 4)]}
    found = find_pooling(sheet(shared, "drug", "dose"), "dose")
    assert found.choices == {"A": ["A", "vehicle"], "B": ["B", "vehicle"]}, "controls listed apart go with either drug"
    different = {"vehicle": [(0.0, 6)], "A": [(1.0, 4), (3.0, 4)], "B": [(2.0, 4), (9.0, 4)]}
    found = find_pooling(sheet(different, "drug", "dose"), "dose")
    assert found.question == "dose is given in several values of drug (A, B). Which drug do you want to analyse?"
    one = {"vehicle": [(0.0, 6)], "A": [(1.0, 4), (3.0, 4)]}
    assert find_pooling(sheet(one, "drug", "dose"), "dose") is None


@pytest.mark.parametrize(
    "rows",
    [
        {"c1": [("a", 2)], "c2": [("a", 2)], "c3": [("b", 2)], "c4": [("b", 2)]},
        {"F": [("a", 2)], "M": [("a", 4), ("b", 6)]},
        {"x": [("a", 5)], "y": [("b", 5)]},
        {"8": [("a", 3), ("b", 3)], "9": [("a", 4), ("b", 2)], "10": [("a", 2)]},
    ],
    ids=["cages within groups", "sex lacks a group", "an alias of the group", "age in weeks"],
)
def test_other_columns_are_no_question(rows):
    assert find_pooling(sheet(rows, "column", "group"), "group") is None


def test_sessions_of_the_same_animals_are_no_experiments():
    frame = sheet({"day 1": [("a", 4), ("b", 4)], "day 2": [("a", 4), ("c", 4)]}, "experiment", "group")
    assert find_pooling(frame.assign(animal=[*range(8)] * 2), "group", unit="animal") is None


def test_pooled_experiments_are_noted_with_results():
    frame = sheet({"1": [("a", 4), ("b", 4)], "2": [("a", 4), ("c", 4)]}, "study", "group")
    frame["value"] = np.random.default_rng(0).normal(size=16)
    study = valued(**frame.drop(columns="recording"))
    note = "Recordings are pooled over study (1, 2), although group a occurs in several of them."
    assert note in " ".join(study.compare("value", "group", n_permutations=9).attrs["notes"])
    assert note not in " ".join(study.compare("value", "group", blocks="study", n_permutations=9).attrs["notes"])
    assert study.find_pooling("group", {"study": "1"}) is None


def test_published_experiments_are_a_question():
    frame = cohort_files.read_sheet(recorded("cohort/behaviorflow/conditions.csv"))
    frame = match_sheet(frame, frame["file"]).frame
    found = find_pooling(frame, "Condition", unit="Animal")
    assert (found.column, found.default) == ("Experiment", "CSI_SA")
    assert set(found.choices) == {"CRS", "CSI_SA", "Tun_Yoh"}
    assert find_pooling(frame[frame["Experiment"] == "CRS"], "Condition", unit="Animal") is None


# ---- confounds ------------------------------------------------------------------------------------------------------
@pytest.fixture
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"group": ["a"] * 20 + ["b"] * 20, "value": rng.normal(size=40)})
    table["age"] = rng.normal(size=40) + 1.5 * (table["group"] == "b")
    table["sex"] = np.where(rng.random(40) < 0.2 + 0.7 * (table["group"] == "b"), "F", "M")
    return table.assign(weight=rng.normal(size=40), room=table["group"].map({"a": "left", "b": "right"}))


def test_associated_columns_are_named_with_their_strength(frame):
    table = valued(**frame).find_confounds("group").set_index("column")
    auc = roc_auc_score(frame["group"] == "b", frame["age"])
    assert table.loc["age", "strength"] == pytest.approx(auc)
    assert table.loc["age", "p"] == pytest.approx(
        stats.mannwhitneyu(*(g["age"] for _, g in frame.groupby("group"))).pvalue
    )
    counts = pd.crosstab(frame["group"], frame["sex"])
    assert table.loc["sex", "strength"] == pytest.approx(
        np.sqrt(stats.chi2_contingency(counts, correction=False).statistic / 40)
    )
    assert table["associated"].to_dict() == {"room": True, "sex": True, "age": True, "value": False, "weight": False}
    assert table["offered"].to_dict() == {"room": False, "sex": True, "age": True, "value": True, "weight": True}
    assert table["p_holm"].tolist() == pytest.approx(multipletests(table["p"], method="holm")[1])


def test_columns_that_measure_the_same_are_one_confound(frame):
    table = valued(**frame.assign(weeks=frame["age"] / 7, days=frame["age"] + 1)).find_confounds("group")
    (row,) = table[table["column"] == "age"].to_dict("records")
    assert row["same"] == "weeks, days"
    assert row["sentence"].endswith("weeks and days measure the same.")
    assert not {"weeks", "days"} & set(table["column"])


def test_several_groups_have_eta_squared_and_doses_a_rank(frame):
    table = valued(**frame.assign(group=["a", "b", "c", "d"] * 10)).find_confounds("group").set_index("column")
    groups = [frame["age"][i::4] for i in range(4)]
    f = stats.f_oneway(*groups)
    assert table.loc["age", "strength"] == pytest.approx(3 * f.statistic / (3 * f.statistic + 36))
    assert table.loc["age", "p"] == pytest.approx(f.pvalue)
    ranks = valued(**frame.assign(group=np.arange(40.0))).find_confounds("group").set_index("column")
    assert ranks.loc["age", "strength"] == pytest.approx(stats.spearmanr(np.arange(40), frame["age"]).statistic)


def test_recording_length_is_found_and_adjusted_for():
    from gdm_core import Study

    rng = np.random.default_rng(0)
    long = np.concatenate([rng.integers(900, 1_100, 10), rng.integers(1_700, 2_300, 10)])
    states = {f"r{i}": np.repeat(rng.integers(0, 4, n), 5) for i, n in enumerate(long)}
    table = pd.DataFrame({"recording": list(states), "group": ["a"] * 10 + ["b"] * 10})
    study = Study.from_states(states, table, rate_hz=10)
    assert study.find_confounds("group")["column"].tolist() == ["recording_min"], "nothing is missing"
    plain = study.compare("bouts", "group", n_permutations=199)
    assert plain["p_classical"].max() < 0.001
    assert any("adjust for recording_min" in note for note in plain.attrs["notes"])
    adjusted = study.compare("bouts", "group", covariates=["recording_min"], n_permutations=199)
    assert adjusted["p_holm"].min() > 0.05


def test_columns_are_classed_by_the_groups_they_depend_on(frame):
    drug = frame["group"] == "b"
    frame = frame.assign(
        dosage=np.where(drug, np.tile([5.0, 10.0], 20), 0.0), cage=frame["group"] + np.tile(["1", "2", "3", "4"], 10),
        severity=np.where(drug, frame["age"] * frame["weight"], np.nan), score=frame["value"] + 20 * drug,
    )  # fmt: skip
    table = valued(**frame).find_confounds("group").set_index("column")
    assert table["kind"].to_dict() == {
        "room": DESIGN, "dosage": DESIGN, "cage": DESIGN, "severity": AFTER, "score": AFTER, "age": BEFORE, "sex": BEFORE,
        "value": BEFORE, "weight": BEFORE,
    }  # fmt: skip
    assert table["offered"].sum() == 4
    assert table.loc["dosage", "reason"] == "dosage is part of the grouping by group; compare by dosage instead."


def test_dosage_does_not_erase_the_question(frame):
    """The dose of a drug is no covariate of drug against vehicle, unless it was planned."""
    drug = frame["group"] == "b"
    study = valued(**frame.assign(dosage=np.where(drug, np.tile([5.0, 10.0], 20), 0.0)))
    with pytest.raises(DataError, match=r"dosage is part of the grouping by group.*planned=\['dosage'\]"):
        study.compare("value", "group", covariates=["dosage"], n_permutations=9)
    table = study.compare("value", "group", planned=["dosage"], n_permutations=9)
    assert "adjusted for dosage, as planned in advance" in write_methods(study, table)


@pytest.mark.bulk
def test_unrelated_columns_are_rarely_associated():
    """One of two unrelated columns is associated in 2.5 to 8% of 400 studies, after correction."""
    rng, alarms = np.random.default_rng(5), 0
    for _ in range(400):
        columns = {"age": rng.normal(size=24), "sex": rng.choice(["F", "M"], 24), "value": np.zeros(24)}
        alarms += valued(group=["a", "b"] * 12, **columns).find_confounds("group")["associated"].any()
    assert 10 <= alarms <= 32
