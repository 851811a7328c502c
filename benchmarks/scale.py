"""What fits cost as data grow: `python -m benchmarks.scale [--large] [--quick] [--json FILE]`.

Everything is simulated: a latent path turns and drifts by the state that holds for a while, seen in N noisy channels. Tables:
T from 10,000 to 1,000,000 (N = 10, D = 2, K = 4) and K from 2 to 12 (N = 100, D = 6, 1,000 trials, 1,000,000 samples), both in
memory; --large adds 50,000,000 samples in a file, fitted, scored and read out by blocks (give --rows for fewer, --keep for
the folder). Each row is a process of its own, so that its peak of memory is its own. Times are processor seconds.
"""

from __future__ import annotations

import argparse
import json
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from datasets.large import open_large
from gdm_core import GDM
from gdm_core.maths.threads import one_thread

CHUNK = 500_000  # samples simulated at a time


def peak_memory_mb() -> float:
    """Largest resident memory of this process so far. Where /proc is, its own alone: the other counts the parent's, too."""
    status = Path("/proc/self/status")
    if status.exists():
        return next(int(line.split()[1]) for line in status.read_text().splitlines() if line.startswith("VmHWM")) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform == "darwin" else 1024)


def simulated(n_samples: int, n_channels: int, n_latent: int, n_states: int, seed: int = 0) -> Iterator[np.ndarray]:
    """Stretches of a recording [<= CHUNK, N]: each state turns the latent plane(s) about a centre of its own."""
    rng = np.random.default_rng(seed)
    emission = rng.normal(size=(n_latent, n_channels)).astype(np.float32)
    skew = rng.normal(size=(n_states, n_latent, n_latent)) * 0.15
    turn = np.linalg.qr(np.eye(n_latent) + skew - np.swapaxes(skew, 1, 2))[0]
    turn *= np.sign(np.diagonal(turn, axis1=1, axis2=2))[:, None, :]
    center = rng.normal(size=(n_states, n_latent))
    # Many independent paths side by side, then one after the other: a loop over a few hundred steps, not over all.
    lanes, left = 1000, n_samples
    while left > 0:
        length = min(CHUNK, left)
        steps = -(-length // lanes)
        states = np.repeat(rng.integers(0, n_states, (lanes, steps // 25 + 1)), 25, axis=1)[:, :steps]
        x = np.empty((lanes, steps, n_latent))
        now = rng.normal(size=(lanes, n_latent))
        for t in range(steps):
            z = states[:, t]
            now = 0.98 * np.einsum("bij,bj->bi", turn[z], now - center[z]) + center[z]
            now += 0.03 * rng.normal(size=now.shape)
            x[:, t] = now
        y = x.reshape(-1, n_latent)[:length].astype(np.float32) @ emission
        y += 0.2 * rng.standard_normal(y.shape, dtype=np.float32)
        yield y
        left -= length


def in_memory(n_samples: int, n_channels: int, n_latent: int, n_states: int, n_trials: int) -> dict[str, Any]:
    """One fit to its end, and its read-out, in this process."""
    y = np.concatenate(list(simulated(n_samples, n_channels, n_latent, n_states)))
    trials = [np.ascontiguousarray(part) for part in np.array_split(y, n_trials)]
    del y
    before = peak_memory_mb()
    model = GDM(n_states=n_states, n_latent=n_latent)
    began = time.process_time()
    steps = model.fit_iter(trials)
    for _ in steps:
        stepped = time.process_time()
    fitted = time.process_time()
    model.predict_proba(trials)
    done = time.process_time()
    return {
        "T": n_samples,
        "N": n_channels,
        "D": n_latent,
        "K": n_states,
        "trials": n_trials,
        "steps s": stepped - began,
        "fit s": fitted - began,
        "read-out s": done - fitted,
        "us a sample": 1e6 * (done - began) / n_samples,
        "data MB": 4 * n_samples * n_channels / 2**20,
        "peak MB": peak_memory_mb(),
        "peak before the fit MB": before,
        "status": str(model.status_),
        "ELBO": model.elbo_,
    }


def out_of_memory(path: Path, n_states: int, n_latent: int) -> dict[str, Any]:
    """One fit from a file, the bound of everything and the states of everything, in this process."""
    source = open_large(path)
    model = GDM(n_states=n_states, n_latent=n_latent)
    began, clock = time.process_time(), time.perf_counter()
    model.fit(source)
    fitted, fit_clock = time.process_time(), time.perf_counter()
    print(f"fitted in {fitted - began:.1f} s, peak {peak_memory_mb():.0f} MB", file=sys.stderr)
    states = model.predict_to(path.with_name("states.npy"), source)
    read = time.process_time()
    print(f"states written in {read - fitted:.1f} s, peak {peak_memory_mb():.0f} MB", file=sys.stderr)
    elbo = model.score(source)
    done = time.process_time()
    found = np.load(states, mmap_mode="r")
    assert found.shape == (source.n_samples, n_states)
    return {
        "T": source.n_samples,
        "N": source.n_channels,
        "file MB": path.stat().st_size / 2**20,
        "fit s": fitted - began,
        "fit clock s": fit_clock - clock,
        "states s": read - fitted,
        "bound s": done - read,
        "peak MB": peak_memory_mb(),
        "status": str(model.status_),
        "ELBO": elbo,
        "ELBO of the excerpt": model.elbo_,
    }


def of_its_own(function: str, *arguments: Any) -> dict[str, Any]:
    """What a function of this file returns, from a process of its own."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.scale", "--one", function, *map(str, arguments)],
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def show(title: str, rows: list[dict[str, Any]]) -> None:
    print(f"\n{title}\n" + "  ".join(f"{key:>12}" for key in rows[0]))
    for row in rows:
        cells = (f"{v:,.2f}" if isinstance(v, float) else f"{v:,}" if isinstance(v, int) else v for v in row.values())
        print("  ".join(f"{cell:>{max(12, len(key))}}" for key, cell in zip(row, cells, strict=True)))


def write_file(path: Path, n_samples: int, n_channels: int, n_latent: int, n_states: int) -> None:
    """A .npy file, simulated piece by piece."""
    if shutil.disk_usage(path.parent).free < 4 * n_samples * (n_channels + 2 * n_states):
        raise SystemExit(f"{path.parent} has no room for {n_samples:,} samples and their states; give fewer --rows.")
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n_samples, n_channels)}
        np.lib.format.write_array_header_1_0(file, header)
        for part in simulated(n_samples, n_channels, n_latent, n_states):
            file.write(part.tobytes())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the smaller half of the rows")
    parser.add_argument("--large", action="store_true", help="also a file of --rows samples, fitted out of memory")
    parser.add_argument("--only-large", action="store_true", help="nothing but that")
    parser.add_argument(
        "--rows", type=int, default=50_000_000, help="samples of the large file (10 channels, 4 bytes each)"
    )
    parser.add_argument("--keep", type=Path, help="folder for the large file, which then stays")
    parser.add_argument("--json", type=Path, help="write every number here")
    parser.add_argument("--one", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        name, *rest = options.one
        functions = {"in_memory": in_memory, "out_of_memory": out_of_memory}
        with one_thread():
            found = functions[name](*(int(part) if part.isdigit() else Path(part) for part in rest))
        print(json.dumps(found))
        return
    results: dict[str, Any] = {}
    if not options.only_large:
        lengths = (10_000, 100_000) if options.quick else (10_000, 30_000, 100_000, 300_000, 1_000_000)
        results["T"] = [of_its_own("in_memory", n, 10, 2, 4, 1) for n in lengths]
        show("Length of one recording, in memory", results["T"])
        states, total = ((2, 4), 100_000) if options.quick else ((2, 4, 8, 12), 1_000_000)
        results["K"] = [of_its_own("in_memory", total, 100, 6, k, 1000) for k in states]
        show("Number of states, 1,000 trials of 100 channels, in memory", results["K"])
    if options.large or options.only_large:
        with tempfile.TemporaryDirectory() as temporary:
            folder = options.keep or Path(temporary)
            folder.mkdir(parents=True, exist_ok=True)
            path = folder / "large.npy"
            write_file(path, options.rows, 10, 2, 4)
            results["large"] = [of_its_own("out_of_memory", path, 4, 2)]
        show("A file, out of memory", results["large"])
    if options.json:
        options.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
