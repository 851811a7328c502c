"""Forged input in bulk: `python -m benchmarks.hostile --n 10000`.

Addresses, messages of the browser, uploads, files of labels and marks, and model files, made from a seed by
tests/support/forged.py. Each has to be taken, or refused with a message of this project's own (a GdmError). Anything else
that is raised, and anything that takes over a minute of the processor, is a failure and named with its input.
"""

from __future__ import annotations

import argparse
import io
import resource
import signal
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from benchmarks import report
from datasets import keypoints, tables
from datasets.marks import Marks
from gdm_core.models.loading import model_from_bytes
from gdm_core.trials import Trial, Trials
from tests.support import forged
from tests.support.attempts import Found, attempt
from tests.support.forged import Rng

HANG_S = 60  # of the processor; the slowest of all takes a second
RECORDING = Trials((Trial(np.zeros((100, 2), np.float32), name="a"),))


class Hang(Exception):
    """An input that took too long."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=10_000, help="inputs of all kinds together (10000)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kinds", nargs="+", default=list(SHARES), choices=list(SHARES))
    parser.add_argument("--json", nargs="?", const="-", help="a file for the figures, - for the screen")
    arguments = parser.parse_args()
    results = run(arguments.n, arguments.seed, arguments.kinds)
    if arguments.json == "-":
        import json

        print(json.dumps(results))
    else:
        rows = [
            [kind, *(one[name] for name in ("taken", "refused", "slowest_s"))] for kind, one in results["kinds"].items()
        ]
        print(report.table("Forged input", ["kind", "taken", "refused", "slowest s"], rows))
        print(f"{results['memory_mb']:.0f} MB more than before the first input\n")
        for failure in results["failures"]:
            print(failure)
        report.write(arguments.json, results)
    sys.exit(bool(results["failures"]))


def run(n: int, seed: int, kinds: list[str]) -> dict[str, Any]:
    """What became of `n` inputs."""
    whole = sum(SHARES[kind] for kind in kinds)
    forged.models()
    before = _peak_mb()
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # remarks of openpyxl and pandas on odd files
        for number, kind in enumerate(kinds):
            found[kind] = KINDS[kind](max(1, round(n * SHARES[kind] / whole)), np.random.default_rng([seed, number]))
    return {
        "n": sum(one.taken + one.refused + len(one.failures) for one in found.values()),
        "seed": seed,
        "memory_mb": _peak_mb() - before,
        "kinds": {
            kind: {"taken": one.taken, "refused": one.refused, "failed": len(one.failures), "slowest_s": round(one.slowest_s, 3)}
            for kind, one in found.items()
        },
        "failures": [f"{kind}: {failure}" for kind, one in found.items() for failure in one.failures],
    }  # fmt: skip


def _peak_mb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1024 if sys.platform != "darwin" else 1 << 20)


@contextmanager
def no_hang() -> Iterator[None]:
    """Ends what uses the processor for over a minute."""

    def stop(*_: object) -> None:
        raise Hang(f"over {HANG_S} s of the processor")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, HANG_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


# ---- kinds --------------------------------------------------------------------------------------------------------
def uploads(n: int, rng: Rng) -> Found:
    """Files, read as each page reads them, and used."""
    found = Found()
    for i in range(n):
        name, content = forged.file(rng)
        reader = (keypoints.read_any, tables.read, keypoints.read)[i % 3]

        def use(name: str = name, content: bytes = content, reader: Callable[..., Any] = reader) -> None:
            read = reader(io.BytesIO(content), name)
            if isinstance(read, tables.Table):
                read.report().sentences()
                read.to_trials(fill_seconds=0.1, drop_outliers=True)
            else:
                keypoints.report(read)
                keypoints.clean(read, 0.3, True, 0.1, True, True).to_trial()

        with _guarded(found, name):
            attempt(found, f"{name[:80]} of {len(content)} bytes, {content[:60]!r}", use)
    return found


def labels(n: int, rng: Rng) -> Found:
    found = Found()
    for i in range(n):
        if i % 2:
            text = forged.marks(rng)
            attempt(found, text, lambda text=text: _use(Marks.from_json(text)))
        else:
            content = forged.annotation(rng)
            name = str(rng.choice(["a.csv", "a.txt", "a.annot", "a.tsv"]))
            attempt(found, repr(content), lambda c=content, a=name: _use(Marks.from_annotation(c, "a", 25.0, a)))
    return found


def _use(marks: Marks) -> None:
    Marks.from_json(marks.to_json())
    marks.seconds(RECORDING)
    marks.to_boris(RECORDING)


def model_files(n: int, rng: Rng) -> Found:
    found = Found()
    for _ in range(n):
        content = forged.model_file(rng)

        def use(content: bytes = content) -> None:
            model = model_from_bytes(content)
            model.predict_proba(np.zeros((model.min_samples + 5, model.n_channels), np.float32))
            model.to_bytes()

        with _guarded(found, "a model"):
            attempt(found, repr(content[8:]), use)
    return found


@contextmanager
def _guarded(found: Found, what: str) -> Iterator[None]:
    try:
        with no_hang():
            yield
    except Hang as error:
        found.failures.append(f"{what[:100]!r}: {error}")


def addresses(n: int, rng: Rng) -> Found:
    return _in_a_page("addresses", n, rng)


def messages(n: int, rng: Rng) -> Found:
    return _in_a_page("messages", n, rng)


def _in_a_page(what: str, n: int, rng: Rng) -> Found:
    """What reads addresses and messages wants a page around it: one that asks for them again and again."""
    from streamlit.testing.v1 import AppTest

    def script(what, n, rng, found):  # its source is run elsewhere, without what is imported here
        from benchmarks import hostile_page

        getattr(hostile_page, what)(n, rng, found)

    found = Found()
    app = AppTest.from_function(
        script, default_timeout=600, kwargs={"what": what, "n": n, "rng": rng, "found": found}
    ).run()
    found.failures += [f"the page itself: {one.message}" for one in app.exception]
    return found


KINDS: dict[str, Callable[[int, Rng], Found]] = {
    "addresses": addresses,
    "messages": messages,
    "uploads": uploads,
    "labels": labels,
    "models": model_files,
}
SHARES = {"addresses": 25, "messages": 15, "uploads": 30, "labels": 15, "models": 15}  # of all inputs, in percent

if __name__ == "__main__":
    main()
