"""Answers to what pages ask: none is lost between two questions of one run."""

from __future__ import annotations

from pages.lab.live.answers import Answers
from tests.support.live_engine import QuickEngine


def test_an_answer_that_comes_between_two_questions_of_a_run_is_told():
    engine = QuickEngine(auto=False)
    answers = Answers(engine, "one")
    assert answers.ask("look", "a look", lambda: 1).pending
    engine.run_all()
    assert answers.ask("scores", "some scores", lambda: 2).pending, "which takes in the look, too"
    assert answers.take_owed()
    assert not answers.take_owed(), "once is enough: the page runs again"
    assert answers.ask("look", "a look", lambda: 1).value == 1
    engine.run_all()
    assert answers.ask("scores", "some scores", lambda: 2).fresh
    assert not answers.take_owed(), "both know"


def test_a_question_that_was_given_up_owes_nothing():
    engine = QuickEngine(auto=False)
    answers = Answers(engine, "one")
    assert answers.ask("look", "a look", lambda: 1).pending
    answers.give_up("look")
    assert not answers.take_owed()
