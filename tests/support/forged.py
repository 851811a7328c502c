"""Forged input for benchmarks/hostile.py: addresses, messages of the browser, files of data, of models and of marks.

Each function takes a random generator, so that a seed brings the same input again.
"""

from __future__ import annotations

import gzip
import io
import json
import pickle
import re
import struct
import zipfile
from collections.abc import Callable
from functools import cache
from typing import Any

import h5py
import numpy as np
import pandas as pd

from datasets import tables
from gdm_core import ARHMM, GDM, SLDS
from gdm_core.models.base import StateModel
from tests.support import table_files

Rng = np.random.Generator
MARKUP = "<img src=x onerror=alert(1)><script>alert(2)</script>"
FORMULA = '=HYPERLINK("http://example.org","click")'
LONG = 100_000
WORDS = (
    "", " ", "0", "-1", "1e308", "-1e309", "1e-400", "nan", "NaN", "inf", "-inf", "Infinity", "None", "null", "true", "[]", "{}",
    "0x10", "1_000", "1,5", "1.5.5", "+-3", "²", "½", "٣", "Ⅷ", "１２", "१-३", "1-²", "²-³", "-", "--", "1-2-3", "9-1", "0-0",
    "1-1", "1-99999999999999999999", "a-b", "~", "~~~", "x~1~a", "\x00", "a\x00b", "\ud83d\ude00".encode("utf-16", "surrogatepass")
    .decode("utf-16"), "\u202egnp.exe", "\ufeff3", "a\nb", "%00", "%s%n", "{0}", "${7*7}", "../../etc/passwd", "/etc/passwd",
    "C:\\boot.ini", "file:///etc/passwd", MARKUP, FORMULA, "+1+1", "@SUM(1)", "$x^2$", ":material/home:", "**bold**",
    "[a](javascript:b)", "9" * LONG, "A" * LONG, "1-" * (LONG // 2), "[" * LONG, "9" * 400, "9" * 5000, "1e" + "9" * 400,
)  # fmt: skip


def text(rng: Rng) -> str:
    """What somebody may write behind the "=" of an address."""
    kind = rng.integers(6)
    if kind < 3:
        return WORDS[int(rng.integers(len(WORDS)))]
    if kind == 3:
        return repr(float(rng.normal() * 10.0 ** rng.integers(-320, 308)))
    if kind == 4:
        return str(int(rng.integers(-(2**62), 2**62)))
    return "".join(chr(int(code)) for code in rng.integers(1, 0x2FFF, int(rng.integers(1, 60))))


def value(rng: Rng, depth: int = 2) -> Any:
    """What JSON can hold, of any type."""
    kind = int(rng.integers(9 if depth else 7))
    if kind == 7:
        return [value(rng, depth - 1) for _ in range(int(rng.integers(4)))]
    if kind == 8:
        return {text(rng)[:20]: value(rng, depth - 1) for _ in range(int(rng.integers(4)))}
    simple = (None, True, False, 10**400, float("nan"), float("inf"), -1, 0, 2**63, -(2**63), 1e308, -0.0)
    return text(rng) if kind < 3 else simple[int(rng.integers(len(simple)))]


def message(rng: Rng) -> Any:
    """What a slider is sent, as it should be but for some of it."""
    if rng.random() < 0.3:
        return value(rng)
    good: dict[str, Any] = {
        "value": float(rng.normal(0, 10)),
        "held": bool(rng.integers(2)),
        "number": int(rng.integers(99)),
    }
    for name in rng.choice(list(good), int(rng.integers(1, 4)), replace=False):
        if rng.random() < 0.2:
            del good[name]
        else:
            good[name] = value(rng)
    return good


# ---- files of data ------------------------------------------------------------------------------------------------
def npy(shape: Any, dtype: Any = "<f4", content: bytes = b"") -> bytes:
    """A file of NumPy that declares whatever it is told."""
    header = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode("latin-1", "replace")
    header += b" " * (63 - (10 + len(header)) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header) % 65536) + header + content


def zipped(parts: dict[str, bytes], rng: Rng | None = None, lie: bool = False) -> bytes:
    """An archive; `lie` declares other sizes than it holds."""
    made = bytearray(table_files.zipped(parts))
    if lie and rng is not None:
        at = made.find(b"PK\x01\x02")
        made[at + 24 : at + 28] = struct.pack("<I", int(rng.choice([0, 1, 1000, 2**31, 2**32 - 1])))
    return bytes(made)


@cache
def zeros(n: int) -> bytes:
    return bytes(n)


