"""Marks: made, undone, turned into labels and clips, and exchanged with BORIS. And expert labels from the exports
of Bento, BORIS, SimBA and tables of one's own."""

from __future__ import annotations

import io
import json
from dataclasses import asdict

import numpy as np
import pytest

from datasets import keypoints
from datasets.keypoints import Annotation
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


BORIS_TYPES = (
    "Observation id,Observation date,Description,Observation type,Source,Time offset (s),FPS (frame/s),Subject,"
    "Observation duration by subject by observation,Behavior,Behavioral category,Behavior type"
)


def read(text: str, rate_hz: float = 10, name: str = "a.csv") -> Annotation:
    return keypoints.read_annotation(text.encode(), rate_hz, name)


def words(found: Annotation) -> list[str]:
    return ["" if k < 0 else found.label_names[k] for k in found.labels]


def test_annotations_from_bento_bouts_and_tables():
    bento = (
        b"Caltech Behavior Annotator - Annotation File\n\nConfiguration file:\nrest\tr\n\nS1:\tstart\tend\ttype\n----\n"
    )
    bento += b"   \t1\t3\trest\n   \t4\t5\trun\n\nS2:\n---\n 1 5 rest\n"
    got = keypoints.read_annotation(bento, 30, "a.txt")
    assert [got.label_names[k] for k in got.labels] == ["rest"] * 3 + ["run"] * 2
    boris = b"Behavior,Start (s),Stop (s)\nrun,0.5,1.0\nrest,0,0.5\n"
    got = keypoints.read_annotation(boris, 10, "a.csv")
    assert [got.label_names[k] for k in got.labels] == ["rest"] * 5 + ["run"] * 5
    framed = b"behaviour,start_frame,end_frame\nrun,2,3\n"
    assert keypoints.read_annotation(framed, 10, "a.csv").labels.tolist() == [-1, -1, 0, 0]
    each = b"frame,label\n0,rest\n1,run\n2,\n"
    assert keypoints.read_annotation(each, 10, "a.csv").labels.tolist() == [0, 1, -1]
    with pytest.raises(DataError, match="impossible"):
        keypoints.read_annotation(b"behaviour,start,stop\nrun,5,2\n", 10, "a.csv")
    with pytest.raises(DataError, match="lists no bout"):
        keypoints.read_annotation(b"Bento Annotation file\n", 10, "a.txt")


def boris(columns: str, *rows: str) -> str:
    before = "o1,2024-01-01,,Media file(s),v.mp4,0,30,{},20,{},social,{},"
    lines = []
    for row in rows:
        subject, behaviour, kind, rest = row.split(",", 3)
        lines.append(before.format(subject, behaviour, kind) + rest)
    return "\n".join([f"{BORIS_TYPES},{columns}", *lines]) + "\n"


def test_aggregated_events_of_boris_are_named_by_their_behaviour():
    text = boris(
        "Start (s),Stop (s),Duration (s),Image index start,Image index stop",
        "m1,groom,STATE,0,0.5,0.5,0,5",
        "m1,sniff,STATE,0.7,1,0.3,7,10",
        "m1,rear,POINT,0.6,0.6,0,6,6",
    )
    found = read(text)
    assert words(found) == ["groom"] * 5 + [""] * 2 + ["sniff"] * 3
    assert found.notes == ("1 bouts shorter than a frame were left out",)


@pytest.mark.parametrize("kind", ["tabular", "old"])
def test_events_of_boris_that_start_and_stop_are_paired(kind: str):
    rows = ("groom,START,0.2", "rear,POINT,0.3", "groom,STOP,0.5", "sniff,START,0.5", "sniff,STOP,0.8")
    if kind == "tabular":
        text = boris("Time,Media file name,Image index", *(f"m1,{row},v.mp4,0" for row in rows))
    else:
        text = "Observation id\to1\n\nMedia file(s)\n\nTime\tTotal length\tFPS\tSubject\tBehavior\tStatus\n"
        for row in rows:
            name, sign, at = row.split(",")
            text += f"{at}\t20\t30\t\t{name}\t{sign}\n"
    found = read(text, name="a.csv" if kind == "tabular" else "a.tsv")
    assert words(found) == [""] * 2 + ["groom"] * 3 + ["sniff"] * 3
    assert found.notes == ("1 point events have no length and were left out",)


def test_two_subjects_may_do_the_same_at_once():
    head = "Time,Subject,Behavior,Status\n"
    found = read(head + "0,one,run,START\n0.1,two,run,START\n0.3,one,run,STOP\n0.4,two,run,STOP\n")
    assert words(found) == ["run"] * 4
    assert found.notes == ("1 bouts begin before another one ends; the later in the file counts",)


@pytest.mark.parametrize(
    ("rows", "says"),
    [
        ("0,run,START\n1,run,START\n2,run,STOP\n", "event 2, 'run', starts again before it stops"),
        ("0,run,START\n1,run,STOP\n2,run,STOP\n", "event 3, 'run', stops before it starts"),
        ("0,run,START\n1,run,STOP\n2,rest,START\n", "'rest' starts but never stops"),
    ],
)
def test_events_that_do_not_pair_are_named(rows: str, says: str):
    with pytest.raises(DataError, match=says):
        read("Time,Behavior,Status\n" + rows)


def test_events_without_a_time_and_several_observations_are_refused():
    with pytest.raises(DataError, match="no column says when events"):
        read("Behavior,Status\nrun,START\nrun,STOP\n")
    with pytest.raises(DataError, match="holds 2 observations"):
        read("Observation id,Behavior,Start (s),Stop (s)\no1,run,0,1\no2,run,0,1\n")
    with pytest.raises(DataError, match="none says when they stop"):
        read("behaviour,start\nrun,0\nrest,1\n")


