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
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

import h5py
import numpy as np
import pandas as pd

from datasets import tables
from gdm_core import ARHMM, GDM, SLDS
from gdm_core.models.base import StateModel
from tests.support import table_files

Rng = np.random.Generator
T = TypeVar("T")
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


def one_of(rng: Rng, things: Sequence[T]) -> T:
    return things[int(rng.integers(len(things)))]


def text(rng: Rng) -> str:
    """What somebody may write behind the "=" of an address."""
    kind = rng.integers(6)
    if kind < 3:
        return one_of(rng, WORDS)
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
    return text(rng) if kind < 3 else one_of(rng, simple)


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


def zipped(parts: dict[str, bytes], lie: int | None = None) -> bytes:
    """An archive; `lie` is the size that it declares of its first part."""
    made = bytearray(table_files.zipped(parts))
    if lie is not None:
        at = made.find(b"PK\x01\x02")
        made[at + 24 : at + 28] = struct.pack("<I", lie)
    return bytes(made)


def workbook_parts() -> dict[str, bytes]:
    """The files in a good workbook, the same on every day."""
    frame = pd.DataFrame({FORMULA: range(12), MARKUP: 1.5, "a": ["=1+1"] * 12})
    with zipfile.ZipFile(io.BytesIO(table_files.written(frame, "excel"))) as archive:
        parts = {info.filename: archive.read(info) for info in archive.infolist()}
    about = "docProps/core.xml"  # says when it was written
    parts[about] = re.sub(rb"\d{4}-\d\d-\d\dT[^<]*", b"2000-01-01T00:00:00Z", parts[about])
    return parts


def _archives() -> Iterator[tuple[str, bytes, str]]:
    """NPZ files and workbooks, as `evil_files` has them."""
    few, out, flat = "declares .* bytes but .* follow", "points out of it", "no column is a channel"
    good = np.ones(60, np.float32).tobytes()
    fine = npy((20, 3), content=good)
    for content, says in (
        (npy((10**7, 3)), few), (npy((10**18, 10**18)), "the limit is 250,000,000"),
        (npy((-1, 3), content=good), "impossible shape"),
        (npy((2, 30), "|O", pickle.dumps([print] * 60)), "pickled"), (pickle.dumps(np.ones(3)), "no readable header"),
        (npy((5_000_000,), content=bytes(20_000_000)), "a zip bomb"), (npy((15, 4), "<c8", good + good), "neither numbers"),
        (npy((4, 3, 5), content=good), flat), *((fine.replace(b"(20, 3)", odd, 1), "no readable header") for odd in
        (b"((20,3 ", b"(20,3)\0", b"(20, 3(")),
    ):  # fmt: skip
        yield "a.npz", zipped({"y.npy": content}), says
    poses = {
        "keypoints.npy": npy((10, 2, 2, 3), content=np.ones(120, np.float32).tobytes()),
        "labels.npy": npy((10,), "|O"),
    }
    yield "a.npz", zipped(poses), "pickled"
    yield "a.npz", zipped({f"{i}.npy": npy((2,), content=good[:8]) for i in range(2100)}), "parts; the limit"
    parts, sheet = workbook_parts(), "xl/worksheets/sheet1.xml"
    laughs = b"".join(b"<!ENTITY l%d '%s'>" % (i + 1, b"&l%d;" % i * 10) for i in range(9))
    bomb = laughs + b"]><worksheet><sheetData><row><c t='str'><v>&l9;</v></c></row></sheetData></worksheet>"
    page, cell, book = parts[sheet], b"<v>1.5</v>", "not a readable workbook"
    for changed, says in (
        (page.replace(b'r="A2"', b'r="XFD1048576"'), ""), (page.replace(b'r="A2"', b'r="ZZZZZZ9"'), book),
        (page.replace(b"<worksheet", b"<!DOCTYPE a [<!ENTITY b 'c'>]><worksheet", 1), flat), (bytes(15_000_000), book),
        (b"<!DOCTYPE l [<!ENTITY l0 'l'>" + bomb, book), (b"<worksheet><sheetData>" + b"<row>" * 5000, book),
        (page.replace(cell, b"<v>" + b"9" * 5000 + b"</v>"), book), (page.replace(cell, b"<v>1e99999999999</v>"), flat),
    ):  # fmt: skip
        yield "a.xlsx", zipped(parts | {sheet: changed}), says
    yield "a.xlsx", zipped(parts | {"xl/workbook.xml": b"<workbook/>"}), "holds no row below a header"
    for ending, inside in (("a.npz", {"y.npy": fine}), ("a.xlsx", parts)):
        for name in ("../../etc/y.npy", "/etc/y.npy", "C:/y.npy", "..\\y.npy"):
            yield ending, zipped({name: b"1"} | inside), out
        yield ending, zipped(inside, 0), "is damaged"
        yield ending, zipped(inside, 2**32 - 1), "the limit is 2,000,000,000"
    yield "a.npz", zipped({"y.npy": fine}, 1000), "declares 1,000 bytes but holds others"