def _npz(rng: Rng) -> bytes:
    good = np.ones(60, np.float32).tobytes()
    parts = [
        {"y.npy": npy((10**7, 3))},
        {"y.npy": npy((10**18, 10**18))},
        {"y.npy": npy((-1, 3), content=good)},
        {"y.npy": npy((2, 30), "|O", pickle.dumps([print] * 60))},
        {"y.npy": npy((60,), [("a", "<f4")], good)},
        {"y.npy": npy(("a",), content=good)},
        {"y.npy": npy(True, content=good)},
        {"y.npy": npy((20, 3), content=good), "channels.npy": npy((3,), "<U2", "=1-1@x".encode("utf-32-le"))},
        {"y.npy": npy((20, 3), content=good), MARKUP + ".npy": npy((20,), content=good[:80])},
        {"../../y.npy": npy((20, 3), content=good)},
        {"/etc/cron.d/y.npy": npy((20, 3), content=good)},
        {"C:\\y.npy": npy((20, 3), content=good)},
        {"y.npy": pickle.dumps(np.ones(3))},
        {"y.npy": npy((5_000_000,), content=zeros(20_000_000))},
        {f"{i}.npy": npy((2,), content=good[:8]) for i in range(2100)},
        {
            "keypoints.npy": npy((10, 2, 2, 3), content=np.ones(120, np.float32).tobytes()),
            "labels.npy": npy((10,), "|O", b""),
        },
        {"y.npy": npy((15, 4), "<c8", good + good)},
        {"y.npy": npy((4, 3, 5), content=good)},
    ]
    return zipped(parts[int(rng.integers(len(parts)))], rng, lie=bool(rng.random() < 0.3))


def _xlsx(rng: Rng) -> bytes:
    frame = pd.DataFrame({FORMULA: range(12), MARKUP: 1.5, "a": ["=1+1"] * 12})
    with zipfile.ZipFile(io.BytesIO(table_files.written(frame, "excel"))) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    about = "docProps/core.xml"  # says when it was written
    parts[about] = re.sub(rb"\d{4}-\d\d-\d\dT[^<]*", b"2000-01-01T00:00:00Z", parts[about])
    sheet = "xl/worksheets/sheet1.xml"
    changes = [
        {sheet: parts[sheet].replace(b'r="A2"', b'r="XFD1048576"')},
        {sheet: parts[sheet].replace(b'r="A2"', b'r="ZZZZZZ9"')},
        {sheet: parts[sheet].replace(b"<worksheet", b"<!DOCTYPE a [<!ENTITY b 'c'>]><worksheet", 1)},
        {sheet: b"<!DOCTYPE l [<!ENTITY l0 'l'>" + b"".join(
            b"<!ENTITY l%d '%s'>" % (i + 1, b"&l%d;" % i * 10) for i in range(9)
        ) + b"]><worksheet><sheetData><row><c t='str'><v>&l9;</v></c></row></sheetData></worksheet>"},
        {sheet: b"<worksheet><sheetData>" + b"<row>" * 5000},
        {sheet: zeros(15_000_000)},
        {"../../../evil.xml": b"x"},
        {"xl/workbook.xml": b"<workbook/>"},
        {sheet: parts[sheet].replace(b"<v>1.5</v>", b"<v>" + b"9" * 5000 + b"</v>")},
        {sheet: parts[sheet].replace(b"<v>1.5</v>", b"<v>1e99999999999</v>")},
    ]  # fmt: skip
    return zipped(parts | changes[int(rng.integers(len(changes)))], rng, lie=bool(rng.random() < 0.2))


def _csv(rng: Rng) -> bytes:
    names = [text(rng)[:200] for _ in range(int(rng.integers(1, 6)))]
    cells = [
        ",".join(text(rng)[: int(rng.choice([5, 40, 3000]))] for _ in names) for _ in range(int(rng.integers(1, 30)))
    ]
    made = "\n".join([",".join(names), *cells]).encode("utf-8", "replace")
    wide = b",".join(b"c%d" % i for i in range(6000))
    return [made, made, made, wide + b"\n" + b"1," * 5999 + b"1\n", b"a,b\n" + b"1,2," * 20_000 + b"\n", b'"' * 50_000,
            b"a,b\n" + b'"1,2\n' * 500, zeros(50_000), b"time,y\n" + b"1e300,1\n-1e300,2\n" * 20][int(rng.integers(9))]  # fmt: skip


def _gz(rng: Rng) -> bytes:
    return [gzip.compress(zeros(3_000_000)), gzip.compress(_csv(rng)), gzip.compress(gzip.compress(b"a,b\n1,2\n"))][
        int(rng.integers(3))
    ]


