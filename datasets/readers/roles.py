"""Roles of table columns, guessed from names and values, and parsing of text as numbers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core.errors import ConfigError

from .dates import parse_times, sample_of

# ---- parsing text ---------------------------------------------------------------------------------------------------
# Pandas' parser overruns its memory on such exponents and crashes the server; the values are 0 or infinite anyway.
_LONG_EXPONENT = r"[eE][+-]?\d{5}"
# 1,234.5 or 1,234,567 and 1.234,5: only unambiguous cells reveal the notation of a column
_COMMA_GROUPS = r"^\s*[-+]?(\d{1,3}(,\d{2,3})*,\d{3}\.\d*|\d{1,3}(,\d{2,3})+,\d{3})\s*$"
_POINT_GROUPS = r"^\s*[-+]?\d{1,3}(\.\d{3})+,\d*\s*$"
# the Unicode minus, spaces or apostrophes between thousands, and the exponents of Fortran
_SPELLINGS = (
    ("^[\u2212\u2013]", "-"),
    (r"(?<=\d)[ \u00a0\u202f'\u2019](?=\d{3}(\D|$))", ""),
    (r"(?<=[\d.])[dD](?=[-+]?\d{1,3}$)", "e"),
)
_WITH_UNIT = r"^[$\u20ac\u00a3]?([-+]?[\d.,]+(?:[eE][-+]?\d+)?) *([%\u00b0a-zA-Z\u00b5/\u00b2\u00b3]{1,6})$"
_SAMPLE = 200
_COMPARED_ROWS = 1000  # in which copies of columns are looked for first
_FEWEST_ROWS = 10  # fewer may agree by chance
_COPY = 1 - 5e-7  # correlation


def parse_numbers(words: pd.Series[Any]) -> npt.NDArray[np.float64]:
    """Parse the distinct texts of a column as numbers, NaN if they are none.

    A comma is the decimal sign, or separates thousands if other cells show that. A unit that all cells share is dropped.
    """
    text = words.astype(str)
    if len(text) > _SAMPLE and not np.isfinite(_parse_notations(sample_of(text))).any():
        return np.full(len(text), np.nan)  # parsing many dates as numbers takes seconds
    return _parse_notations(text)


def _parse_notations(text: pd.Series[Any]) -> npt.NDArray[np.float64]:
    numbers = _parse(text)
    lost = ~np.isfinite(numbers)
    if lost.any():
        rest = text[lost].str.strip()
        for pattern, new in _SPELLINGS:
            rest = rest.str.replace(pattern, new, regex=True)
        units = rest.str.extract(_WITH_UNIT)
        if units[1].nunique() == 1:  # one unit
            rest = units[0].where(units[1].notna(), rest)
        if rest.str.match(_COMMA_GROUPS).any():
            rest = rest.str.replace(r",(?=(\d{2},)*\d{3}(\D|$))", "", regex=True)
        grouped = rest.str.match(_POINT_GROUPS)
        rest = rest.mask(grouped, rest.str.replace(".", "", regex=False))
        numbers[lost] = _parse(rest.str.replace(",", ".", regex=False))
    return numbers


def _parse(text: pd.Series[Any]) -> npt.NDArray[np.float64]:
    safe = text.mask(text.str.contains(_LONG_EXPONENT, regex=True), "")
    return np.array(pd.to_numeric(safe, errors="coerce"), dtype=np.float64)


def describe_notation(words: pd.Series[Any]) -> str:
    """Describe a guessed notation of numbers, or return an empty string."""
    text = words.astype(str)
    for pattern, template in (
        (_WITH_UNIT, "is written with a unit, and {} counts as the number before it"),
        (_COMMA_GROUPS, "separates thousands by commas, as in {}"),
        (_POINT_GROUPS, "separates thousands by points, as in {}"),
    ):
        found = text[text.str.match(pattern)]
        if len(found):
            return template.format(found.iloc[0].strip()[:40])
    return ""


def format_cell(value: object) -> str:
    """Format a value; 3.0 is 3, since integers with gaps become floats."""
    return str(int(value)) if isinstance(value, float | np.floating) and float(value).is_integer() else str(value)


def is_time_column(column: pd.Series[Any]) -> bool:
    """Return True if nearly all sampled texts are dates or times."""
    present = column.dropna()
    sample = sample_of(present).astype(str)
    if sample.str.contains(r"\d[:./-]\d", regex=True).mean() < 0.9:  # "5 days" is not a time of day
        return False
    found = parse_times(sample)
    return found is not None and bool(next(iter(found.values())).notna().mean() >= 0.9)


# ---- roles of columns -----------------------------------------------------------------------------------------------
class Role(StrEnum):
    """Role of a column."""

    TIME = "time"
    LABEL = "label"
    GROUP = "group"
    ANIMAL = "animal"
    PART = "part"
    POSITION = "position"
    CHANNEL = "channel"
    SCORE = "score"
    IGNORE = "ignore"


_TIME = re.compile(
    r"^(t|time|timestamp|datetime|date|when|clock|zeit|datum|uhrzeit|zeitstempel|seconds?|secs?|s|ms|millis(econds)?|"
    r"elapsed|utc|ts|datenum|minutes?|hours?)([ _(\[./].*)?$|_(time|s|ms)$|"
    r"^(trial|recording|elapsed|video|relative|system|session)[ _]time([ _(\[./].*)?$"
)
_CLOCK = re.compile(r"time|clock")
_COUNTER = re.compile(r"count|seq|index|idx|number|packet|sample|record|frame")
_FRAME_NUMBER = re.compile(r"^(frames?|frame[ _]?(no|number|index|idx|id))$")
_INDEX = re.compile(
    r"^(frames?|(frame|sample)[ _]?(no|number|index|idx|id)|samples?|index|idx|row|step|coords|scorer|bodyparts|unnamed: ?0|"
    r"level_0|__index_level_0__)$"
)
_LABEL = re.compile(
    r"label|syllable|cluster|behaviou?r|annotation|class$|state$|action$|activity|event$|target$|_prediction$"
)


def _compile_name(words: str) -> re.Pattern[str]:
    """Return a pattern of one of the words, such as animal, animals or animal_id."""
    return re.compile(rf"^({words})s?([ _]?(id|no|number|name|index|idx|num)\.?)?$")


_NAMED = {
    "animal": _compile_name("animal|mouse|rat|fly|fish|subject"),
    "recording": _compile_name(
        "trial|session|recording|run|lap|segment|video|driver|file|episode|bout|fold|sequence|series|participant|patient|id"
    ),
    "group": _compile_name("group"),
    "track": _compile_name("track|individual|instance|object|oid"),
    "part": _compile_name("body[ _]?part|part|key[ _]?point|node"),
    "signal": _compile_name("sensor|channel|variable|signal|parameter|measure(?:ment)?"),
}  # what the rows of a column name
_GROUPS = ("animal", "recording", "group")
_SCORE = re.compile(r"(^|[ _.])(likelihoods?|scores?|confidence|probability|prob|conf)$|[ _.]p$")
_CODE = re.compile(
    r"(^|[ _])(packet|counter|seq|sequence|status|flags?|error|code|checksum|crc|trigger)([ _](no|number|id|code))?$"
)
_POSITION = (("x", "y"), ("lon", "lat"), ("longitude", "latitude"), ("pos_x", "pos_y"), ("pos x", "pos y"))
_MAX_LABELS = 50
_LABELLED = 0.05  # share of rows; text with fewer values is comments, and a channel is nearly empty
LARGEST = float(np.finfo(np.float32).max)


def guess_roles(frame: pd.DataFrame) -> dict[str, Role]:
    """Guess a role for each column."""
    roles = {str(name): _guess(str(name), frame[name], len(frame)) for name in frame.columns}
    times = columns_with(roles, Role.TIME)
    first = str(frame.columns[0])
    if not times and roles[first] is Role.CHANNEL and _is_regular(frame[first]):
        roles[first], times = Role.TIME, [first]
    # of several time columns, take the first that strictly increases
    best = next((name for name in times if _rises(frame[name])), times[0] if times else None)
    for name in times:
        if name != best:
            roles[name] = Role.CHANNEL if is_numeric(frame[name]) and not _rises(frame[name]) else Role.IGNORE
    labels = columns_with(roles, Role.LABEL)
    group = next(iter(columns_with(roles, Role.GROUP)), None)
    for name in roles:
        if not times and is_frame_number(name) and _lacks_frames(frame, name, group):
            roles[name] = Role.TIME
    # prefer a column called "label" or similar, then the one with the most values
    labels.sort(key=lambda name: (_LABEL.search(plain_name(name)) is None, -frame[name].count()))
    for name in (*labels[1:], *columns_with(roles, Role.GROUP)[1:]):
        roles[name] = Role.IGNORE
    for name in _find_copies(frame, columns_with(roles, Role.CHANNEL), times):
        roles[name] = Role.IGNORE
    lower = {name.strip().lower(): name for name, role in roles.items() if role is Role.CHANNEL}
    for x, y in _POSITION:
        if x in lower and y in lower:
            roles[lower[x]] = roles[lower[y]] = Role.POSITION
            break
    return roles


def _find_copies(frame: pd.DataFrame, channels: list[str], times: list[str]) -> list[str]:
    """Return the channels that repeat a time, or an earlier channel, which may be in another unit and rounded."""
    names = [*times, *channels]
    rows = np.linspace(0, len(frame) - 1, min(len(frame), _COMPARED_ROWS)).astype(np.int64)
    if len(frame) < _FEWEST_ROWS or not names:
        return []
    alike = np.triu(_correlate(frame.iloc[rows], names) > _COPY, 1)
    found = []
    for first, second in ([names[i], names[j]] for i, j in np.argwhere(alike) if names[j] in channels):
        if first in times:
            same = np.array_equal(numeric_values(frame[first]), numeric_values(frame[second]), equal_nan=True)
        else:
            same = _correlate(frame, [first, second])[0, 1] > _COPY
        found += [second] if same else []
    return found


def _correlate(frame: pd.DataFrame, names: list[str]) -> npt.NDArray[np.float64]:
    """Return the correlations of columns; missing values count as the mean, constant columns as unlike."""
    values = np.array([numeric_values(frame[name]) for name in names], np.float64)
    known = np.isfinite(values)
    means = np.where(known, values, 0).sum(axis=1, keepdims=True) / np.maximum(known.sum(axis=1, keepdims=True), 1)
    values = np.where(known, values - means, 0)
    norms = np.linalg.norm(values, axis=1, keepdims=True)
    scaled = np.divide(values, norms, out=np.zeros_like(values), where=norms > 0)
    correlations: npt.NDArray[np.float64] = scaled @ scaled.T
    return correlations


def find_recording_columns(frame: pd.DataFrame) -> tuple[list[str], list[str]]:
    """Return the columns that separate recordings, and the other candidates.

    These are the first recording column, the first animal column if recordings have several animals, and a group column
    only without either. Columns with a single value do not count.
    """
    found = [str(name) for name in frame.columns if _guess(str(name), frame[name], len(frame)) is Role.GROUP]
    found = [name for name in found if frame[name].nunique() > 1]
    kinds: dict[str, str] = {}
    for name in found:
        kinds.setdefault(next(kind for kind in _GROUPS if is_named(name, kind)), name)
    used: list[str] = []
    for kind in ("recording", "animal", *([] if len(kinds) > 1 else ["group"])):
        if kind in kinds and frame[[*used, kinds[kind]]].drop_duplicates().shape[0] > (
            frame[used].drop_duplicates().shape[0] if used else 1
        ):
            used.append(kinds[kind])
    return used, [name for name in found if name not in used]


def check_roles(frame: pd.DataFrame, roles: Mapping[str, Role | str]) -> dict[str, Role]:
    """Return the roles of all columns, IGNORE by default, or raise ConfigError."""
    unknown = [name for name in roles if name not in frame.columns]
    if unknown:
        raise ConfigError(
            f"There is no column {unknown[0]!r}; the columns are {', '.join(map(str, frame.columns[:20]))}."
        )
    try:
        checked = {str(name): Role(roles.get(str(name), Role.IGNORE)) for name in frame.columns}
    except ValueError as error:
        raise ConfigError(f"{error}; roles are {', '.join(Role)}.") from error
    for role in (Role.TIME, Role.LABEL, Role.GROUP):
        if len(several := columns_with(checked, role)) > 1:
            raise ConfigError(f"The columns {', '.join(several)} all have the role {role}; choose one of them.")
    n_positions = len(columns_with(checked, Role.POSITION))
    if n_positions not in (0, 2):
        raise ConfigError(f"{n_positions} column(s) have the role position; choose two (x and y) or none.")
    return checked


def columns_with(roles: Mapping[str, Role], *accepted: Role) -> list[str]:
    """Return the columns with these roles in table order."""
    return [name for name, role in roles.items() if role in accepted]


def numeric_values(column: pd.Series[Any]) -> npt.NDArray[np.float64] | npt.NDArray[np.float32]:
    """Convert a column to numbers; other text, and values beyond single precision, become NaN."""
    values = _values(column)
    with np.errstate(invalid="ignore"):
        values[~(np.abs(values) <= LARGEST)] = np.nan
    return values


def _values(column: pd.Series[Any]) -> npt.NDArray[np.float64] | npt.NDArray[np.float32]:
    if isinstance(column.dtype, pd.CategoricalDtype):
        numbers = parse_numbers(column.cat.categories.astype(str).to_series())
        codes = column.cat.codes.to_numpy()
        return np.append(numbers, np.nan)[codes]  # code -1, missing, selects the final NaN
    if pd.api.types.is_bool_dtype(column.dtype) or pd.api.types.is_integer_dtype(column.dtype):
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    if pd.api.types.is_float_dtype(column.dtype):
        wide = np.float32 if column.dtype == np.float32 else np.float64
        return column.to_numpy(dtype=wide, na_value=np.nan, copy=True)
    return np.full(len(column), np.nan)


def is_numeric(column: pd.Series[Any]) -> bool:
    """Return True if at least 90% of the present, finite values are numbers."""
    values = _values(column)
    present = int(column.notna().sum() - np.isinf(values).sum())
    return present > 0 and int(np.isfinite(values).sum()) >= 0.9 * present and bool((np.abs(values) <= LARGEST).any())


def describe_column(name: str, column: pd.Series[Any], used: bool) -> list[str]:
    """Return notes on how a column was read, or why it is unsuitable."""
    values = _values(column)
    notes = []
    with np.errstate(invalid="ignore"):
        large = int((np.abs(values) > LARGEST).sum())
    wrong = int(np.isnan(values).sum() - column.isna().sum())
    if used and isinstance(column.dtype, pd.CategoricalDtype) and np.isfinite(values).any():
        notation = describe_notation(column.cat.categories.astype(str).to_series())
        notes += [f"{name!r} {notation}"] if notation else []
    if large:
        notes.append(
            f"{large:,} values of {name!r} are too large or infinite (beyond {LARGEST:.1g}) and count as missing"
        )
    if used and wrong:
        notes.append(f"{wrong:,} cells of {name!r} are not numbers and count as missing")
    elif wrong and not is_numeric(column) and 2 * np.isfinite(values).sum() >= wrong:
        notes.append(f"{wrong:,} cells of {name!r} are not numbers, too many for a channel, so it was left out")
    return notes


def _rises(column: pd.Series[Any]) -> bool:
    values = numeric_values(column)
    values = values[np.isfinite(values)]
    return len(values) > 1 and bool((np.diff(values) > 0).all())


def _is_regular(column: pd.Series[Any]) -> bool:
    """Return True for numbers that increase by the same decimal step, as a clock does."""
    steps = np.diff(numeric_values(column).astype(np.float64))
    usual = float(np.median(steps)) if len(steps) > 1 else 0.0
    return usual > 0 and usual % 1 != 0 and bool(np.mean(np.abs(steps - usual) < 0.01 * usual) > 0.9)


def plain_name(name: str) -> str:
    """Return the name of a column in lower case, without units in brackets."""
    lower = name.strip().lower()
    return re.sub(r"( *[(\[][^)\]]*[)\]])+$", "", lower) or lower


def is_named(name: str, *kinds: str) -> bool:
    """Return True if the name of a column says that its rows name animals, recordings and so on."""
    return any(_NAMED[kind].match(plain_name(name)) for kind in kinds)


def looks_like_time(name: str) -> bool:
    """Return True if a name is that of a clock or frame number."""
    return bool(_TIME.search(name.strip().lower())) or is_frame_number(name)


def is_frame_number(name: str) -> bool:
    """Return True if a name is that of frame numbers."""
    return _FRAME_NUMBER.match(plain_name(name)) is not None


def may_be_time(name: str) -> bool:
    """Return True if the name of a column says that it may be a time."""
    return looks_like_time(name) or _CLOCK.search(name.lower()) is not None


def _lacks_frames(frame: pd.DataFrame, name: str, group: str | None) -> bool:
    """Return True if frame numbers do not count the rows, or those of each group."""
    values = pd.Series(numeric_values(frame[name]).astype(np.float64))
    steps = (values if group is None else values.groupby(frame[group].to_numpy())).diff().dropna()
    return len(steps) > 0 and bool((steps != 1).any())


def is_row_number(column: pd.Series[Any]) -> bool:
    """Return True if a column numbers the rows: integers that increase by one."""
    values = numeric_values(column)
    return len(values) > 1 and bool(
        np.isfinite(values).all() and np.mod(values[0], 1) == 0 and (np.diff(values) == 1).all()
    )


def _guess(name: str, column: pd.Series[Any], n_rows: int) -> Role:
    key = plain_name(name)
    if column.notna().sum() == 0:
        return Role.IGNORE
    if pd.api.types.is_datetime64_any_dtype(column.dtype) or pd.api.types.is_timedelta64_dtype(column.dtype):
        return Role.TIME
    numeric = is_numeric(column)
    if _SCORE.search(key) and numeric:
        return Role.SCORE
    distinct = int(column.nunique())
    if is_named(name, *_GROUPS) and distinct <= max(1, n_rows // 2):
        return Role.GROUP
    values = numeric_values(column)
    seen = values[np.isfinite(values)]
    whole = numeric and bool(np.all(np.mod(seen, 1) == 0))
    if _LABEL.search(key) and distinct <= _MAX_LABELS and (whole or not numeric):
        return Role.LABEL
    if _TIME.search(name.strip().lower()) or (_CLOCK.search(key) and numeric and _rises(column)):
        return Role.TIME
    counts = is_row_number(column) and (seen[0] in (0, 1) or _COUNTER.search(key))
    if _INDEX.match(key) or (counts and not is_frame_number(name)):
        return Role.IGNORE
    if pd.api.types.is_float_dtype(column.dtype) and not numeric:
        return Role.IGNORE  # all values are too large
    if not numeric:
        if distinct > min(_MAX_LABELS, max(2, n_rows // 4)) and is_time_column(column):
            return Role.TIME
        few = 2 <= distinct <= min(_MAX_LABELS, max(2, n_rows // 4))
        return Role.LABEL if few and column.count() >= _LABELLED * n_rows else Role.IGNORE
    if seen.min() == seen.max():
        return Role.IGNORE  # a constant carries no dynamics
    if (whole and _CODE.search(key)) or len(seen) < _LABELLED * n_rows:
        return Role.IGNORE
    return Role.CHANNEL
