"""Marks: made, undone, turned into labels and clips, and exchanged with BORIS."""

from __future__ import annotations

import json
from dataclasses import asdict

import numpy as np
import pytest

from datasets.marks import Mark, Marks, from_labels
from gdm_core import Trial, Trials
from gdm_core.analysis.bouts import clips_of
from gdm_core.errors import DataError
from tests.support.taught import NAMES, labelled

TRIALS = labelled(2, 300)
ONE, TWO = TRIALS[0].name, TRIALS[1].name


def some() -> Marks:
    return Marks().add(Mark(ONE, 10, 40, "walk")).add(Mark(TWO, 0, 20, "rest")).add(Mark(ONE, 40, 70, "walk"))


def test_labels_and_words_in_the_order_of_the_marks():
    labels, words = some().labels(TRIALS)
    assert words == ("walk", "rest")
    assert np.flatnonzero(labels[0] == 0).tolist() == list(range(10, 70))
    assert np.flatnonzero(labels[1] == 1).tolist() == list(range(20))
    assert (labels[0] == -1).sum() == 240
    assert some().seconds(TRIALS) == pytest.approx(80 / 30)


def test_undo_and_redo():
    made = some()
    assert made.undo().marks == made.marks[:2]
    assert made.undo().undo().redo().redo().marks == made.marks
    assert made.redo() is made
    assert Marks().undo() == Marks()
    assert made.undo().add(Mark(ONE, 100, 110, "rest")).redo().marks[-1].start == 100  # a new mark ends what waited


def test_two_words_on_one_frame_are_refused_and_the_same_word_is_not():
    with pytest.raises(
        DataError, match=r"Frames 30 to 39 of 'recording 1' are marked as 'walk' already and cannot be 'rest'"
    ):
        some().add(Mark(ONE, 30, 40, "rest"))
    assert len(some().add(Mark(ONE, 30, 45, "walk")).marks) == 4


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (Mark(ONE, 290, 301, "walk"), "goes to frame 300 of 'recording 1', which ends with frame 299"),
        (Mark("other", 0, 5, "walk"), "belongs to the recording 'other', which is not among: recording 1, recording 2"),
    ],
)
def test_marks_outside_of_the_recordings(mark, message):
    with pytest.raises(DataError, match=message):
        Marks().add(mark).labels(TRIALS)


@pytest.mark.parametrize(("start", "stop", "word"), [(5, 5, "walk"), (-1, 4, "walk"), (1, 4, " ")])
def test_marks_that_say_nothing(start, stop, word):
    with pytest.raises(DataError, match=r"Say what the moment is|must begin at 0 or later"):
        Mark(ONE, start, stop, word)


def test_marks_that_touch_are_one_clip():
    clips = clips_of([part >= 0 for part in some().labels(TRIALS)[0]])
    assert set(clips[0].tolist()) == {-1, 0}
    assert set(clips[1].tolist()) == {-1, 1}


def test_files_give_back_what_they_were_given():
    assert Marks.from_json(some().to_json()).marks == some().marks
    with pytest.raises(DataError, match="no list of marks"):
        Marks.from_json('{"marks": [{"start": 1}]}')


def test_boris_reads_and_writes_the_same_marks():
    first = Trials((TRIALS[0],), "one")
    made = Marks().add(Mark(ONE, 10, 40, "walk")).add(Mark(ONE, 40, 70, "rest"))
    text = made.to_boris(first)
    assert text.splitlines()[0].startswith("Observation id,Subject,Behavior")
    assert Marks.from_annotation(text.encode(), ONE, 30.0, name="marks.csv").marks == made.marks


def test_one_mark_is_taken_away_and_can_be_done_again():
    made = some()
    left = made.without(made.marks[0])
    assert left.marks == made.marks[1:]
    assert left.redo().marks == (*made.marks[1:], made.marks[0])
    assert left.without(made.marks[0]) is left


def test_stretches_number_trials_and_words():
    assert some().stretches(TRIALS) == ((0, 10, 40, 0), (1, 0, 20, 1), (0, 40, 70, 0))


