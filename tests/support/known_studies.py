"""Studies with known truth, for false alarms, power, and differences found from channels."""

from typing import Any

import numpy as np
import pandas as pd

from datasets import cohort
from datasets.cohort import BEHAVIOURS, Change
from gdm_core import GDM, Study
from gdm_core.analysis.state_scores import match_states

LEVEL = 0.05
RATE_HZ, MINUTES, DIFFER = 10.0, 2.0, 0.2
# Designs: numbers of animals, groups and sessions, and arguments of `compare`. Lengths and animals vary.
DESIGNS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "two groups": ({"n_animals": (8, 11), "groups": ("a", "b")}, {"between": "group"}),
    "four doses": ({"n_animals": (6, 7, 6, 8), "groups": (0, 1, 3, 10)}, {"between": "group"}),
    "paired sessions": ({"n_animals": 12, "groups": ("a",), "n_sessions": 2}, {"between": "session", "within": "animal"}),
    "two sessions an animal": ({"n_animals": (8, 10), "groups": ("a", "b"), "n_sessions": 2}, {"between": "group"}),
}  # fmt: skip
CHANGES = {
    "groom 30 % longer": Change("groom", times=1.3),
    "walk to groom doubled": Change("walk", "groom", 2.0),
    "nothing": None,
}
ANIMALS, LONG_MINUTES, LONG_RATE = 12, 10.0, 12.5


def study_of(one: cohort.Cohort) -> Study:
    """Return a study of the cohort with its true behaviours."""
    return Study.from_states(one.states, pd.DataFrame(one.sheet), rate_hz=one.rate_hz, names=BEHAVIOURS)


def null(design: str, seed: int, n_permutations: int = 999) -> dict[str, float]:
    """Return the false alarms of a study without differences: one state, all states, and flow."""
    made, asked = DESIGNS[design]
    study = study_of(cohort.simulate(**made, minutes=MINUTES, rate_hz=RATE_HZ, differ=DIFFER, seed=seed))
    by_animal = study.compare("usage", n_permutations=n_permutations, seed=seed, **asked)
    flow = study.flow(n_permutations=n_permutations, seed=seed, **asked)
    one = seed % len(by_animal)  # a different state in each study
    found = {
        "one state": by_animal["p"][one],
        "classical": by_animal["p_classical"][one],
        "family, Holm": by_animal["p_holm"].min(),
        "flow": flow.p,
    }
    return {name: float(p < LEVEL) for name, p in found.items()}


def null_with_age(seed: int, n_permutations: int, n_animals: int = 10) -> dict[str, float]:
    """Return the false alarms of a study in which only age, which differs between groups, changes the states."""
    rng = np.random.default_rng(seed)
    group = np.repeat(["a", "b"], n_animals)
    age = rng.uniform(0, 1, 2 * n_animals) + 0.5 * (group == "b")
    names = [f"r{i:02d}" for i in range(2 * n_animals)]
    states = {name: np.cumsum(rng.random(1_500) < 0.05 * (1 + old)) % 3 for name, old in zip(names, age, strict=True)}
    study = Study.from_states(states, pd.DataFrame({"recording": names, "group": group, "age": age}), rate_hz=10)
    asked: dict[str, Any] = {"between": "group", "n_permutations": n_permutations, "seed": seed}
    found = {
        "flow": study.flow(**asked).p,
        "adjusted flow": study.flow(covariates=["age"], **asked).p,
        "adjusted state": study.compare("bouts_per_min", covariates=["age"], **asked)["p"][seed % 3],
    }
    return {name: float(p < LEVEL) for name, p in found.items()}


def unequal_null(seed: int, n_animals: int = 8, n_frames: tuple[int, int] = (3_000, 2_000)) -> Study:
    """Return a study of two groups from one Markov chain of 5 states, with unequal lengths."""
    rng = np.random.default_rng(seed)
    chain = 0.1 * np.random.default_rng(99).dirichlet(np.ones(5), 5) + 0.9 * np.eye(5)
    cumulative = chain.cumsum(axis=1)
    cumulative[:, -1] = 1.0
    now = rng.integers(0, 5, 2 * n_animals)
    states = np.empty((max(n_frames), 2 * n_animals), np.int64)
    for t in range(len(states)):
        states[t] = now = (rng.random(2 * n_animals)[:, None] > cumulative[now]).sum(axis=1)
    long = np.repeat(n_frames, n_animals)
    names = [f"r{i:02d}" for i in range(2 * n_animals)]
    sheet = pd.DataFrame({"recording": names, "animal": names, "group": np.repeat(["a", "b"], n_animals)})
    return Study.from_states({name: states[: long[i], i] for i, name in enumerate(names)}, sheet, rate_hz=25)


