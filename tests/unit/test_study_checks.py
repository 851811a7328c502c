"""Checks of a study: agreement with an expert, descriptions, clips and robustness."""

import numpy as np
import pandas as pd
import pytest

from datasets import cohort
from gdm_core import Study
from gdm_core.errors import ConfigError, DataError, FitError
from gdm_core.study.robustness import check_robustness, describe_contradictions, describe_robustness, list_variants
from gdm_core.study.tables import choose_clips, describe_states
from gdm_core.trials import Trial
from pages.study import checks
from tests.support import known_studies


def test_agreement_matches_names_or_overlapping_states():
    made = cohort.simulate(2, minutes=1, seed=1)
    study = Study.from_states(made.states, pd.DataFrame(made.sheet), made.rate_hz, cohort.BEHAVIOURS)
    words = dict(enumerate(reversed(cohort.BEHAVIOURS)))  # other numbers for the same names
    same = {f"{name}.csv": len(words) - 1 - codes for name, codes in made.states.items()}
    kappa, n, matched = checks.compare_labels(study, same, words, {})
    assert (kappa.kappa, n, matched) == (pytest.approx(1.0), 4, False)
    halves = {name: np.minimum(codes, 2)[:-100] for name, codes in made.states.items()}
    kappa, _, matched = checks.compare_labels(study, halves, {0: "x", 1: "y", 2: "z"}, {})
    assert matched
    assert kappa.kappa == pytest.approx(1.0), "each state lies within one label"
    assert kappa.n_frames == sum(len(codes) - 100 for codes in made.states.values())
    cut = {name: codes[30:] for name, codes in made.states.items()}  # from a column of the sheet
    cropped = Study.from_states(cut, pd.DataFrame(made.sheet), made.rate_hz, cohort.BEHAVIOURS)
    kappa, *_ = checks.compare_labels(cropped, same, words, dict.fromkeys(cut, 30 / made.rate_hz))
    assert kappa[:1] + kappa[-1:] == (pytest.approx(1.0), sum(map(len, cut.values())))
    windows = Study.from_states(
        {name: codes[30::5] for name, codes in made.states.items()},
        pd.DataFrame(made.sheet),
        made.rate_hz / 5,
        cohort.BEHAVIOURS,
    )
    kappa, *_ = checks.compare_labels(windows, same, words, dict.fromkeys(cut, 30 / made.rate_hz), 5)
    assert kappa.kappa == pytest.approx(1.0)
    with pytest.raises(DataError, match="No label file has the name"):
        checks.compare_labels(study, {"other": np.zeros(9, int)}, {}, {})


RATE = 10.0


def test_states_are_described_by_their_channels():
    rng = np.random.default_rng(0)
    states = {name: np.repeat([0, 1, 0, 1, 2], 50) for name in ("a", "b")}
    recordings = {}
    for name, labels in states.items():
        y = rng.normal(size=(250, 3)) * [1.0, 5.0, 0.1] + 100
        y[labels == 0] += [4.0, -20.0, 0.0]
        y[::7, 0] = np.nan
        recordings[name] = Trial(y, RATE, ("speed", "height", "noise"), name=name)
    study = Study.from_states(states, pd.DataFrame({"recording": ["a", "b"]}), RATE, names={3: "never"})
    first, second, _, never = describe_states(study, recordings)
    assert first == "high speed; low height"
    assert second == "high height; low speed"
    assert never == "–"


def test_clips_are_typical_bouts_of_different_animals():
    one = cohort.simulate(4, minutes=2, rate_hz=10, n_sessions=2, seed=1)
    study = Study.from_states(one.states, pd.DataFrame(one.sheet), rate_hz=10)
    clips = choose_clips(study, 4, n=6)
    whose = clips["recording"].map(study.sheet.animals)
    assert whose.nunique() == 6
    lengths = study.bouts().query("state == 4")["duration_s"]
    for name, first, after, begin, end in clips.itertuples(index=False):
        assert (one.states[name][begin:end] == 4).all()
        assert max(0, begin - 5) == first
        assert after == min(len(one.states[name]), end + 5)
        assert 0.5 < (end - begin) / 10 / lengths.median() < 2
    assert len(choose_clips(study, 4, n=12)) == 12, "animals come again where there are not enough"
    with pytest.raises(ConfigError, match="no state 9"):
        choose_clips(study, 9)


# ---- robustness ----------------------------------------------------------------------------------------------------
def test_variants_change_one_setting_each():
    settings = {"n_states": 8, "seed": 3, "posterior": "window", "n_latent": 4}
    variants = list_variants("gdm", settings)
    assert list(variants) == ["seed 4", "seed 5", "K = 7", "K = 9", "states by position"]
    assert variants["states by position"] == settings | {"posterior": "linear"}
    assert all(len({*one.items()} - {*settings.items()}) == 1 for one in variants.values())
    assert list(list_variants("arhmm", {"n_states": 2, "seed": 0})) == ["seed 1", "seed 2", "K = 3"]
    assert "states by dynamics" in list_variants("gdm", settings | {"posterior": "linear"})


@pytest.fixture(scope="module")
def study() -> Study:
    change = cohort.Change("groom", times=2.5)
    return known_studies.study_of(cohort.simulate(10, minutes=3, rate_hz=10, change=change, seed=1))


def changed(study: Study, change) -> Study:
    states = {name: change(one.labels) for name, one in study.recordings.items()}
    return Study.from_states(states, study.sheet.frame, rate_hz=10)


def test_conclusion_of_each_refit_is_compared(study):
    rng = np.random.default_rng(0)
    refits = {
        "renumbered": lambda: changed(study, lambda labels: (labels + 1) % 6),
        "merged": lambda: changed(study, lambda labels: np.where(labels == 5, 0, labels)),
        "random": lambda: changed(study, lambda labels: np.repeat(rng.integers(0, 4, len(labels)), 7)[: len(labels)]),
    }

    def refit(label):
        if label == "failed":
            raise FitError("It did not converge.")
        return refits[label]()

    table, flow = study.compare("usage", "group", n_permutations=999), study.flow("group", n_permutations=999)
    steps = list(check_robustness(study, table, flow, refit, (*refits, "failed")))
    assert [len(step) for step in steps] == [1, 2, 3, 4, 5]
    rows = steps[-1].set_index("fit")
    assert rows.loc["renumbered", "flow_p"] == flow.p
    assert rows.loc["renumbered", "confirmed"] == rows.loc["this fit", "significant"] > 0
    assert rows.loc["merged", "confirmed"] >= 1
    assert rows["agrees"].tolist() == [True, True, True, False, None]
    assert rows.loc["failed", "trouble"] == "It did not converge."
    p = f"{rows.loc['random', 'flow_p']:.3f}".removeprefix("0")
    expected = f"The conclusion holds in 2 of 3 refits; it differs with random (flow p = {p}). 1 refit failed."
    assert describe_robustness(steps[-1]) == expected
    assert "1 of 3 refits" in describe_contradictions(steps[-1])
    assert describe_contradictions(steps[2]) == ""
    assert describe_robustness(steps[0], 4) == "Robustness: 0 of 4 refits finished."
    assert describe_robustness(steps[2], 4) == "Robustness: 2 of 4 refits finished."


def test_refits_stop_with_the_iteration(study):
    asked = []
    table = study.compare("entropy", "group", n_permutations=99)
    for rows in check_robustness(study, table, None, lambda label: asked.append(label) or study, "abc"):
        if len(rows) == 2:
            break
    assert asked == ["a"]
    assert rows["agrees"].tolist() == [True, True]
    assert describe_robustness(rows) == "The conclusion holds in 1 of 1 refit."
