"""The comparison of all models: every seed, every line to beat."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gdm_core.errors import ConfigError
from gdm_core.models import registry as named_models
from gdm_studio import reproduce
from gdm_studio.cli import main

pytestmark = pytest.mark.usefixtures("simple_family")


def test_reproduce_reports_every_seed_and_every_line_to_beat(capsys, tmp_path):
    file = tmp_path / "scores.json"
    arguments = ["reproduce", "nascar", "--models", "simple,arhmm-ro", "--setting", "soft", "--seeds", "2"]
    assert main([*arguments, "--samples", "300", "--json", str(file)]) == 0
    table = capsys.readouterr().out
    found = json.loads(file.read_text())
    assert [(r["model"], r["seed"]) for r in found["runs"]] == [(m, s) for m in ("simple", "arhmm-ro") for s in (0, 1)]
    for name in ("simple", "simple, untrained", "arhmm-ro", "10-NN on steps", "majority class", "persistence"):
        assert any(line.startswith(name + " ") for line in table.splitlines()), name
    values = [r["scores"]["matched_accuracy"] for r in found["runs"] if r["model"] == "simple"]
    summary = found["summary"]["soft"]["simple"]["matched_accuracy"]
    assert summary["mean"] == pytest.approx(np.mean(values))
    assert summary["sd"] == pytest.approx(np.std(values, ddof=1))
    assert summary["worst"] == min(values)
    assert f"{np.mean(values):.3f} ± {np.std(values, ddof=1):.3f} ({min(values):.3f})" in table
    # The same data under both models: their baselines agree.
    lines = [r["scores"]["baselines"]["10-NN on steps"] for r in found["runs"]]
    assert lines[0] == lines[2]
    assert lines[0] != lines[1]


def test_protocols_choose_their_simulations():
    fair = [reproduce.trials_of(t) for t in reproduce.tasks(["simple"], ["soft"], "fair", 2, 100)]
    assert fair[0][0].fingerprint != fair[1][0].fingerprint
    assert fair[1][1].name.endswith("seed 101")
    paper = [reproduce.trials_of(t) for t in reproduce.tasks(["simple"], ["standard"], "paper", 2, 100)]
    assert paper[0][0].fingerprint == paper[1][0].fingerprint
    np.testing.assert_array_equal(paper[0][0].position, paper[0][1].position)


def test_unknown_settings_and_protocols_are_refused():
    with pytest.raises(ConfigError, match="setting is 'oval'"):
        reproduce.tasks(["simple"], ["oval"])
    with pytest.raises(ConfigError, match="protocol is 'kind'"):
        reproduce.tasks(["simple"], ["soft"], "kind")


def test_every_available_name_builds():
    for name in named_models.available():
        model = named_models.build(name, n_states=3, n_latent=2, seed=7)
        assert (model.config.n_states, model.config.n_latent, model.config.seed) == (3, 2, 7)
