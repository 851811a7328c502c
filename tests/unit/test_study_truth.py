"""Studies with known truth, and reproductions of published ones."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from datasets import cohort, cohort_files
from gdm_core import GDM, Study
from gdm_core.errors import ConfigError, DataError
from tests.support import known_studies
from tests.support.real import recorded


@pytest.fixture(scope="module")
def mice() -> Study:
    """Return 306 recordings with the smoothed states of von Ziegler et al. (2024)."""
    folder = recorded("cohort/behaviorflow")
    states, _ = cohort_files.read_states([folder / "labels_smoothed.npz"], 25)
    return Study.from_states(states, cohort_files.read_sheet(folder / "conditions.csv"), rate_hz=25)


def test_published_flow_is_reproduced(mice):
    stress = mice.flow("Condition", where={"Session": "PostCSI"}, n_permutations=2_000, counts=True)
    assert stress.sizes == {"Control": 29, "CSI": 30}
    assert stress.distance == pytest.approx(143, abs=1.5)
    assert 5.9 < stress.z < 6.7
    rates = mice.flow("Condition", where={"Session": "PostCSI"}, n_permutations=2_000)
    assert 5.9 < rates.z < 6.7
    for counts in (True, False):
        asked = {"n_permutations": 2_000, "counts": counts}
        soon, later = (mice.flow("Treatment", where={"TimePoint": at}, **asked).p for at in ("45min", "24h"))
        assert soon < 0.02
        assert later > 0.1
        assert mice.flow("Condition", where={"Session": "PreYoh"}, **asked).p < 0.02


def test_published_sessions_must_be_paired(mice):
    asked = {"between": "TimePoint", "where": {"Experiment": "FST"}, "n_permutations": 99}
    table = mice.compare("usage", within="animal", **asked)
    assert table["n"][0] == 30
    wide = (
        mice.measures()
        .query("Experiment == 'FST' and state == 1")
        .pivot_table(index="Animal", columns="TimePoint", values="usage")
    )
    assert table["p_classical"][0] == pytest.approx(stats.ttest_rel(wide["45min"], wide["24h"]).pvalue)
    with pytest.raises(DataError, match="30 animals are in more than one group"):
        mice.compare("usage", **asked)
    with pytest.raises(DataError, match=r"ambiguous pairs|not a subject"):
        mice.compare("usage", within="Session", **asked | {"between": "Treatment"})


@pytest.fixture(scope="module")
def nort() -> tuple[dict, pd.DataFrame]:
    folder = recorded("cohort/nort")
    sheet = cohort_files.read_sheet(folder / "conditions.csv")
    recordings = cohort_files.read_recordings([folder / name for name in sheet["file"]], rate_hz=30.3)
    return recordings, sheet.astype({"session": str})


@pytest.mark.bulk
def test_sessions_in_random_order_do_not_differ(nort):
    recordings, sheet = nort
    study = Study.fit(recordings, sheet, GDM(n_states=6, n_latent=3, n_steps=150))
    assert sorted(study.sheet.set_aside) == ["nort_20251003_trial33.npz", "nort_20251024_trial33.npz"]
    path = study.compare("distance_cm_per_min", "session", within="animal", n_permutations=1_999)
    assert path["p"][0] > 0.3
    rng, found, frame = np.random.default_rng(0), [], study.sheet.frame
    first, second = sorted(frame["session"].unique())
    for _ in range(20):
        swapped = [animal for animal in frame["animal"].unique() if rng.random() < 0.5]
        exchanged = frame["session"].map({first: second, second: first})
        session = exchanged.where(frame["animal"].isin(swapped), frame["session"])
        other = replace(study, sheet=replace(study.sheet, frame=frame.assign(session=session)))
        asked = {"within": "animal", "n_permutations": 199}
        found.append([other.flow("session", **asked).p])
        found[-1] += [other.compare(m, "session", **asked)["p_holm"].min() for m in ("usage", "bouts_per_min")]
    assert (np.array(found) <= 0.05).sum(axis=0).max() <= stats.binom.ppf(0.999, 20, 0.05)


def test_travelled_distance_is_alike_on_two_dates():
    sheet = cohort_files.read_sheet(recorded("cohort/nort") / "conditions.csv")
    sheet = sheet.assign(exclude=np.where(sheet["animal"] == "empty", "yes", ""), session=sheet["session"].astype(str))
    study = Study.from_states({name: np.zeros(2, int) for name in sheet["file"]}, sheet)
    table = study.compare("distance_cm_per_min", "session", within="animal", n_permutations=4_999)
    assert table["n"][0] == 16
    assert 0.6 < table["p"][0] < 0.8


# ---- simulated cohorts ----------------------------------------------------------------------------------------------
def test_cohort_matches_its_arguments():
    change = cohort.Change("groom", times=1.5)
    one = cohort.simulate((5, 7), minutes=2, n_sessions=2, change=change, differ=0.0, seed=4)
    frame = pd.DataFrame(one.sheet)
    assert frame.groupby("group")["animal"].nunique().to_dict() == {"control": 5, "treated": 7}
    assert frame["recording"].is_unique
    assert len(frame) == 24
    lengths = [len(states) for states in one.states.values()]
    assert 0.9 * 3000 <= min(lengths) < max(lengths) <= 1.1 * 3000
    study = known_studies.study_of(one)
    means = study.measures().groupby(["group", "name"])["mean_bout_s"].mean()
    assert means["treated", "groom"] / means["control", "groom"] == pytest.approx(1.5, rel=0.15)
    assert means["treated", "rest"] / means["control", "rest"] == pytest.approx(1, rel=0.15)
    more = known_studies.study_of(
        cohort.simulate(8, minutes=5, change=cohort.Change("walk", "groom", 2.0), differ=0.0, seed=4)
    )
    shares = more.transitions().query("from_state == 1 and to_state == 4").groupby("group")["transition_shares"].mean()
    assert shares["control"] == pytest.approx(0.2, abs=0.05)
    assert shares["treated"] == pytest.approx(0.4, abs=0.05)
    trial = one.recordings()["animal01_session1"]
    assert (trial.n_channels, trial.rate_hz) == (6, 25)
    np.testing.assert_array_equal(trial.labels, one.states["animal01_session1"])
    again = cohort.simulate((5, 7), minutes=2, n_sessions=2, change=change, differ=0.0, seed=4)
    np.testing.assert_array_equal(again.states["animal03_session2"], one.states["animal03_session2"])
    for wrong in ({"behaviour": "fly"}, {"behaviour": "walk", "to": "walk"}, {"behaviour": "walk", "times": 0}):
        with pytest.raises(ConfigError):
            cohort.Change(**wrong)
    with pytest.raises(ConfigError, match="n_animals"):
        cohort.simulate((3, 0))


@pytest.mark.parametrize(
    "design",
    [name if i == 0 else pytest.param(name, marks=pytest.mark.bulk) for i, name in enumerate(known_studies.DESIGNS)],
)
def test_null_study_measures_every_test(design):
    alarms = known_studies.null(design, seed=1, n_permutations=19)
    assert {"one state", "classical", "family, Holm", "flow"} <= set(alarms)


@pytest.mark.bulk
@pytest.mark.parametrize("design", list(known_studies.DESIGNS))
def test_false_alarms_are_nominal(design):
    """Between 2.5 and 8% of 400 null studies have p < .05."""
    alarms = pd.DataFrame([known_studies.null(design, seed, n_permutations=199) for seed in range(400)]).mean()
    assert alarms.between(0.025, 0.08).all(), alarms


@pytest.mark.bulk
def test_false_alarms_are_nominal_with_a_covariate():
    """Age differs between groups and changes all states, which do not differ otherwise."""
    alarms = pd.DataFrame([known_studies.null_with_age(seed, n_permutations=199) for seed in range(400)]).mean()
    assert alarms[["adjusted flow", "adjusted state"]].between(0.025, 0.08).all(), alarms
    assert alarms["flow"] > 0.2, "without the covariate the groups differ"


@pytest.mark.bulk
def test_unequal_lengths_raise_no_false_alarms():
    """Two equal groups with 3,000 and 2,000 frames give p < .05 in 2.5 to 8% of 400 studies."""
    alarms = sum(known_studies.unequal_null(seed).flow("group", n_permutations=199).p < 0.05 for seed in range(400))
    assert 10 <= alarms <= 32


@pytest.mark.bulk
def test_estimated_power_is_reached():
    found = known_studies.promised("two groups", 1.0, 120)
    assert abs(found["promised"] - found["found"]) < 0.05 + 3 * np.sqrt(0.25 / 120)


@pytest.mark.bulk
@pytest.mark.parametrize("change", ["groom 30 % longer", "walk to groom doubled"])
def test_change_is_found_from_channels(change):
    assert known_studies.found_from_channels(change, seed=0)["right"]