def _hdf(tracks: Any, **how: Any) -> bytes:
    """What looks like SLEAP's analysis: links and arrays that lead elsewhere, or declare what they do not hold."""
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        if how:
            file.create_dataset("tracks", tracks, **how)
        elif tracks is None:
            file.create_group("tracks")
        else:
            file["tracks"] = tracks
        file["node_names"] = np.array([MARKUP.encode(), FORMULA.encode(), b"a\x01b"])
        file["edge_inds"] = np.array([[0, 10**12], [-(10**12), 1]])
    return out.getvalue()


@cache
def evil_files() -> list[tuple[str, bytes, str]]:
    """(name, content, what its refusal says) of files that are made to do harm; "" where nothing of it comes through."""
    made = list(_archives())
    shape, huge, elsewhere = (
        (1, 2, 3, 20),
        {"dtype": "f4", "chunks": (100, 2, 3, 10), "compression": "gzip"},
        "points elsewhere",
    )
    made += [("a.h5", content, says) for content, says in (
        (_hdf(h5py.ExternalLink("/etc/passwd", "/x")), elsewhere), (_hdf(h5py.SoftLink("/node_names")), elsewhere),
        (_hdf(np.array([MARKUP.encode()] * 3)), "expected numbers"), (_hdf(None), "is not an array"),
        *((_hdf(np.full(shape, number)), "") for number in (np.nan, np.inf, 1e308, 0.0)),
        (_hdf((10**6, 2, 3, 10**5), **huge), "the limit is 250,000,000"),
        (_hdf(shape, dtype="f8", external=[("/etc/hostname", 0, 960)]), "keeps its data in another file"),
    )]  # fmt: skip
    made += [("a.slp", content, says) for _, content, says in made if _ == "a.h5"]
    kinds = {"<f4": "bytes but 12 follow", "|O": "pickled", "<U9": "bytes but 12 follow", "|V8": "bytes but 12 follow"}
    made += [("a.npy", npy((10**7,), kind, bytes(12)), says) for kind, says in kinds.items()]
    made += [("a.npy", npy((10**15,), "<f8", bytes(80)), "the limit is 250,000,000")]
    wide = b",".join(b"c%d" % i for i in range(6000)) + b"\n" + b"1," * 5999 + b"1\n"
    many = b"a,b\n" + b"1,2," * 20_000 + b"\n"
    made += [("a.csv", content, says) for content, says in (
        (wide, "columns; the limit is 5,000"), (many, "more fields than the 2 columns"), (b'"' * 50_000, "header but no rows"),
        (b"a,b\n" + b'"1,2\n' * 500, "no column is a channel"), (bytes(50_000), "not text"), (b"[" * LONG, "header but no rows"),
        (b"time,y\n" + b"1e300,1\n-1e300,2\n" * 20, "holds neither numbers nor dates"),
    )]  # fmt: skip
    twice = gzip.compress(b"a,b\n1,2\n")
    made += [("a.csv.gz", gzip.compress(one), "not text|more fields") for one in (bytes(3_000_000), many, twice)]
    for column in (FORMULA, [[1]] * 40):
        frame = pd.DataFrame({"a": range(40), MARKUP: np.linspace(0, 1, 40), "l": column})
        made.append(("a.parquet", table_files.written(frame, "parquet"), ""))
    return made


CELLS = (b"", b"text", b"inf", b"1e400", b'"', b"1,5", b"\xff\xfe", b"0x1", b"9" * 400)
ENDINGS = (
    ".npz", ".npy", ".xlsx", ".csv", ".csv.gz", ".parquet", ".h5", ".slp", ".json", ".txt", ".tsv", ".annot", ".xls", "",
)  # fmt: skip


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
    poses = {"keypoints": np.ones((50, 2, 2, 3), np.float32), "labels": np.arange(50) % 3, "names": ["a", "b", "c"]}
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


def _words(rng: Rng) -> tuple[str, bytes]:
    """A text table of whatever somebody may write."""
    names = [text(rng)[:200] for _ in range(int(rng.integers(1, 6)))]
    cells = [
        ",".join(text(rng)[: int(rng.choice([5, 40, 3000]))] for _ in names) for _ in range(int(rng.integers(1, 30)))
    ]
    return "a" + one_of(rng, (".csv", ".txt", ".tsv", ".annot")), "\n".join([",".join(names), *cells]).encode(
        "utf-8", "replace"
    )


