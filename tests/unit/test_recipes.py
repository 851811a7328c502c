"""Simulated data are identified by their recipe, changed data by their content."""

import json
import os
import pickle
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from datasets import formula1, keypoints, mice, nascar, regimes, splits
from datasets.f1 import race
from gdm_core.trials import Trial, Trials
from tests.support.last_bits import every_optional_feature, other_last_bits

ROOT = Path(__file__).resolve().parents[2]
SPREAD = 1e-3  # largest difference between processors, in standard deviations of a channel
SESSION = {"circuit": "shanghai", "drivers": 2, "laps": 3}


def simulated() -> dict[str, Trials]:
    """Return one data set of every simulator."""
    session = formula1.simulate_race(**SESSION)
    made = {setting: Trials(nascar.train_test(setting, 1, 300)) for setting in nascar.PRESETS}
    made |= {f"paper's {setting}": Trials(nascar.paper_train_test(setting, 300)) for setting in ("standard", "soft")}
    made |= {kind: regimes.simulate(kind, 300, 1, held_out=100) for kind in regimes.KINDS}
    made |= {features: mice.simulate(2, 300, 1, features) for features in ("keypoints", "egocentric")}
    made["laps"] = formula1.to_trials(session, session.codes[1], preset="paper")
    made["car"] = formula1.to_trials(session, session.codes[1], channels=("X", "speed"), laps=(2, 3))
    return made


def fingerprints() -> dict[str, str]:
    return {name: trials.fingerprint for name, trials in simulated().items()}


def test_other_last_bits_are_the_same_data():
    ours = simulated()
    with other_last_bits():
        theirs = simulated()
    for name, one in ours.items():
        for a, b in zip(one, theirs[name], strict=True):
            assert a.fingerprint == b.fingerprint, name
            assert (a.y != b.y).mean() > 0.1
            apart = np.nanmax(np.abs(a.y - b.y) / np.nanstd(a.y, axis=0))
            assert apart < SPREAD, name
            assert (a.labels != b.labels).mean() < SPREAD, name
            assert replace(a).fingerprint != replace(b).fingerprint


@pytest.mark.bulk
def test_other_processor_gives_the_same_fingerprints():
    code = "from tests.unit.test_recipes import fingerprints; import json; print(json.dumps(fingerprints()))"
    lesser = {"NPY_DISABLE_CPU_FEATURES": " ".join(every_optional_feature()), "OPENBLAS_CORETYPE": "Prescott"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT, env=os.environ | lesser
    )
    assert json.loads(done.stdout.splitlines()[-1]) == fingerprints()


def test_recipe_covers_every_parameter():
    session, other = formula1.simulate_race(**SESSION), formula1.simulate_race(**SESSION | {"seed": 1})
    one, two = session.codes
    changes = {
        "tau": 0.5, "transition_scale": 0.5, "gamma": 0.5, "s_min": 0.5, "transition_weight": 50.0, "track": "square",
        "step": 0.06, "turn": 0.2, "straight_steps": (0.2, 0.3), "start_state": 1, "start": (0.0, 0.5), "n_channels": 5,
        "noise": 0.1,
    }  # fmt: skip
    assert set(changes) == set(nascar.NascarParameters.__dataclass_fields__)
    tracks = [nascar.simulate(T=50, **{name: value}) for name, value in changes.items()]
    tracks += [nascar.simulate(T=50), nascar.simulate(T=51), nascar.simulate(T=50, seed=1), nascar.train_test(T=50)[1]]
    tracks += [nascar.simulate(T=50, noise_seed=1), nascar.simulate(T=50, start=np.array([0.0, 1.0 + 1e-12]))]
    poses = [mice.simulate(2, 50)[i] for i in (0, 1)]
    poses += [mice.simulate(1, 50, 1)[0], mice.simulate(1, 51)[0], mice.simulate(1, 50, features="egocentric")[0]]
    table = mice.simulate_recordings(1, 50)[0]
    poses += [*table.to_trials(scaling="pixels")]
    laps = [
        formula1.to_trials(*asked)[0]
        for asked in ((session, one), (session, two), (session, one, (1, 2)), (other, one))
    ]
    given = (
        {"preset": "paper"}, {"preset": "paper", "emission_seed": 1}, {"preset": "paper", "noise_seed": 1},
        {"channels": ("X", "speed")}, {"step_s": 0.5}, {"standardise": False}, {"drop": ("first",)},
    )  # fmt: skip
    laps += [formula1.to_trials(session, one, **more)[0] for more in given]
    laps.append(formula1.to_trials(formula1.simulate_race(**SESSION | {"laps": 4}), one)[0])
    every = [*tracks, *poses, *laps]
    assert all(trial.recipe for trial in every)
    assert len({trial.fingerprint for trial in every}) == len(every)


