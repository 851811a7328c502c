"""The user's own tables (CSV, Parquet, NPZ, XLSX): roles of columns, quality reports and conversion to Trials."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import ConfigError, DataError
from gdm_core.maths.angles import find_angles
from gdm_core.maths.repeats import Repeats
from gdm_core.text import first_of, plural
from gdm_core.trials import Trial, Trials, working_precision

from . import nascar
from .readers.doubts import Answers, Doubt, require_answers, unanswered
from .readers.formats import READABLE, read_frame
from .readers.kinds import refuse_other_tables
from .readers.long import drop_remarks, find_row_names, join_date_and_time, widen
from .readers.order import Order, Rows, arrange
from .readers.quality import (
    LOW_SCORE,
    ChannelQuality,
    QualityReport,
    channel_quality,
    fill_gaps,
    find_sentinel,
    outlier_mask,
)  # fmt: skip
from .readers.roles import Role, check_roles, columns_with, describe_column, format_cell, guess_roles, numeric_values
from .readers.source import Readable, open_source, path_within
from .readers.timing import Clock, clock_from_steps, describe_times, nearest_sample, read_times, resample
from .readers.transforms import find_skewed, is_composition, take_cosines, take_log_ratios, take_logs

__all__ = [
    "EXAMPLE", "READABLE", "TEMPLATES", "Answers", "Clock", "Doubt", "QualityReport", "Role", "Table", "Understanding",
    "path_within", "read", "template",
]  # fmt: skip

MAX_TRIALS = 10_000
_BETWEEN = 0.6  # of the usual step: a row between two samples is at most half a step from one of them
_UNIT = re.compile(r" *[(\[]([^)\]]+)[)\]]$")


@dataclass(frozen=True)
class Understanding:
    """What a reader understood of a file.

    roles     column -> role
    clock     the clock of the time column; None without one
    order     rows of each trial in time order
    doubts    questions without an answer; a table with doubts is not converted
    rate_hz   samples per second that the file gives without a time column
    """

    roles: dict[str, Role]
    clock: Clock | None
    order: Order
    doubts: tuple[Doubt, ...] = ()
    rate_hz: float | None = None

    def sentence(self) -> str:
        """Describe trials, rows, channels and rate."""
        channels = columns_with(self.roles, Role.CHANNEL, Role.POSITION)
        n_rows = sum(len(rows) for _, rows in self.order.trials)
        rate = self.rate_hz if self.clock is None else self.clock.rate_hz
        pace = f"{rate:.4g} Hz" if rate else "an unknown rate"
        trials = plural(len(self.order.trials), "trial")
        return f"{trials} of {plural(len(channels), 'channel')} at {pace}, {plural(n_rows, 'row')}"


@dataclass(frozen=True, eq=False)
class Table:
    """A table with a guessed role for each column. Pass edited roles to `report` and `to_trials`.

    frame    the table itself
    name     name of the file
    notes    sentences about how the file was read
    sheets   names of all sheets of a workbook, else empty
    sheet    name of the sheet that was read
    answers  answers to doubts, such as {"unit": "ms"}
    doubts   questions about how the file was read
    animals  animals that the names of columns begin with, if the file lists them
    narrow   the table as in the file, if that has several rows for a time step
    rate_hz  samples per second that the file gives without a time column
    """

    frame: pd.DataFrame
    roles: dict[str, Role]
    name: str = "table"
    notes: tuple[str, ...] = field(default=())
    sheets: tuple[str, ...] = ()
    sheet: str = ""
    answers: Answers = field(default_factory=dict)
    doubts: tuple[Doubt, ...] = ()
    animals: tuple[str, ...] = ()
    rate_hz: float | None = None
    narrow: Table | None = None
    _understood: dict[tuple[Any, ...], Understanding] = field(default_factory=dict, init=False, repr=False)

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of all columns, in file order."""
        return tuple(self.frame.columns)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.frame)

    def widen(self, roles: Mapping[str, Role | str]) -> Table:
        """Return a table with one row per time step, if columns have the role animal or part."""
        checked = check_roles(self.frame, roles)
        if not columns_with(checked, Role.ANIMAL, Role.PART):
            return replace(self, roles=checked)
        frame, animals, note = widen(self.frame, checked)
        narrow = replace(self, roles=checked)
        return replace(
            self, frame=frame, roles=guess_roles(frame), notes=(*self.notes, note), animals=animals, narrow=narrow
        )

    def understand(self, roles: Mapping[str, Role | str] | None = None) -> Understanding:
        """Return what is known of the table, and the doubts that `answers` does not settle.

        roles   column -> role, instead of the guesses; other columns are ignored
        """
        checked = self._check_roles(roles)
        key = tuple(checked.items())
        if key not in self._understood:
            self._understood[key] = self.understand_trials(checked, self.group_rows(columns_with(checked, Role.GROUP)))
        return self._understood[key]

    def understand_trials(self, roles: dict[str, Role], trials: Sequence[tuple[str, Rows]]) -> Understanding:
        """Return what is known of a table with these rows in each trial."""
        name = next(iter(columns_with(roles, Role.TIME)), None)
        if name is None:
            nothing = np.full(self.n_rows, np.nan)
            doubts = unanswered((*self.doubts, *self._sentinel_doubts(roles)), self.answers)
            return Understanding(roles, None, Order(tuple(trials), nothing), doubts, self.rate_hz)
        times = read_times(self.frame[name], name, self.answers)
        kept = [(trial, rows[~self._mark_events(roles, times.seconds, rows)]) for trial, rows in trials]
        order = arrange(times.seconds, kept, self.answers, times.unit == "frames")
        if n_events := sum(len(rows) for _, rows in trials) - sum(len(rows) for _, rows in kept):
            note = f"{plural(n_events, 'row')} without values between two samples left out, as marks of events"
            order = replace(order, notes=(note, *order.notes))
        doubts = unanswered((*self.doubts, *times.doubts, *order.doubts, *self._sentinel_doubts(roles)), self.answers)
        steps = np.concatenate([np.diff(order.seconds[rows[rows >= 0]]) for _, rows in order.trials])
        clock = clock_from_steps(replace(times, seconds=order.seconds), steps[np.isfinite(steps)], name)
        return Understanding(roles, clock, order, doubts)

    def _mark_events(self, roles: Mapping[str, Role], seconds: npt.NDArray[Any], rows: Rows) -> npt.NDArray[np.bool_]:
        """Return a mask of rows without values that are closer to another row than samples are."""
        columns = [self.frame[name] for name in columns_with(roles, Role.CHANNEL, Role.POSITION)]
        blank = np.all([np.isnan(numeric_values(column)) for column in columns], axis=0)[rows] if columns else rows < 0
        if not blank.any() or blank.all():
            return blank & False
        times = seconds[rows]
        nearest = np.fmin(np.abs(np.diff(times, prepend=np.nan)), np.abs(np.diff(times, append=np.nan)))
        usual = np.median(np.abs(np.diff(times[~blank])))
        return blank & (nearest < _BETWEEN * usual)

    def _sentinel_doubts(self, roles: Mapping[str, Role]) -> tuple[Doubt, ...]:
        """Return a question about values such as -9999 that may stand for missing ones."""
        found = {name: value for name in columns_with(roles, Role.CHANNEL, Role.POSITION)
                 if (value := find_sentinel(numeric_values(self.frame[name]))) is not None}  # fmt: skip
        if not found:
            return ()
        where = first_of([f"{value:g} in {name!r}" for name, value in found.items()], 3)
        return (Doubt("sentinels", f"Do these values stand for missing ones: {where}?", ("missing", "keep")),)

    def report(self, roles: Mapping[str, Role | str] | None = None) -> QualityReport:
        """Report missing values, gaps, outliers and the clock of channels and positions.

        roles   column -> role, instead of the guesses; other columns are ignored
        """
        checked = self._check_roles(roles)
        names = self._channels(checked, True)
        notes = list(self.notes)
        qualities: list[ChannelQuality] = []
        angles: list[str] = []
        for name in names:  # one by one, to save memory
            values = self._read_values((name,))
            qualities += channel_quality(values, (name,))
            angles += find_angles([values], (name,))
            notes += describe_column(name, self.frame[name], used=True)
        notes += [
            note
            for name in columns_with(checked, Role.IGNORE)
            for note in describe_column(name, self.frame[name], used=False)
        ]
        known = self.understand(checked)
        if known.clock is not None:
            notes.append(known.clock.sentence())
            notes += describe_times(self.frame[columns_with(checked, Role.TIME)[0]], known.clock.seconds)
        notes += known.order.notes
        sizes = [len(rows) for _, rows in known.order.trials]
        if len(sizes) > 1:
            least, most = f"{min(sizes):,}", f"{max(sizes):,}"
            notes.append(f"{len(sizes):,} trials of {least if least == most else f'{least} to {most}'} samples")
        repeats = Repeats.find([self._read_values(names)[rows] for _, rows in known.order.trials])
        notes = [*repeats.describe(names), *notes]
        scores = self._read_values(tuple(columns_with(checked, Role.SCORE)))
        low = int(np.count_nonzero(scores < LOW_SCORE))
        few = tuple(names[j] for j in repeats.discrete)
        of_channels = tuple(columns_with(checked, Role.CHANNEL))
        skewed = find_skewed(self._read_values(of_channels), of_channels)
        parts = is_composition(self._read_values(names))
        return QualityReport(self.n_rows, tuple(qualities), low, tuple(notes), few, skewed, parts, tuple(angles))

    def to_trials(
        self,
        roles: Mapping[str, Role | str] | None = None,
        rate_hz: float | None = None,
        resample_to_fixed_step: bool = False,
        fill_seconds: float = 0.0,
        drop_outliers: bool = False,
        position_is_channel: bool = True,
        units: Mapping[str, str] | None = None,
        log: Sequence[str] = (),
        log_ratio: bool = False,
        angles: Mapping[str, float] | None = None,
    ) -> Trials:
        """Convert the table to Trials, one for each value of the group column; raise DataError in doubt.

        roles           column -> role, instead of the guesses; other columns are ignored
        rate_hz         samples per second; by default from the time column, else 1
        resample_to_fixed_step   resample to a fixed step, for irregular time; gaps of more than three steps stay missing
                        unless `fill_seconds` is longer
        fill_seconds    interpolate gaps up to this length; longer ones stay missing
        drop_outliers   treat outliers as missing, before filling
        position_is_channel      use the two position columns as channels too
        units           channel -> unit that its name ends in; values are not converted
        log             channels whose logarithms are fitted, for positive and skewed values
        log_ratio       fit isometric log-ratios of all channels, for parts of a whole
        angles          angle -> its full turn, 360 or 2 pi: fit cosine and sine; by default of angles that jump
        """
        checked = self._check_roles(roles)
        channels = self._channels(checked, position_is_channel)
        known = self.understand(checked)
        require_answers(self.name, known.doubts, self.answers)
        clock = known.clock
        usual = None if clock is None else clock.rate_hz
        rate = rate_hz if rate_hz is not None else usual or self.rate_hz or 1.0
        if not (np.isfinite(rate) and rate > 0):
            raise ConfigError(f"rate_hz is {rate}; it must be positive, in samples per second.")
        if not fill_seconds >= 0:
            raise ConfigError(f"fill_seconds is {fill_seconds}; it must be non-negative.")
        if resample_to_fixed_step and usual is None:
            raise ConfigError(
                "Resampling needs a time column in seconds, milliseconds or dates. Assign the role time to one."
            )
        y = self._read_values(channels)  # [rows, N]
        placed = tuple(columns_with(checked, Role.POSITION))
        position = self._read_values(placed) if placed else None
        labels, label_names = self._labels(checked)
        if log or log_ratio:
            y, channels = take_log_ratios(y, channels) if log_ratio else take_logs(y, channels, log)
        turns = find_angles([y], channels) if angles is None else angles
        if turns:
            y, channels = take_cosines(y, channels, turns)
        named = tuple(with_unit(name, units[name]) if units and name in units else name for name in channels)
        trials: list[Trial] = []
        for group, rows in known.order.trials:
            whole = np.array_equal(rows, np.arange(self.n_rows))  # do not copy a large single trial
            if resample_to_fixed_step:
                rows = rows[rows >= 0]
            values = y if whole else known.order.take(y, rows)
            if drop_outliers:
                values = np.where(outlier_mask(values), np.float32(np.nan), values)
            place = None if position is None else known.order.take(position, rows)
            label = None if labels is None else np.where(rows < 0, -1, labels[rows])
            if resample_to_fixed_step and clock is not None and usual is not None:
                bridge = max(fill_seconds, 3 / usual)  # irregular steps are not gaps
                values, place, label = _resample_trial(clock.seconds[rows], values, place, label, rate, bridge, group)
            values = fill_gaps(values, round(fill_seconds * rate))
            values.flags.writeable = False  # lets the trial keep it without a copy
            start = 0.0 if clock is None else _start_time(clock, rows, rate)
            trials.append(Trial(values, rate, named, labels=label, position=place, name=group, start_seconds=start))
        return Trials(tuple(trials), self.name, label_names)

    def _check_roles(self, roles: Mapping[str, Role | str] | None) -> dict[str, Role]:
        checked = check_roles(self.frame, self.roles if roles is None else roles)
        if columns_with(checked, Role.ANIMAL, Role.PART):
            self.widen(checked)  # says what is wrong with them
            raise ConfigError("The roles animal and part change the rows of a table. Pass them to tables.read.")
        return checked

    def _channels(self, roles: Mapping[str, Role], position_too: bool) -> tuple[str, ...]:
        names = tuple(columns_with(roles, Role.CHANNEL, *([Role.POSITION] if position_too else [])))
        if not names:
            hint = " It has a single column: separate fields by commas, semicolons, tabs, bars or spaces."
            raise DataError(
                f"{self.name}: no column is a channel. Assign the role channel to the columns to model."
                + (hint if len(self.columns) == 1 else "")
            )
        return names

    def _read_values(self, names: tuple[str, ...]) -> npt.NDArray[Any]:
        columns = [numeric_values(self.frame[name]) for name in names]
        for column in columns if self.answers.get("sentinels") == "missing" else []:
            column[column == find_sentinel(column)] = np.nan
        y = np.empty((self.n_rows, len(names)), dtype=np.result_type(np.float32, *map(working_precision, columns)))
        for j, column in enumerate(columns):
            y[:, j] = column
        return y

    def _labels(self, roles: Mapping[str, Role]) -> tuple[npt.NDArray[np.int64] | None, tuple[str, ...]]:
        name = columns_with(roles, Role.LABEL)
        if not name:
            return None, ()
        column = self.frame[name[0]]
        codes, words = pd.factorize(column, sort=True)  # NaN becomes -1, unlabelled
        return codes.astype(np.int64), tuple(format_cell(value) for value in words)

    def group_rows(self, columns: Sequence[str]) -> list[tuple[str, Rows]]:
        """Return (name, rows) of each combination of values in these columns, in order of appearance.

        Rows without a value are left out; without columns, all rows are one group.
        """
        if not columns:
            return [(self.name, np.arange(self.n_rows))]
        codes = self.frame.groupby(list(columns), sort=False, observed=True).ngroup().fillna(-1).to_numpy(np.int64)
        named = " and ".join(map(repr, columns))
        if (n := int(codes.max()) + 1) > MAX_TRIALS:
            raise DataError(
                f"{named} would split {self.name} into {n:,} trials; the limit is {MAX_TRIALS:,}. Assign the role ignore."
            )
        if n == 0:
            raise DataError(f"{named} is empty in every row. Assign the role ignore.")
        order = np.argsort(codes, kind="stable")
        rows = np.split(order, np.searchsorted(codes[order], np.arange(n + 1)))[1:-1]
        firsts = self.frame[list(columns)].iloc[[its[0] for its in rows]].astype(object).to_numpy()
        words = [[f"{name} {format_cell(v)}" for name, v in zip(columns, row, strict=True)] for row in firsts]
        return [(", ".join(word), its) for word, its in zip(words, rows, strict=True)]