def _parquet(rng: Rng) -> bytes:
    lists = rng.random() < 0.3
    frame = pd.DataFrame({"a": range(40), MARKUP: np.linspace(0, 1, 40), "l": [[1]] * 40 if lists else FORMULA})
    made = bytearray(table_files.written(frame, "parquet"))
    footer = int.from_bytes(made[-8:-4], "little")
    for at in rng.integers(len(made) - 8 - footer, len(made) - 4, int(rng.integers(0, 6))):
        made[at] = int(rng.integers(256))
    return bytes(made)


def _hdf(rng: Rng) -> bytes:
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        kind = rng.integers(7)
        if kind == 0:
            file["tracks"] = h5py.ExternalLink("/etc/passwd", "/x")
        elif kind == 1:
            file["tracks"] = h5py.SoftLink("/tracks")
        elif kind == 2:
            file.create_dataset("tracks", (10**6, 2, 3, 10**5), "f4", chunks=(100, 2, 3, 10), compression="gzip")
        elif kind == 3:
            file["tracks"] = np.full((1, 2, 3, 20), rng.choice([np.nan, np.inf, 1e308, 0]))
        elif kind == 4:
            file.create_dataset("tracks", (1, 2, 3, 20), "f8", external=[("/etc/hostname", 0, 960)])
        elif kind == 5:
            file["tracks"] = np.array([MARKUP.encode()] * 3)
        else:
            file.create_group("tracks")
        file["node_names"] = np.array([MARKUP.encode(), FORMULA.encode(), b"a\x01b"][: int(rng.integers(1, 4))])
        file["track_names"] = np.array([text(rng)[:50].replace("\x00", "").encode("utf-8", "replace")])
        if rng.random() < 0.5:
            file["edge_inds"] = rng.integers(-(10**12), 10**12, (4, 2))
    return out.getvalue()


def _json(rng: Rng) -> bytes:
    record = {
        "keypoints": value(rng),
        "scores": value(rng),
        "annotations": value(rng),
        "metadata": {"vocab": value(rng)},
    }
    forged: Any = {"annotator-id_0": {"task1/train/" + MARKUP: record}}
    return [json.dumps(forged).encode("utf-8", "replace"), json.dumps(value(rng)).encode("utf-8", "replace"),
            b"[" * LONG, b'{"a":' * 20_000, b"9" * 10_000][int(rng.integers(5))]  # fmt: skip


KINDS: dict[str, Callable[[Rng], bytes]] = {
    ".npz": _npz, ".xlsx": _xlsx, ".csv": _csv, ".csv.gz": _gz, ".parquet": _parquet, ".h5": _hdf, ".slp": _hdf, ".json": _json,
    ".npy": lambda rng: npy((int(rng.choice([3, 10**7, 10**12])),), str(rng.choice(["<f4", "|O", "<U9", "|V8"])), zeros(12)),
    ".txt": _csv, ".tsv": _csv, ".annot": _csv,
}  # fmt: skip


def damaged(content: bytes, rng: Rng) -> bytes:
    """As it is, cut short, or with some bytes changed."""
    if not content or rng.random() < 0.5:
        return content
    if rng.random() < 0.5:
        return content[: int(rng.integers(len(content)))]
    changed = bytearray(content)
    for at in rng.integers(0, min(len(changed), int(rng.choice([200, 10**9]))), int(rng.integers(1, 20))):
        changed[at] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def file(rng: Rng) -> tuple[str, bytes]:
    """(name, content) of an upload."""
    if rng.random() < 0.15:
        return _good(rng)
    kinds = list(KINDS)
    ending = kinds[int(rng.integers(len(kinds)))]
    content = damaged(KINDS[ending](rng), rng)
    if rng.random() < 0.1:
        ending = kinds[int(rng.integers(len(kinds)))]
    stem = [MARKUP, FORMULA, "../../etc/passwd", "a" * 300, "\u202ecsv", "con", text(rng)[:80]][int(rng.integers(7))]
    return stem + ending, content


def _good(rng: Rng) -> tuple[str, bytes]:
    """A file that is as it should be, with markup and formulas for names and words."""
    name = str(rng.choice(["table.csv", "deeplabcut.csv"]))
    lines = tables.template(name).decode().splitlines()
    words = [MARKUP, FORMULA.replace('"', "").replace(",", ";"), "${7*7}", "\u202eb", "$x^2$", "'; DROP TABLE a; --"]
    head = 1 if name == "table.csv" else 3
    old = str(rng.choice([cell for line in lines[:head] for cell in line.split(",")]))
    lines[:head] = [line.replace(old, words[int(rng.integers(len(words)))]) for line in lines[:head]]
    if name == "table.csv":
        lines = [f"{lines[0]},remark", *(f"{line},{words[i % 3]}" for i, line in enumerate(lines[1:]))]
    return name, "\n".join(lines).encode()


