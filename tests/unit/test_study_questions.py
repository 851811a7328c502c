"""Comparisons of a study against classical tests of other libraries and against enumeration."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from statsmodels.formula.api import ols
from statsmodels.stats.anova import AnovaRM, anova_lm
from statsmodels.stats.multitest import multipletests

from gdm_core import Study
from gdm_core.errors import ConfigError, DataError
from gdm_core.study.methods import write_methods
from gdm_core.study.permutation import smallest_p
from gdm_core.study.text import format_effect, format_p
from tests.support.small_studies import labelled, valued


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator with the same seed for each test."""
    return np.random.default_rng(3)


def row(study: Study, between="group", n_permutations=999, **asked) -> pd.Series:
    return study.compare("value", between, n_permutations=n_permutations, **asked).iloc[0]


def agrees(found: pd.Series, statistic: float, p: float, df: float, df_residual: float) -> None:
    assert found["statistic"] == pytest.approx(statistic)
    assert found["p_classical"] == pytest.approx(p)
    assert (found["df"], found["df_residual"]) == pytest.approx((df, df_residual))
    assert abs(found["p"] - p) < 0.05  # by permutation


@pytest.fixture
def groups(rng) -> dict[str, np.ndarray]:
    return {"control": rng.normal(0, 1, 9), "drug": rng.normal(1, 2, 12), "sham": rng.normal(0.3, 1, 7)}


def of_groups(groups, names) -> Study:
    return valued(
        value=np.concatenate([groups[name] for name in names]),
        group=np.repeat(names, [len(groups[name]) for name in names]),
    )


def test_two_groups_equal_welch_t(groups):
    found = row(of_groups(groups, ["drug", "control"]))
    expected = stats.ttest_ind(groups["drug"], groups["control"], equal_var=False)
    agrees(found, expected.statistic, expected.pvalue, 1, expected.df)
    low, high = expected.confidence_interval()
    assert (found["effect_low"], found["effect_high"]) == pytest.approx((low, high))
    assert found["effect"] == pytest.approx(groups["drug"].mean() - groups["control"].mean())
    assert found["effect_is"] == "drug minus control"  # controls come first
    assert (found["mean_control"], found["n"]) == (pytest.approx(groups["control"].mean()), 21)


def test_several_groups_equal_one_way_f(groups):
    found = row(of_groups(groups, list(groups)))
    expected = stats.f_oneway(*groups.values())
    agrees(found, expected.statistic, expected.pvalue, 2, 25)
    assert 0 <= found["effect_low"] <= found["effect"] <= found["effect_high"] < 1


def test_doses_are_tested_by_trend_unless_pooled(rng):
    dose = np.repeat([0.0, 1.0, 3.0], 7)
    value = 0.4 * dose + rng.normal(size=21)
    found = row(valued(value=value, dose=dose), "dose")
    line = stats.linregress(dose, value)
    agrees(found, line.slope / line.stderr, line.pvalue, 1, 19)
    half = stats.t.ppf(0.975, 19) * line.stderr
    assert (found["effect"], found["effect_low"]) == pytest.approx((line.slope, line.slope - half))
    expected = stats.f_oneway(*(value[dose == level] for level in (0, 1, 3)))
    agrees(row(valued(value=value, dose=dose), "dose", trend=False), expected.statistic, expected.pvalue, 2, 18)
    steps = pd.Categorical(np.repeat(["none", "low", "high"], 7), categories=["none", "low", "high"], ordered=True)
    ranks = stats.linregress(np.repeat([0, 1, 2], 7), value)
    agrees(row(valued(value=value, dose=steps), "dose"), ranks.slope / ranks.stderr, ranks.pvalue, 1, 19)


def test_unshared_doses_test_the_trend(rng):
    dose = np.arange(12) / 10
    value = dose + rng.normal(size=12)
    line = stats.linregress(dose, value)
    agrees(row(valued(value=value, dose=dose), "dose"), line.slope / line.stderr, line.pvalue, 1, 10)


