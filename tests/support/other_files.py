"""Further exports, arrays and spellings of time, and what a reader should make of each."""

import datetime
import decimal

import numpy as np
import pandas as pd

from tests.support.device_files import C1, C2, FAST, KINDS, LINES, SECOND, lines_of
from tests.support.file_corpus import (
    AT,
    BODY,
    PLAIN,
    RATE,
    THREE,
    VALUES,
    XY,
    N,
    add,
    frame,
    respelled,
    rows,
    sheet,
    stamps,
    text,
    with_gap,
)  # fmt: skip
from tests.support.table_files import npy, written

__all__ = ["KINDS"]

# ---- devices and programs -----------------------------------------------------------------------------------------
EPOCHS = '"Subject Properties"\n"Identity:","P7"\n\n'
DATES = ["28/03/2026"] * 2 + ["29/03/2026"] * (N - 2)
add("Actiwatch", EPOCHS + lines_of(["Line", *SECOND + 1], ["Date", *DATES], ["Time", *stamps("%H:%M:%S")], ["Activity", *C1],
    ["White Light", *C2]), rate=1 / 60)  # fmt: skip
add("Polar H10", lines_of(["Phone timestamp", *stamps("%Y-%m-%dT%H:%M:%S.%f", "100ms")], ["sensor timestamp [ns]",
    *SECOND * 100_000_000 + 599_616_000_000_000_000], ["X [mg]", *C1], ["Z [mg]", *C2], separator=";"), "a.txt")  # fmt: skip
add("biobank accelerometer", text(frame([f"{one}+0100 [Europe/London]" for one in FAST])))
add("FreeStyle Libre", "Glucose Data,Generated on,28-03-2026 08:00 UTC\n" + lines_of(["Device", *["Libre"] * N],
    ["Device Timestamp", *stamps("%d-%m-%Y %H:%M", "15min")], ["Record Type", *[0] * N], ["Glucose mmol/L", *C1]), rate=1 / 900,
    values=VALUES[:, :1])  # fmt: skip
