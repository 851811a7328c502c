"""Recordings that stay in files: the same fit, bound and states as in memory, and memory that does not grow with them.

To the bit only what the same calls give in the same process.
"""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from datasets import nascar
from datasets.large import open_large
from gdm_core import GDM, SLDS
from gdm_core.errors import ConfigError, DataError
from gdm_core.models.gdm import streaming
from gdm_core.streams import StreamedTrials

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = {"n_states": 3, "n_latent": 2, "n_steps": 20, "batch_size": 512}


def recordings(gaps: bool = False) -> list[np.ndarray]:
    """Three trials; with gaps some are long, one begins a trial, one reaches over several marks."""
    rng = np.random.default_rng(0)
    ys = [np.array(nascar.simulate("soft", T=n, seed=n).y) for n in (2600, 400, 3000)]
    if gaps:
        for y in ys:
            y[rng.random(y.shape) < 0.02] = np.nan
            y[:30, 1] = np.nan
        ys[0][200:2500, 2] = np.nan
    return ys


def stored(folder: Path, ys: list[np.ndarray]) -> StreamedTrials:
    for i, y in enumerate(ys):
        np.save(folder / f"t{i}.npy", y)
    return open_large(folder)


@pytest.mark.parametrize(
    ("posterior", "gaps", "batch_size"),
    [
        ("window", False, 512),
        ("linear", False, 512),
        ("window", True, 512),
        ("linear", True, 512),
        ("window", False, 8192),
    ],
)
def test_a_fit_from_files_is_the_fit_in_memory(tmp_path, posterior, gaps, batch_size):
    """Also where all of it is within one batch."""
    ys, settings = recordings(gaps), SETTINGS | {"posterior": posterior, "batch_size": batch_size}
    memory, files = GDM(**settings).fit(ys), GDM(**settings).fit(stored(tmp_path, ys))
    assert [p.objective for p in files.history_] == [p.objective for p in memory.history_]
    for name, value in memory.params_.items():
        np.testing.assert_array_equal(files.params_[name], value, err_msg=name)
    assert files.elbo_ == memory.elbo_
    assert files.status_ == memory.status_
    np.testing.assert_array_equal(files.calibration_.scale, memory.calibration_.scale)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("posterior", ["window", "linear"])
def test_bound_and_states_do_not_depend_on_blocks(tmp_path, monkeypatch, gaps, posterior):
    ys = recordings(gaps)
    source = stored(tmp_path, ys)
    model = GDM(**SETTINGS, posterior=posterior).fit(ys)
    monkeypatch.setattr(streaming, "BLOCK_ROWS", 300)
    monkeypatch.setattr(StreamedTrials.blocks, "__defaults__", (300,))
    assert model.score(source) == pytest.approx(model.score(ys), abs=1e-6)
    blocks = list(model.predict_blocks(source))
    assert max(len(block.states) for block in blocks) == 300
    for name, states in zip(("t0", "t1", "t2"), model.predict_proba(ys), strict=True):
        own = [block for block in blocks if block.trial == name]
        assert [block.begin for block in own] == list(range(0, len(states), 300))
        np.testing.assert_allclose(np.concatenate([block.states for block in own]), states, atol=1e-5)


def test_states_go_to_a_file_block_by_block(tmp_path):
    ys = recordings()
    source = stored(tmp_path, ys)
    model = GDM(**SETTINGS).fit(ys)
    found = np.concatenate(model.predict_proba(ys))
    np.testing.assert_allclose(np.load(model.predict_to(tmp_path / "out" / "states.npy", source)), found, atol=1e-5)
    table = pq.read_table(model.predict_to(tmp_path / "out" / "states.parquet", source)).to_pandas()
    assert list(table.columns) == ["trial", "sample", "S1", "S2", "S3"]
    assert table.groupby("trial", sort=False)["sample"].max().to_dict() == {"t0": 2599, "t1": 399, "t2": 2999}
    np.testing.assert_allclose(table[["S1", "S2", "S3"]].to_numpy(), found, atol=1e-5)
    with pytest.raises(ConfigError, match=r"\.npy or \.parquet"):
        model.predict_to(tmp_path / "states.csv", source)


