"""Scores come by and by: the first line while the rest is measured, and what nobody waits for behind everything else."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import partial
from typing import Any

import pytest

from datasets.nascar import train_test
from gdm_core.analysis import bout_scores, looks, metrics
from gdm_core.analysis.metrics import Scores
from gdm_core.engine import Job, JobStatus, worker
from gdm_core.engine.control import Control, JobCancelled, Orders
from gdm_core.engine.jobs import Call, FairQueue
from gdm_core.trials import Trials
from pages.lab.live.answers import Answers
from tests.support.live_engine import QuickEngine, Sketch

TRAIN, TEST = (Trials((trial,)) for trial in train_test("standard", 0, 240))
BEGIN = partial(Control, "job", "topic", Orders(), deadline_s=60.0, hold_limit_s=60.0)


def model() -> bytes:
    return Sketch(n_states=4).fit(TRAIN).to_bytes()


@pytest.fixture
def said(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """What calls tell while they run, here."""
    heard: list[dict[str, Any]] = []

    @contextmanager
    def controlled(control: Control) -> Iterator[Control]:
        yield control

    monkeypatch.setattr(worker, "controlled", controlled)
    monkeypatch.setattr(worker, "prepare", lambda: None)
    monkeypatch.setattr(Control, "send", lambda self, kind, **content: heard.append({"kind": kind} | content))
    return heard


def counting(end: int) -> Iterator[dict[str, int] | None]:
    for n in range(1, end):
        yield {"n": n}
        yield None
    yield {"n": end}


def test_a_call_that_yields_tells_what_it_has_found_and_ends_with_the_whole(said: Any) -> None:
    assert worker.run(BEGIN, counting, 3) == (JobStatus.DONE, {"n": 3})
    assert [one["found"] for one in said if one["kind"] == "found"] == [{"n": 1}, {"n": 2}, {"n": 3}]
    job = Job(Call(counting, (3,), 60.0), "s", None, True, lambda _: None)
    for event in said:
        job.apply(event)
    assert job.poll().found == {"n": 3}
    assert worker.run(BEGIN, divmod, 7, 2) == (JobStatus.DONE, (3, 1))


def test_a_call_that_nobody_wants_any_more_ends_where_it_tells(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Control, "send", lambda self, kind, **content: self.cancel())
    with pytest.raises(JobCancelled):
        worker._whole(counting(3), BEGIN())


def test_scores_come_part_by_part_and_are_the_same_in_the_end() -> None:
    parts = list(metrics.score_parts(Sketch(n_states=4).fit(TRAIN), TRAIN, TEST))
    assert len(parts) == len(metrics.PARTS)
    names = [name for part in parts for name in part]
    assert sorted(names) == sorted(one.name for one in fields(Scores)), "each field once"
    told = list(looks.score_parts(model(), TRAIN, TEST))
    assert [one.get("under_way") for one in told] == [
        *([name, number, 5] for number, name in enumerate(metrics.PARTS[1:], start=1)), None,
    ]  # fmt: skip
    whole = metrics.evaluate(Sketch(n_states=4).fit(TRAIN), TRAIN, TEST).to_dict()
    assert told[-1].keys() == whole.keys()
    assert told[-1] == whole
    assert told[0]["matched_accuracy"] == whole["matched_accuracy"], "the headline comes first"
    assert "forecast_r2" not in told[2], "what takes longest comes late"


def test_bouts_are_told_before_what_they_have_to_beat() -> None:
    told = list(bout_scores.score_parts(model(), TRAIN, TEST, 0.0, 0.0))
    assert [one.get("under_way", [None])[0] for one in told] == [*bout_scores.PARTS[1:], None]
    assert "macro_f1" in told[0]
    assert "r2" not in told[0]
    assert "lines" not in told[1]
    measured = bout_scores.measure(model(), TRAIN, TEST, 0.0, 0.0)
    assert {**told[-1], "lines": None} == {**measured, "lines": None}
    assert measured["test"][0]["r2"] is not None


def test_what_nobody_waits_for_goes_last() -> None:
    turns = FairQueue(100, 50)
    jobs = {
        name: Job(Call(divmod, (7, 2), 60.0), name, None, bulk, lambda _: None, idle=idle)
        for name, bulk, idle in (("seed", True, True), ("scores", True, False), ("fit", False, False))
    }
    for job in jobs.values():
        turns.add(job)
    assert turns.watched_waiting() == 1
    assert turns.take([], bulk=False) is jobs["fit"]
    assert turns.take([], bulk=False) is None
    busy = [jobs["scores"]]  # although its owner has one running, and the other's none
    assert [turns.take(busy, bulk=True) for _ in range(3)] == [jobs["scores"], jobs["seed"], None]


def test_what_has_been_waited_for_long_takes_turns_with_fits(monkeypatch) -> None:
    turns, engine = FairQueue(100, 50), QuickEngine(auto=False)
    answers = Answers(engine, "s")  # type: ignore[arg-type]
    monkeypatch.setattr("pages.lab.live.answers.PATIENCE_S", -1.0)
    for name, idle in (("seed", True), ("scores", False)):
        answers.ask(name, "1", max, 1, 2, idle=idle)
        turns.add(engine.jobs[-1])
    assert turns.watched_waiting() == 0
    answers.collect()
    assert turns.watched_waiting() == 1
    assert turns.take([], bulk=False) is engine.jobs[1]
    assert turns.take([], bulk=False) is None  # nobody waits for a seed, however long
    assert turns.take([], bulk=True) is engine.jobs[0]


def test_what_is_known_of_an_answer_is_news_before_it_is_there() -> None:
    engine = QuickEngine(auto=False)
    answers = Answers(engine, "s")  # type: ignore[arg-type]
    first = answers.ask("scores", "1", max, 1, 2)
    assert (first.pending, first.queued, first.so_far) == (True, True, None)
    (job,) = engine.waiting("ask-scores")
    job.apply({"kind": "started", "version": 0})
    job.apply({"kind": "found", "found": {"n": 1}})
    heard = answers.news
    answers.collect()
    answers.collect()
    assert answers.news == heard + 1, "once"
    now = answers.ask("scores", "1", max, 1, 2)
    assert (now.pending, now.queued, now.so_far, now.fresh) == (True, False, {"n": 1}, False)
    assert not answers.take_owed()
    engine.run(job)
    assert answers.ask("scores", "1", max, 1, 2).value == 2