CLAMS = "Oxymax CSV File v,1\nSubject ID,7\n:DATA\nInterval,Chan,Date/Time,O2,CO2\n,,,ml/hr,ml/hr\n=====,=====,=====,=====,=====\n"
add(
    "Oxymax",
    CLAMS + lines_of(SECOND + 1, [1] * N, stamps("%-m/%-d/%Y %-I:%M:%S %p", "10min"), C1, C2) + ":EVENTS\n",
    rate=1 / 600,
)
TSE = "TSE PhenoMaster V6\nexp 7;\n\nDate;Time;Animal No.;Box;VO2(3);RER\n;;;;ml/h;\n"
add("TSE PhenoMaster", TSE + lines_of(["28.03.2026"] * N, np.repeat(stamps("%H:%M", "5min", "2026-03-28 10:00", N // 2), 2),
    [4, 5] * (N // 2), [1, 2] * (N // 2), C1, C2, separator=";").replace(".", ",").replace("28,03,", "28.03."), rate=1 / 300,
    values=np.column_stack([C1[::2], C2[::2], C1[1::2], C2[1::2]]))  # fmt: skip
LVM = "LabVIEW Measurement\t\nSeparator\tTab\n***End_of_Header***\t\n\t\nChannels\t2\nSamples\t60\t60\n***End_of_Header***\t\t\n"
add(
    "LabVIEW",
    f"{LVM}X_Value\tVoltage_0\tVoltage_1\n" + lines_of(AT, C1, C2, separator="\t"),
    "a.txt",
    asks={"unit": "s"},
)
TRACKMATE = """LABEL,ID,TRACK_ID,QUALITY,POSITION_X,POSITION_Y,POSITION_T,FRAME
Label,Spot ID,Track ID,Quality,X,Y,T,Frame
,,,,X,Y,T,
,,,(quality),(micron),(micron),(sec),
"""
spots = XY[:, :, 0].reshape(-1, 2)
add("TrackMate", TRACKMATE + lines_of([f"ID{i}" for i in range(2 * N)], range(2 * N), [0, 1] * N, [9.5] * 2 * N, *spots.T,
    np.repeat(AT, 2), np.repeat(SECOND, 2)), values=XY[:, :, :1], names=(("0", "1"), ("POSITION",)), rate=None)  # fmt: skip
faces = {"frame": SECOND + 1, " face_id": 0, " timestamp": AT, " confidence": 0.98}
faces |= {f" {axis}_{p}": XY[:, 0, p, k] for k, axis in enumerate("xy") for p in range(3)}
add("OpenFace", text(pd.DataFrame(faces)), asks={"animals": "parts"}, values=XY[:, :1],
    names=(("animal",), ("0", "1", "2")))  # fmt: skip
OPTITRACK = """Format Version,1.23,Take Name,walk,Export Frame Rate,100.000000

,,Marker,Marker,Marker,Marker,Marker,Marker
,,knee,knee,knee,ankle,ankle,ankle
,,A1,A1,A1,A2,A2,A2
,,Position,Position,Position,Position,Position,Position
Frame,Time (Seconds),X,Y,Z,X,Y,Z
"""
marker = [XY[:, 0, 0, 0], XY[:, 0, 0, 1], C1, XY[:, 0, 1, 0], XY[:, 0, 1, 1], C2]
add("OptiTrack", OPTITRACK + lines_of(SECOND, AT, *marker), values=XY[:, :1, :2],
    names=(("animal",), ("knee A1 Position", "ankle A2 Position")))  # fmt: skip
solid = {
    f"body_{p}_{axis}": XY[:, 0, i, k] if k < 2 else C1 for i, p in enumerate(BODY) for k, axis in enumerate("xyz")
}
add(
    "FreeMoCap",
    text(pd.DataFrame(solid)),
    values=XY[:, :1],
    names=(("animal",), tuple(f"body {p}" for p in BODY)),
    rate=None,
)

# ---- time ---------------------------------------------------------------------------------------------------------
clock = stamps("%H%M", "1min", "2026-03-28 16:29").astype(int)
for answer, rate in (("hours and minutes", 1 / 60), ("minutes and seconds", 1)):
    add(f"clock as a number, {answer}", text(frame(clock)), asks={"clock": answer}, rate=rate)
add("Excel times of day by minute", text(frame((600 + SECOND) / 1440)), asks={"unit": "d"}, rate=1 / 60)
spans = [datetime.timedelta(hours=23, minutes=30 + i) for i in range(N)]
spanned = sheet([["time", "c1", "c2"], *[[span, *row[1:]] for span, row in zip(spans, rows, strict=True)]])
add("workbook with durations over a day", spanned, "a.xlsx", asks={"unit": "d"}, rate=1 / 60)
add("durations of Python over a day", text(frame(list(map(str, spans)))), rate=1 / 60)
add("dates with a zone name", text(frame(stamps("%Y-%m-%d %H:%M:%S CEST"))), rate=1 / 60)
add("dates with two zone names", text(frame([f"{t} {'CEST' if i < 9 else 'CET'}" for i, t in enumerate(stamps("%Y-%m-%d %H:%M"))])),
    refused=True)  # fmt: skip
add("Julian dates", text(frame(2_461_128.5 + SECOND / 1440, "julian date")), asks={"unit": "d"}, rate=1 / 60)

# ---- arrays and layouts -------------------------------------------------------------------------------------------
pair = VALUES.reshape(2, 30, 2)
for order, axes in (("time, channels, trials", (1, 2, 0)), ("time, trials, channels", (1, 0, 2))):
    add(f"NPY of {order}", npy(pair.transpose(axes)), "a.npy", asks={"axes": order}, rate=None, trials=(30, 30))
exact = frame().assign(c1=[decimal.Decimal(str(v)) for v in C1])
add("Parquet with decimals", written(exact, "parquet"), "a.parquet")
add(
    "workbook that begins in column C",
    sheet([[None] * 5, *[[None, None, *row] for row in [["time", "c1", "c2"], *rows]]]),
    "a.xlsx",
)
add("last name lost", PLAIN.replace("time,c1,c2", "time,c1"))
add(
    "a line with two fields",
    PLAIN.replace(LINES[20], LINES[20].rpartition(",")[0]),
    values=with_gap(VALUES, (slice(19, 20), slice(1, 2))),
)
add("rows quoted as a whole", "".join(f'"{line}"\n' for line in LINES), refused=True)
add("hexadecimal numbers", text(frame().assign(c1=[hex(i * 3 % 50) for i in range(N)])), values=VALUES[:, 1:])
add("UTF-32", PLAIN.encode("utf-32"), refused=True)
add("sensors in turn", text(frame(values=np.where((SECOND[:, None] + [0, 1]) % 2, VALUES, np.nan))),
    values=np.where((SECOND[:, None] + [0, 1]) % 2, VALUES, np.nan))  # fmt: skip
add("line numbers", text(frame(line=SECOND + 1, values=THREE)), values=THREE)

# ---- events between samples, parts of times -----------------------------------------------------------------------
muse = lines_of(["TimeStamp", *FAST], ["Delta_TP9", *C1], ["Alpha_AF7", *C2], ["Elements", *[""] * N]).splitlines()
add("Mind Monitor", "\n".join([*muse[:21], "2024-05-07 16:29:52.390,,,/muse/elements/blink", *muse[21:]]))
both, pairs = SECOND.repeat(2), np.stack([VALUES, VALUES[:, ::-1]], axis=1)  # [T, A, 2]
add("Loopy", lines_of(["frame_number", *both], ["timestamp", *both / RATE], ["oid", *[1, 2] * N], ["x", *pairs[..., 0].ravel()],
    ["y", *pairs[..., 1].ravel()]), values=pairs[:, :, None], names=(("1", "2"), ("centre",)))  # fmt: skip
add("Fortran exponents", respelled(VALUES, lambda v: f"{v:.6E}".replace("E", "D")))
add("days and clock", text(frame([f"{i // 24} {i % 24:02d}:00:00" for i in range(N)], "elapsed")), rate=1 / 3600)
minutes = pd.date_range("2024-05-07 16:20", periods=N, freq="1min")
dated = {part: getattr(minutes, part) for part in ("year", "month", "day", "hour", "minute")}
add("parts of a date in columns", text(pd.DataFrame(dated).join(frame(None))), rate=1 / 60)
