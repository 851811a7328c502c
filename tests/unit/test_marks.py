"""Marks as labels of trials, their files, and expert labels from tables."""

import json

import numpy as np
import pytest

from datasets import keypoints
from datasets.keypoints import Annotation
from datasets.marks import Mark, Marks
from gdm_core.errors import DataError
from tests.support.labelled import simulate

TRIALS = simulate(2, 300)
ONE, TWO = TRIALS[0].name, TRIALS[1].name
SOME = Marks((Mark(ONE, 10, 40, "walk"), Mark(TWO, 0, 20, "rest"), Mark(ONE, 35, 70, "walk")))


def test_marks_become_labels_in_the_order_of_first_use():
    labels, names = SOME.labels(TRIALS)
    assert names == SOME.names == ("walk", "rest")
    assert np.flatnonzero(labels[0] == 0).tolist() == list(range(10, 70))
    assert np.flatnonzero(labels[1] == 1).tolist() == list(range(20))
    assert (labels[0] == -1).sum() == 240
    assert SOME.seconds(TRIALS) == pytest.approx(80 / 30)
    assert SOME.stretches(TRIALS) == ((0, 10, 40, 0), (1, 0, 20, 1), (0, 35, 70, 0))


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        (Mark(ONE, 30, 50, "rest"), "Frame 30 of 'recording 1' is marked as both 'walk' and 'rest'"),
        (Mark(ONE, 290, 301, "walk"), "ends at frame 300 of 'recording 1', whose last frame is 299"),
        (Mark("other", 0, 5, "walk"), "belongs to the recording 'other', which is not among: recording 1, recording 2"),
    ],
)
def test_marks_that_do_not_fit_raise_data_error(mark, message):
    with pytest.raises(DataError, match=message):
        Marks((*SOME.marks, mark)).labels(TRIALS)


@pytest.mark.parametrize(
    ("recording", "start", "stop", "label", "message"),
    [
        (ONE, 5, 5, "walk", "expected 0 <= start < stop"),
        (ONE, -1, 4, "walk", "expected 0 <= start < stop"),
        (ONE, 0, 10**400, "walk", "<= 1,000,000,000"),
        (ONE, 1, 4, " ", "has no label"),
        (ONE, 1, 4, "A" * 301, "label 'A"),
        ("A" * 301, 1, 4, "walk", "recording 'A"),
    ],
)
def test_invalid_mark_raises_data_error(recording, start, stop, label, message):
    with pytest.raises(DataError, match=message):
        Mark(recording, start, stop, label)


def test_json_round_trips_marks():
    assert Marks.from_json(SOME.to_json()) == SOME


@pytest.mark.parametrize("text", ['{"marks": [{"start": 1}]}', '{"marks": ' + "[" * 100_000])
def test_json_without_marks_raises_data_error(text):
    with pytest.raises(DataError, match=r"not (a list of )?marks") as refused:
        Marks.from_json(text)
    assert len(str(refused.value)) < 400


def test_oversized_json_is_not_parsed(monkeypatch):
    monkeypatch.setattr(json, "loads", None)
    with pytest.raises(DataError, match="20,000,001 characters; the limit is 20,000,000"):
        Marks.from_json(" " * 20_000_001)


def test_annotation_files_become_marks():
    text = b"behaviour,start_frame,end_frame\nrun,2,3\nrest,6,9\n"
    assert Marks.from_annotation(text, ONE, 30.0, name="a.csv").marks == (
        Mark(ONE, 2, 4, "run"),
        Mark(ONE, 6, 10, "rest"),
    )


BORIS_TYPES = (
    "Observation id,Observation date,Description,Observation type,Source,Time offset (s),FPS (frame/s),Subject,"
    "Observation duration by subject by observation,Behavior,Behavioral category,Behavior type"
)


def read(text: str, rate_hz: float = 10, name: str = "a.csv") -> Annotation:
    return keypoints.read_annotation(text.encode(), rate_hz, name)


