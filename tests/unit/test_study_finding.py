"""What follows a comparison: pairs, equivalence, effect sizes, assumptions and layouts."""

import itertools
from functools import partial

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats
from statsmodels.formula.api import mixedlm
from statsmodels.stats.multitest import multipletests
from statsmodels.stats.weightstats import ttost_ind, ttost_paired

from gdm_core.errors import ConfigError
from gdm_core.study.finding import assess_equivalence, compare_pairs, compare_recordings, order_findings
from gdm_core.study.methods import write_methods
from gdm_core.study.tables import to_prism, to_wide
from gdm_core.study.text import format_p
from tests.support.small_studies import labelled, valued


def study_of_groups(seed: int = 0, effect: float = 3.0):
    rng = np.random.default_rng(seed)
    value = rng.normal(size=30) + effect * np.repeat([0, 0, 1], 10)
    return value, valued(value=value, group=np.repeat(["a", "b", "c"], 10))


def test_pairs_equal_welch_tests_corrected_by_holm():
    value, study = study_of_groups()
    pairs = compare_pairs(study, study.compare("value", "group", n_permutations=999))
    assert list(zip(pairs["first"], pairs["second"], strict=True)) == [("a", "b"), ("a", "c"), ("b", "c")]
    parts = dict(zip("abc", np.split(value, 3), strict=True))
    expected = [
        stats.ttest_ind(parts[b], parts[a], equal_var=False).pvalue for a, b in itertools.combinations("abc", 2)
    ]
    assert pairs["p_classical"].tolist() == pytest.approx(expected)
    assert pairs["p_holm"].tolist() == pytest.approx(multipletests(pairs["p"], method="holm")[1])
    assert pairs["effect"][1] == pytest.approx(parts["c"].mean() - parts["a"].mean())
    assert pairs["sentence"][1].endswith(", adjusted p = .003.")


def test_doses_are_compared_with_the_control_by_dunnett():
    value, _ = study_of_groups()
    table = valued(value=value, dose=np.repeat([0.0, 1.0, 2.0], 10)).compare("value", "dose", n_permutations=99)
    study = valued(value=value, dose=np.repeat([0.0, 1.0, 2.0], 10))
    pairs = compare_pairs(study, table)
    expected = stats.dunnett(value[10:20], value[20:], control=value[:10], rng=np.random.default_rng(1))
    assert pairs["p"].tolist() == pytest.approx(expected.pvalue.tolist(), abs=1e-3)
    assert pairs["effect_low"].tolist() == pytest.approx(expected.confidence_interval().low.tolist(), abs=0.01)
    assert pairs["effect_is"].tolist() == ["dose 1 minus 0", "dose 2 minus 0"]
    assert "Each of 2 levels was compared with dose 0 by Dunnett's test" in write_methods(study, table)


def nested(rng, n_animals: int, effect: float) -> dict:
    """Return columns of animals with one to five recordings and animal effects."""
    animal = np.repeat(np.arange(2 * n_animals), rng.integers(1, 6, 2 * n_animals))
    group = animal % 2
    value = rng.normal(size=2 * n_animals)[animal] + rng.normal(size=len(animal)) + effect * group
    return {"value": value, "animal": animal, "group": np.array(["a", "b"])[group]}


def test_mixed_model_equals_statsmodels():
    frame = pd.DataFrame(nested(np.random.default_rng(1), 10, 1.0))
    study = valued(**frame)
    found = compare_recordings(study, study.compare("value", "group", n_permutations=9)).iloc[0]
    expected = mixedlm("value ~ group", frame, groups=frame["animal"]).fit(reml=True)
    assert found["effect"] == pytest.approx(expected.params["group[T.b]"], rel=1e-3)
    t = expected.params["group[T.b]"] / expected.bse["group[T.b]"]
    assert found["p"] == pytest.approx(2 * stats.t.sf(abs(t), 18), rel=0.01)
    three = valued(value=np.arange(12.0), group=["a", "b", "c"] * 4)
    with pytest.raises(ConfigError, match="two groups or a trend"):
        compare_recordings(three, three.compare("value", "group", n_permutations=9))


