"""Suggested settings: split halves, probes and verdicts."""

import re
from dataclasses import asdict

import numpy as np
import pytest

from datasets import regimes
from gdm_core.analysis.suggestions import Probe, choose_states, halves, probe, thinned, trimmed_mean
from gdm_core.engine import LocalEngine, ResultCache
from gdm_core.engine.suggest import SuggestQuestion, suggest
from gdm_core.errors import ConfigError, DataError
from gdm_core.models.gdm.model import GDM
from gdm_core.trials import Trial, Trials, as_trials
from tests.support.polygons import simulate_polygon


def tried(k, mean, agreement, *, model="gdm", spread=0.1, lost_block=0.0, **setting):
    """Return a probe whose blocks vary by `spread`, with one block lower by `lost_block`."""
    noise = np.random.default_rng(k).normal(0, spread, 10)
    blocks = mean + noise - noise.mean()
    blocks[3] -= lost_block
    return Probe(model, {"n_states": k, **setting}, tuple(blocks), agreement)


def test_fewest_states_with_equal_score_are_chosen():
    found = choose_states(
        [tried(1, 10, 1), tried(2, 18, 1), tried(3, 25, 1), tried(4, 25.05, 0.8), tried(5, 24.9, 0.6)]
    )
    assert (found.model, found.n_states, found.sure) == ("gdm", 3, "likely")
    assert found.sentences[0].startswith(
        "Use three states (Gumbel Dynamical Model): fewer states predict held-out data worse"
    )
    assert "100% of time steps, but four states" in found.sentences[1]
    assert len(found.sentences) == 2


def test_only_the_best_prediction_is_clear():
    probes = [tried(1, 10, 1), tried(2, 18, 1), tried(3, 25, 1), tried(4, 24.95, 0.8)]
    assert choose_states(probes).sure == "clear"
    ahead = choose_states([*probes, tried(1, 10, 1, model="arhmm"), tried(5, 25.05, 0.5, model="arhmm", spread=0.0)])
    assert (ahead.model, ahead.n_states, ahead.sure) == ("gdm", 3, "likely")


def test_one_lost_block_does_not_decide():
    probes = [tried(1, 10, 1), tried(2, 18, 1), tried(3, 25, 1, lost_block=1e3), tried(4, 24.8, 0.7)]
    found = choose_states(probes)
    assert (found.n_states, found.sure) == (3, "likely")
    assert "four states (Gumbel Dynamical Model) would predict one of 10 blocks of time better" in found.sentences[1]
    assert found.scores[2] == pytest.approx(25, abs=0.2)


def test_tiny_differences_do_not_count():
    probes = [tried(1, 10, 1), tried(2, 18, 1), tried(3, 25, 1)]
    equal = [tried(1, 10, 1, model="arhmm"), tried(3, 25.004, 1, model="arhmm")]
    assert choose_states([*probes[:3], *equal]).sure == "clear"
    found = choose_states([*probes[:3], tried(4, 25.03, 1, spread=0.3)])
    assert (found.n_states, found.sure) == (3, "likely")
    assert "would predict held-out data about as well, better by 0.0" in found.sentences[1]


def test_trimmed_mean_ignores_outliers():
    values = np.random.default_rng(0).normal(2.0, 0.1, 10)
    mean, error = trimmed_mean(values)
    spoiled = trimmed_mean(np.append(values[1:], -1e6))
    assert abs(mean - 2.0) < 3 * error < 0.3
    assert spoiled == pytest.approx((mean, error), abs=0.1)
    assert trimmed_mean(np.array([1.0, 2.0, 3.0])) == pytest.approx((2.0, 3**-0.5))


def test_better_prediction_chooses_the_model():
    walk = [tried(1, -0.3, 1), tried(3, 0.5, 0.7), tried(1, 0, 1, model="arhmm"), tried(3, 3.0, 1, model="arhmm")]
    found = choose_states(walk, n_channels=2)
    assert (found.model, found.n_states, found.sure) == ("arhmm", 3, "clear")
    assert "AR-HMM" in found.sentences[0]