def read(
    source: Readable,
    name: str | None = None,
    sheet: str | None = None,
    answers: Answers | None = None,
    roles: Mapping[str, Role | str] | None = None,
) -> Table:
    """Read a table from a file.

    source    a path, bytes, or an open file
    name      name of the file; needed for bytes
    sheet     sheet of a workbook; by default the first with a numeric column
    answers   answers to doubts (`Table.understand`), such as {"unit": "ms"}
    roles     column -> role, where the guess is wrong: "animal" and "part" tell the rows of one time step apart
    """
    opened = open_source(source, name)
    made = read_frame(opened, sheet, answers)
    frame, remarks = drop_remarks(made.frame)
    if len(frame) < 2:
        raise DataError(f"{opened.name} has {plural(len(frame), 'row')}; at least 2 are needed.")
    frame, joined = join_date_and_time(frame)
    guessed, found = guess_roles(frame), find_row_names(frame)
    if found:
        guessed |= dict.fromkeys(columns_with(guessed, Role.TIME), Role.IGNORE) | found
    table = Table(
        frame, guessed, opened.name, (*made.notes, *remarks, *joined), made.sheets, made.sheet, answers or {}, made.doubts,
        rate_hz=made.rate_hz,
    ).widen(guessed | dict(roles or {}))  # fmt: skip
    refuse_other_tables(table.frame, table.roles, opened.name)
    return table