def in_litters(seed: int, is_within: bool, effect: float = 0.0) -> dict:
    """Return columns of 14 litters of two to five animals with one to three recordings; groups of litters or within them."""
    rng = np.random.default_rng(seed)
    litter = np.repeat(np.arange(14), rng.integers(2, 6, 14))
    group = rng.permutation(len(litter)) % 2 if is_within else litter % 2
    animal = np.repeat(np.arange(len(litter)), rng.integers(1, 4, len(litter)))
    value = rng.normal(size=14)[litter][animal] + 0.7 * rng.normal(size=len(litter))[animal]
    value += rng.normal(size=len(animal)) + effect * group[animal]
    names = np.array(["a", "b"])[group[animal]]
    return {"value": value, "animal": animal.astype(str), "litter": litter[animal].astype(str), "group": names}


@pytest.mark.parametrize("is_within", [False, True])
def test_mixed_model_of_litters_equals_statsmodels(is_within):
    frame = pd.DataFrame(in_litters(1, is_within, 1.0))
    study = valued(**frame)
    table = study.compare(
        "value", "group", n_permutations=9, **({"blocks": "litter"} if is_within else {"unit": "litter"})
    )
    found = compare_recordings(study, table).iloc[0]
    components = {"animal": "0 + C(animal)"}
    model = mixedlm("value ~ group", frame, groups=frame["litter"], re_formula="1", vc_formula=components)
    expected = model.fit(reml=True)
    assert found["effect"] == pytest.approx(expected.params["group[T.b]"], rel=1e-2)
    error = (found["effect_high"] - found["effect_low"]) / 2
    n = frame["animal"].nunique() - 13 if is_within else 14
    assert error == pytest.approx(stats.t.ppf(0.975, n - 2) * expected.bse["group[T.b]"], rel=0.02)


def test_litters_are_averaged_over_their_animals():
    frame = pd.DataFrame(in_litters(1, is_within=False))
    study = valued(**frame)
    means = frame.groupby(["litter", "animal"])["value"].mean().groupby("litter").mean()
    values = study.per_unit("value", "group", unit="litter").set_index("litter")["value"]
    assert values.to_dict() == pytest.approx(means.to_dict()), "an animal with more recordings does not weigh more"
    notes = study.compare("value", "group", n_permutations=9).attrs["notes"]
    assert any("Animals of one litter may resemble each other" in note for note in notes)
    assert not any("resemble" in note for note in study.compare("value", "group", unit="litter").attrs["notes"])


def alarms_in_litters(seed: int, is_within: bool) -> list[bool]:
    """Return whether permutation and mixed model find a difference in a null study with litters."""
    study = valued(**in_litters(seed, is_within))
    asked = {"blocks": "litter"} if is_within else {"unit": "litter"}
    table = study.compare("value", "group", n_permutations=199, **asked)
    return [table["p"][0] < 0.05, compare_recordings(study, table)["p"][0] < 0.05]


def alarm_of_mixed_model(seed: int) -> bool:
    study = valued(**nested(np.random.default_rng(seed), 12, 0.0))
    return compare_recordings(study, study.compare("value", "group", n_permutations=9))["p"][0] < 0.05


def alarm_of_contrasts(seed: int) -> bool:
    """Return whether any of three doses differs from the control."""
    study = valued(value=np.random.default_rng(seed).normal(size=27), dose=np.repeat([0, 1, 3, 10], [6, 7, 6, 8]))
    return compare_pairs(study, study.compare("value", "dose", n_permutations=9))["p_holm"].min() < 0.05


def alarm_of_pairs(seed: int) -> bool:
    _, study = study_of_groups(seed, effect=0.0)
    pairs = compare_pairs(study, study.compare("value", "group", n_permutations=199))
    return bool((pairs["p_holm"] < 0.05).any())


