"""Small files of many kinds, and what a reader should make of each."""

import gzip
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from tests.support import table_files
from tests.support.table_files import book, hdf, npy, npz, written

N, RATE = 60, 10.0
AT = np.arange(N) / RATE
VALUES = np.column_stack([np.sin(np.arange(N) / 7), np.cos(np.arange(N) / 5) + 3]).round(3)
THREE = np.column_stack([VALUES, VALUES.sum(axis=1).round(3)])
WORDS = np.array(["rest", "run"])[np.arange(N) // 15 % 2]
START = pd.Timestamp("2026-03-28 23:58")
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Kind:
    """A file, and what a reader should do.

    refused   whether it is no recording
    asks      key of the question -> answer
    rate      samples per second; None if the file has none
    values    [T, N] values of the channels, or [T, A, P, 2] positions, in time order
    trials    lengths of the trials; () for one
    names     names of animals and parts
    """

    name: str
    file: str
    content: bytes = field(repr=False)
    refused: bool = False
    asks: dict[str, str] = field(default_factory=dict)
    rate: float | None = RATE
    values: Floats = field(default_factory=lambda: VALUES, repr=False)
    trials: tuple[int, ...] = ()
    names: tuple[tuple[str, ...], tuple[str, ...]] = ((), ())


KINDS: list[Kind] = []


def add(name: str, content: bytes | str, file: str = "a.csv", **expected: Any) -> None:
    KINDS.append(Kind(name, file, content.encode() if isinstance(content, str) else content, **expected))


def frame(time: Any = AT, name: str = "time", values: Floats = VALUES, **more: Any) -> pd.DataFrame:
    """Return a table of time and two channels."""
    columns = {} if time is None else {name: np.asarray(time)}
    return pd.DataFrame(columns | {f"c{j + 1}": values[:, j] for j in range(values.shape[1])} | more)


def text(table: pd.DataFrame, **options: Any) -> str:
    return str(table.to_csv(index=False, **options))


def stamps(way: str, step: str = "1min", start: Any = START, n: int = N) -> Any:
    return pd.date_range(start, periods=n, freq=step).strftime(way)


def with_gap(values: Floats, rows: slice) -> Floats:
    gap = values.copy()
    gap[rows] = np.nan
    return gap


GAP = with_gap(VALUES, slice(5, 8))


def sheet(rows: list[list[Any]]) -> bytes:
    """Return a workbook with these cells."""
    return written(pd.DataFrame(rows, dtype=object), "excel", header=False)


# ---- text formats -------------------------------------------------------------------------------------------------
PLAIN = text(frame())
for sign, name in ((",", "commas"), (";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
    add(f"separated by {name}", text(frame(), sep=sign))
add("decimal commas", text(frame(), sep=";", decimal=","))
add("decimal commas and tabs", text(frame(), sep="\t", decimal=","))
add("separated by spaces", "\n".join("  ".join(line.split(",")) for line in PLAIN.splitlines()), "a.txt")
add("byte order mark", "\ufeff" + PLAIN)
add("UTF-16", PLAIN.encode("utf-16"))
add("Windows-1252", text(frame(note="Größe")).encode("cp1252"))
add("Windows line ends", PLAIN.replace("\n", "\r\n"))
add("compressed", gzip.compress(PLAIN.encode()), "a.csv.gz")
add("comments", "# made by hand\n# today\n" + PLAIN)
add("text above the header", "Device: 7\nExported today\n\n" + PLAIN)
add("separator line", "sep=;\n" + text(frame(), sep=";"))
add("quoted cells", text(frame(), quoting=1))
add("no header", text(frame(), header=False), asks={"unit": "s"})
add("no header, dates", text(frame(stamps("%d.%m.%Y %H:%M")), header=False), rate=1 / 60)
add("no header, ISO dates", text(frame(stamps("%Y-%m-%dT%H:%M:%S")), header=False), rate=1 / 60)
add("no header, labels", text(frame(label=WORDS), header=False), asks={"unit": "ms"}, rate=10_000)
add("header of numbers", text(frame(None).set_axis([0, 1], axis=1)), rate=None)
add("index and header of numbers", frame(None).set_axis([0, 1], axis=1).to_csv(), rate=None)
wide = pd.DataFrame({"sample": [f"s{i}" for i in range(N)], "400": VALUES[:, 0], "410": VALUES[:, 1]})
add("wavelengths with names of rows", text(wide), asks={"header": "names"}, rate=None)
add("first row with a remark", text(wide, header=False), asks={"header": "values"}, rate=None)
scale = text(frame(None, values=THREE).set_axis(["400", "410", "420"], axis=1))
add("wavelengths", scale, asks={"header": "names"}, rate=None, values=THREE)
add("units row", PLAIN.replace("\n", "\ns,mV,deg\n", 1))
add("units row in ms", text(frame(AT * 1000)).replace("\n", "\nms,mV,deg\n", 1))
add("two header rows", PLAIN.replace("time,c1,c2", "time,arm,\n,left,right"))
add("trailing delimiter", PLAIN.replace("\n", ",\n"))
add("trailing delimiter in rows", PLAIN.replace("\n", ",\n").replace("c2,", "c2", 1))
add("blank lines", PLAIN.replace("\n", "\n\n"))
add("row numbers", frame().to_csv())
add("repeated names", text(frame(extra=THREE[:, 2])).replace("extra", "c1"), values=THREE)
for missing in ("", "NA", "NaN", "-", "null", "?"):
    holes = text(frame(values=GAP), na_rep=missing)
    add(f"missing values as {missing!r}", holes, values=GAP)
add("infinite value", text(frame(values=VALUES)).replace(f"{VALUES[9, 0]},", "inf,", 1),
    values=np.where((np.arange(N)[:, None] == 9) & [True, False], np.nan, VALUES))  # fmt: skip
add("one column", text(frame(None, values=VALUES[:, :1])), rate=None, values=VALUES[:, :1])

# ---- numbers ------------------------------------------------------------------------------------------------------
BIG = np.column_stack([1000 + np.arange(N), VALUES[:, 1]])
grouped = frame(values=BIG).assign(c1=[f"{v:,.0f}" for v in BIG[:, 0]])
add("quoted thousands", text(grouped), values=BIG)
add("thousands and decimals", text(frame(values=BIG).assign(c1=[f"{v:,.2f}" for v in BIG[:, 0]])), values=BIG)
whole = np.column_stack([1000 + np.arange(N), np.arange(N) % 7 + 2])
unclear = text(frame(np.arange(N), "frame", whole).assign(c1=[f"{v:,.0f}" for v in whole[:, 0]]))
add("unclear commas, thousands", unclear, asks={"commas": "thousands"}, values=whole, rate=None)
add("unclear commas, decimals", unclear, asks={"commas": "decimals"}, values=whole / [1000, 1], rate=None)
add("unclear commas and semicolons", text(pd.read_csv(table_files.io.StringIO(unclear), dtype=str), sep=";"),
    asks={"commas": "thousands"}, values=whole, rate=None)  # fmt: skip
german = text(frame(values=BIG).assign(c1=[f"{v:,.0f}".replace(",", ".") for v in BIG[:, 0]]), sep=";", decimal=",")
add("thousands with points", german, values=BIG)
full = [f"{v:,.2f}".translate(str.maketrans(",.", ".,")) for v in BIG[:, 0]]
add("thousands with points and decimals", text(frame(values=BIG).assign(c1=full), sep=";", decimal=","), values=BIG)
add("percent", text(frame().assign(c1=[f"{v} %" for v in VALUES[:, 0]])))
add("exponents", text(frame().assign(c1=[f"{v:.4e}" for v in VALUES[:, 0]])))
add("far from zero", text(frame(values=VALUES + 4_649_776)), values=VALUES + 4_649_776)

# ---- time ---------------------------------------------------------------------------------------------------------
for name, scale in (
    ("seconds", 1), ("time_s", 1), ("time (s)", 1), ("time [ms]", 1e3), ("time_ms", 1e3), ("time_msec", 1e3), ("t/ms", 1e3),
    ("time_us", 1e6), ("time (µs)", 1e6), ("time_ns", 1e9), ("time (minutes)", 1 / 60), ("time (min)", 1 / 60),
    ("time (hours)", 1 / 3600), ("time_h", 1 / 3600), ("time (days)", 1 / 86400), ("elapsed_sec", 1),
):  # fmt: skip
    add(f"column {name}", text(frame(AT * scale, name)))
days = np.arange(N) / 86400
add("Excel days", text(frame(45_000.5 + days)), rate=1)
add("Excel days by minute", text(frame(45_000.5 + days * 60)), asks={"unit": "d"}, rate=1 / 60)
add("Excel days by hour", text(frame(45_000.5 + days * 3600)), asks={"unit": "d"}, rate=1 / 3600)
add("MATLAB days", text(frame(738_000.5 + days, "datenum")), rate=1)
add("Excel times of day", text(frame(0.25 + days)), asks={"unit": "d"}, rate=1)
add("Unix seconds", text(frame(1_770_000_000 + AT)))
add("Unix milliseconds", text(frame(1_770_000_000_000 + AT * 1000)))
add("Unix microseconds", text(frame(1_770_000_000_000_000 + AT * 1e6)))
add("compact dates", text(frame(stamps("%Y%m%d%H%M%S").astype(np.int64))), rate=1 / 60)
add("compact days", text(frame(stamps("%Y%m%d", "1D").astype(np.int64), "date")), rate=1 / 86400)
for way in ("%Y-%m-%d %H:%M", "%Y-%m-%dT%H:%M:%SZ", "%Y-%m-%d %H:%M:%S+02:00", "%d.%m.%Y %H:%M", "%d.%m.%y %H:%M:%S",
            "%m/%d/%Y %H:%M", "%d/%m/%Y %H:%M:%S", "%m/%d/%Y %I:%M:%S %p", "%Y/%m/%d %H:%M:%S", "%d-%b-%Y %H:%M:%S",
            "%b %d, %Y %H:%M", "%d.%m.%Y, %H:%M:%S"):  # fmt: skip
    add(f"dates {way}", text(frame(stamps(way))), rate=1 / 60)
add("dates with milliseconds", text(frame(stamps("%d.%m.%Y %H:%M:%S.%f", "100ms"))))
months = stamps("%d/%m/%Y", "MS", "2026-01-01", 12)
add("unclear day, day first", text(frame(months, values=VALUES[:12])), asks={"dates": "day first"}, rate=None,
    values=VALUES[:12])  # fmt: skip
add("unclear day, month first", text(frame(months, values=VALUES[:12])), asks={"dates": "month first"},
    rate=1 / 86400, values=VALUES[:12])  # fmt: skip
same_day = stamps("%d/%m/%Y %H:%M", start="2026-03-04 08:00")
add("unclear day of one date", text(frame(same_day)), rate=1 / 60)
add("time of day", text(frame(stamps("%H:%M:%S", start="2026-03-28 08:00"))), rate=1 / 60)
add("time of day over midnight", text(frame(stamps("%H:%M:%S"))), rate=1 / 60)
add("time of day, AM and PM", text(frame(stamps("%I:%M:%S %p", start="2026-03-28 11:40"))), rate=1 / 60)
minutes = [f"{i * 2 // 60:02d}:{i * 2 % 60:02d}.250" for i in range(N)]
add("minutes and seconds with decimals", text(frame(minutes)), rate=0.5)
short = [f"{i // 60:02d}:{i % 60:02d}" for i in range(480, 480 + N)]
add("unclear clock, minutes", text(frame([f"{i // 60:02d}:{i % 60:02d}" for i in range(N)])),
    asks={"clock": "minutes and seconds"}, rate=1)  # fmt: skip
add("unclear clock, hours", text(frame(short)), asks={"clock": "hours and minutes"}, rate=1 / 60)
add("long minutes", text(frame([f"{i // 60 + 30:02d}:{i % 60:02d}" for i in range(N)])), rate=1)
add("dates with weekdays", text(frame(stamps("%a %d %b %Y %H:%M:%S"))), rate=1 / 60)
add("durations of pandas", text(frame(pd.to_timedelta(AT, unit="s").astype(str))))
add("steps of 20 in an unknown unit", text(frame(np.arange(N) * 20)), asks={"unit": "ms"}, rate=50)
add("counter named time", text(frame(np.arange(N))), rate=None)
add("frame numbers", text(frame(np.arange(N), "frame")), rate=None)
lacking = np.delete(np.arange(N), slice(20, 24))
add(
    "frames that lack some",
    text(frame(np.arange(N), "frame").iloc[lacking]),
    rate=None,
    values=with_gap(VALUES, slice(20, 24)),
)
add("gap in time", text(frame().iloc[lacking]), values=with_gap(VALUES, slice(20, 24)))
pause = np.concatenate([AT[:30], AT[30:] + 500])
add("long pause", text(frame(pause)), asks={"gaps": "recordings"}, trials=(30, 30))
add("reversed", text(frame().iloc[::-1]))
mixed = np.random.default_rng(0).permutation(N)
add("shuffled", text(frame().iloc[mixed]))
add("shuffled Excel days", text(frame(45_000.5 + days).iloc[mixed]), rate=1)
add("two rows swapped", text(frame().iloc[[*range(20), 21, 20, *range(22, N)]]))
restart = np.concatenate([AT[:30], AT[:30]])
add("time restarts", text(frame(restart)), asks={"order": "recordings"}, trials=(30, 30))
twice = np.insert(np.arange(N), 30, 29)
add("a repeated time", text(frame().iloc[twice]), asks={"repeats": "first"})
halves = np.repeat(AT, 2)
doubled = np.repeat(VALUES, 2, axis=0) + np.tile([0.0, 0.5], N)[:, None]
pairs = {"first": VALUES, "average": VALUES + 0.25, "recordings": np.vstack([VALUES, VALUES + 0.5])}
for answer, expected in pairs.items():
    add(f"two rows for each time, {answer}", text(frame(halves, values=doubled)), asks={"repeats": answer},
        values=expected, trials=(N, N) if answer == "recordings" else ())  # fmt: skip
add("times rounded to seconds", text(frame(np.floor(AT + 1e-9))), asks={"repeats": "spread"})
add("unreadable time in a row", PLAIN.replace("\n2.0,", "\nsoon,", 1))
add("trials", text(frame(np.tile(AT[:30], 2), trial=np.repeat([1, 2], 30))), trials=(30, 30))
add("trials, shuffled", text(frame(np.tile(AT[:30], 2), trial=np.repeat([1, 2], 30)).iloc[[*range(29, -1, -1), *range(30, N)]]),
    trials=(30, 30))  # fmt: skip
add("labels", text(frame(label=WORDS)))

# ---- other formats ------------------------------------------------------------------------------------------------
add("Parquet", written(frame(), "parquet"), "a.parquet")
add("Parquet with dates", written(frame(pd.date_range(START, periods=N, freq="100ms")), "parquet"), "a.parquet")
add("workbook", book(Data=frame()), "a.xlsx")
add("workbook with dates", book(Data=frame(pd.date_range(START, periods=N, freq="1min"))), "a.xlsx", rate=1 / 60)
add("workbook, remarks first", book(Notes=pd.DataFrame({"a": ["x", "y"]}), Data=frame()), "a.xlsx")
rows = [[at, *pair] for at, pair in zip(AT.tolist(), VALUES.tolist(), strict=True)]
add("workbook with a units row", sheet([["time", "c1", "c2"], ["s", "mV", "deg"], *rows]), "a.xlsx")
add("workbook with lines above", sheet([["Device 7"], ["Exported"], [None], ["time", "c1", "c2"], *rows]), "a.xlsx")
add("workbook without header", sheet(rows), "a.xlsx", asks={"unit": "s"})
hours = [[START.date(), (START + pd.Timedelta(i - 60, "min")).time(), *row[1:]] for i, row in enumerate(rows)]
add("workbook with dates and times", sheet([["date", "time", "c1", "c2"], *hours]), "a.xlsx", rate=1 / 60)
add("Parquet with a shuffled index", written(frame().iloc[mixed], "parquet"), "a.parquet")
add("NPY", npy(VALUES), "a.npy", rate=None)
add("NPZ", npz(y=VALUES, time=AT), "a.npz")
add("NPZ of trials", npz(y=VALUES.reshape(2, 30, 2)), "a.npz", rate=None, trials=(30, 30))
add("pickled NPY", npy(np.array([{"a": 1}], object)), "a.npy", refused=True)

# ---- long tables --------------------------------------------------------------------------------------------------
long = frame().melt("time", var_name="sensor", value_name="value")
add("one row per step and sensor", text(long.sort_values(["time", "sensor"])))
add("one block per sensor", text(long))

# ---- poses --------------------------------------------------------------------------------------------------------
XY = np.random.default_rng(1).normal(size=(N, 2, 3, 2)).cumsum(axis=0).round(3) + 300  # [T, A, P, 2]


def poses(style: str, animals: tuple[str, ...], parts: tuple[str, ...], xy: Floats = XY, **more: Any) -> pd.DataFrame:
    """Return a table with columns named in this style."""
    columns: dict[str, Any] = {}
    for a, animal in enumerate(animals):
        for p, part in enumerate(parts):
            for k, axis in enumerate("xy"):
                columns[style.format(animal=animal, part=part, axis=axis)] = xy[:, a % 2, p, k] + 50 * (a // 2)
    return pd.DataFrame(more | columns)


def add_poses(name: str, style: str, animals: tuple[str, ...], parts: tuple[str, ...], **expected: Any) -> None:
    xy = np.stack([XY[:, a % 2, : len(parts)] + 50 * (a // 2) for a in range(len(animals))], axis=1)
    table = poses(style, animals, parts, time=AT)
    add(f"poses {name}", text(table), **({"values": xy, "names": (animals, parts)} | expected))


BODY = ("nose", "ear", "tail")
ANIMAL: dict[str, Any] = {"values": XY[:, :1], "names": (("animal",), BODY)}
add_poses("with numbered parts", "{animal}_{part}_{axis}", ("rat1", "rat2"), ("p1", "p2", "p3"))
add_poses("with numbered animals", "{animal}_{part}_{axis}", ("mouse1", "mouse2"), BODY)
add_poses("with named animals", "{animal}_{part}_{axis}", ("resident", "intruder"), BODY)
add_poses("of three flies", "{animal}_{part}_{axis}", ("fly1", "fly2", "fly3"), ("head", "thorax"))
add_poses("of nine animals", "{animal}_{part}_{axis}", tuple(f"animal{i}" for i in range(9)), ("head", "tail"))
add_poses("with animals last", "{part}_{animal}_{axis}", ("mouse1", "mouse2"), BODY)
add_poses("with letters", "{animal}.{part}.{axis}", ("a", "b"), BODY)
add_poses("with two words", "{animal}_{part}_{axis}", ("mouse 1", "mouse 2"), ("nose", "left ear", "tail"))
add_poses("with numbers", "{part}_{animal}_{axis}", ("1", "2"), BODY, names=(("animal 1", "animal 2"), BODY))
add_poses("of one animal", "{part} {axis}", ("animal",), BODY)
add_poses("with one animal named", "{animal}_{part}_{axis}", ("mouse1",), BODY)
add_poses("with sides", "{part}_{axis}", ("animal",), ("left ear", "right ear", "tail"))
add_poses("with centres", "{animal}_{axis}", ("mouse1", "mouse2"), ("centre",))
add_poses("with unknown words", "{animal}_{part}_{axis}", ("foo", "bar"), ("u", "v", "w"), asks={"animals": "foo, bar"})
add_poses("with coordinates first", "{axis}_{part}", ("animal",), BODY)
add_poses("with numbered coordinates", "{axis}{part}", ("animal",), ("1", "2", "3"), asks={"animals": "parts"})
lost = np.where((np.arange(N) % 9 == 4)[:, None, None, None], -1.0, XY[:, :1])
add("poses lost at -1", text(poses("{part}_{axis}", ("animal",), BODY, lost, time=AT)), values=np.where(lost == -1, np.nan, lost),
    names=(("animal",), BODY))  # fmt: skip
cage = poses("{animal}_{part}_{axis}", ("mouse1", "mouse2"), BODY, time=AT).assign(cage_tl_x=1.0, cage_tl_y=2.0)
add("poses with a corner of the cage", text(cage), values=XY, names=(("mouse1", "mouse2"), BODY))
frames = poses("{part}_{axis}", ("animal",), BODY, frame=np.arange(N)).iloc[lacking]
add(
    "poses that lack frames",
    text(frames),
    values=with_gap(XY[:, :1], slice(20, 24)),
    names=(("animal",), BODY),
    rate=None,
)
sleap = pd.concat(
    poses("{part}.{axis}", ("a",), BODY, XY[:, [a]].repeat(2, 1), track=f"track_{a}", frame_idx=np.arange(N))
    for a in range(2)
).sort_values(["frame_idx", "track"])
sleap.insert(2, "instance.score", 0.9)
TRACKS = (("track_0", "track_1"), BODY)
add("SLEAP CSV of two tracks", text(sleap), values=XY, names=TRACKS, rate=None)
add("SLEAP CSV with a track lost", text(sleap.iloc[[i for i in range(2 * N) if i not in (21, 23)]]), names=TRACKS, rate=None,
    values=np.where((np.isin(np.arange(N), [10, 11])[:, None] & [False, True])[:, :, None, None], np.nan, XY))  # fmt: skip
untracked = text(sleap.assign(track=np.nan))
add("SLEAP CSV without tracks", untracked, asks={"repeats": "first"}, rate=None, **ANIMAL)
per_part = pd.concat(
    pd.DataFrame({"frame": np.arange(N), "bodypart": part, "x": XY[:, 0, p, 0], "y": XY[:, 0, p, 1]})
    for p, part in enumerate(BODY)
)
add("one row per frame and part", text(per_part), rate=None, **ANIMAL)


def deeplabcut(animals: tuple[str, ...], levels: tuple[str, ...]) -> str:
    columns = {
        tuple({"scorer": "net", "individuals": a, "bodyparts": p, "coords": axis}[level] for level in levels): (
            np.full(N, 0.99) if axis == "likelihood" else XY[:, i, j, "xy".index(axis)]
        )
        for i, a in enumerate(animals) for j, p in enumerate(BODY) for axis in ("x", "y", "likelihood")
    }  # fmt: skip
    table = pd.DataFrame(columns)
    table.columns.names = levels
    return str(table.to_csv())


add("DeepLabCut", deeplabcut(("animal",), ("scorer", "bodyparts", "coords")), rate=None, **ANIMAL)
add("DeepLabCut of two animals", deeplabcut(("m1", "m2"), ("scorer", "individuals", "bodyparts", "coords")), values=XY,
    names=(("m1", "m2"), BODY), rate=None)  # fmt: skip
add("SLEAP analysis", hdf({"tracks": XY.transpose(1, 3, 2, 0), "node_names": np.array([p.encode() for p in BODY]),
    "track_names": np.array([b"one", b"two"])}), "a.h5", values=XY, names=(("one", "two"), BODY), rate=None)  # fmt: skip
add("NPZ of poses", npz(keypoints=XY.transpose(0, 1, 3, 2), parts=list(BODY), animals=["one", "two"], fps=RATE), "a.npz",
    values=XY, names=(("one", "two"), BODY))  # fmt: skip


# ---- notations and columns ----------------------------------------------------------------------------------------
def respelled(values: Floats, spell: Any, **options: Any) -> str:
    """Return a table whose first channel is written differently."""
    return text(frame(values=values).assign(c1=[spell(value) for value in values[:, 0]]), **options)


LARGE = BIG * [10.5, 1]
add("Unicode minus", respelled(VALUES, lambda v: f"{v}".replace("-", "\u2212")))
add("thousands with spaces", respelled(LARGE, lambda v: f"{v:,.1f}".translate(str.maketrans(",.", " ,")), sep=";", decimal=","),
    values=LARGE)  # fmt: skip
add("thousands with narrow spaces", respelled(LARGE, lambda v: f"{v:,.1f}".replace(",", "\u202f")), values=LARGE)
add("thousands with apostrophes", respelled(LARGE, lambda v: f"{v:,.1f}".replace(",", "'")), values=LARGE)
add("cells with a unit", respelled(VALUES, lambda v: f"{v} mm"))
gone = VALUES.copy()
gone[20:24, 0] = np.nan
coded = text(frame(values=np.where(np.isnan(gone), -9999, gone)))
add("runs of -9999, missing", coded, asks={"sentinels": "missing"}, values=gone)
add("runs of -9999, kept", coded, asks={"sentinels": "keep"}, values=np.where(np.isnan(gone), -9999, gone))
add(
    "codes from -1 to 1", text(frame(turn=np.arange(N) % 3 - 1)), values=np.column_stack([VALUES, np.arange(N) % 3 - 1])
)
high = with_gap(VALUES * 100 + 500, slice(40, 50))
add("runs of -1", text(frame(values=np.nan_to_num(high, nan=-1))), asks={"sentinels": "missing"}, values=high)
for name, column in (
    ("constant", 5.0), ("empty", np.nan), ("nearly empty", [1.0, 2.0] + [np.nan] * (N - 2)), ("copied", VALUES[:, 0]),
    ("packet", np.arange(N) + 1000), ("counter", np.arange(N) % 16), ("status", np.where(np.arange(N) < 55, 0, 1024)),
    ("likelihood", np.linspace(0, 1, N)), ("remark", [f"no. {i}" for i in range(N)]),
):  # fmt: skip
    add(f"{name} column", text(frame(**{name: column})))
add("a column p of pressure", text(frame(p=THREE[:, 2])), values=THREE)
add(
    "events among channels",
    text(frame(lick=np.arange(N) % 7 // 6)),
    values=np.column_stack([VALUES, np.arange(N) % 7 // 6]),
)
add("date and time columns", text(frame(stamps("%H:%M:%S"), date=stamps("%Y-%m-%d"))), rate=1 / 60)
add("German date and time columns", text(frame(stamps("%H:%M"), "Uhrzeit", Datum=stamps("%d.%m.%Y")), sep=";", decimal=","),
    rate=1 / 60)  # fmt: skip
add("participants", text(frame(np.tile(AT[:30], 2), participant=np.repeat(["P1", "P2"], 30))), trials=(30, 30))
add("row of totals", f"{PLAIN}Total,{VALUES[:, 0].sum():.3f},{VALUES[:, 1].sum():.3f}\n")
add("rows of means and deviations", PLAIN + "mean,1.5,2.5\nSD,0.1,0.2\n")
add("time after channels", text(frame(None).assign(time=AT)))
add("two time columns", text(frame(time_ms=AT * 1000)))
add("time and frame", text(frame(frame=np.arange(N))))

# ---- arrays -------------------------------------------------------------------------------------------------------
add("NPY of trials, channels, time", npy(VALUES.reshape(2, 30, 2).transpose(0, 2, 1)), "a.npy",
    asks={"axes": "trials, channels, time"}, rate=None, trials=(30, 30))  # fmt: skip
add("NPY of channels, time", npy(VALUES.T), "a.npy", asks={"axes": "channels, time"}, rate=None)
for name in ("rate_hz", "fs", "sampling_rate"):
    add(f"NPZ with {name}", npz(y=VALUES, **{name: 25.0}), "a.npz", rate=25)

add("NPZ with an unknown rate", npz(y=VALUES, rate_hz=np.nan), "a.npz", rate=None)

# ---- devices ------------------------------------------------------------------------------------------------------
when = pd.date_range("2024-05-07 16:29:50.440", periods=N, freq="10ms").strftime("%Y-%m-%d %H:%M:%S.%f").str[:-3]
add("Axivity", text(frame(when, values=THREE), header=False), rate=100, values=THREE)
REPORT = """------------ Data File Created By ActiGraph GT3X+ ActiLife v6.13.3 {rate} -----------
Serial Number: TAS1D48140206
Start Time 16:00:00
Start Date 6/27/2012
Epoch Period (hh:mm:ss) 00:00:{epoch}
Current Battery Voltage: 4.22     Mode = 12
--------------------------------------------------
"""
counts = (np.abs(THREE) * 100).round()
add("ActiGraph counts", REPORT.format(rate="", epoch="10") + text(frame(None, values=counts), header=False), rate=0.1,
    values=counts)  # fmt: skip
raw = frame(None, values=THREE).set_axis([f"Accelerometer {axis}" for axis in "XYZ"], axis=1)
add("ActiGraph raw", REPORT.format(rate="at 30 Hz", epoch="00") + text(raw), rate=30, values=THREE)
ETHOVISION = """"Number of header lines:";"6"
"Experiment";"open field"
"Subject";"Subject 1"

"Trial time";"Recording time";"X center";"Y center";"Velocity"
"s";"s";"cm";"cm";"cm/s"
"""
fields = frame(AT, values=THREE)
fields.insert(1, "recording", AT)
fields = fields.astype({"c3": object})
fields.loc[0, "c3"] = "-"
unknown = THREE.copy()
unknown[0, 2] = np.nan
add("EthoVision", ETHOVISION + text(fields, sep=";", header=False), "a.txt", values=unknown)
anipose = poses("{part}_{axis}", ("animal",), BODY, fnum=np.arange(N))
extra = {
    f"{part}_{what}": value
    for part in BODY
    for what, value in (("z", 1.0), ("error", 0.5), ("ncams", 2), ("score", 0.9))
}
add("Anipose", text(anipose.assign(**extra)), rate=None, **ANIMAL)
tracked = deeplabcut(("animal",), ("scorer", "bodyparts", "coords"))
add("LightningPose", tracked.replace("net", "heatmap_tracker"), rate=None, **ANIMAL)
lines = tracked.splitlines(keepends=True)
add("DeepLabCut that lacks frames", "".join(lines[:23] + lines[27:]), values=with_gap(XY[:, :1], slice(20, 24)),
    names=(("animal",), BODY), rate=None)  # fmt: skip

add("Empatica", "1770000000.0,1770000000.0\n32.0,32.0\n" + text(frame(None), header=False), rate=32)
LABCHART = "Interval=\t0.1 s\nTimeFormat=\tStartOfBlock\nChannelTitle=\tA\tB\nRange=\t10 V\t10 V\n"
add("LabChart", LABCHART + text(frame(), sep="\t", header=False), "a.txt", asks={"unit": "s"})

# ---- no recordings ------------------------------------------------------------------------------------------------
add("web page", "<!DOCTYPE html><html><body><table></table></body></html>\n" * 3, refused=True)
add("picture", b"\x89PNG\r\n\x1a\n" + bytes(500), refused=True)
add("JSON", '{"a": [1, 2, 3]}', refused=True)
mice = [f"m{i}" for i in range(20)]
add("sheet of conditions", text(pd.DataFrame({"recording": mice, "treatment": ["drug", "vehicle"] * 10, "weight": VALUES[:20, 0]})),
    refused=True)  # fmt: skip
listed = pd.DataFrame(
    {"file": [f"{name}.csv" for name in mice], "start": stamps("%H:%M:%S", n=20), "length": VALUES[:20, 0]}
)
add("list of files", text(listed), refused=True)
starts = np.arange(6) * 2.0
bouts = pd.DataFrame(
    {"Observation id": "o1", "Behavior": ["rest", "run"] * 3, "Start (s)": starts, "Stop (s)": starts + 2}
)
add("BORIS bouts", text(bouts.assign(Subject="s")), refused=True)
add(
    "states of another tool", text(pd.DataFrame({"frame": np.arange(N), "state": np.arange(N) // 15 % 3})), refused=True
)
shares = np.abs(np.sin(AT))
add("soft states of another tool", text(frame(None, p_1=shares, p_2=1 - shares, state=1 + (shares < 0.5))[["p_1", "p_2", "state"]]),
    refused=True)  # fmt: skip


def kind(name: str) -> Kind:
    """Return the kind of this name."""
    return next(one for one in KINDS if one.name == name)