def test_a_file_that_changes_ends_with_a_message_and_leaves_no_half_file(tmp_path):
    source = stored(tmp_path, recordings())
    model = GDM(**SETTINGS).fit(source)
    np.save(tmp_path / "t1.npy", np.zeros((400, 10), np.float32))  # rewritten in place
    with pytest.raises(DataError, match=r"t1\.npy changed after it was opened"):
        model.predict_to(tmp_path / "states.parquet", source)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["t0.npy", "t1.npy", "t2.npy"]


def test_an_infinite_value_is_named(tmp_path):
    ys = recordings()
    ys[1][17, 3] = np.inf
    with pytest.raises(DataError, match=r"'t1': y4 is infinite .* at sample 17"):
        GDM(**SETTINGS).fit(stored(tmp_path, ys))


@pytest.mark.bulk
def test_a_longer_recording_starts_from_an_excerpt(tmp_path, monkeypatch):
    """Then the fit is another one than in memory, and no worse."""
    ys = recordings()
    monkeypatch.setattr(streaming, "EXCERPT_ROWS", 2000)
    source = stored(tmp_path, ys)
    parts = source.excerpt(2000, 10)
    assert sum(map(len, parts)) == 2000
    assert {len(part) for part in parts} == {200}
    settings = SETTINGS | {"n_steps": 200}
    files, memory = GDM(**settings).fit(source), GDM(**settings).fit(ys)
    assert files.score(source) > memory.score(ys) - 0.3


def test_a_warm_start_goes_on_from_the_model(tmp_path):
    source = stored(tmp_path, recordings())
    first = GDM(**SETTINGS).fit(source)
    more = first.warm_start(n_states=4).fit(source)
    assert more.params_["dynamics"].shape[0] == 4
    assert np.isfinite(more.score(source))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"transition": "gru"}, "transition='gru' needs whole trials in memory"),
        ({"posterior": "sticky"}, "posterior='sticky' needs whole trials in memory"),
        ({"posterior": "auto"}, "posterior='auto' needs whole trials in memory"),
        ({"preset": "paper"}, "preset='paper' needs whole trials in memory"),
        ({"n_restarts": 2}, "n_restarts=2 needs whole trials in memory"),
    ],
)
def test_what_looks_at_whole_trials_is_refused(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        GDM(**(SETTINGS | settings)).fit(stored(tmp_path, recordings()))


def test_what_cannot_be_streamed_says_what_can(tmp_path):
    source = stored(tmp_path, recordings())
    with pytest.raises(DataError, match="GDM takes it in fit, score, predict_blocks and predict_to"):
        SLDS(2).fit(source)
    model = GDM(**SETTINGS).fit(source)
    with pytest.raises(DataError, match=r"data\.read\(begin, end\)"):
        model.predict_proba(source)
    with pytest.raises(ConfigError, match="Labels need recordings in memory"):
        model.fit(source, labels=[np.zeros(10)])
    np.save(tmp_path / "narrow.npy", np.zeros((50, 3), np.float32))
    with pytest.raises(DataError, match="fitted on 10 channels, this data has 3"):
        model.score(open_large(tmp_path / "narrow.npy"))


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the peak of resident memory is read from /proc")
@pytest.mark.bulk
def test_memory_does_not_grow_with_the_file(tmp_path):
    """A file of 120 MB takes no more memory than one of 24 MB, states written and bound computed."""
    program = textwrap.dedent(
        """
        import sys
        from datasets.large import open_large
        from gdm_core import GDM
        from gdm_core.models.gdm import streaming
        from gdm_core.streams import StreamedTrials
        streaming.EXCERPT_ROWS = 20_000
        streaming.BLOCK_ROWS = 16_384
        StreamedTrials.blocks.__defaults__ = (16_384,)
        source = open_large(sys.argv[1])
        model = GDM(n_states=2, n_latent=2, n_steps=5, batch_size=4096, posterior="linear").fit(source)
        model.predict_to(sys.argv[1] + ".states.npy", source)
        model.score(source)
        print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")))
        """
    )
    peaks = {}
    rng = np.random.default_rng(0)
    for n_rows in (100_000, 500_000):
        path = tmp_path / f"{n_rows}.npy"
        np.save(path, np.cumsum(rng.normal(size=(n_rows, 60)).astype(np.float32), axis=0))
        done = subprocess.run(
            [sys.executable, "-c", program, str(path)], cwd=ROOT, capture_output=True, text=True, check=True
        )
        peaks[n_rows] = int(done.stdout) / 1024
    assert peaks[500_000] - peaks[100_000] < 40, peaks  # MB; the file alone grew by 92