CELLS = (b"", b"text", b"inf", b"1e400", b'"', b"1,5", b"\xff\xfe", b"0x1", b"9" * 400)
ENDINGS = (*KINDS, ".xls", "")


@cache
def _sleap_project() -> bytes:
    n = 30
    frames = np.zeros(
        n, [(k, "<i8") for k in ("frame_id", "video", "frame_idx", "instance_id_start", "instance_id_end")]
    )
    frames["frame_idx"] = frames["instance_id_start"] = np.arange(n)
    frames["instance_id_end"] = np.arange(n) + 1
    instances = np.zeros(n, [(k, "<i8") for k in ("instance_type", "track", "point_id_start", "point_id_end")])
    instances["instance_type"] = 1
    instances["point_id_start"], instances["point_id_end"] = 2 * np.arange(n), 2 * np.arange(n) + 2
    points = np.zeros(2 * n, [("x", "<f8"), ("y", "<f8"), ("visible", "?"), ("score", "<f8")])
    points["x"], points["y"], points["visible"] = np.arange(2 * n), 5.0, True
    skeleton = {"nodes": [{"id": 0}, {"id": 1}], "links": [{"source": 0, "target": 1}]}
    about = {"skeletons": [skeleton], "nodes": [{"name": "nose"}, {"name": "tail"}]}
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file["frames"], file["instances"], file["pred_points"] = frames, instances, points
        file["tracks_json"] = np.array([b'[0, "first"]'])
        file.create_group("metadata").attrs["json"] = np.bytes_(json.dumps(about).encode())
    return out.getvalue()


@cache
def good_files() -> list[tuple[str, bytes]]:
    """A good file of every kind, for readers of tables and of poses."""
    made = [(name, tables.template(name)) for name in tables.TEMPLATES]
    csv = tables.template("table.csv")
    poses = {
        "keypoints": np.ones((50, 2, 2, 3), np.float32),
        "labels": np.arange(50) % 3,
        "names": np.array(["a", "b", "c"]),
    }
    analysis = {
        "tracks": np.random.default_rng(0).uniform(0, 500, (2, 2, 3, 60)),
        "node_names": np.array([b"nose", b"neck", b"tail"]),
        "track_names": np.array([b"one", b"two"]),
        "point_scores": np.full((2, 3, 60), 0.9),
        "edge_inds": np.array([[0, 1], [1, 2]]),
    }
    made += [
        ("table.csv.gz", gzip.compress(csv)),
        ("semicolon.csv", csv.replace(b".", b"%").replace(b",", b";").replace(b"%", b",")),
        ("flat.csv", b"frame,nose_x,nose_y,tail_x,tail_y\n" + b"".join(b"%d,1.5,2,3,%d\n" % (i, i) for i in range(40))),
        ("analysis.h5", table_files.hdf(analysis)),
        ("project.slp", _sleap_project()),
        ("keypoints.npz", table_files.npz(**poses)),
        ("utf16.csv", csv.decode().encode("utf-16")),
    ]
    return made


def broken(rng: Rng) -> tuple[str, bytes]:
    """(name, content) of a good file after one mishap; one in five under another's ending."""
    files = good_files()
    name, content = files[int(rng.integers(len(files)))]
    at = int(rng.integers(len(content)))
    lines, cells = content.split(b"\n"), content.split(b",")
    for place in rng.integers(0, len(cells), 5):
        cells[place] = CELLS[int(rng.integers(len(CELLS)))]
    mishaps = (
        damaged(content, rng),
        content[:at],
        b"\n".join(lines[i] for i in rng.permutation(len(lines))),
        content[:at] + content[at + int(rng.integers(1, 200)) :],
        content[:at] + content[at : at + 300] * 3 + content[at:],
        files[int(rng.integers(len(files)))][1][: int(rng.integers(1, 300))] + content[int(rng.integers(1, 300)) :],
        rng.bytes(int(rng.integers(0, 3000))),
        rng.choice(
            np.frombuffer(b"0123456789.,;\t\n\n\"' -+eENaxy|#\r", np.uint8), int(rng.integers(1, 2000))
        ).tobytes(),
        b",".join(cells),
    )
    if rng.random() < 0.2:
        name = f"file{ENDINGS[int(rng.integers(len(ENDINGS)))]}"
    return name, mishaps[int(rng.integers(len(mishaps)))]