def test_paired_sessions_equal_paired_t(rng):
    base = rng.normal(0, 3, 10)
    value = np.concatenate([base + rng.normal(0, 1, 10), base + 0.8 + rng.normal(0, 1, 10), [99.0]])
    study = valued(value=value, day=[*["1"] * 10, *["2"] * 10, "1"], animal=[*range(10), *range(10), 77])
    found = study.compare("value", "day", within="animal", n_permutations=999)
    expected = stats.ttest_rel(value[10:20], value[:10])
    agrees(found.iloc[0], expected.statistic, expected.pvalue, 1, 9)
    assert (found["n"][0], found["mean_1"][0]) == (10, pytest.approx(value[:10].mean()))
    low, high = expected.confidence_interval()
    assert (found["effect_low"][0], found["effect_high"][0]) == pytest.approx((low, high))
    assert any("1 animal is excluded" in note and "77" in note for note in found.attrs["notes"])
    assert "d_z = " in found.attrs["sentences"][0]
    assert "999 random permutations within animals." in write_methods(study, found)


def long_frame(n, days, effect, rng) -> pd.DataFrame:
    frame = pd.DataFrame(list(itertools.product(range(n), days)), columns=["animal", "day"])
    frame["group"] = np.where(frame["animal"] < n // 2, "a", "b")
    frame["value"] = (
        rng.normal(0, 2, n)[frame["animal"]] + effect * (frame["day"] == days[-1]) + rng.normal(0, 1, len(frame))
    )
    return frame


def test_three_sessions_equal_repeated_measures(rng):
    frame = long_frame(8, ["d1", "d2", "d3"], 0.7, rng)
    expected = AnovaRM(frame, "value", "animal", within=["day"]).fit().anova_table.iloc[0]
    found = row(valued(**frame), "day", within="animal")
    agrees(found, expected["F Value"], expected["Pr > F"], expected["Num DF"], expected["Den DF"])


def test_blocks_and_covariates_are_projected_out(rng):
    n = 24
    frame = pd.DataFrame(
        {"group": np.tile(["a", "b"], n // 2), "batch": np.repeat(["x", "y", "z"], n // 3), "age": rng.normal(size=n)}
    )
    frame["value"] = (
        5.0 * (frame["batch"] == "y") + 2 * frame["age"] + 0.7 * (frame["group"] == "b") + rng.normal(size=n)
    )
    study = valued(**frame)
    for formula, asked in (
        ("value ~ C(batch) + C(group)", {"blocks": "batch"}),
        ("value ~ age + C(group)", {"covariates": ["age"]}),
        ("value ~ C(batch) + age + C(group)", {"blocks": "batch", "covariates": ["age"]}),
        ("value ~ C(batch) + C(group)", {"covariates": ["batch"]}),
    ):
        fit = ols(formula, frame).fit()
        table = anova_lm(fit, typ=2).loc["C(group)"]
        found = row(study, **asked)
        agrees(found, np.sqrt(table["F"]) * np.sign(fit.params["C(group)[T.b]"]), table["PR(>F)"], 1, fit.df_resid)
        assert found["effect"] == pytest.approx(fit.params["C(group)[T.b]"])
        assert (found["effect_low"], found["effect_high"]) == pytest.approx(tuple(fit.conf_int().loc["C(group)[T.b]"]))


def test_two_factors_give_main_effects_and_interaction(rng):
    frame = (
        pd.DataFrame(list(itertools.product("ab", "uvw", range(5))), columns=["sex", "diet", "i"])
        .drop(columns="i")
        .iloc[:-2]
    )
    frame["value"] = rng.normal(size=len(frame)) + 1.0 * ((frame["sex"] == "b") & (frame["diet"] == "w"))
    expected = anova_lm(ols("value ~ C(sex) * C(diet)", frame).fit(), typ=2)
    found = valued(**frame).compare("value", ["sex", "diet"], n_permutations=999).set_index("term")
    additive = ols("value ~ C(sex) + C(diet)", frame).fit()
    crossed = found.loc["sex × diet"]
    agrees(crossed, expected.loc["C(sex):C(diet)", "F"], expected.loc["C(sex):C(diet)", "PR(>F)"], 2, 22)
    main = anova_lm(additive, typ=2).loc["C(diet)"]
    agrees(found.loc["diet"], main["F"], main["PR(>F)"], 2, additive.df_resid)
    assert "mean_b_w" in found


def test_groups_and_sessions_equal_a_split_plot(rng):
    frame = long_frame(12, ["d1", "d2"], 0.5, rng)
    found = valued(**frame).compare("value", ["group", "day"], within="animal", n_permutations=999).set_index("term")
    wide = frame.pivot_table(index=["animal", "group"], columns="day", values="value").reset_index()
    difference, mean = wide["d2"] - wide["d1"], (wide["d1"] + wide["d2"]) / 2
    b = wide["group"] == "b"
    by_group, crossed = stats.ttest_ind(mean[b], mean[~b]), stats.ttest_ind(difference[b], difference[~b])
    agrees(found.loc["group"], by_group.statistic, by_group.pvalue, 1, 10)
    agrees(found.loc["group × day"], crossed.statistic, crossed.pvalue, 1, 10)
    within_groups = np.sqrt((difference[b].var() + difference[~b].var()) / 2)
    t = difference.mean() / (within_groups / np.sqrt(12))
    agrees(found.loc["day"], t, 2 * stats.t.sf(abs(t), 10), 1, 10)


def test_p_equals_share_of_all_arrangements():
    a, b = np.array([1.0, 2.5, 2.0, 0.3]), np.array([3.0, 2.2, 4.0, 5.5, 1.9])
    together = np.concatenate([a, b])

    def t(second):
        rest = [i for i in range(9) if i not in second]
        return abs(stats.ttest_ind(together[list(second)], together[rest], equal_var=False).statistic)

    all_t = np.array([t(second) for second in itertools.combinations(range(9), 5)])
    exact = (all_t >= t(range(4, 9)) - 1e-9).mean()
    found = row(valued(value=together, group=["a"] * 4 + ["b"] * 5), n_permutations=20_000)
    assert abs(found["p"] - exact) < 4 * np.sqrt(exact / 20_000)
    signs = np.array(list(itertools.product([1, -1], repeat=4)))
    d = np.array([0.5, 1.0, 0.8, -0.1])
    exact = (np.abs(signs @ d) >= abs(d.sum()) - 1e-9).mean()
    paired = valued(value=np.concatenate([np.zeros(4), d]), group=["a"] * 4 + ["b"] * 4, animal=[*range(4), *range(4)])
    assert abs(row(paired, within="animal", n_permutations=20_000)["p"] - exact) < 4 * np.sqrt(exact / 20_000)


def test_recordings_of_an_animal_are_averaged(rng):
    frame = pd.DataFrame(
        {"value": rng.normal(size=24), "animal": np.repeat(range(12), 2), "group": np.repeat(["a", "b"], 12)}
    )
    found = valued(**frame).compare("value", "group", n_permutations=99)
    means = frame.groupby("animal")["value"].mean()
    assert found["p_classical"][0] == pytest.approx(stats.ttest_ind(means[6:], means[:6], equal_var=False).pvalue)
    assert found["n"][0] == 12
    assert any("12 animals have several recordings under one condition" in note for note in found.attrs["notes"])
    alone = valued(**frame).compare("value", "group", unit="recording", n_permutations=99)
    assert alone["n"][0] == 24
    assert any(note.startswith("Recordings of one animal may resemble") for note in alone.attrs["notes"])
    values = valued(**frame).per_unit("value", "group")
    assert values["value"].to_numpy() == pytest.approx(means.to_numpy())


@pytest.mark.parametrize(
    ("levels", "strata", "amounts", "least"),
    [
        ([0, 0, 0, 1, 1, 1], [0] * 6, None, 2 / 20),
        ([0, 0, 0, 1, 1, 1, 1], [0] * 7, None, 1 / 35),
        ([0, 1] * 5, np.repeat(range(5), 2), None, 2 / 32),
        ([0, 0, 1, 1, 2, 2], [0] * 6, None, 6 / 90),
        ([0, 1, 2, 3], [0] * 4, [0.0, 1.0, 3.0, 10.0], 1 / 24),
        ([0, 1, 2, 3], [0] * 4, [0.0, 1.0, 2.0, 3.0], 2 / 24),
    ],
)
def test_smallest_p_is_one_over_arrangements(levels, strata, amounts, least):
    given = None if amounts is None else np.array(amounts)
    assert smallest_p(np.array(levels), np.array(strata), given) == pytest.approx(least)


def test_limits_of_a_design_are_noted(rng):
    study = valued(value=rng.normal(size=6), group=["a"] * 3 + ["b"] * 3)
    notes = study.compare("value", "group", n_permutations=99).attrs["notes"]
    assert any("cannot reach p < 0.05: with 3, 3 animals" in note.replace("recordings", "animals") for note in notes)
    single = valued(value=rng.normal(size=7), group=["a"] * 3 + ["b"] * 3 + ["c"])
    assert any(
        "'c'" in note or "group c" in note
        for note in single.compare("value", "group", n_permutations=99).attrs["notes"]
    )


def test_two_factors_are_corrected_apart_and_need_all_cells(rng):
    study = labelled(groups=("a", "b"), n=8, sex=["f", "m"] * 8)
    table = study.compare("usage", ["group", "sex"], n_permutations=99)
    first = table[table["term"] == "group"]
    assert first["p_holm"].tolist() == pytest.approx(multipletests(first["p"], method="holm")[1])
    assert "corrected over 3 tests for each factor and their interaction" in write_methods(study, table)
    lacking = labelled(groups=("a", "b"), n=8, sex=["f", "m"] * 4 + ["f"] * 8)
    with pytest.raises(DataError, match="group × sex cannot be tested: combinations are missing"):
        lacking.compare("usage", ["group", "sex"], n_permutations=9)


def test_state_of_one_long_bout_in_each_animal_is_tested():
    states = {f"r{i}": np.repeat([0, 1, 0], [50 + i, 30, 40]) for i in range(8)}
    sheet = pd.DataFrame({"recording": list(states), "group": ["a", "b"] * 4})
    table = Study.from_states(states, sheet).compare("usage", "group", n_permutations=9)
    assert table["p"].notna().all(), "8 bouts, but a quarter of the time"


@pytest.mark.parametrize(
    ("asked", "error", "words"),
    [
        ({"between": "grup"}, ConfigError, r"'grup'.*did you mean 'group'"),
        ({"between": "group", "where": {"group": "bb"}}, ConfigError, "no row of the sheet has 'bb'.*It contains"),
        ({"between": "group", "where": {"group": "a"}}, DataError, "nothing to compare"),
        ({"between": "group", "within": "animal"}, DataError, "Nothing can be paired"),
        ({"between": "day"}, DataError, "8 animals are in more than one group.*within='animal'"),
        ({"between": "group", "within": "day"}, DataError, "within='day' is not a subject: 8 animals"),
        ({"between": "day", "within": "group"}, DataError, "within='group' gives ambiguous pairs.*blocks='group'"),
        ({"between": "group", "blocks": "day"}, DataError, "more than one block"),
        ({"between": "group", "blocks": "room"}, DataError, "confounded"),
        ({"between": "group", "covariates": ["room"]}, DataError, "room follows from group.*planned=.'room'"),
        ({"between": "group", "planned": ["room"]}, DataError, "confounded with blocks"),
        ({"between": "group", "covariates": ["group"]}, ConfigError, "different columns"),
        ({"between": "animal"}, DataError, "each group needs more than one"),
        ({"between": "lone"}, DataError, "Only one animal has lone 'y'"),
        ({"between": "group", "trend": True}, ConfigError, "one column of numbers"),
        ({"between": "group", "n_permutations": 0}, ConfigError, "at least 1"),
        ({"between": ["group", "day", "room"]}, ConfigError, "name one column, or two"),
        ({"between": "group", "unit": "litter"}, ConfigError, "unit is 'litter'"),
    ],
)
def test_invalid_questions_raise(asked, error, words):
    frame = pd.DataFrame(
        {"animal": [f"m{i}" for i in range(8)] * 2, "day": ["1"] * 8 + ["2"] * 8, "value": np.arange(16.0)}
    )
    frame["group"] = np.where(frame["animal"] < "m4", "a", "b")
    frame["room"] = frame["group"].map({"a": "left", "b": "right"})
    frame["lone"] = np.where(frame["animal"] == "m0", "y", "x")
    with pytest.raises(error, match=words):
        valued(**frame).compare("value", **{"n_permutations": 9, **asked})


def test_unused_state_leaves_the_corrected_family():
    study = labelled()
    states = {name: one.labels.copy() for name, one in study.recordings.items()}
    with_third = Study.from_states(states, study.sheet.frame, rate_hz=10, names=["x", "y", "z", "never"])
    table, plain = (one.compare("usage", "group", n_permutations=199) for one in (with_third, study))
    assert np.isnan(table["p"][3])
    assert table.attrs["sentences"][3] == "never: not tested."
    assert list(table.attrs["unused"]) == ["never"]
    assert any("Rare states are not tested" in note and "never: 0 bouts" in note for note in table.attrs["notes"])
    np.testing.assert_allclose(table["p_holm"][:3], plain["p_holm"])
    for name, method in (("p_holm", "holm"), ("p_bh", "fdr_bh")):
        np.testing.assert_allclose(plain[name], multipletests(plain["p"], method=method)[1])
    assert list(table["name"]) == ["x", "y", "z", "never"]
    for name in ("r9", "r10"):  # in two animals only
        states[name][10:40:5] = 3
    study = Study.from_states(states, study.sheet.frame, rate_hz=10)
    assert study.compare("usage", "group", n_permutations=9)["p"].isna().tolist() == [False, False, False, True]
    changes = study.compare("transitions", "group", n_permutations=9)
    assert changes["p"].isna().tolist() == ((changes["from_state"] == 3) | (changes["to_state"] == 3)).tolist()
    effect, low = (format_effect(table[name][0], True) for name in ("effect", "effect_low"))
    assert f"x: {effect} percentage points (b minus a; 95% CI {low} to" in table.attrs["sentences"][0]


def test_missing_value_excludes_animal_from_one_state():
    study = labelled(n=4)
    states = {name: one.labels.copy() for name, one in study.recordings.items()}
    states["r0"][states["r0"] == 2] = 1
    table = Study.from_states(states, study.sheet.frame, rate_hz=10).compare("mean_bout_s", "group", n_permutations=99)
    assert table["n"].tolist() == [8, 8, 7]
    for name in ("r0", "r1", "r2", "r3"):
        states[name][states[name] == 2] = 1
    table = Study.from_states(states, study.sheet.frame, rate_hz=10).compare("mean_bout_s", "group", n_permutations=99)
    assert np.isnan(table["p"][2])
    assert any("1 of 3 rows cannot be tested" in note for note in table.attrs["notes"])


def test_gaps_do_not_raise_rates_of_changes():
    rng = np.random.default_rng(5)
    whole = np.repeat(rng.integers(0, 3, 20_000), rng.integers(3, 9, 20_000))
    gappy = np.where(rng.random(len(whole)) < 0.3, -1, whole)
    study = Study.from_states({"a": whole, "b": gappy}, pd.DataFrame({"recording": ["a", "b"]}), rate_hz=10)
    rates = study.counts.change_rates
    np.testing.assert_allclose(rates[1], rates[0], rtol=0.05)
    a, b = study.counts.measure("changes_per_min")
    assert b == pytest.approx(a, rel=0.02)


def test_sentence_of_doses_has_the_corrected_trend():
    study = valued(value=[1.0, 1.2, 2.1, 2.0, 3.2, 2.9], dose=[0, 0, 1, 1, 2, 2])
    (sentence,) = study.compare("value", "dose", n_permutations=99).attrs["sentences"]
    assert "0.975 (change for each 1 of dose; 95% CI " in sentence
    usage = labelled(groups=(0, 1, 2)).compare("usage", "group", n_permutations=9)
    low, points = (format_effect(usage[name][0], True) for name in ("effect_low", "effect"))
    assert f"{points} percentage points (change for each 1 of group; 95% CI {low} to " in usage.attrs["sentences"][0]
    assert format_p(usage["p_holm"][0]) in usage.attrs["sentences"][0]


def test_nearly_equal_rates_are_one_rate():
    states = {"a": [0, 1, 0, 1], "b": [1, 1, 0, 0]}
    sheet = pd.DataFrame({"recording": ["a", "b"], "group": ["x", "y"]})
    study = Study.from_states(states, sheet, {"a": 25.0, "b": 25.0003})
    assert not any("rates" in note for note in study.notes)
    assert " 25 Hz)" in write_methods(study)


def test_rare_state_does_not_affect_others():
    """A state of two animals in one session each cannot be paired; the others can."""
    study = labelled(n=5, animal=[*range(5), *range(5)])
    states = {name: np.where(one.labels == 2, 1, one.labels) for name, one in study.recordings.items()}
    states["r0"][:5] = 2
    states["r1"][:5] = 2
    table = Study.from_states(states, study.sheet.frame, rate_hz=10, names=["a", "b", "c", "nobody's"]).compare(
        "mean_bout_s", "group", within="animal", n_permutations=99
    )
    assert table["p"].isna().tolist() == [False, False, True, True]
    assert table["n"].tolist() == [5, 5, 2, 0]


def test_dates_as_numbers_keep_their_digits():
    days = [20251003] * 4 + [20251024] * 4
    table = valued(day=days, value=np.arange(8.0)).compare("value", "day", n_permutations=99)
    assert table[["mean_20251003", "mean_20251024"]].iloc[0].tolist() == [1.5, 5.5]
