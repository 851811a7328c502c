"""The flow test and power of a study, against enumeration and tables."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from gdm_core import Study
from gdm_core.errors import ConfigError, DataError
from gdm_core.study.methods import write_methods
from tests.support import known_studies
from tests.support.small_studies import labelled, valued


@pytest.fixture
def rng() -> np.random.Generator:
    """Return a generator with the same seed for each test."""
    return np.random.default_rng(3)


def test_flow_equals_permuted_matrix_distance():
    study = labelled(n=4)
    found = study.flow("group", n_permutations=20_000, counts=True)
    counts = study.counts.changes
    assert found.unit == "changes per recording"
    means = counts[:4].mean(axis=0), counts[4:].mean(axis=0)
    assert found.distance == pytest.approx(np.abs(means[1] - means[0]).sum())
    np.testing.assert_allclose(found.difference, means[1] - means[0])

    def statistics(second):
        """Return distance, its variance and degrees of freedom of Welch's test."""
        parts = counts[list(second)], counts[[i for i in range(8) if i not in second]]
        each = np.array([part.var(axis=0, ddof=1).sum() / 4 for part in parts])
        return (
            np.abs(parts[0].mean(axis=0) - parts[1].mean(axis=0)).sum(),
            each.sum(),
            each.sum() ** 2 / (each**2 / 3).sum(),
        )

    far, variance, df = np.array([statistics(second) for second in itertools.combinations(range(8), 4)]).T
    t = far / np.sqrt(variance) / np.sqrt((far**2 / variance).mean())
    null = np.sqrt(df * np.log1p(t**2 / df)) * (8 * df + 1) / (8 * df + 3)
    exact = (null >= null[-1] - 1e-3).mean()  # the last combination is the second group
    assert abs(found.p - exact) < 4 * np.sqrt(exact / 20_000)
    assert found.z == pytest.approx((null[-1] - null.mean()) / null.std(), abs=0.1)
    assert (found.n, found.sizes) == (8, {"a": 4, "b": 4})
    rates = study.flow("group", n_permutations=20_000)  # of one length: the same test in another unit
    assert rates.unit == "changes per minute of valid time"
    assert rates.distance == pytest.approx(found.distance / (399 / 10 / 60))
    assert (rates.p, rates.z) == (found.p, pytest.approx(found.z))


def test_flow_of_unequal_lengths_compares_rates():
    labels = np.tile([0, 0, 0, 1, 1], 80)
    sheet = pd.DataFrame({"recording": [f"r{i}" for i in range(8)], "group": ["a"] * 4 + ["b"] * 4})
    study = Study.from_states({f"r{i}": labels[: 200 + 200 * (i < 4)] for i in range(8)}, sheet, rate_hz=10)
    assert study.flow("group", n_permutations=99).distance < 0.01 * study.counts.change_rates[0].sum()
    with pytest.raises(DataError, match=r"0\.33 to 0\.67 minutes of valid time. Omit counts"):
        study.flow("group", n_permutations=99, counts=True)


def test_paired_flow_permutes_within_animals():
    study = labelled(n=4, animal=[*range(4), *range(4)])
    found = study.flow("group", within="animal", n_permutations=4_000, counts=True)
    difference = study.counts.changes[4:] - study.counts.changes[:4]
    null = [np.abs(np.tensordot(s, difference, 1) / 4).sum() for s in itertools.product([1, -1], repeat=4)]
    exact = (np.array(null) >= found.distance - 1e-9).mean()
    assert abs(found.p - exact) < 4 * np.sqrt(exact / 4_000)
    assert found.n == 4
    with pytest.raises(DataError, match="more than one group"):
        study.flow("group")


def test_paired_flow_names_animals_without_every_session():
    study = labelled(groups=("a", "b", "c"), n=4, animal=[*range(4)] * 2 + [0, 1, 2, 9])
    found = study.flow("group", within="animal", n_permutations=99)
    assert found.n == 3
    assert any(
        note.startswith("1 animal is left out of the flow test") and note.endswith(": 3.") for note in found.notes
    )
    methods = write_methods(study, found)
    assert "within animals" in methods
    assert "Welch" not in methods


