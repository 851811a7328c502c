"""Trials as rows, and windows of rows."""

import numpy as np
import pytest
import torch

from gdm_core.maths.rows import make_rows, shift
from tests.support.gdm import CPU, generator


def test_rows_are_concatenated_with_their_age():
    a, b = np.arange(6.0).reshape(3, 2), np.array([[np.nan, 1.0]])
    rows = make_rows([a, b], CPU)
    assert rows.age.tolist() == [0, 1, 2, 0]
    assert rows.lengths == (3, 1)
    assert rows.n_scored == 4
    assert rows.y[3].tolist() == [0, 1]
    assert rows.known.sum(1).tolist() == [2, 2, 2, 1]
    full = make_rows([a], CPU)
    assert full.known is None
    assert full.past is full.y


def test_pieces_are_slices():
    rows = make_rows([np.arange(20.0).reshape(10, 2)], CPU)
    assert rows.piece(0, 10) is rows
    part = rows.piece(3, 7)
    torch.testing.assert_close(part.y, rows.y[3:7])
    assert part.age.tolist() == [3, 4, 5, 6]
    assert (part.lengths, part.n_scored) == ((4,), 4)


def test_shift_moves_rows_back():
    values = torch.arange(10.0).reshape(1, 5, 2)
    torch.testing.assert_close(shift(values, 2)[:, 2:], values[:, :3])


@pytest.mark.parametrize("after", [0, 20])
def test_windows_score_rows_evenly_and_never_padding(after):
    rng = np.random.default_rng(0)
    rows = make_rows([rng.normal(size=(n, 2)) for n in (150, 3, 77)], CPU)
    random, counts = generator(), torch.zeros(len(rows))
    for _ in range(60):
        batch = rows.draw(32, 20, 3, random, after)
        assert batch.lengths == (35 + after,) * 20
        scored = batch.scored > 0
        assert int(scored.sum()) == batch.n_scored
        assert (batch.age[scored] >= 0).all()
        windows = batch.scored.reshape(20, -1)
        assert (windows[:, :3] == 0).all()  # context
        assert (windows[:, 35:] == 0).all()
        at = (batch.y[scored][:, None] == rows.y).all(-1).long().argmax(1)
        torch.testing.assert_close(batch.age[scored], rows.age[at])
        counts += torch.bincount(at, minlength=len(rows))
    assert counts.min() > 0.65 * counts.mean()
    assert counts.max() < 1.35 * counts.mean()