def test_agreement_decides_between_equal_predictions():
    close = [tried(1, 25, 1), tried(4, 29, 0.96), tried(1, 28.9, 1, model="arhmm"), tried(3, 29.2, 0.8, model="arhmm")]
    found = choose_states(close, n_channels=10)
    assert (found.model, found.n_states, found.sure) == ("gdm", 4, "likely")
    assert "AR-HMM with K = 3 predicts held-out data better" in found.sentences[1]
    assert found.alternative is not None
    assert (found.alternative.model, found.alternative.n_states) == ("arhmm", 3)
    assert "(96% against 80%)" in found.sentences[1]
    assert choose_states(close, n_channels=1).model == "arhmm"


def test_fewer_states_are_called_worse_only_by_two_errors():
    n_worse = 0
    for seed in range(100):
        rng = np.random.default_rng(seed)
        means = np.cumsum(rng.exponential(0.1, 6))
        found = choose_states(
            [
                Probe("gdm", {"n_states": k + 1}, tuple(mean + rng.normal(0, 0.1, 10)), rng.uniform(0.5, 1))
                for k, mean in enumerate(means)
            ]
        )
        if stated := re.search(r"worse.* by ([\d.]+) ± ([\d.]+)", found.sentences[0]):
            lost, error = map(float, stated.groups())
            assert lost >= 1.95 * error > 0, found.sentences[0]  # both are rounded
            n_worse += 1
    assert n_worse > 10


def test_k_with_disagreeing_halves_is_not_called_worse():
    found = choose_states([tried(1, 10, 1), tried(2, 24.95, 0.6), tried(3, 25, 0.98)])
    assert (found.n_states, found.sure) == (3, "likely")
    assert "two states would predict held-out data about as well" in found.sentences[0]
    assert "60% of time steps" in found.sentences[0]


def test_flat_scores_leave_the_choice_open():
    flat = [tried(k, 10.0, 0.5 if k > 2 else 0.6) for k in range(2, 6)]
    found = choose_states(flat)
    assert found.sure == "open"
    assert found.sentences[1].startswith("Uncertain: two halves of the data agree on 60% of time steps")


def test_one_state_needs_more_than_agreement():
    found = choose_states([tried(1, 10, 1), tried(2, 10.02, 0.9), tried(3, 9.9, 0.8)])
    assert (found.n_states, found.sure) == (1, "likely")
    assert (
        "two states (Gumbel Dynamical Model) would predict held-out data about as well, better by 0.0"
        in found.sentences[1]
    )
    assert choose_states([tried(1, 10, 1), tried(2, 9.9, 0.9)]).sure == "clear"


def test_failed_probe_is_left_out():
    lost = Probe("gdm", {"n_states": 2}, (float("nan"),) * 10, 1.0)
    assert choose_states([tried(1, 10, 1), lost, tried(3, 20, 1)]).n_states == 3
    with pytest.raises(ConfigError, match="at least 2 are needed"):
        choose_states([tried(1, 10, 1), lost])
    assert choose_states([tried(1, 10, 1, model="arhmm"), lost, tried(1, 9, 1), tried(2, 20, 1)]).model == "gdm"


def test_halves_alternate_and_cover_everything():
    trial = Trial(y=np.arange(400.0).reshape(200, 2))
    first, second = halves(as_trials(trial))
    assert first.n_samples + second.n_samples == 200
    starts = [(block.y[0, 0], side) for side, half in enumerate((first, second)) for block in half]
    assert [side for _, side in sorted(starts)] == [0, 1] * 5


def test_many_trials_are_halved_whole():
    trials = Trials(
        tuple(Trial(y=np.random.default_rng(i).normal(size=(30, 2)), name=str(i)) for i in range(9)), "nine"
    )
    first, second = halves(trials)
    assert [t.name for t in first] == ["0", "2", "4", "6", "8"]
    assert [t.name for t in second] == ["1", "3", "5", "7"]
    with pytest.raises(DataError, match="at least 4 are needed"):
        halves(as_trials(Trial(y=np.random.default_rng(0).normal(size=(50, 2)))))


def numbered(*lengths):
    """Return trials whose first channel numbers their samples."""
    return Trials(
        tuple(
            Trial(y=np.stack([np.arange(n) + 10_000.0 * i, np.sin(np.arange(n))], 1), name=str(i))
            for i, n in enumerate(lengths)
        ),
        "numbered",
    )


