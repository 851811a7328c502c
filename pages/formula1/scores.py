"""Accuracy of states and forecasts: the score card, and the accuracy against the number of states."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import streamlit as st

from gdm_core.analysis.controls import accuracy_controls, supervised_controls
from gdm_core.engine.job import Bulk
from gdm_core.engine.sweep import Record, Records, Sweep
from gdm_studio.plot import figures
from pages import lab
from pages.formula1.driver_states import race_of
from pages.lab import View, live
from pages.lab import scores as rows
from pages.lab.card import Rows
from pages.lab.live.background import show_progress, visitor_jobs
from pages.lab.live.queries import query_key
from pages.ui import settings, shell
from pages.ui.card import Score
from pages.ui.controls import number_in_address, slide, switch
from pages.ui.model_controls import Choice
from pages.ui.plot import plot

TESTED = "other driver"
PAPER = "10-NN accuracy (paper's metric)"
NAMES = "Segment accuracy"
ACTIVITY_ACCURACY = "Activity accuracy"
NAIVE = ("untrained model", "majority class")
_CAUTION = (
    "10-NN accuracy can be high even for an untrained model, because soft states encode position. "
    "Segment accuracy is stricter."
)
_PAPER_HELP = (
    "Predicts the track segment from the soft states by ten nearest neighbours in the reference driver's laps. "
    "Measured on the held-out driver."
)
_ACTIVITY_HELP = (
    "Each state is assigned the reference driver's most frequent activity in it (braking, cornering, full or part throttle), "
    "and scored on the other driver. Supervised classifiers on the same channels show the attainable accuracy."
)
_VOTE_HELP = (
    "Each state is assigned the segment where the reference driver uses it most, and scored on the other driver. "
    "A state used in several segments counts for one of them."
)


def show_card(view: lab.View) -> None:
    """Show the score card and how to read it."""
    lab.show_scorecard(view, rows_of(view))
    race = race_of(view)
    if view.settled and race.train.segment is not None and not race.pick.selection.drives:
        with view.frame.card, shell.made_for(view.made_for):
            shell.quiet(_CAUTION)


def rows_of(view: lab.View) -> Rows:
    """Return a function from scores to rows: activities for telemetry states, segments for position states."""
    if race_of(view).pick.selection.drives:
        supervised = _supervised_accuracy(view)
        return lambda scores: driving_rows(scores, supervised)
    return score_rows


def _supervised_accuracy(view: lab.View) -> Mapping[str, float]:
    """Return accuracies of supervised classifiers; {} until they are known."""
    if found := view.known_scores.get("supervised"):
        return dict(found)
    if not view.settled:
        return {}
    sides = (view.dataset.train, view.dataset.test)
    key = query_key("supervised", supervised_controls, sides)
    answer = view.fit.query("supervised", key, supervised_controls, *sides, kept=view.dataset.keep)
    return answer.value if answer.fresh else {}


def driving_rows(scores: Mapping[str, Any], supervised: Mapping[str, float]) -> list[Score]:
    """Return rows for states of car telemetry."""
    others = [*supervised.items()]
    activity = rows.accuracy_row(
        scores, "majority_map_accuracy", ACTIVITY_ACCURACY, _ACTIVITY_HELP, small=NAIVE, others=others
    )
    return rows.drop_missing([activity, *_predictions(scores)])


def score_rows(scores: Mapping[str, Any]) -> list[Score]:
    """Return rows for states of positions."""
    fields = {"majority_map_accuracy": (NAMES, _VOTE_HELP), "paper_accuracy": (PAPER, _PAPER_HELP)}
    accuracy = [  # neighbours of raw positions know the segment by definition: not a baseline
        rows.accuracy_row(scores, field, *words, is_excluded=lambda base: base.startswith("10-NN"), small=NAIVE)
        for field, words in fields.items()
    ]
    return rows.drop_missing([*accuracy, *_predictions(scores)])


def _predictions(scores: Mapping[str, Any]) -> list[Score | None]:
    step = "One time step is 0.25 s by default."
    return [rows.forecast_row(scores, TESTED, step), rows.coverage_row(scores, TESTED)]


def kind_of(choice: Choice) -> str:
    """Return the definition of states in a word; "" if the family has no choice."""
    return {"linear": "places", "window": "moves"}.get(str(choice.config.get("posterior", "")), "")


# ---- accuracy against K ----
STATES = tuple(range(2, 11))
SCORER = "gdm_core.analysis.state_scores:state_accuracy"
SCORES = {
    "paper_accuracy": "10-NN accuracy (paper's metric)",
    "majority_map_accuracy": "Segment accuracy (one segment per state)",
}
RSLDS = {"transitions": "recurrent"}
UNTRAINED, CLUSTERS, MAJORITY = "untrained", "best clustering", "majority class"
Controls = dict[int, dict[str, dict[str, float]]]
Run = Bulk[dict[str, Records]]


def sweeps(view: View, n_seeds: int, both: bool) -> dict[str, Sweep]:
    """Return the sweeps behind the curves by model name."""
    seeds = tuple(range(n_seeds))
    config = {name: value for name, value in view.choice.config.items() if name not in ("n_states", "seed")}
    ours = f"GDM, {kind}" if (kind := kind_of(view.choice)) else view.choice.label
    grid = {"n_states": STATES}
    train, test = view.dataset.train, view.dataset.test
    found = {ours: Sweep(view.choice.family, config, grid, seeds, train, test, SCORER)}
    if both:
        base = RSLDS | {"n_latent": config.get("n_latent", 2)}
        found["Recurrent SLDS"] = Sweep("slds", base, grid, seeds, train, test, SCORER)
    return found


def start(planned: Mapping[str, Sweep]) -> None:
    """Start the sweeps of this visitor and cancel earlier ones."""
    engine = live.panels.engine()
    visitor_jobs().end("accuracy")
    bulks = [one.start(engine, f"{live.visitor()}/accuracy") for one in planned.values()]
    jobs = {name: job for bulk in bulks for name, job in bulk.jobs.items()}
    run = Bulk(jobs, lambda view: {name: one.collect(view) for name, one in planned.items()})
    visitor_jobs().get(("accuracy", tuple(one.key for one in planned.values())), lambda: run)


def table(records: Sequence[Record], score: str, n_seeds: int) -> np.ndarray[Any, Any]:
    """Return [K, seeds] values of a score; NaN for unfinished fits."""
    found = np.full((len(STATES), n_seeds), np.nan, np.float32)
    for record in records:
        k = record.config["n_states"]
        if score in record.scores and k in STATES and record.seed < n_seeds:
            found[STATES.index(k), record.seed] = record.scores[score]
    return found


def show_accuracy(view: View) -> None:
    """Show a start button and curves that grow as fits finish."""
    race = race_of(view)
    if race.train.segment is None or race.test.segment is None:
        shell.empty(
            "No segments", "Accuracy is measured against track segments, which need corners. Choose another session."
        )
        return
    left, middle, right = st.columns([0.3, 0.3, 0.4], gap="medium", vertical_alignment="bottom")
    with left:
        n_seeds = slide("Seeds", 1, 5, 3, key="seeds", help="Each K is fitted once per seed.")
    both = switch("Add recurrent SLDS", True, key="rslds", place=middle, help="Same protocol; takes longer.")
    planned, run = _find_run(view, n_seeds, both)
    if run is None:
        total = sum(len(one.cells()) for one in planned.values())
        refused = "Fits could not be started"
        begin = partial(start, planned)
        shell.begin_button(f"Fit {total} models", begin, refused, key="f1-sweep", place=right, type="primary")
        shell.empty(
            "Accuracy against K",
            f"Fits K = {STATES[0]} to {STATES[-1]} on {race.pick.train} and scores the states of {race.pick.test}: "
            f"{live.estimate_wait(total * (0.5 + view.dataset.train.n_samples * 1e-4))}. Runs continue when you leave "
            "this page.",
        )
        return
    if not run.ended:
        right.button("Stop", key="f1-sweep-stop", on_click=visitor_jobs().end, args=("accuracy",))
    _draw(view, run, n_seeds)


def _draw(view: View, run: Run, n_seeds: int) -> None:
    found, records = run.poll(), run.read()
    show_progress("accuracy-progress", run, found.finished)
    ended = found.done == found.total
    beaten, more = find_baselines(view) if ended else ({}, live.Query())  # baselines run after the fits
    for column, (score, words) in zip(st.columns(len(SCORES), gap="small"), SCORES.items(), strict=True):
        with column, shell.panel(f"against-{score}", words):
            if (curves := draw_curves(records, n_seeds, beaten, score)) is None:
                shell.quiet("The first fits are running.")
            else:
                plot(curves, key=f"against-{score}")
    live.show_failure(view.fit, more, "Baselines could not be computed")
    if more.pending:
        shell.quiet(f"Baselines computed for {len(beaten)} of {len(STATES)} values of K.")
    trouble = [record.message for one in records.values() for record in one if record.message]
    if trouble:
        shell.quiet(f"{len(trouble)} of the fits failed: {trouble[0]}")
    for note in found.notes:
        shell.quiet(note)
    spent = [f"{sum(r.seconds for r in one if not r.message):.0f} s ({name})" for name, one in records.items()]
    shell.quiet(f"{found.seconds:.0f} s; fitting took {', '.join(spent)}. Scores are for the held-out driver.")


def find_baselines(view: View) -> tuple[Controls, live.Query]:
    """Return baselines by number of states, and the query of the next one."""
    found: Controls = {}
    failed = live.Query()
    choice, data = view.choice, view.dataset
    for k in STATES:
        question = (choice.family, dict(choice.config) | {"n_states": k}, data.train, data.test)
        key = query_key("controls", accuracy_controls, question)
        answer = view.fit.query(f"controls-{k}", key, accuracy_controls, *question)
        if answer.fresh:
            found[k] = answer.value
        elif answer.pending:
            return found, answer
        else:
            failed = answer
    return found, failed


def baseline_curves(found: Controls, score: str) -> dict[str, np.ndarray[Any, Any]]:
    """Return [K, 1] scores of the untrained model and of the best clustering."""
    starts = {UNTRAINED: ("untrained model",), CLUSTERS: ("k-means", "Gaussian HMM")}
    lines = {
        name: [
            max((one[score] for base, one in found.get(k, {}).items() if base.startswith(bases)), default=np.nan)
            for k in STATES
        ]
        for name, bases in starts.items()
    }
    return {name: np.array(line, np.float32)[:, None] for name, line in lines.items() if np.isfinite(line).any()}


def draw_curves(
    records: Mapping[str, Sequence[Record]], n_seeds: int, beaten: Controls, score: str
) -> figures.Figure | None:
    """Draw a score against K with its baselines; None with fewer than two points."""
    curves = {name: table(found, score, n_seeds) for name, found in records.items()}
    curves = {name: values for name, values in curves.items() if np.isfinite(values).any(axis=1).sum() > 1}
    if not curves:
        return None
    known = np.any([np.isfinite(values).any(axis=1) for values in curves.values()], axis=0)
    guess = next((one["majority class"][score] for one in beaten.values()), None)
    return figures.sweep(
        np.array(STATES)[known],
        {name: values[known] for name, values in (curves | baseline_curves(beaten, score)).items()},
        lines={} if guess is None else {MAJORITY: guess},
        caption="Line: mean over seeds; band: one standard deviation; dots: single fits. Baselines: the same model "
        "untrained, and the better of k-means and a Gaussian HMM on position and steps, for each K.",
    )


def exported(view: View) -> dict[str, Callable[[], figures.Figure | None]]:
    """Return the curves of this visitor's fits, as far as they have finished."""
    for name in ("seeds", "rslds"):  # the controls are hidden now
        settings.keep(name, settings.text(name))
    n_seeds, both = number_in_address("seeds", "Seeds", 1, 5, 3), settings.text("rslds") != "false"
    _, run = _find_run(view, n_seeds, both)
    if run is None:
        return {}
    records = run.read()
    beaten, _ = find_baselines(view)
    return {words: partial(draw_curves, records, n_seeds, beaten, score) for score, words in SCORES.items()}


def _find_run(view: View, n_seeds: int, both: bool) -> tuple[dict[str, Sweep], Run | None]:
    """Return the sweeps behind the curves, and their run once it was started."""
    planned = sweeps(view, n_seeds, both)
    return planned, visitor_jobs().find(("accuracy", tuple(one.key for one in planned.values())))