def test_changed_data_loses_its_recipe():
    table, session = mice.simulate_recordings(1, 200)[0], formula1.simulate_race(**SESSION)
    trials = table.to_trials()
    trial, still = trials[0], trials[0].y.copy()
    still[:, 0] = 0.5
    with_gap = np.array(table.xy)
    with_gap[10:20] = np.nan
    first, rest = splits.split_recording(table)
    made = {
        "other samples": replace(trial, y=trial.y + 1),
        "another rate": replace(trial, rate_hz=15.0),
        "no labels": replace(trial, labels=None),
        "other labels": replace(trial, labels=np.ones(200)),
        "a slice": trial.slice(0, 200),
        "a shorter slice": trial.slice(0, 100),
        "without a channel": splits.usable(Trials((replace(trial, y=still),)), trials)[1][0],
        "other keypoints": replace(table, xy=with_gap).to_trials()[0],
        "filled": keypoints.clean(replace(table, xy=with_gap), fill_seconds=1.0).to_trials()[0],
        "cleaned": keypoints.clean(table, min_score=0.5).to_trials()[0],
        "labelled anew": keypoints.with_labels(table, [0] * 200, ["rest"]).to_trials()[0],
        "first part": first.to_trials()[0],
        "last part": rest.to_trials()[0],
        "one driver fewer": formula1.to_trials(replace(session, drivers=session.drivers[:1]), session.codes[0])[0],
        "without corners": formula1.to_trials(replace(session, corners=()), session.codes[0])[0],
        "a matrix of one's own": nascar.simulate(T=50, emission=nascar.emission()),
    }
    for name, one in made.items():
        assert not one.recipe, name
    assert made["a slice"].fingerprint == Trial(trial.y, trial.rate_hz, trial.channels, trial.labels).fingerprint
    assert len({one.fingerprint for one in (*made.values(), trial)}) == len(made) + 1


def test_recipe_survives_pickling_and_sets():
    (train, test), table = nascar.train_test("soft", T=50), mice.simulate_recordings(3, 50)
    there = pickle.loads(pickle.dumps(Trials((train, test))))
    assert [one.recipe for one in there] == [train.recipe, test.recipe]
    assert there.fingerprint == Trials((train, test), "another name").fingerprint
    assert Trials((test,)).fingerprint == replace(there, trials=there.trials[1:]).fingerprint
    assert keypoints.KeypointSet(table.tables[1:]).to_trials()[0].recipe == table.to_trials()[1].recipe


@pytest.mark.parametrize(
    ("version", "made", "last", "spread"),
    [
        (nascar.VERSION, lambda: nascar.simulate("soft", T=300, seed=1), [0.82108, -1.73101, 0.07236], 0.82507),
        (nascar.VERSION, lambda: nascar.simulate("standard", T=300, seed=1), [0.42110, -1.71430, -0.64949], 1.21163),
        (nascar.VERSION, lambda: nascar.simulate("standard_appendix", T=300, seed=1), [0.37272, -1.72754, -0.74926], 1.20328),
        (regimes.VERSION, lambda: regimes.simulate("drift", 300, 1)[0], [7.11191, -10.75182, 14.21710], 7.85808),
        (regimes.VERSION, lambda: regimes.simulate("autoregressive", 300, 1)[0], [0.07706, 0.38196, -0.59456], 0.45742),
        (mice.VERSION, lambda: mice.simulate(2, 300, 1, "keypoints")[1], [0.08991, 0.03626, 0.08713], 0.20862),
        (mice.VERSION, lambda: mice.simulate(2, 300, 1, "egocentric")[1], [221.8743, 0.95862, -6.61229], 162.854),
        (race.VERSION, lambda: _lap(preset="paper"), [-0.21543, -0.37514, 0.69338], 1.12398),
        (race.VERSION, lambda: _lap(channels=("X", "speed")), [-0.71417, 0.92038], 0.99395),
    ],
)  # fmt: skip
def test_changed_simulator_needs_a_new_version(version, made, last, spread):
    trial, why = made(), "raise VERSION of the simulator, rebuild the shipped results and update these numbers"
    assert version == 1
    scale = np.maximum(np.abs(last), 1)
    np.testing.assert_allclose(trial.y[-1, : len(last)] / scale, np.array(last) / scale, atol=1e-4, err_msg=why)
    assert np.nanstd(trial.y) == pytest.approx(spread, rel=1e-4), why


def _lap(**asked) -> Trial:
    session = formula1.simulate_race(**SESSION | {"seed": 1})
    return formula1.to_trials(session, session.codes[1], **asked)[0]
