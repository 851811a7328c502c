"""Files of many kinds are understood, asked about or refused, and never read wrongly."""

import numpy as np
import pytest

from datasets import keypoints
from datasets.keypoints import KeypointTable, Table
from datasets.readers.doubts import Doubt
from gdm_core.errors import DataError
from tests.support.file_corpus import Kind
from tests.support.other_files import KINDS


def read(kind: Kind, answers: dict[str, str]) -> tuple[KeypointTable | Table, tuple[Doubt, ...]]:
    """Read a file as the page does; return it with the questions that remain."""
    content = keypoints.read_any(kind.content, kind.file, answers=answers)
    if isinstance(content, Table) and keypoints.looks_like_keypoints(content):
        content = keypoints.from_table(content) or content
    return content, content.understand().doubts if isinstance(content, Table) else content.doubts


def check(kind: Kind, content: KeypointTable | Table) -> None:
    """Check that trials, rate and values are those of the file."""
    assert isinstance(content, KeypointTable) == bool(kind.names[0])
    trials = content.to_trials() if isinstance(content, Table) else content.to_trials(scaling="pixels")
    assert tuple(trial.n_samples for trial in trials) == (kind.trials or (len(kind.values),))
    if kind.rate is not None:
        assert trials[0].rate_hz == pytest.approx(kind.rate, rel=1e-3)
    else:
        assert trials[0].rate_hz in (1.0, 30.0) or kind.asks
    if isinstance(content, KeypointTable):
        assert (content.animals, content.parts) == kind.names
        np.testing.assert_allclose(np.moveaxis(content.xy, 2, 3), kind.values, rtol=1e-5)
    else:
        np.testing.assert_allclose(np.concatenate([trial.y for trial in trials]), kind.values, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
def test_file_is_understood_asked_or_refused(kind: Kind):
    if kind.refused:
        with pytest.raises(DataError) as caught:
            read(kind, {})[0].to_trials()
        assert "--answer" not in str(caught.value)
        return
    content, doubts = read(kind, {})
    assert {doubt.key for doubt in doubts} == set(kind.asks)
    if kind.asks:
        with pytest.raises(DataError, match="--answer"):
            content.to_trials()
        content, doubts = read(kind, kind.asks)
        assert doubts == ()
    check(kind, content)


def test_names_of_kinds_are_unique():
    assert len({kind.name for kind in KINDS}) == len(KINDS) >= 100