def unit_of(name: str) -> str:
    """Return the unit in brackets at the end of a name, or an empty string."""
    found = _UNIT.search(name)
    return found[1] if found else ""


def with_unit(name: str, unit: str) -> str:
    """Return a name that ends in this unit."""
    return f"{_UNIT.sub('', name)} ({unit})" if unit else _UNIT.sub("", name)


def _start_time(clock: Clock, rows: npt.NDArray[np.int64], rate: float) -> float:
    """Return the first time in seconds on the file's clock."""
    known = clock.seconds[rows[rows >= 0]]
    known = known[np.isfinite(known)]
    if clock.start is None or not len(known):
        return 0.0
    first = clock.start + float(known[0])
    return first if clock.rate_hz is not None else first / rate  # a counter of frames


def _resample_trial(
    seconds: npt.NDArray[np.float64],
    values: npt.NDArray[Any],
    place: npt.NDArray[Any] | None,
    label: npt.NDArray[np.int64] | None,
    rate: float,
    max_gap: float,
    where: str,
) -> tuple[npt.NDArray[Any], npt.NDArray[Any] | None, npt.NDArray[np.int64] | None]:
    """Resample one trial to fixed steps after sorting; rows without time are dropped."""
    known = np.flatnonzero(np.isfinite(seconds))
    if len(known) < 2:
        raise DataError(f"{where}: resampling needs at least two rows with a time.")
    known = known[np.argsort(seconds[known], kind="stable")]
    known = known[np.concatenate([[True], np.diff(seconds[known]) > 0])]  # keep the first row of each time
    at = seconds[known]
    new_place = None if place is None else resample(at, place[known], rate, max_gap)
    new_label = None if label is None else label[known][nearest_sample(at, rate)]
    return resample(at, values[known], rate, max_gap), new_place, new_label