def words(found: Annotation) -> list[str]:
    return ["" if k < 0 else found.label_names[k] for k in found.labels]


def test_annotations_from_tables_of_bouts_and_frames():
    boris = b"Behavior,Start (s),Stop (s)\nrun,0.5,1.0\nrest,0,0.5\n"
    got = keypoints.read_annotation(boris, 10, "a.csv")
    assert [got.label_names[k] for k in got.labels] == ["rest"] * 5 + ["run"] * 5
    bouts = b"behaviour,start_frame,end_frame\nrun,2,3\n"
    assert keypoints.read_annotation(bouts, 10, "a.csv").labels.tolist() == [-1, -1, 0, 0]
    each = b"frame,label\n0,rest\n1,run\n2,\n"
    assert keypoints.read_annotation(each, 10, "a.csv").labels.tolist() == [0, 1, -1]
    with pytest.raises(DataError, match="invalid"):
        keypoints.read_annotation(b"behaviour,start,stop\nrun,5,2\n", 10, "a.csv")


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
    assert found.notes == ("1 point events without duration were left out",)


def test_two_subjects_may_do_the_same_at_once():
    head = "Time,Subject,Behavior,Status\n"
    found = read(head + "0,one,run,START\n0.1,two,run,START\n0.3,one,run,STOP\n0.4,two,run,STOP\n")
    assert words(found) == ["run"] * 4
    assert found.notes == ("1 bouts overlap; the later one in the file counts",)


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


def test_events_need_times_and_a_single_observation():
    with pytest.raises(DataError, match="no column has the times of events"):
        read("Behavior,Status\nrun,START\nrun,STOP\n")
    with pytest.raises(DataError, match="has 2 observations"):
        read("Observation id,Behavior,Start (s),Stop (s)\no1,run,0,1\no2,run,0,1\n")
    with pytest.raises(DataError, match="no column has their end"):
        read("behaviour,start\nrun,0\nrest,1\n")


def test_rows_with_a_slower_clock_hold_until_the_next():
    found = read("Time,label\n0.0,rest\n0.5,run\n1.0,\n", rate_hz=4)
    assert words(found) == ["rest"] * 2 + ["run"] * 2 + [""] * 2
    assert "rows at 2 Hz were converted to frames at 4 Hz" in found.notes[0]
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
    with pytest.raises(DataError, match="no bout with a behaviour"):
        read("start,stop,behaviour\n0,1,\n")


def test_a_table_without_labels_says_so():
    with pytest.raises(DataError, match=r"no column is named behaviour or label; the columns are time, a, b"):
        read("time,a,b\n0,x,3\n1,y,4\n")


_SINE = [f"{np.sin(7 * i):.5f}" for i in range(300)]


@pytest.mark.parametrize(
    "content",
    [
        "v\n" + "\n".join(_SINE),
        "reaction\n0.25\n0.25\n0.5\n0.5\n",
        "label\n" + "\n".join(f"item {i}" for i in range(900)),
    ],
)
def test_column_without_labels_raises_data_error(content):
    with pytest.raises(DataError, match=r"the column .* has .* different values, such as"):
        keypoints.read_annotation(content.encode(), 30.0, name="a.csv")


@pytest.mark.parametrize(
    ("text", "kinds"),
    [
        ("label\nwalk\nrest\nrun\n", 3),  # short
        ("x\nwalk\nwalk\nrest\n", 2),  # not named
        ("frame,x\n0,walk\n1,walk\n2,\n3,rest\n4,rest\n", 2),  # with unlabelled frames
        ("x\n1.0\n1.0\n2.0\n", 2),  # as programs write them
        ("label\n0\n0.5\n1\n0.5\n1.5\n", 4),  # with a column of strengths
        ("x\n" + "\n".join(f"cluster {i // 30}" for i in range(9_000)), 300),  # clusters by number: each lasts
    ],
)  # fmt: skip
def test_possible_label_files_are_read(text: str, kinds: int):
    assert len(read(text).label_names) == kinds
