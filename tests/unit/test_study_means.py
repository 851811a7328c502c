"""Means of groups: adjusted for covariates, and with intervals inside the range of the measure."""

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats
from statsmodels.formula.api import ols

from gdm_core import Study
from gdm_core.errors import DataError
from gdm_core.study.means import mean_interval
from gdm_core.study.methods import write_methods
from tests.support.small_studies import labelled, valued


@pytest.mark.parametrize(
    "asked", [{"covariates": ["age"]}, {"blocks": "batch"}, {"covariates": ["age"], "blocks": "batch"}]
)
def test_adjusted_means_equal_least_squares_means(asked):
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"group": ["a", "b", "c"] * 8, "batch": ["x"] * 12 + ["y"] * 12, "age": rng.normal(size=24)})
    frame["value"] = 2 * frame["age"] + 5 * (frame["batch"] == "y") + (frame["group"] == "b") + rng.normal(size=24)
    terms = [*asked.get("covariates", []), *([f"C({asked['blocks']})"] if "blocks" in asked else [])]
    fit = ols("value ~ C(group) + " + " + ".join(terms), frame).fit()
    expected = [fit.predict(frame.assign(group=group)).mean() for group in "abc"]
    study = valued(**frame)
    table = study.compare("value", "group", n_permutations=9, **asked)
    assert table[["mean_a", "mean_b", "mean_c"]].iloc[0].tolist() == pytest.approx(expected)
    assert study.group_means("value", "group", **asked)["mean"].tolist() == pytest.approx(expected)
    assert study.per_unit("value", "group", **asked).groupby("group")["value"].mean().tolist() == pytest.approx(
        expected
    )
    assert any(note.startswith("Group means are adjusted for") for note in table.attrs["notes"])


def test_paired_means_keep_differences_between_animals():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"animal": [*range(8)] * 2, "day": ["1"] * 8 + ["2"] * 8, "hour": rng.normal(size=16)})
    frame["value"] = 10.0 * frame["animal"] + 3 * frame["hour"]
    study = valued(**frame)
    values = study.per_unit("value", "day", within="animal", covariates=["hour"])
    wide = values.pivot_table(index="animal", columns="day", values="value")
    assert (wide["2"] - wide["1"]).to_numpy() == pytest.approx(np.zeros(8), abs=1e-9), "hours explain every difference"
    assert np.ptp(wide["1"]) > 60


def test_intervals_stay_inside_the_range():
    values = np.array([[0.001, 0.99, 0.0], [0.002, 0.97, 0.0], [0.2, 0.4, 0.0]])
    mean, low, high = mean_interval(values, "usage")
    assert mean.tolist() == pytest.approx(values.mean(axis=0))
    assert ((low >= 0) & (high <= 1) & (low <= mean) & (mean <= high)).all()
    assert low[2] == high[2] == 0
    _, low, _ = mean_interval(values, "bouts_per_min")
    assert (low >= 0).all()
    mean, low, high = mean_interval(values, "distance")
    expected = stats.ttest_1samp(values[:, 0], 0).confidence_interval()
    assert (low[0], high[0]) == pytest.approx((expected.low, expected.high))


def test_difference_of_shares_stays_inside_the_range():
    states = {f"r{i}": np.repeat(np.arange(20) % (1 + (i in (0, 3))), 10) for i in range(4)}
    sheet = pd.DataFrame({"recording": list(states), "group": ["a", "a", "b", "b"]})
    table = Study.from_states(states, sheet).compare("usage", "group", n_permutations=9)
    assert table["effect_low"].min() >= -1
    assert table["effect_high"].max() <= 1


def test_log_ratios_are_centred_and_replace_zeros():
    shares = np.array([[0.5, 0.3, 0.2], [0.6, 0.4, 0.0], [0.2, 0.2, 0.6], [0.1, 0.1, 0.8]], np.float32)
    states = {f"r{i}": np.repeat(one[None], 40, axis=0) for i, one in enumerate(shares)}
    sheet = pd.DataFrame({"recording": list(states), "group": ["a", "a", "b", "b"]})
    study = Study.from_states(states, sheet)
    found = study.counts.measure("log_ratio")
    logs = np.log(np.where(shares == 0, 0.05, shares))
    np.testing.assert_allclose(found, logs - logs.mean(axis=1, keepdims=True), rtol=1e-5)
    table = study.compare("log_ratio", "group", n_permutations=9)
    assert "1 shares of zero were replaced by 0.05, half of the smallest other one." in table.attrs["notes"]
    means = study.group_means("log_ratio", "group")
    assert (means["low"] < means["mean"]).all(), "negative values have an interval too"


@pytest.mark.parametrize(("n_studies", "least"), [(400, 0.90), pytest.param(4_000, 0.92, marks=pytest.mark.bulk)])
def test_interval_of_a_mean_share_covers_it(n_studies, least):
    rng = np.random.default_rng(1)
    values = special.expit(rng.normal(-2.5, 0.8, (10, n_studies)))
    truth = special.expit(rng.normal(-2.5, 0.8, 200_000)).mean()
    _, low, high = mean_interval(values, "usage")
    assert least < ((low <= truth) & (truth <= high)).mean() < 0.98


def test_filter_decides_which_recordings_are_counted():
    study = labelled(n=6, day=["1", "2"] * 6)
    table = study.compare("usage", "group", where={"day": "1"}, n_permutations=9)
    text = write_methods(study, table)
    assert "We analysed 6 recordings of 6 animals" in text
    assert "(a n = 3, b n = 3)" in text
    assert "where day is 1" in text
    assert "We analysed 6 recordings" in write_methods(study, study.flow("group", where={"day": "1"}, n_permutations=9))
    assert "the method of Holm" in text
    assert "the method of Benjamini and Hochberg" in write_methods(study, table, correction="p_bh")


def test_subjects_are_called_what_the_sheet_calls_them():
    rng = np.random.default_rng(0)
    study = valued(value=rng.normal(size=12), group=["a", "b"] * 6, mouse_id=[f"m{i % 6}" for i in range(12)])
    table = study.compare("value", "group", n_permutations=9)
    assert "6 mice have several recordings under one condition, which are averaged." in table.attrs["notes"]
    text = write_methods(study, table)
    assert "12 recordings of 6 mice" in text
    assert "The unit of analysis was the mouse;" in text
    assert study.per_unit("value", "group").columns[0] == "mouse"
    with pytest.raises(DataError, match=r"12 mice are in more than one group.*within='mouse_id'"):
        valued(value=np.zeros(24), day=["1"] * 12 + ["2"] * 12, mouse_id=[*range(12)] * 2).compare("value", "day")


def test_averaged_recordings_are_counted_by_animal():
    frame = pd.DataFrame(
        {
            "animal": np.repeat(range(16), 4),
            "day": ["1", "1", "2", "2"] * 16,
            "value": np.arange(64.0) % 17,
            "hour": [1, 2] * 32,
        }
    )
    table = valued(**frame).compare("value", "day", within="animal", n_permutations=9)
    assert table["n"][0] == 16
    assert (
        "16 animals have several recordings under one condition, which are averaged over hour." in table.attrs["notes"]
    )