def test_a_column_of_zeros_and_ones_a_behaviour():
    text = ",Attack,Sniffing,Mounting\n" + "".join(f"{i},{int(i < 2)},{int(1 <= i < 4)},0\n" for i in range(6))
    found = read(text)
    assert words(found) == ["Attack", "Sniffing", "Sniffing", "Sniffing", "", ""]
    assert found.label_names == ("Attack", "Sniffing", "Mounting")
    assert found.notes == ("in 1 rows several behaviours occur at once; the last of them counts",)
    one = read("frame,Freezing\n0,0\n1,1\n2,1\n")
    assert words(one) == ["", "Freezing", "Freezing"]
    states = read("frame,state_rest,state_run\n0,1,0\n1,0,1\n")
    assert words(states) == ["state_rest", "state_run"]
    named = read("frame,valid,label\n0,1,0\n1,0,1\n2,1,1\n")  # a column of that name is meant, whatever else is 0 and 1
    assert words(named) == ["0", "1", "1"]


def test_rows_with_a_slower_clock_hold_until_the_next():
    found = read("Time,Freezing,Grooming\n0.0,1,0\n0.5,0,1\n1.0,0,0\n", rate_hz=4)
    assert words(found) == ["Freezing"] * 2 + ["Grooming"] * 2 + [""] * 2
    assert "2 a second, were spread over the frames, 4 a second" in found.notes[0]
    same = read("time,label\n0.0,a\n0.25,b\n0.5,b\n", rate_hz=4)
    assert words(same) == ["a", "b", "b"]
    assert same.notes == ()


def test_a_blank_behaviour_is_unlabelled():
    found = read("start,stop,behaviour\n0,0.2,a\n0.2,0.4,\n")
    assert found.label_names == ("a",)
    assert words(found) == ["a", "a", "", ""]
    assert found.notes == ("1 bouts without a behaviour were left out",)
    numbered = read("frame,label\n0,1\n1,\n2,2\n")
    assert numbered.label_names == ("1", "2")
    with pytest.raises(DataError, match="no bout that has a behaviour"):
        read("start,stop,behaviour\n0,1,\n")


def test_a_table_without_labels_says_so():
    with pytest.raises(DataError, match=r"no column is named behaviour or label; the columns are time, a, b"):
        read("time,a,b\n0,x,3\n1,y,4\n")


_SINE = [f"{np.sin(7 * i):.5f}" for i in range(300)]


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("numbers.csv", "v\n" + "\n".join(_SINE), "holds numbers such as"),
        ("german.csv", "t;v\n" + "\n".join(f"{i};{v.replace('.', ',')}" for i, v in enumerate(_SINE)), "whole numbers"),
        ("target.csv", "label\n" + "\n".join(_SINE), "holds numbers such as"),
        ("reaction.csv", "reaction\n0.25\n0.25\n0.5\n0.5\n", "labels are words or whole numbers"),
        ("poem.txt", "roses are red\nviolets are blue\nsugar is sweet\nand so are you\n", "labels come again and again"),
        ("two.csv", "asdf\nqwer\nzxcv\n", "name the column 'label', if it holds them"),
        ("one.csv", "asdf\nqwer\n", "1 different values in 1 rows, such as 'qwer'"),
        ("prose.csv", "label\n" + f"{'a sentence that goes on and on ' * 4}\n" * 3, "holds sentences, such as 'a sentence that"),
        ("counts.csv", "v\n" + "\n".join(str(i * 37 % 300) for i in range(9_000)), "300 different values in 9,000 rows"),
        ("names.csv", "label\n" + "\n".join(f"item {i // 8}" for i in range(9_000)), "1,125 different labels"),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_labels_is_refused_with_the_reason(name, content, says):
    with pytest.raises(DataError, match="Give a file with a label a frame, or with bouts") as refused:
        keypoints.read_annotation(io.BytesIO(content.encode()), 30.0, name=name)
    assert says in str(refused.value)
    assert str(refused.value).startswith(f"{name}: the column ")


def test_short_label_files_and_many_behaviours_are_still_read():
    few = keypoints.read_annotation(io.BytesIO(b"label\nwalk\nrest\n"), 30.0, name="two.csv")
    assert few.label_names == ("rest", "walk")
    rows = "\n".join(f"kind {i // 3}" for i in range(90))
    assert len(keypoints.read_annotation(io.BytesIO(f"label\n{rows}\n".encode()), 30.0, name="m.csv").label_names) == 30


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("label\nwalk\nrest\nrun\n", 3),  # short
        ("x\nwalk\nwalk\nrest\n", 2),  # not named
        ("frame,x\n0,walk\n1,walk\n2,\n3,rest\n4,rest\n", 2),  # with frames nobody noted anything of
        ("x\n1\n1\n2\n2\n", 2),  # numbers that somebody gave
        ("x\n1.0\n1.0\n2.0\n", 2),  # as a program writes them
        ("label\n0\n0.5\n1\n0.5\n1.5\n", 4),  # how strongly, in a column that says so
        ("x\n" + "\n".join(f"cluster {i // 30}" for i in range(9_000)), 300),  # clusters by number: each lasts
        ("behaviour\n" + "approaches the other one from behind and stops a step away\n" * 4 + "rests\n", 2),
        ("x\n" + "\n".join("ab"[i % 2] for i in range(50)), 2),  # every frame another
    ],
)  # fmt: skip
def test_what_could_be_labels_is_read(text: str, kinds: int):
    assert len(read(text).label_names) == kinds
