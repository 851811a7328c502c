"""Logarithms of skewed channels and log-ratios of parts of a whole."""

import numpy as np
import pandas as pd
import pytest

from datasets import regimes, tables
from datasets.readers.transforms import find_skewed, is_composition
from gdm_core import GDM
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_core.errors import DataError


def levels(seed):
    trial = regimes.simulate("levels", 2000, seed)[0]
    return np.array(trial.y, np.float64), trial.labels


def shares(y):
    parts = np.exp(np.column_stack([y, np.zeros(len(y))]))
    return parts / parts.sum(axis=1, keepdims=True)


def table_of(y):
    return tables.read(pd.DataFrame(y, columns=list("abcdef"[: y.shape[1]])).to_csv(index=False).encode(), "levels.csv")


def test_only_skewed_positive_channels_suit_logarithms():
    y, _ = levels(0)
    columns = np.column_stack([np.exp(y[:, 0]), y[:, 1], 100 + y[:, 2], np.maximum(np.exp(y[:, 0]) - 1, 0)])
    assert find_skewed(columns, "abcd") == ("a",)


def test_parts_of_a_constant_whole_are_a_composition():
    y, _ = levels(0)
    assert is_composition(shares(y))
    assert is_composition(np.round(100 * shares(y), 3))
    assert not is_composition(np.exp(y))
    assert not is_composition(shares(y)[:, :3])


def test_logarithms_and_log_ratios_are_exact():
    y, _ = levels(0)
    logs = table_of(np.exp(y)).to_trials(log=["a", "c"])[0]
    assert logs.channels == ("log a", "b", "log c")
    np.testing.assert_allclose(logs.y, np.column_stack([y[:, 0], np.exp(y[:, 1]), y[:, 2]]), rtol=1e-4, atol=1e-5)
    parts = shares(y)
    ratios = table_of(parts).to_trials(log_ratio=True)[0]
    assert ratios.channels == ("log-ratio b", "log-ratio c", "log-ratio d")
    np.testing.assert_allclose(ratios.y[:, 0], np.log(parts[:, 1] / parts[:, 0]) / np.sqrt(2), rtol=1e-3, atol=1e-4)
    centred = np.log(parts) - np.log(parts).mean(axis=1, keepdims=True)
    np.testing.assert_allclose((ratios.y**2).sum(axis=1), (centred**2).sum(axis=1), rtol=1e-3)  # they keep distances


def test_values_without_a_logarithm_are_refused():
    table = table_of(levels(0)[0])
    with pytest.raises(DataError, match="values of 0 or less"):
        table.to_trials(log=["a"])
    with pytest.raises(DataError, match="negative"):
        table.to_trials(log_ratio=True)


@pytest.mark.bulk
@pytest.mark.parametrize("seed", range(100, 105))
def test_logarithms_find_states_of_skewed_levels(seed):
    y, labels = levels(seed)
    for values, least, options in ((np.exp(y), 0.9, {"log": list("abc")}), (shares(y), 0.95, {"log_ratio": True})):
        trials = table_of(values).to_trials(**options)
        assert matched_accuracy(GDM(3).fit(trials, calibrate=False).predict(trials)[0], labels) > least