@pytest.mark.parametrize("lengths", [(9002,), (9000, 2500, 40), (700,) * 30, (30,) * 400])
def test_long_recording_is_thinned_evenly(lengths):
    trials = numbered(*lengths)
    read = thinned(trials, 3000)
    assert 2400 <= read.n_samples <= 3010
    assert all((np.diff(stretch.y[:, 0]) == 1).all() for stretch in read)
    assert min(stretch.n_samples for stretch in read) >= min(20, *lengths)
    seen = np.concatenate([stretch.y[:, 0] for stretch in read])
    assert len(np.unique(seen)) == len(seen)
    last_sample = trials[-1].y[-1, 0]
    gaps = np.diff([0, *np.sort(seen) % 10_000, last_sample % 10_000]) if len(lengths) == 1 else np.zeros(1)
    assert gaps.max() < 600
    assert len({int(value) // 10_000 for value in seen}) > min(len(lengths), 20) / 2
    halves(read)


def test_probe_round_trips_through_json():
    trial = as_trials(simulate_polygon(3, 200))
    setting = {"family": "gdm", "n_states": 2, "n_latent": 2, "n_steps": 60}
    between = probe("gdm", setting, trial, seeds=(0,))
    assert [next(between), next(between)] == [None, None]
    (plain,) = between
    first, second = halves(trial)
    fit = GDM(2, 2, n_steps=60, seed=0).fit(first)
    np.testing.assert_allclose(plain["held_out"][1::2], [fit.score(block) for block in second], rtol=1e-5)
    assert asdict(Probe.from_dict(plain)) == plain
    assert len(plain["held_out"]) == 10
    assert 0 <= plain["agreement"] <= 1


@pytest.mark.bulk
@pytest.mark.parametrize("n_states", [3, 4])
def test_true_number_of_states_is_found(n_states, tmp_path):
    trials = as_trials(simulate_polygon(n_states))
    question = SuggestQuestion(["gdm"], trials, states=range(1, 6), fixed={"n_steps": 400})
    found = suggest(question, LocalEngine(ResultCache(tmp_path)))
    assert found.settings["n_states"] == n_states


def test_suggestion_resumes_from_cache(tmp_path, monkeypatch):
    trials = as_trials(simulate_polygon(3, 200))
    question = SuggestQuestion(["gdm", "arhmm"], trials, states=(1, 2), fixed={"n_steps": 40, "n_iter": 3})
    first = suggest(question, LocalEngine(ResultCache(tmp_path)))

    def never(family):
        raise AssertionError(f"{family} was fitted again")

    monkeypatch.setattr("gdm_core.analysis.suggestions.import_family", never)
    again = suggest(question, LocalEngine(ResultCache(tmp_path)))
    assert again.settings == first.settings
    assert again.settings["family"] == again.model
    assert {one.model for one in again.verdict.probes} == {"gdm", "arhmm"}


@pytest.mark.bulk
@pytest.mark.parametrize("kind", ["walk", "walk_random"])
def test_regimes_of_drifting_walk_are_found(kind, tmp_path):
    question = SuggestQuestion(("gdm", "arhmm-sticky"), regimes.simulate(kind, 1500, seed=3), states=range(1, 6))
    found = suggest(question, LocalEngine(ResultCache(tmp_path)))
    assert found.settings["n_states"] == 3


def test_invalid_questions_raise_config_error():
    trials = as_trials(simulate_polygon(3, 200))
    with pytest.raises(ConfigError, match="no model 'none'"):
        SuggestQuestion(["none"], trials)
    with pytest.raises(ConfigError, match="models is empty"):
        SuggestQuestion([], trials)
    with pytest.raises(ConfigError, match="gdm has no parameter n_iter"):
        SuggestQuestion(["gdm"], trials, fixed={"n_iter": 3})
    with pytest.raises(ConfigError, match=r"n_latent \(D\) is 99 but the data has 10 channel"):
        SuggestQuestion(["gdm"], trials, 99)
    with pytest.raises(ConfigError, match="two different numbers"):
        SuggestQuestion(["gdm"], trials, states=(3, 3))
    with pytest.raises(ConfigError, match="at least one fit"):
        SuggestQuestion(["gdm"], trials, seeds=())