def _named_badly(rng: Rng) -> tuple[str, bytes]:
    """A file that is as it should be, with markup and formulas for names and words."""
    name = one_of(rng, ("table.csv", "deeplabcut.csv"))
    lines = tables.template(name).decode().splitlines()
    words = [MARKUP, FORMULA.replace('"', "").replace(",", ";"), "${7*7}", "\u202eb", "$x^2$", "'; DROP TABLE a; --"]
    head = 1 if name == "table.csv" else 3
    old = one_of(rng, [cell for line in lines[:head] for cell in line.split(",")])
    lines[:head] = [line.replace(old, one_of(rng, words)) for line in lines[:head]]
    if name == "table.csv":
        lines = [f"{lines[0]},remark", *(f"{line},{words[i % 3]}" for i, line in enumerate(lines[1:]))]
    return name, "\n".join(lines).encode()


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


def _mishap(content: bytes, rng: Rng) -> bytes:
    """What is left of a file after something has happened to it."""
    at = int(rng.integers(len(content)))
    lines, cells = content.split(b"\n"), content.split(b",")
    for place in rng.integers(0, len(cells), 5):
        cells[place] = one_of(rng, CELLS)
    other = one_of(rng, good_files())[1]
    letters = np.frombuffer(b"0123456789.,;\t\n\n\"' -+eENaxy|#\r", np.uint8)
    return one_of(rng, (
        content[:at], damaged(content, rng), b",".join(cells), b"\n".join(lines[i] for i in rng.permutation(len(lines))),
        content[:at] + content[at + int(rng.integers(1, 200)) :], content[:at] + content[at : at + 300] * 3 + content[at:],
        other[: int(rng.integers(1, 300))] + content[int(rng.integers(1, 300)) :],
        rng.bytes(int(rng.integers(0, 3000))), rng.choice(letters, int(rng.integers(1, 2000))).tobytes(),
    ))  # fmt: skip


def file(rng: Rng) -> tuple[str, bytes]:
    """(name, content) of an upload: a good file after one mishap, or one that means harm; some under a name that does so, too."""
    if rng.random() < 0.5:
        name, content = one_of(rng, good_files())
        content = _mishap(content, rng)
    else:
        kind = rng.random()
        name, content = (
            _named_badly(rng) if kind < 0.3 else _words(rng) if kind < 0.5 else one_of(rng, evil_files())[:2]
        )
        content = content if kind < 0.3 else damaged(content, rng)
    if rng.random() < 0.15:
        name = f"file{one_of(rng, ENDINGS)}"
    if rng.random() < 0.5:
        stem = one_of(rng, (MARKUP, FORMULA, "../../etc/passwd", "a" * 300, "\u202ecsv", "con", text(rng)[:80]))
        name = stem + name[name.index(".") :] if "." in name else stem
    return name, content


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
        about["config"][name] = one_of(rng, big) if rng.random() < 0.6 else value(rng)
    elif kind == 2:
        about[str(rng.choice([*about, "family", "extra"]))] = value(rng)
    elif kind == 3:
        name = str(rng.choice([key for key in header if key != "__metadata__"]))
        odd = ("F64", "I8", "BF16", "F8_E4M3", "BOOL", [10**12, 10**12], [1], [], [0, 10**15], [0, -4], None)
        header[name][one_of(rng, ("dtype", "shape", "data_offsets"))] = one_of(rng, odd)
    elif kind == 4:
        deep = '{"family": "gdm", "config": ' + "[" * LONG
        said = ("[" * LONG, deep, "9" * 5000, "{}", "null", '{"family": []}', text(rng)[:500])
        header["__metadata__"][one_of(rng, ("model", "format", "format_version"))] = one_of(rng, said)
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
        return one_of(rng, (json.dumps(value(rng)), "[" * LONG, '{"marks": ' + "[" * LONG, "9" * 10_000, ""))
    entry: dict[str, Any] = {"recording": "a", "start": 0, "stop": 10, "word": MARKUP}
    many = int(rng.choice([1, 3, 20]))
    return json.dumps({"marks": [entry | {str(rng.choice(list(entry))): value(rng)} for _ in range(many)]})


def annotation(rng: Rng) -> bytes:
    """A file of labels: bouts, events or a label a row, with times and words that mean harm."""
    times = ["0", "1", "-1", "1e9", "1e308", "nan", "inf", "", "9" * 400, "0.5", "2"]
    boris = "Observation id,Start (s),Stop (s),Behavior"
    made = one_of(rng, ("start,stop,behaviour", "time,status,behaviour", "frame,label", "time,a,b", boris))
    rows = []
    for _ in range(int(rng.integers(1, 30))):
        cells = [one_of(rng, times) if rng.random() < 0.7 else text(rng)[:60] for _ in made.split(",")]
        if "status" in made:
            cells[1] = str(rng.choice(["START", "STOP", "POINT"]))
        rows.append(",".join(cells))
    bouts = (f"{rng.integers(0, 10**9)} {rng.integers(0, 10**9)} {MARKUP}\n" for _ in rows)
    bento = "Bento annotation file\nS1:\n" + "".join(bouts)
    return damaged((bento if rng.random() < 0.15 else "\n".join([made, *rows])).encode("utf-8", "replace"), rng)