def spread_null(seed: int, n_animals: tuple[int, int], differ: tuple[float, float]) -> Study:
    """Return a study of two groups without a difference, but with unequal spread between animals."""
    look: dict[str, Any] = {"groups": ("a",), "minutes": MINUTES, "rate_hz": RATE_HZ}
    parts = {g: cohort.simulate(n, differ=sd, seed=2 * seed + i, **look)
             for i, (g, n, sd) in enumerate(zip("ab", n_animals, differ, strict=True))}  # fmt: skip
    states = {f"{g}{name}": one for g, part in parts.items() for name, one in part.states.items()}
    sheet = pd.DataFrame({"recording": list(states), "group": [name[0] for name in states]})
    return Study.from_states(states, sheet, rate_hz=RATE_HZ)


def promised(design: str, effect: float, n_studies: int, state: int = 4) -> dict[str, float]:
    """Return the estimated power for 12 animals per group (or pairs), and the share of simulated studies that reach it."""
    two = design == "two groups"
    asked: dict[str, Any] = {"between": "group"} if two else {"between": "session", "within": "animal"}
    size: dict[str, Any] = {"groups": ("a", "b")} if two else {"groups": ("a",), "n_sessions": 2}
    look = {"minutes": MINUTES, "rate_hz": RATE_HZ, "differ": DIFFER}
    pilot = study_of(cohort.simulate(200, **size, **look, seed=10**6))
    promise = pilot.power("mean_bout_s", **asked, state=state, effect=effect)
    hits = 0
    for seed in range(n_studies):
        study = study_of(cohort.simulate(ANIMALS, **size, **look, seed=seed))
        values = study.per_unit("mean_bout_s", **asked)
        one = values[values["state"] == state].rename(columns={"mean_bout_s": "value"}).reset_index(drop=True)
        last = one[asked["between"]] == one[asked["between"]].max()
        one["value"] += promise.raw * last  # the same animals with the difference added
        sheet = one.drop(columns=["state", "name"]).assign(recording=[f"r{i}" for i in range(len(one))])
        moved = Study.from_states(dict.fromkeys(sheet["recording"], np.zeros(2, np.int64)), sheet)
        p = moved.compare("value", **asked, n_permutations=999, seed=seed)["p"][0]
        hits += bool(p < LEVEL / promise.n_tests)  # the level of the smallest p
    return {"promised": promise.curve[ANIMALS], "found": hits / n_studies}


def found_from_channels(change: str, seed: int, **setting: Any) -> dict[str, Any]:
    """Return the findings of a study whose states were fitted to the six channels of a cohort."""
    look = {"n_animals": ANIMALS, "minutes": LONG_MINUTES, "rate_hz": LONG_RATE} | setting
    made = cohort.simulate(**look, change=CHANGES[change], seed=seed)
    study = Study.fit(made.recordings(), pd.DataFrame(made.sheet), GDM(n_states=len(BEHAVIOURS), n_latent=6, seed=seed))
    names = study.sheet.names
    states = np.concatenate([study.recordings[name].labels for name in names])
    truth = np.concatenate([made.states[name] for name in names])
    one_to_one = match_states(states, truth, len(BEHAVIOURS))
    study = study.with_names({state: BEHAVIOURS[behaviour] for state, behaviour in enumerate(one_to_one)})
    longer = study.compare("mean_bout_s", "group", seed=seed)
    follows = study.compare("transition_shares", "group", seed=seed)
    longer, follows = longer[longer["p_holm"] < LEVEL], follows[follows["p_holm"] < LEVEL]
    follows = follows.loc[follows["effect"].abs().sort_values(ascending=False).index]
    said = [f"{name} longer" for name in longer["name"]]
    said += [
        f"{study.state_name(a)} to {study.state_name(b)}" for a, b in follows[["from_state", "to_state"]].to_numpy()
    ]
    asked = {"groom 30 % longer": ["groom longer"], "walk to groom doubled": ["walk to groom"], "nothing": []}[change]
    # More changes from walk to groom mean fewer to other states: a true but smaller difference.
    true = {*asked, *(f"walk to {name}" for name in BEHAVIOURS if asked == ["walk to groom"])}
    return {"said": said, "right": said[:1] == asked and set(said) <= true, "named": set(asked) <= set(said)}
