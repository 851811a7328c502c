"""A fit over shares of the data: the same wherever they are held, and as good as one over everything.

To the bit only on one machine: workers and this process compute on the same processor, with one thread each.
"""

from __future__ import annotations

import gc
import os
import signal
from functools import partial

import numpy as np
import pytest
from distributed import Client

from datasets import nascar
from datasets.large import open_large
from gdm_core import GDM
from gdm_core.engine.spread import fit_spread, fit_spread_iter
from gdm_core.errors import ConfigError, DataError, FitError
from gdm_core.models.base import Status
from tests.support.local_cluster import wait_for_workers

SETTINGS = {"n_states": 3, "n_latent": 2, "n_steps": 12, "batch_size": 4096}


@pytest.fixture
def parts(tmp_path):
    """Two shares, one with gaps."""
    y = np.array(nascar.simulate("soft", T=7000, seed=0).y)
    y[4500:4700, 2] = np.nan
    for name, share in (("a", y[:4000]), ("b", y[4000:])):
        np.save(tmp_path / f"{name}.npy", share)
    return [partial(open_large, tmp_path / f"{name}.npy") for name in ("a", "b")]


@pytest.mark.bulk
def test_workers_give_the_fit_of_one_process(parts, scheduler):
    here = fit_spread(GDM(**SETTINGS), parts)
    with Client(scheduler, set_as_default=False) as client:
        there = fit_spread(GDM(**SETTINGS), parts, client)
        workers = sorted(client.scheduler_info()["workers"])
        swapped = fit_spread(GDM(**SETTINGS), parts, client, workers[::-1])
        with pytest.raises(ConfigError, match="no worker tcp://nowhere:1"):
            fit_spread(GDM(**SETTINGS), parts, client, ["tcp://nowhere:1", workers[0]])
        gc.collect()
    assert here.status_ is not Status.DIVERGED
    for other in (there, swapped):
        assert [p.objective for p in other.history_] == [p.objective for p in here.history_]
        for name, value in here.params_.items():
            np.testing.assert_array_equal(other.params_[name], value, err_msg=name)
        assert other.elbo_ == here.elbo_


@pytest.mark.bulk
def test_two_shares_are_worth_what_one_with_all_rows_is(parts, tmp_path):
    """With every row in each step shares are only another order of summing, and other noise."""
    settings = SETTINGS | {"batch_size": 16_384, "n_steps": 60}
    ys = [one().read(0, one().n_samples) for one in parts]
    np.save(tmp_path / "whole.npy", np.concatenate(ys))
    two, one = (
        fit_spread(GDM(**settings), shares) for shares in (parts, [partial(open_large, tmp_path / "whole.npy")])
    )
    np.testing.assert_allclose(two.scaler_.center, one.scaler_.center, rtol=1e-6)
    np.testing.assert_allclose(two.scaler_.scale, one.scaler_.scale, rtol=1e-6)
    assert two.score(ys) == pytest.approx(one.score(ys), abs=0.5)


def test_a_fit_can_be_left_and_used(parts):
    model = GDM(**SETTINGS)
    steps = fit_spread_iter(model, parts)
    next(steps)
    steps.close()
    assert model.status_ is Status.CANCELLED
    assert model.predict_proba(parts[1]().read(0, 100)).shape == (100, 3)


def test_what_cannot_be_spread_is_refused(parts, tmp_path):
    with pytest.raises(ConfigError, match="no shares to fit to"):
        fit_spread(GDM(**SETTINGS), [])
    with pytest.raises(ConfigError, match="1 workers are named for 2 shares"):
        fit_spread(GDM(**SETTINGS), parts, None, ["tcp://a:1"])
    with pytest.raises(ConfigError, match="transition='gru' needs whole trials"):
        fit_spread(GDM(**SETTINGS, transition="gru"), parts)
    with pytest.raises(ConfigError, match="cold start"):
        fit_spread(GDM(**SETTINGS, covariance="full"), parts)
    np.save(tmp_path / "c.npy", np.zeros((500, 3), np.float32))
    with pytest.raises(DataError, match="Shares have different channels"):
        fit_spread(GDM(**SETTINGS), [*parts, partial(open_large, tmp_path / "c.npy")])


def test_a_file_that_is_not_there_is_said(parts, tmp_path):
    with pytest.raises(DataError, match="There is no file"):
        fit_spread(GDM(**SETTINGS), [*parts, partial(open_large, tmp_path / "none.npy")])


@pytest.mark.bulk
def test_a_lost_worker_ends_the_fit_with_a_message(parts, scheduler):
    with Client(scheduler, set_as_default=False) as client:
        steps = fit_spread_iter(GDM(**SETTINGS | {"n_steps": 400}), parts, client)
        next(steps)
        os.kill(min(client.run(os.getpid).values()), signal.SIGKILL)
        with pytest.raises(FitError, match="was lost"):
            list(steps)
        gc.collect()
    wait_for_workers(scheduler, 2)  # for whoever comes next