def test_power_of_normal_values_equals_t_test(rng):
    from statsmodels.stats.power import TTestIndPower, TTestPower

    values = stats.norm.ppf((np.arange(60) + 0.5) / 60)
    study = valued(value=np.tile(rng.permutation(values), 2), group=np.repeat(["a", "b"], 60))
    found = study.power("value", "group", effect=0.8)
    for n in (10, 24, 40):
        assert found.curve[n] == pytest.approx(TTestIndPower().power(0.8, n, 0.05))
    assert found.needed == 26
    assert float(found) == found.power > 0.97
    base = rng.normal(size=60)
    paired = valued(
        value=np.concatenate([base, base + rng.permutation(values)]),
        group=np.repeat(["a", "b"], 60),
        animal=[*range(60)] * 2,
    )
    promised = paired.power("value", "group", within="animal", effect=0.8)
    assert promised.curve[12] == pytest.approx(TTestPower().power(0.8, 12, 0.05))
    few = valued(value=[1.0, 2, 4, 3, 5, 7], group=["a", "a", "a", "b", "b", "b"])
    assert few.power("value", "group", effect=9.0).power == 0.0, "no permutation of three and three reaches p < .05"
    doses = valued(value=np.tile(values, 3), dose=np.repeat([0.0, 1.0, 4.0], 60)).power("value", "dose", effect=1.0)
    shares = np.array([0, 0.25, 1])
    far = 10 * ((shares - shares.mean()) ** 2).sum()
    assert doses.curve[10] == pytest.approx(stats.ncf.sf(stats.f.isf(0.05, 1, 28), 1, 28, far)), "of the trend"
    of_states = labelled(n=20).power("usage", "group", state=1, effect=1.0)
    assert of_states.n_tests == 3
    assert of_states.curve[20] == pytest.approx(TTestIndPower().power(1.0, 20, 0.05 / 3)), (
        "after correction over states"
    )
    with pytest.raises(ConfigError, match="state is 7; choose one of 0, 1, 2"):
        labelled().power("usage", "group", state=7)


def test_power_is_net_of_blocks_and_covariates(rng):
    values = rng.permutation(stats.norm.ppf((np.arange(60) + 0.5) / 60))
    batch, age = np.tile(np.repeat(["x", "y", "z"], 20), 2), np.tile(np.linspace(50, 90, 60)[::-1], 2)
    group = np.repeat(["a", "b"], 60)
    plain = valued(value=np.tile(values, 2), group=group).power("value", "group", effect=0.8)
    far = {"x": 0.0, "y": 9.0, "z": -4.0}
    study = valued(value=np.tile(values, 2) + [far[b] for b in batch] + 0.3 * age, group=group, batch=batch, age=age)
    found = study.power("value", "group", effect=0.8, blocks="batch", covariates=["age"])
    assert found.effect == 0.8
    assert found.raw == pytest.approx(plain.raw, rel=0.05), "batches and age cost no power"
    assert all(abs(found.curve[n] - plain.curve[n]) < 0.03 for n in (10, 24))
    assert study.power("value", "group", effect=0.8).raw > 5 * found.raw, "not taken away they are spread, too"
    assert "net of blocks and covariates" in " ".join(found.notes)
    few = valued(value=[1.0, 2, 3, 4], group=["a", "a", "b", "b"], age=[1, 2, 4, 3])
    with pytest.raises(DataError, match="too few degrees of freedom"):
        few.power("value", "group", covariates=["age"])
    with pytest.raises(ConfigError, match="blocks is 'cage', which is not a column"):
        study.power("value", "group", blocks="cage")


def test_flow_adjusts_for_a_covariate():
    """Age changes how often states change and differs between groups, which do not differ otherwise."""
    rng = np.random.default_rng(0)
    age = np.concatenate([rng.uniform(0, 1, 14), rng.uniform(0.5, 1.5, 14)])
    states = {f"r{i}": np.cumsum(rng.random(4_000) < 0.05 * (1 + old)) % 3 for i, old in enumerate(age)}
    sheet = pd.DataFrame({"recording": list(states), "group": ["a"] * 14 + ["b"] * 14, "age": age})
    study = Study.from_states(states, sheet, rate_hz=10)
    plain = study.flow("group", n_permutations=999)
    adjusted = study.flow("group", covariates=["age"], n_permutations=999)
    assert plain.p < 0.01
    assert adjusted.p > 0.05
    each = study.compare("changes_per_min", "group", covariates=["age"], n_permutations=99)
    total = {name: matrix.sum() for name, matrix in adjusted.means.items()}
    assert total["b"] - total["a"] == pytest.approx(each["effect"][0])
    with pytest.raises(DataError, match="age follows from group"):
        Study.from_states(states, sheet.assign(age=sheet["group"]), rate_hz=10).flow("group", covariates=["age"])


def test_flow_of_unequal_spread_and_size_has_a_caution():
    found = known_studies.spread_null(0, (4, 16), (1.5, 0.05)).flow("group", n_permutations=9)
    assert found.caution in found.notes
    assert "p of the flow test is approximate" in found.caution
    assert not known_studies.spread_null(0, (8, 8), (1.5, 0.05)).flow("group", n_permutations=9).caution


@pytest.mark.bulk
@pytest.mark.parametrize(("n", "spread"), [((4, 16), (0.4, 0.1)), ((16, 4), (0.4, 0.1)), ((10, 10), (0.2, 0.2))])
def test_flow_allows_unequal_spread(n, spread):
    """Unequal spread between animals in unequal groups gives p < .05 in 2.5 to 7.5% of 400 null studies."""
    alarms = sum(
        known_studies.spread_null(seed, n, spread).flow("group", n_permutations=199).p < 0.05 for seed in range(400)
    )
    assert 10 <= alarms <= 30
