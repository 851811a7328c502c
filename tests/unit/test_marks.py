"""Marks: made, undone, turned into labels and clips, and exchanged with BORIS."""

from __future__ import annotations

import numpy as np
import pytest

from datasets.marks import Mark, Marks
from gdm_core import Trials
from gdm_core.errors import DataError
from tests.support.taught import labelled

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
    clips = some().clips(TRIALS)
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


def test_a_word_can_be_called_otherwise():
    assert some().renamed("rest", "sleep").words == ("walk", "sleep")
    assert some().renamed("rest", "walk").words == ("walk",)