@pytest.mark.parametrize("at_random", [True, False])
def test_a_share_of_the_labels_has_that_many_seconds_and_says_what_they_say(at_random):
    share = from_labels(TRIALS, NAMES, 6.0, at_random=at_random)
    assert share.seconds(TRIALS) == pytest.approx(6.0, abs=0.05)
    labels, words = share.labels(TRIALS)
    for part, trial in zip(labels, TRIALS, strict=True):
        there = part >= 0
        assert [words[k] for k in part[there]] == [NAMES[k] for k in np.asarray(trial.labels)[there]]
    more, fewer = (from_labels(TRIALS, NAMES, s, at_random=at_random).labels(TRIALS)[0] for s in (8.0, 4.0))
    assert all((many >= 0)[few >= 0].all() for many, few in zip(more, fewer, strict=True))
    assert at_random or labels[0][:180].min() >= 0


def test_a_share_of_the_labels_leaves_out_what_is_marked_and_ends_with_the_labels():
    own = Marks().add(Mark(ONE, 0, 150, "mine"))
    share = from_labels(TRIALS, NAMES, 1e6, beside=own)
    assert share.seconds(TRIALS) == pytest.approx((600 - 150) / 30, abs=0.1)
    assert (share.labels(TRIALS)[0][0][:150] < 0).all()
    assert from_labels(TRIALS, NAMES, 0.0).marks == ()


def test_a_share_has_no_word_of_a_single_frame():
    one = np.zeros(100, int)
    one[10] = 1
    data = Trials((Trial(np.zeros((100, 2)), 30.0, labels=one, name="r"),), "r", ("a", "b"))
    assert from_labels(data, ("a", "b"), 3.0).words == ("a",)


@pytest.mark.parametrize(
    "text",
    ['{"marks": [{"recording": "a", "start": Infinity, "stop": 2, "word": "x"}]}', '{"marks": ' + "[" * 100_000, "9" * 10_000,
     '{"marks": [{"recording": "a", "start": NaN, "stop": 2, "word": "x"}]}'],
)  # fmt: skip
def test_a_list_of_marks_that_is_none_is_refused_in_few_words(text):
    with pytest.raises(DataError, match="no list of marks") as refused:
        Marks.from_json(text)
    assert len(str(refused.value)) < 400


def test_a_list_of_marks_beyond_all_bounds_is_not_parsed(monkeypatch):
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(DataError, match="20,000,001 letters; the limit is 20,000,000"):
        Marks.from_json(" " * 20_000_001)


def test_words_and_frames_have_bounds():
    def read(recording: str, stop: int, word: str) -> Marks:
        return Marks.from_json(
            json.dumps({"marks": [{"recording": recording, "start": 0, "stop": stop, "word": word}]})
        )

    with pytest.raises(DataError, match=r"word 'A+'\.\.\. of a mark has 100,000 letters; the limit is 300"):
        read("a", 2, "A" * 100_000)
    with pytest.raises(DataError, match="recording 'A"):
        read("A" * 301, 2, "x")
    with pytest.raises(DataError, match="beyond frame 1,000,000,000"):
        read("a", 10**400, "x")
    with pytest.raises(DataError, match="word 'A"):
        Marks.from_annotation(f"start,stop,behaviour\n0,2,{'A' * 301}\n".encode(), "a", 25.0, "a.csv")


def test_many_marks_are_read_in_one_sweep_that_finds_what_adding_them_one_by_one_finds(monkeypatch):
    rng = np.random.default_rng(0)
    plain = Marks.add
    refused = 0
    for _ in range(300):
        marks = [
            Mark("ab"[int(rng.integers(2))], start, start + int(rng.integers(1, 9)), "xyz"[int(rng.integers(3))])
            for start in rng.integers(0, 40, int(rng.integers(1, 7))).tolist()
        ]
        text = json.dumps({"marks": [asdict(mark) for mark in marks]})
        made, wrong = Marks(), False
        try:
            for mark in marks:
                made = plain(made, mark)
        except DataError:
            wrong = True
        if wrong:
            refused += 1
            with pytest.raises(DataError, match="are marked as"):
                Marks.from_json(text)
        else:
            monkeypatch.setattr(Marks, "add", None)  # nobody looks at all the others for each
            assert Marks.from_json(text) == made
            monkeypatch.undo()
    assert 50 < refused < 250