def claim_of_equivalence(seed: int) -> bool:
    """Return whether a difference as large as the margin counts as equivalent."""
    rng = np.random.default_rng(seed)
    value = np.concatenate([rng.normal(0, 1, 20), rng.normal(1, 1, 20)])
    table = valued(value=value, group=["a"] * 20 + ["b"] * 20).compare("value", "group", n_permutations=1)
    return bool(assess_equivalence(table, 1.0)["p_equivalence"][0] < 0.05)


@pytest.mark.bulk
@pytest.mark.parametrize(
    ("is_alarm", "least", "most"),
    [
        (partial(alarms_in_litters, is_within=False), 10, 30),
        (partial(alarms_in_litters, is_within=True), 10, 30),
        (alarm_of_mixed_model, 10, 30),
        (alarm_of_contrasts, 10, 30),
        (alarm_of_pairs, 0, 32),  # after a significant test only
        (claim_of_equivalence, 0, 32),
    ],
)
def test_false_alarms_are_nominal(is_alarm, least, most):
    """Of 400 null studies, 2.5 to 7.5% have p < .05."""
    alarms = np.sum([is_alarm(seed) for seed in range(400)], axis=0)
    assert np.all((alarms >= least) & (alarms <= most)), alarms


@pytest.mark.bulk
def test_mixed_model_has_the_power_of_averaging():
    wins = np.zeros(2)
    for seed in range(200):
        study = valued(**nested(np.random.default_rng(seed), 12, 1.2))
        table = study.compare("value", "group", n_permutations=199)
        wins += [compare_recordings(study, table)["p"][0] < 0.05, table["p_classical"][0] < 0.05]
    assert wins[0] >= wins[1] - 6, wins


def test_contrasts_of_doses_are_corrected_over_states():
    study = labelled(groups=(0, 1, 2), n=8)
    pairs = compare_pairs(study, study.compare("usage", "group", n_permutations=9))
    assert len(pairs) == 6
    for _, of_dose in pairs.groupby("second"):
        assert of_dose["p_holm"].tolist() == pytest.approx(multipletests(of_dose["p"], method="holm")[1])


def test_pairs_follow_only_a_significant_test():
    _, study = study_of_groups(effect=0.0)
    assert compare_pairs(study, study.compare("value", "group", n_permutations=199)).empty
    with pytest.raises(ConfigError, match="three or more groups"):
        compare_pairs(study, study.compare("value", "group", where={"group": ["a", "b"]}, n_permutations=9))


def test_findings_are_ordered_by_effect_size():
    table = pd.DataFrame({"p_holm": [0.01, 0.2, 0.001, 0.03], "d": [0.5, 9.0, -2.0, 1.0], "effect": [1.0, 1, 1, 1]})
    assert order_findings(table) == [2, 3, 0]
    assert order_findings(table.assign(d=np.nan, effect=[0.3, 0.2, 0.1, 0.6])) == [3, 0, 2]


def test_interval_of_d_inverts_the_noncentral_t():
    rng = np.random.default_rng(0)
    value, group = np.concatenate([rng.normal(0, 1, 9), rng.normal(1, 1, 12)]), ["a"] * 9 + ["b"] * 12
    found = valued(value=value, group=group).compare("value", "group", n_permutations=9).iloc[0]
    t, scale = stats.ttest_ind(value[9:], value[:9]).statistic, np.sqrt(1 / 9 + 1 / 12)
    assert found["d"] == pytest.approx(t * scale)
    for name, tail in (("d_low", 0.975), ("d_high", 0.025)):
        limit = optimize.brentq(lambda far, tail=tail: stats.nct.cdf(t, 19, far) - tail, -20, 20)
        assert found[name] == pytest.approx(limit * scale, rel=1e-4)
    welch = stats.ttest_ind(value[9:], value[:9], equal_var=False)
    assert found["se"] == pytest.approx(found["effect"] / welch.statistic)
    paired = valued(value=value[:18], day=["1"] * 9 + ["2"] * 9, animal=[*range(9)] * 2)
    found = paired.compare("value", "day", within="animal", n_permutations=9).iloc[0]
    difference = value[9:18] - value[:9]
    assert found["d"] == pytest.approx(difference.mean() / difference.std(ddof=1))
    t = stats.ttest_1samp(difference, 0).statistic
    limit = optimize.brentq(lambda far: stats.nct.cdf(t, 8, far) - 0.975, -20, 20)
    assert found["d_low"] == pytest.approx(limit / 3, rel=1e-4)