# ---- example files with invented values -----------------------------------------------------------------------------
def _write_example() -> str:
    """Return labelled sensors of six simulated trials."""
    emission, words = nascar.emission(4, seed=0), ("right turn", "left turn", "upper straight", "lower straight")
    trials = []
    for number in range(6):
        trial = nascar.simulate("standard", 600, seed=number, emission=emission, noise=0.07)
        columns: dict[str, Any] = {"trial": number + 1, "time": (np.arange(600) / 30).round(4)}
        columns |= {f"sensor {j + 1}": values.round(4) for j, values in enumerate(trial.y.T)}
        trials.append(pd.DataFrame(columns | {"label": np.array(words)[trial.labels]}))
    return str(pd.concat(trials, ignore_index=True).to_csv(index=False))


def _write_deeplabcut() -> str:
    """Return two animals with three parts each."""
    frames = np.arange(60)
    columns: dict[tuple[str, ...], Any] = {}
    for a, animal in enumerate(("mouse1", "mouse2")):
        for p, part in enumerate(("nose", "neck", "tail_base")):
            turn = 0.05 * frames
            values = 200 + 150 * a + 2 * frames + 40 * np.cos(turn) * (1 - p), 300 + 40 * np.sin(turn) * (1 - p), 0.99
            columns |= {
                ("example", animal, part, axis): v for axis, v in zip(("x", "y", "likelihood"), values, strict=True)
            }
    levels = ("scorer", "individuals", "bodyparts", "coords")
    return str(pd.DataFrame(columns, frames).round(2).rename_axis(levels, axis=1).to_csv())


EXAMPLE = "example.csv"
TEMPLATES: dict[str, Callable[[], str]] = {EXAMPLE: _write_example, "deeplabcut.csv": _write_deeplabcut}


@cache
def template(name: str) -> bytes:
    """Return the content of an example file of TEMPLATES."""
    if name not in TEMPLATES:
        raise ConfigError(f"There is no template {name!r}; choose one of {', '.join(TEMPLATES)}.")
    return TEMPLATES[name]().encode()
