"""Write the results on the Home page, from real fits: `python assets/make_demo.py [name ...]`.

Each maker writes the first result of a page and returns its card (pages/ui/shipped.py): the test trial of the first
seed, with scores over several seeds and their baselines.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))


from datasets import formula1, nascar  # noqa: E402
from gdm_core import GDM  # noqa: E402
from gdm_core.analysis.controls import supervised_controls  # noqa: E402
from gdm_core.analysis.matching import contrasting_order  # noqa: E402
from gdm_core.analysis.metrics import evaluate  # noqa: E402
from gdm_core.analysis.state_scores import match_states  # noqa: E402
from gdm_core.engine import FitResult, FitSpec, Snapshot  # noqa: E402
from gdm_core.engine.results import from_levels, to_levels  # noqa: E402
from gdm_core.models.progress import Status  # noqa: E402
from gdm_core.models.warm import compile_loops  # noqa: E402
from gdm_core.trials import Trials, as_trials  # noqa: E402
from gdm_studio.plot import palette  # noqa: E402
from gdm_studio.seeds import MORE_SEEDS  # noqa: E402
from pages.formula1 import data as laps  # noqa: E402
from pages.formula1.circuit import turned  # noqa: E402
from pages.formula1.controls import FIFTH  # noqa: E402
from pages.formula1.scores import driving_rows  # noqa: E402
from pages.formula1.selection import CAR_CHANNELS, Selection  # noqa: E402
from pages.lab.card import with_spread  # noqa: E402
from pages.lab.live.state import unpack  # noqa: E402
from pages.nascar import simulator as lab  # noqa: E402
from pages.nascar.pictures import score_rows  # noqa: E402
from pages.ui import shipped  # noqa: E402
from pages.ui.card import Score  # noqa: E402
from pages.ui.shipped import Card, write_card  # noqa: E402

SEEDS = range(5)
MAX_SNAPSHOTS = 12
SNAPSHOT_BYTES = 10_000


def fit_result(train: Trials, config: dict[str, Any]) -> FitResult:
    """Fit a model and return an engine result with snapshots and its processor time in seconds."""
    model, spent_s, preview = GDM(**config), 0.0, range(len(train))
    snapshots: list[Snapshot] = []
    began = time.process_time()
    for progress in model.fit_iter(train, start=True):
        paused = time.process_time()
        snapshots.append(thinned(Snapshot.from_model(model, train, preview, progress.step, progress.elbo, rough=True)))
        spent_s += time.process_time() - paused
    seconds = time.process_time() - began - spent_s
    snapshots = [snapshots[i] for i in np.unique(np.linspace(0, len(snapshots) - 1, MAX_SNAPSHOTS).astype(int))[:-1]]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.safetensors"
        model.save(path)
        content = path.read_bytes()
    steps, elbos = zip(*((p.step, p.elbo) for p in model.history_), strict=True)
    # At full resolution; a worker would thin long trials.
    levels = tuple(to_levels(soft) for soft in model.predict_proba(train))
    last = Snapshot(steps[-1], tuple(preview), (1,) * len(train), levels, elbos[-1])
    return FitResult("", content, str(model.status_), model.elbo_, seconds, steps, elbos, (*snapshots, last))


def write_variants(name: str, train: Trials, test: Trials, config: dict[str, Any]) -> None:
    """Write fits with other numbers of states and temperatures; the preview of K draws them on a first visit."""
    for part, changes in shipped.VARIANTS.items():
        if config == config | dict(changes):
            continue
        result = fit_result(train, config | dict(changes))
        if result.fit_status == Status.FAILED:
            continue
        *earlier, last = result.snapshots
        last = Snapshot.from_model(result.model(), train, last.preview, last.step, last.elbo)
        shipped.write_variant(name, train, test, part, replace(result, snapshots=(*earlier[::4], last)))


def thinned(snapshot: Snapshot) -> Snapshot:
    """Return the snapshot with fewer samples, to keep files small."""
    every = -(-snapshot.n_bytes // SNAPSHOT_BYTES)
    levels, strides = (level[::every] for level in snapshot.levels), (every * stride for stride in snapshot.strides)
    return replace(snapshot, levels=tuple(levels), strides=tuple(strides))


def strip_texts(row: Score) -> Score:
    """Return a row of the page's scores without name and help, for a card."""
    majority = [other for other in row.others if other[0] == "majority class"]
    return Score("", row.value, row.line, row.line_name, row.spread, ahead=row.ahead, others=majority)