@pytest.mark.bulk
def test_interval_of_d_covers_the_true_effect():
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(400):
        value = np.concatenate([rng.normal(0, 1, 8), rng.normal(1, 1, 8)])
        found = valued(value=value, group=["a"] * 8 + ["b"] * 8).compare("value", "group", n_permutations=1).iloc[0]
        covered += found["d_low"] <= 1 <= found["d_high"]
    assert 0.92 < covered / 400 < 0.98


@pytest.mark.parametrize("paired", [False, True])
def test_equivalence_equals_two_one_sided_tests(paired):
    rng = np.random.default_rng(2)
    value, half = rng.normal(size=80), 40
    asked = {"within": "animal"} if paired else {}
    study = valued(value=value, group=["a"] * half + ["b"] * half, animal=[*range(half)] * 2 if paired else range(80))
    table = study.compare("value", "group", n_permutations=99, **asked)
    found = assess_equivalence(table, 0.8)
    margin = found["margin"][0]
    if paired:
        expected = ttost_paired(value[half:], value[:half], -margin, margin)[0]
        assert margin == pytest.approx(0.8 * (value[half:] - value[:half]).std(ddof=1))
    else:
        expected = ttost_ind(value[half:], value[:half], -margin, margin, usevar="unequal")[0]
    assert found["p_equivalence"][0] == pytest.approx(expected, rel=1e-6)
    assert found["conclusion"][0] == "equivalent"
    assert assess_equivalence(table, 0.05)["conclusion"][0] == "inconclusive"


def test_equivalence_needs_two_groups():
    _, study = study_of_groups()
    with pytest.raises(ConfigError, match="between two groups"):
        assess_equivalence(study.compare("value", "group", n_permutations=9))


def test_values_are_laid_out_for_r_and_prism():
    study = labelled(n=2).with_names(["rest", "dig", "run"])
    values = study.per_unit("usage", "group")
    wide = to_wide(values)
    assert list(wide.columns) == ["animal", "group", "usage rest", "usage dig", "usage run"]
    assert wide.loc[3, "usage run"] == values["usage"].iloc[-1]
    prism = to_prism(values)
    assert list(prism.columns) == ["state", "a 1", "a 2", "b 1", "b 2"]
    assert prism.loc[1, "b 2"] == values.query("animal == 'r3' and name == 'dig'")["usage"].item()
    changes = to_prism(study.per_unit("transitions", "group"))
    assert changes["state"].tolist()[:2] == ["rest to dig", "rest to run"]


def test_paired_sessions_share_a_row_number_in_prism():
    study = labelled(n=2, animal=["x", "y", "y", "x"])
    prism = to_prism(study.per_unit("usage", "group", within="animal"))
    values = (
        study.per_unit("usage", "group", within="animal").query("state == 0").set_index(["animal", "group"])["usage"]
    )
    assert prism.loc[0, ["a 1", "b 1"]].tolist() == [values["x", "a"], values["x", "b"]]


@pytest.mark.parametrize(
    ("p", "words"),
    [(0.0002, "p < .001"), (0.0124, "p = .012"), (0.6, "p = .600"), (1.0, "p > .999"), (np.nan, "not tested")],
)
def test_p_is_in_apa_form(p, words):
    assert format_p(p) == words
