"""Exports of devices and other programs, and what a reader should make of each."""

import io
from typing import Any

import h5py
import numpy as np
import pandas as pd
from openpyxl import Workbook

from tests.support.file_corpus import (
    AT,
    BIG,
    BODY,
    GAP,
    KINDS,
    PLAIN,
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
from tests.support.table_files import hdf, npy, npz, written

__all__ = ["KINDS"]
EXACT = "2024-05-07 16:29:50.440"
LINES = PLAIN.splitlines()


def lines_of(*columns: Any, separator: str = ",") -> str:
    """Return rows of these columns."""
    return "".join(separator.join(map(str, row)) + "\n" for row in zip(*columns, strict=True))


def with_line(line: str, after: int = 31, source: str = PLAIN) -> str:
    """Return the file with another line."""
    kept = source.splitlines(keepends=True)
    return "".join([*kept[:after], f"{line}\n", *kept[after:]])


C1, C2 = VALUES.T
FAST = stamps("%Y-%m-%d %H:%M:%S.%f", "100ms", EXACT)
SECOND = np.arange(N)

# ---- worn devices -------------------------------------------------------------------------------------------------
add("Garmin", lines_of(["timestamp", *stamps("%Y-%m-%dT%H:%M:%S+00:00", "1s", EXACT)], ["heart_rate", *C1], ["speed", *C2]),
    rate=1)  # fmt: skip
add("Fitbit", lines_of(["Id", *[2022484408] * N], ["Time", *stamps("%-m/%-d/%Y %-I:%M:%S %p", "5s", "2016-04-12 11:58:00")],
    ["Value", *C1]), rate=0.2, values=VALUES[:, :1])  # fmt: skip
POLAR = """Name,Sport,Date,Start time,Duration,Total distance (km),Average heart rate (bpm),Calories
Jane Doe,RUNNING,07-05-2024,16:29:50,00:01:00,0.2,140,12
Sample rate,Time,HR (bpm),Speed (km/h),Power (W),
"""
add(
    "Polar",
    POLAR + lines_of([1, *[""] * (N - 1)], stamps("%H:%M:%S", "1s", "2024-01-01"), C1, C2, [""] * N, [""] * N),
    rate=1,
)
add("Empatica EDA", f"1715092190.000000\n4.000000\n{lines_of(C1)}", rate=4, values=VALUES[:, :1])
add("GENEActiv", "Device Type,GENEActiv\n" + "".join(f"Field {i},value {i}\n" for i in range(99)) + lines_of(
    [one.replace(".", ":")[:-3] for one in FAST], *THREE.T), values=THREE)  # fmt: skip
add("Hexoskin", text(frame(391_270_000_000 + SECOND * 256, "time [s/256]")), asks={"unit": "frames"}, rate=None)
add("HOBO", '"Plot Title: Cage 7"\n"#","Date Time, GMT+02:00","Temp, °C (S/N: 1)","RH, % (S/N: 1)"\n' + lines_of(
    SECOND + 1, stamps("%m/%d/%y %I:%M:%S %p", "1min", "2024-05-07 11:40"), C1, C2), rate=1 / 60)  # fmt: skip

# ---- laboratory devices -------------------------------------------------------------------------------------------
OPENBCI = """%OpenBCI Raw EXG Data
%Number of channels = 2
%Sample Rate = 250 Hz
%Board = OpenBCI_GUI$BoardCytonSerial
Sample Index, EXG Channel 0, EXG Channel 1, Other, Timestamp, Timestamp (Formatted)
"""
ticks = pd.date_range("2024-05-07", periods=N, freq="4ms")
add("OpenBCI", OPENBCI + lines_of(SECOND % 256 * 1.0, C1, C2, [0.0] * N, [f"{1715040000 + i * 0.004:.6f}" for i in range(N)],
    ticks.strftime("%Y-%m-%d %H:%M:%S.%f").str[:-3], separator=", "), "a.txt", rate=250)  # fmt: skip
LABCHART = "Interval=\t0.1 s\nExcelDateTime=\t4.5419e+04\t05/07/24\nTimeFormat=\tStartOfBlock\nDateFormat=\t\nChannelTitle=\tA\tB\n"
add("LabChart with a date", LABCHART + "Range=\t10 V\t10 V\nUnitName=\tV\tV\n" + text(frame(), sep="\t", header=False), "a.txt",
    asks={"unit": "s"})  # fmt: skip
BIOPAC = "graph1.acq\n1 msec/sample\n2 channels\nECG\nmV\nRespiration\nVolts\nmin,CH1,CH2,\n,60,60,\n"
add("Biopac", BIOPAC + lines_of([f"{i / 60_000:.8f}" for i in range(N)], C1, C2, [""] * N), "a.txt", rate=1000)
TOA5 = """"TOA5","CR1000","CR1000","7","CPU:p.CR1","1","Table1"
"TIMESTAMP","RECORD","Temp","RH"
"TS","RN","Deg C","%"
"","","Avg","Smp"
"""
add("Campbell TOA5", TOA5 + lines_of(stamps('"%Y-%m-%d %H:%M:%S"', "1min", "2024-05-07 23:30"), SECOND, C1, C2), "a.txt",
    rate=1 / 60)  # fmt: skip
add(
    "WFDB",
    "'Elapsed time','ECG 1','ECG 2'\n'hh:mm:ss.mmm','mV','mV'\n" + lines_of([f"'0:{t:06.3f}'" for t in AT], C1, C2),
)
add("Inscopix", ",C0,C1\nTime(s)/Cell Status,undecided,accepted\n" + lines_of(AT, C1, C2))
add("Doric", "---,Analog In. | Ch.1,Digital I/O | Ch.2\nTime(s),AIn-1 - Dem (ref),AIn-2\n" + lines_of(AT, C1, C2))
add("Tobii", lines_of(["Recording timestamp [μs]", *SECOND * 100_000], ["Participant name", *["P1"] * N], ["Gaze point X", *C1],
    ["Gaze point Y", *C2], separator="\t"), "a.tsv")  # fmt: skip
add("Pupil Labs", lines_of(["section id", *["a7"] * N], ["timestamp [ns]", *1_715_092_190_440_000_000 + SECOND * 100_000_000],
    ["pupil [mm]", *C1], ["tilt [deg]", *C2]))  # fmt: skip
add(
    "Bonsai",
    lines_of(
        pd.date_range(EXACT, periods=N, freq="100ms").strftime("%Y-%m-%dT%H:%M:%S.%f0+02:00"), C1, C2, separator=" "
    ),
)
add("LabVIEW clock", text(frame([one.replace(".", ":")[11:-3] for one in FAST])))
add("GPS clock as a number", text(frame(stamps("%H%M%S.%f", "100ms", "2024-05-07 16:29:55"), "utc")))
add("PuTTY log", "=~=~=~=~=~=~= PuTTY log 2024.05.07 16:29:50 =~=~=~=~=~=~=\n" + PLAIN, "a.txt")
add("nonzero start of an experiment", text(frame(AT - 3)))

# ---- tracking -----------------------------------------------------------------------------------------------------
SIMBA = ("Ear left", "Nose", "Tail base")
simba = pd.DataFrame({f"{part.replace(' ', '_')}_{a + 1}_{axis}": XY[:, a, p, "xy".index(axis)] if axis != "p" else 0.9
                      for a in range(2) for p, part in enumerate(SIMBA) for axis in "xyp"})  # fmt: skip
add("SimBA", simba.to_csv(), values=XY, names=(("animal 1", "animal 2"), SIMBA), rate=None)
mocap = lines_of(SECOND + 1, [0] * N, XY[:, 0, 0, 0], XY[:, 0, 0, 1], C1, XY[:, 0, 1, 0], XY[:, 0, 1, 1], C2)
VICON = "Trajectories\n100\n,,LKNE,,,RKNE,,\nFrame,Sub Frame,X,Y,Z,X,Y,Z\n,,mm,mm,mm,mm,mm,mm\n"
add("Vicon", VICON + mocap, values=XY[:, :1, :2], names=(("animal",), ("LKNE", "RKNE")), rate=None)
QUALISYS = """NO_OF_FRAMES\t60
NO_OF_CAMERAS\t8
NO_OF_MARKERS\t2
FREQUENCY\t10
NO_OF_ANALOG\t0
ANALOG_FREQUENCY\t0
DESCRIPTION\t--
TIME_STAMP\t2024-05-07, 16:29:50.440\t12345.6
DATA_INCLUDED\t3D
MARKER_NAMES\tknee\tankle
"""
named = "Frame\tTime\tknee X\tknee Y\tknee Z\tankle X\tankle Y\tankle Z\n"
points = (XY[:, 0, 0, 0], XY[:, 0, 0, 1], C1, XY[:, 0, 1, 0], XY[:, 0, 1, 1], C2)
add("Qualisys", QUALISYS + named + lines_of(SECOND + 1, AT, *points, separator="\t"), "a.tsv", values=XY[:, :1, :2],
    names=(("animal",), ("knee", "ankle")))  # fmt: skip
add(
    "Qualisys without names",
    QUALISYS + lines_of(*points, separator="\t"),
    "a.tsv",
    values=np.column_stack(points),
    rate=None,
)
centres = {f"{axis}{a + 1}": XY[:, a, 0, k] for a in range(2) for k, axis in enumerate("xy")}
add("idtracker", text(pd.DataFrame({"seconds": AT} | centres)), asks={"animals": "animals"}, values=XY[:, :, :1],
    names=(("animal 1", "animal 2"), ("centre",)))  # fmt: skip
add("MediaPipe", text(pd.DataFrame({f"{axis}{p}": XY[:, 0, p, "xy".index(axis)] if axis in "xy" else 0.5 for p in range(3)
    for axis in "xyzv"})), asks={"animals": "parts"}, values=XY[:, :1], names=(("animal",), ("0", "1", "2")),
    rate=None)  # fmt: skip
add(
    "TRex",
    lines_of(["frame", *SECOND], ["missing", *[0] * N], ["X#wcentroid (cm)", *C1], ["Y#wcentroid (cm)", *C2]),
    rate=None,
)
add("keypoint-moseq", lines_of(["syllable", *SECOND // 9 % 5], ["centroid x", *C1], ["centroid y", *C2], ["heading", *THREE[:, 2]]),
    values=THREE, rate=None)  # fmt: skip
hot = np.eye(2, dtype=int)[SECOND // 15 % 2]
add("DeepEthogram", pd.DataFrame(hot, columns=["background", "rear"]).to_csv(), refused=True)
bsoid = pd.DataFrame({"B-SOiD labels": [1, 2, 3] * 9, "Start time (frames)": np.arange(27) * 4, "Run lengths": 4})
add("B-SOiD bouts", bsoid.to_csv(), refused=True)
observer = pd.DataFrame({"Observation": "o1", "Time_Relative_sf": np.arange(40) / 2, "Subject": "m1",
    "Behavior": ["rest", "rest", "run", "run"] * 10, "Event_Type": ["State start", "State stop"] * 20})  # fmt: skip
add("Observer XT", text(observer, sep=";"), refused=True)
add("BORIS events", text(observer.rename(columns={"Time_Relative_sf": "Time", "Observation": "Observation id"})
    .assign(Event_Type=["START", "STOP"] * 20)), refused=True)  # fmt: skip
add("ELAN", "".join(f"default\t\t00:00:{i:02d}.000\t00:00:{i + 1:02d}.000\t00:00:01.000\trun\n" for i in range(0, 50, 2)), "a.txt",
    refused=True)  # fmt: skip
VIA = "filename,file_size,region_count,region_id,region_shape_attributes,region_attributes\n"
add("VIA tracks", VIA + "".join(f'{i:08d}.png,26,1,0,"{{""name"":""rect"",""x"":{i}}}","{{""track"":""1""}}"\n' for i in range(N)),
    refused=True)  # fmt: skip
add("states with a time column", text(pd.DataFrame({"time": AT, "syllable": SECOND // 15 % 3})), refused=True)

# ---- other programs -----------------------------------------------------------------------------------------------
add("writetable of MATLAB", lines_of(["Var1", *AT], ["Var2", *C1], ["Var3", *C2]), asks={"unit": "s"})
add("write.csv of R", frame().set_axis(SECOND + 1).to_csv(quoting=2))
add(
    "write.table of R",
    frame().set_axis([str(i + 1) for i in range(N)]).to_csv(sep=" ", quoting=2).replace('"" ', "", 1),
    "a.txt",
)
add("decimals without a zero", respelled(VALUES, lambda v: f"{v:.3f}".replace("0.", ".")))
add("missing values of SAS", text(frame(values=GAP), na_rep="."), values=GAP)
for name in ("-nan(ind)", "1.#QNAN", "#DIV/0!", "#VALUE!", "N.D.", "<NA>", "*"):
    add(f"missing values as {name}", text(frame(values=GAP), na_rep=name), values=GAP)
add("lakhs", respelled(VALUES + 123_456, lambda v: f"1,{v - 1e5:09,.3f}".replace(",", ",", 1)), values=VALUES + 123_456)
add("dates and decimal commas", text(frame(stamps("%d.%m.%Y %H:%M:%S,%f", "100ms", EXACT)), sep=";", decimal=","))
add("percent with decimal commas", respelled(VALUES, lambda v: f"{v} %".replace(".", ","), sep=";", decimal=","))
add("exponents with decimal commas", respelled(VALUES, lambda v: f"{v:.3E}".replace(".", ","), sep=";", decimal=","))
mixed = [f"{v} mm" if i % 2 else f"{v / 10:.4f} cm" for i, v in enumerate(C1)]
add("cells with two units", text(frame().assign(c1=mixed)), values=VALUES[:, 1:])
add("negative numbers in brackets", respelled(VALUES, lambda v: f"({-v})" if v < 0 else v), values=VALUES[:, 1:])
add("numbers with spaces around", respelled(VALUES, lambda v: f"\u00a0{v} "))
add("boolean events", text(frame(lick=SECOND % 7 == 6)), values=np.column_stack([VALUES, SECOND % 7 == 6]))
add("French months", text(frame([f"7 mai 2024 16:{i:02d}" for i in range(N)])), refused=True)
add("ISO durations", text(frame([f"PT{t:.1f}S" for t in AT])), refused=True)
add("times that Excel shortened", text(frame(["1.77E+12"] * N)), refused=True)
summer = pd.date_range("2025-10-26 00:30", periods=N, freq="1min", tz="UTC").tz_convert("Europe/Berlin")
add("end of summer time", text(frame(summer.strftime("%Y-%m-%d %H:%M:%S"))), asks={"order": "file"}, rate=1 / 60)
add("end of summer time with offsets", text(frame(summer.strftime("%Y-%m-%dT%H:%M:%S%z"))), rate=1 / 60)

# ---- broken layouts -----------------------------------------------------------------------------------------------
add("three names alike", lines_of(["value", *C1], ["value", *C2], ["value", *THREE[:, 2]]), values=THREE, rate=None)
add("phantom columns", "".join(f"{line},,,\n" for line in LINES))
add("quoted line breaks", text(frame(note=["first\nsecond" if i == 9 else "x" for i in range(N)])))
add("blank line in the middle", with_line(""))
add("empty row in the middle", with_line(",,"))
add("empty row and empty column", with_line(",,,", source="".join(f"{line},\n" for line in LINES)))
add("comment in the middle", with_line("# lap 2"))
add("remark in the middle", with_line("paused for cleaning,,"))
add("footnote", f"{PLAIN}Source: cage 3,,\n")
add("header again in the middle", with_line(LINES[0]))
add("two files in one", PLAIN + PLAIN, asks={"order": "recordings"}, values=np.vstack([VALUES, VALUES]), trials=(N, N))
add("last line cut off", PLAIN[: PLAIN.rindex(",")] + "\n", values=with_gap(VALUES, (slice(N - 1, N), slice(1, 2))))
add("mixed line ends", "".join(line + ("\r\n" if i % 2 else "\n") for i, line in enumerate(LINES)))
add("line ends of old Macintosh", PLAIN.replace("\n", "\r"))
add("mark and semicolons", "\ufeff" + text(frame(), sep=";", decimal=","))
add("Unicode text of Excel", "\ufeff".encode("utf-16-le") + text(frame(), sep="\t").encode("utf-16-le"), "a.txt")
add("UTF-16 without mark", PLAIN.encode("utf-16-le"), refused=True)
add("zeros after a power loss", PLAIN.encode() + bytes(512), refused=True)
add("one row", "time,c1,c2\n0,1.5,2.5\n", refused=True)
add(
    "time across",
    "\n".join(",".join(map(str, row)) for row in zip(*[line.split(",") for line in LINES], strict=True)),
    refused=True,
)
add("three header rows", ",arm,\n,left,right\ntime,x angle,y angle\n" + lines_of(AT, C1, C2))
add("units in a third row", "device,arm,arm\ntime,left,right\ns,deg,deg\n" + lines_of(AT, C1, C2))


# ---- formats ------------------------------------------------------------------------------------------------------
def merged() -> bytes:
    """Return a workbook with a merged cell over two names."""
    book = Workbook()
    page = book.active
    for row in [["", "arm", None], ["time", "left", "right"], *rows]:
        page.append(row)
    page.merge_cells("B1:C1")
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


add("workbook with merged cells", merged(), "a.xlsx")
add(
    "workbook with numbers as text",
    sheet([["time", "c1", "c2"], *[[str(cell).replace(".", ",") for cell in row] for row in rows]]),
    "a.xlsx",
)
faulty = [[at, "#N/A" if i == 5 else one, two] for i, (at, one, two) in enumerate(rows)]
add(
    "workbook with errors",
    sheet([["time", "c1", "c2"], *faulty]),
    "a.xlsx",
    values=with_gap(VALUES, (slice(5, 6), slice(0, 1))),
)
add(
    "workbook with a footnote",
    sheet([["time", "c1", "c2"], *rows, [None, None, None], ["Source: cage 3", None, None]]),
    "a.xlsx",
)
add("workbook named CSV", written(frame(), "excel"), refused=True)
add("Parquet with durations", written(frame(pd.to_timedelta(AT, unit="s")), "parquet"), "a.parquet")
add("NPZ with milliseconds", npz(y=VALUES, time_ms=AT * 1000), "a.npz")
add("NPY of complex numbers", npy(VALUES * 1j), "a.npy", refused=True)


def nwb(
    times: Any = AT,
    rate: float | None = None,
    parts: tuple[str, ...] = BODY,
    animals: tuple[str, ...] = ("mouse1", "mouse2"),
) -> bytes:
    """Return poses of two animals as the extension ndx-pose stores them."""
    out = io.BytesIO()
    with h5py.File(out, "w") as file:
        file.attrs["nwb_version"] = "2.7.0"
        first = None
        for a, animal in enumerate(animals):
            group = file.create_group(f"processing/behavior/{animal}")
            group.attrs["neurodata_type"] = "PoseEstimation"
            for p, part in enumerate(parts):
                series = group.create_group(part)
                series.attrs["neurodata_type"] = "PoseEstimationSeries"
                series["data"], series["confidence"] = XY[:, a, p], np.full(N, 0.9)
                if rate:
                    series["starting_time"] = 0.0
                    series["starting_time"].attrs["rate"] = rate
                elif first:  # as pynwb writes times that are the same
                    series["timestamps"] = h5py.SoftLink(first)
                else:
                    series["timestamps"], first = times, f"{series.name}/timestamps"
    return out.getvalue()


NWB = (("mouse1", "mouse2"), ("ear", "nose", "tail"))  # HDF5 sorts names
SORTED = XY[:, :, [1, 0, 2]]
add("NWB poses", nwb(), "a.nwb", values=SORTED, names=NWB)
add("NWB poses with a rate", nwb(rate=50.0), "a.nwb", values=SORTED, names=NWB, rate=50)
late = np.insert(SORTED, 30, np.full((4, 2, 3, 2), np.nan), axis=0)
add("NWB poses that lack frames", nwb(np.where(np.arange(N) < 30, AT, AT + 0.4)), "a.nwb", values=late, names=NWB)
add("NWB poses of two cameras", nwb(animals=("LeftCamera", "RightCamera")), "a.nwb", refused=True)
add("NWB without poses", nwb(parts=()), "a.nwb", refused=True)
add("HDF5 of another kind", hdf({"y": VALUES}), "a.h5", refused=True)
add("Git pointer", "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 123\n", refused=True)
add("rich text", r"{\rtf1\ansi\deff0 {\fonttbl {\f0 Arial;}} time, c1, c2}" + "\n", "a.txt", refused=True)
add(
    "serial monitor", "".join(f"t:{t} a:{a} b:{b}\n" for t, a, b in zip(AT, C1, C2, strict=True)), "a.txt", refused=True
)

# ---- more devices, programs and broken layouts ----------------------------------------------------------------------
add(
    "Movisens",
    lines_of(
        ["Timestamp", *stamps("%Y-%m-%dT%H:%M:%S.%f", "100ms", EXACT)],
        ["HR[1/min]", *C1],
        ["Acc[g]", *C2],
        separator=";",
    ),
)
add(
    "activPAL",
    "sep=;\n"
    + lines_of(
        ['"Time"', *[f'"{45419.5 + i / 864000:.9f}"' for i in range(N)]], ['"X"', *C1], ['"Y"', *C2], separator=";"
    ),
)
ECG = "Name,Jane Doe\nDate of Birth,1990-01-01\nClassification,Sinus Rhythm\nSample Rate,512 hertz\n\n\nLead,Lead I\nUnit,µV\n\n\n"
add("Apple Watch ECG", ECG + lines_of(C1), rate=512, values=VALUES[:, :1])
add(
    "Emotiv",
    "title: test, recorded: 07.05.24 16.29.50, sampling:128, subject:jd, labels:AF3 F7, units:emotiv\n"
    + lines_of(C1, C2),
    rate=None,
)
add("Delsys", lines_of(["X[s]", *AT], ["EMG 1 (V)", *C1], ["X[s]", *AT], ["EMG 2 (V)", *C2]))
add("Shimmer", "sep=\t\n" + lines_of(["S1_Timestamp_Unix_CAL", "ms", *(SECOND * 100 + 1_715_092_190_440)], ["S1_X_CAL", "m/s", *C1],
    ["S1_Y_CAL", "m/(s^2)", *C2], [""] * (N + 2), separator="\t"))  # fmt: skip
add(
    "Xsens DOT",
    "DeviceTag:,D1\nFirmwareVersion:,2.0\nStartTime:,2024-05-07\n\n"
    + lines_of(
        ["PacketCounter", *SECOND + 1],
        ["SampleTimeFine", *SECOND * 100_000 + 7_000_123],
        ["Euler_X", *C1],
        ["Euler_Y", *C2],
    ),
    asks={"unit": "us"},
)
add(
    "Google Fit",
    lines_of(
        ["Start time", *stamps("%H:%M:%S.000+02:00", "1min", "2024-05-07 08:00")],
        ["End time", *stamps("%H:%M:%S.000+02:00", "1min", "2024-05-07 08:01")],
        ["Heart rate", *C1],
        ["Steps", *C2],
    ),
    rate=1 / 60,
)
add(
    "ROS",
    lines_of(
        ["%time", *1_715_092_190_440_000_000 + SECOND * 100_000_000],
        ["field.header.seq", *SECOND + 7],
        ["field.x", *C1],
        ["field.z", *C2],
    ),
)
add("gnuplot", "# time c1 c2\n" + lines_of(AT, C1, C2, separator=" "), "a.txt")
add("ISO with a comma", text(frame([one.replace(" ", "T").replace(".", ",")[:-3] for one in FAST]), sep=";"))
add(
    "date and time with formats in their names",
    lines_of(
        ["Date (DD/MM/YY)", *["27/05/24"] * N],
        ["Time (HH:MM:SS)", *stamps("%H:%M:%S", "1s", EXACT)],
        ["c1", *C1],
        ["c2", *C2],
    ),
    rate=1,
)
add(
    "milliseconds in a column of their own",
    lines_of(
        ["DateTime", *stamps("%Y-%m-%d %H:%M:%S", "100ms", "2024-05-07 16:29:50")],
        ["Milliseconds", *SECOND % 10 * 100],
        ["c1", *C1],
        ["c2", *C2],
    ),
)
add("two tables side by side", lines_of(["time", *AT], ["a", *C1], [""] * (N + 1), ["time", *AT], ["b", *C2]))
add(
    "Markdown",
    "| time | c1 | c2 |\n|---|---|---|\n"
    + "".join(f"| {t} | {a} | {b} |\n" for t, a, b in zip(AT, C1, C2, strict=True)),
    "a.txt",
)
add("JSON lines", "".join(f'{{"t": {t}, "a": {a}}}\n' for t, a in zip(AT, C1, strict=True)), "a.txt", refused=True)
add("line breaks in names", '"time\n(s)","c1\n(mV)",c2\n' + lines_of(AT, C1, C2))
add("channels named by numbers", lines_of(["time", *AT], ["1", *C1], ["2", *C2]))
add("names with units in brackets", lines_of(["Time [sec]", *AT], ["C1 (mV)", *C1], ["C2 (mV)", *C2]))
add("title over the whole table", "Open field 7,,\n" + PLAIN)
add("title and a blank row", "Open field 7,,\n,,\n" + PLAIN)
add("comment marks of C", "// exported\n// by me\n" + PLAIN)
add(
    "sheet without conditions",
    text(pd.DataFrame({"recording": [f"m{i}.csv" for i in range(20)], "weight": VALUES[:20, 0]})),
    refused=True,
)
add(
    "summary of animals",
    text(pd.DataFrame({"animal": [f"m{i}" for i in range(20)], "distance": VALUES[:20, 0], "speed": VALUES[:20, 1]})),
    refused=True,
)
add(
    "questionnaire",
    text(
        pd.DataFrame(
            {"id": range(1, 31), "age": SECOND[:30] % 17 + 20, "score": SECOND[:30] % 5, "sex": ["f", "m"] * 15}
        )
    ),
    refused=True,
)
add("semicolons at line ends", "".join(f"{line};\n" for line in text(frame(), sep=";").splitlines()))
add(
    "hours over 24",
    text(frame([f"{23 + (3540 + i) // 3600}:{(3540 + i) // 60 % 60:02d}:{i % 60:02d}" for i in range(N)])),
    rate=1,
)
add("time in the middle of a night", text(frame(stamps("%I:%M:%S %p", "1s", "2024-05-07 23:59:30"))), rate=1)
add(
    "trials named by words",
    text(frame(np.tile(AT[:30], 2), condition=np.repeat(["pre", "post"], 30), trial=np.repeat(["a", "b"], 30))),
    trials=(30, 30),
)
add(
    "space in thousands and tabs",
    text(frame(values=BIG * [10, 1]).assign(c1=[f"{v:,.0f}".replace(",", " ") for v in BIG[:, 0] * 10]), sep="\t"),
    values=BIG * [10, 1],
)
add("signs before numbers", respelled(VALUES, lambda v: f"{v:+.3f}"))
add("German words for missing", text(frame(values=GAP), na_rep="k.A."), values=GAP)
add("overflow marks", text(frame(values=GAP), na_rep="OVRFLW"), values=GAP)
add(
    "one channel and a time of day",
    lines_of(
        ["Uhrzeit", *stamps("%H:%M:%S", "1s", EXACT)], ["Wert", *[str(v).replace(".", ",") for v in C1]], separator=";"
    ),
    rate=1,
    values=VALUES[:, :1],
)