# ---- files of models ----------------------------------------------------------------------------------------------
@cache
def models() -> tuple[StateModel, ...]:
    y = np.random.default_rng(0).normal(size=(60, 3)).cumsum(0)
    made = (
        GDM(2, n_steps=2), GDM(2, n_steps=2, transition="gru"), GDM(2, n_steps=2, posterior="transformer"),
        ARHMM(2, n_iter=1), SLDS(2, n_iter=1),
    )  # fmt: skip
    for model in made:
        model.fit(y)
    return made


@cache
def parts_of(which: int) -> tuple[dict[str, Any], dict[str, Any], bytes]:
    """(the header's JSON, the description of the model, the bytes of its numbers)."""
    content = models()[which].to_bytes()
    size = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + size])
    return header, json.loads(header["__metadata__"]["model"]), content[8 + size :]


def model_file(rng: Rng) -> bytes:
    """A model file with a forged description, forged tensors, or damage."""
    header, about, numbers = parts_of(int(rng.integers(len(models()))))
    header, about = json.loads(json.dumps(header)), json.loads(json.dumps(about))
    kind = rng.integers(6)
    if kind < 2:  # a parameter of the configuration that means harm
        name = str(rng.choice(list(about["config"])))
        big = (10**9, 10**12, 2**31, 10**5, -1, 0)
        about["config"][name] = big[int(rng.integers(len(big)))] if rng.random() < 0.6 else value(rng)
    elif kind == 2:
        about[str(rng.choice([*about, "family", "extra"]))] = value(rng)
    elif kind == 3:
        name = str(rng.choice([key for key in header if key != "__metadata__"]))
        header[name][str(rng.choice(["dtype", "shape", "data_offsets"]))] = [
            "F64", "I8", "BF16", "F8_E4M3", "BOOL", [10**12, 10**12], [1], [], [0, 10**15], [0, -4], None,
        ][int(rng.integers(11))]  # fmt: skip
    elif kind == 4:
        header["__metadata__"][str(rng.choice(["model", "format", "format_version"]))] = [
            "[" * LONG, '{"family": "gdm", "config": ' + "[" * LONG, "9" * 5000, "{}", "null", '{"family": []}', text(rng)[:500],
        ][int(rng.integers(7))]  # fmt: skip
    header["__metadata__"]["model"] = header["__metadata__"]["model"] if kind == 4 else json.dumps(about)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    size = len(head) if rng.random() < 0.95 else int(rng.choice([0, 2**40, 2**63, len(head) - 8]))
    made = struct.pack("<Q", size) + head + numbers
    return damaged(made, rng) if kind == 5 else made


# ---- marks --------------------------------------------------------------------------------------------------------
def marks(rng: Rng) -> str:
    """A list of marks as JSON, forged."""
    if rng.random() < 0.2:
        return [json.dumps(value(rng)), "[" * LONG, '{"marks": ' + "[" * LONG, "9" * 10_000, ""][int(rng.integers(5))]
    entry: dict[str, Any] = {"recording": "a", "start": 0, "stop": 10, "word": MARKUP}
    many = int(rng.choice([1, 3, 20]))
    return json.dumps({"marks": [entry | {str(rng.choice(list(entry))): value(rng)} for _ in range(many)]})


def annotation(rng: Rng) -> bytes:
    """A file of labels: bouts, events or a label a row, with times and words that mean harm."""
    times = ["0", "1", "-1", "1e9", "1e308", "nan", "inf", "", "9" * 400, "0.5", "2"]
    head = [
        "start,stop,behaviour",
        "time,status,behaviour",
        "frame,label",
        "time,a,b",
        "Observation id,Start (s),Stop (s),Behavior",
    ]
    made = head[int(rng.integers(len(head)))]
    rows = []
    for _ in range(int(rng.integers(1, 30))):
        cells = [
            times[int(rng.integers(len(times)))] if rng.random() < 0.7 else text(rng)[:60] for _ in made.split(",")
        ]
        if "status" in made:
            cells[1] = str(rng.choice(["START", "STOP", "POINT"]))
        rows.append(",".join(cells))
    bento = "Bento annotation file\nS1:\n" + "".join(
        f"{rng.integers(0, 10**9)} {rng.integers(0, 10**9)} {MARKUP}\n" for _ in rows
    )
    return damaged((bento if rng.random() < 0.15 else "\n".join([made, *rows])).encode("utf-8", "replace"), rng)