def write_nascar() -> None:
    """Write the first results of the NASCAR lab."""
    for name, track in lab.BUNDLED.items():
        train, test = map(as_trials, nascar.train_test(track.setting, track.seed, track.length))
        result = fit_result(train, lab.FIRST_CONFIG)
        seed = lab.FIRST_CONFIG["seed"]
        scores = evaluate(result.model(), train, test, seed).to_dict()
        seeds = [
            evaluate(fit_result(train, lab.FIRST_CONFIG | {"seed": more}).model(), train, test, more).to_dict()
            for more in range(seed + 1, seed + MORE_SEEDS + 1)
        ]
        spec = FitSpec("gdm", lab.FIRST_CONFIG, train, test=test)
        shipped.write(name, spec, result, {"scores": scores, "seeds": seeds})
        write_variants(name, train, test, lab.FIRST_CONFIG)


def make_nascar() -> Card:
    """Write the lab's first results and return a card of the soft track."""
    write_nascar()
    found = shipped.load("nascar-soft")
    assert found is not None
    _, test = map(as_trials, nascar.train_test("soft", seed=0))
    assert found.result.states is not None
    states = from_levels(found.result.states.test[0])
    order = match_states(states.argmax(axis=1), test[0].labels, 4)
    coloured = np.zeros_like(states)
    coloured[:, order] = states  # state k of the model takes the colour of the true state it matches
    # The row that the lab shows for this result, so card and page have the same number.
    row, *_ = with_spread(
        score_rows(found.result.scores["scores"]), [score_rows(one) for one in found.result.scores["seeds"]]
    )
    return Card(
        test[0].position,
        coloured,
        strip_texts(row),
        {"trial": "Held-out"},
    )


def make_formula1() -> Card:
    """Write the page's first result and return a card of the fifth driver."""
    session = formula1.simulate_race(laps.FIRST_CIRCUIT)
    codes = session.codes[0], session.codes[FIFTH]
    selection = Selection("racing", CAR_CHANNELS)
    train, test = (formula1.to_trials(session, code, **selection.options(session, code)) for code in codes)  # type: ignore[arg-type]
    torch.set_num_threads(1)  # as in workers and exported scripts; more threads change the last bits
    config = laps.FIRST_CONFIG
    result = fit_result(train, config)
    scores = evaluate(result.model(), train, test, config["seed"]).to_dict()
    seeds = [
        evaluate(fit_result(train, config | {"seed": seed}).model(), train, test, seed).to_dict()
        for seed in range(config["seed"] + 1, config["seed"] + MORE_SEEDS + 1)
    ]
    controls = supervised_controls(train, test)
    spec, more = FitSpec("gdm", config, train, test=test), {"scores": scores, "seeds": seeds, "supervised": controls}
    shipped.write(laps.SHIPPED, spec, result, more)
    write_variants(laps.SHIPPED, train, test, config)
    row, *_ = with_spread(driving_rows(scores, controls), [driving_rows(one, controls) for one in seeds])
    assert result.snapshot is not None
    states = np.concatenate(result.model().predict_proba(test))
    position, lap = (np.concatenate([getattr(trial, name) for trial in test]) for name in ("position", "segments"))
    part = np.isin(lap, (2, 3, 4))  # one lap has gaps, and many laps overlap
    fitted_on = np.concatenate(unpack(result.snapshot, train))
    order = list(contrasting_order(fitted_on, palette.DIFFERENCES))  # the page's colours of the fitted driver
    place = turned(position[part], session.rotation)
    return Card(
        place,
        states[part][:, order],
        strip_texts(row),
        {"who": "test", "source": "simulated", "view": "Compare"},
    )


MAKERS: dict[str, Callable[[], Card]] = {"nascar-soft": make_nascar, laps.SHIPPED: make_formula1}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"one of {', '.join(MAKERS)} (default: all)")
    names = parser.parse_args().names or list(MAKERS)
    unknown = [name for name in names if name not in MAKERS]
    if unknown:
        print(f"Unknown result {unknown[0]!r}; known: {', '.join(MAKERS)}.", file=sys.stderr)
        return 2
    for _ in compile_loops():  # the files say how long each fit took
        pass
    for name in names:
        write_card(name, MAKERS[name]())
    return 0


if __name__ == "__main__":
    sys.exit(main())
