"""Robustness of a conclusion over refits whose result is known."""

from __future__ import annotations

import numpy as np
import pytest

from datasets import cohort
from gdm_core import Study
from gdm_core.errors import FitError
from gdm_core.study.robustness import check_robustness, describe_contradictions, describe_robustness, list_variants
from tests.support import known_studies


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
