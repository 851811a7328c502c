"""The Caltech Mouse Social Interactions data (CalMS21, task 1), from the official zip or JSON.

The official files are large (1.2 GB of JSON for training), so they are streamed once into a folder of arrays that opens in
milliseconds. This project contains no part of the data set.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import re
import shutil
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Literal, cast

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError, DataError
from gdm_core.trials import Trials

from .readers.pose import FeatureSet, KeypointSet, KeypointTable, Scaling, finish_table, with_labels
from .readers.source import BoundedStream, ProgressCallback, refuse_damage
from .storage import cache_dir

_NOT_READABLE = (
    "Expected the official task 1 layout: one object per annotator, with one object per trial with keypoints, scores and "
    "annotations."
)
_MAX_JSON_BYTES = 4 * 1024**3  # the largest official file has 1.2 GB
_FIRST_KEY = re.compile(rb'\s*\{\s*"((?:[^"\\]|\\.)*)"\s*:\s*\{')
_AGAIN = "Download it again."


class _CountingStream:
    """A binary stream for the JSON parser that counts bytes, enforces a limit, and replaces NaN by null."""

    def __init__(self, file: IO[bytes], path: Path, size: int) -> None:
        refusal = f"{path} unpacks to more than {_MAX_JSON_BYTES:,} bytes, so it is not a CalMS21 file."
        self._file, self._path, self._ahead = BoundedStream(file, _MAX_JSON_BYTES, refusal), path, b""
        self._size = size

    @property
    def share(self) -> float:
        """Share that was read, 0 to 1."""
        return min(self._file.count / max(self._size, 1), 0.99)

    def peek(self) -> bytes:
        """Return the start of the file without consuming it."""
        self._ahead = self._ahead or self._read(65536)
        return self._ahead

    def read(self, size: int = -1) -> bytes:
        if size == 0:  # the parser checks for bytes or text
            return b""
        block, self._ahead = self._ahead or self._read(size), b""
        while block.endswith((b"N", b"Na")):  # the block may end within NaN
            more = self._read(3)
            if not more:
                break
            block += more
        return block.replace(b"NaN", b"null")

    def _read(self, size: int) -> bytes:
        with refuse_damage(f"{self._path} cannot be read after {self._file.count:,} bytes", _AGAIN):
            return self._file.read(size) or b""


def _find_member(archive: zipfile.ZipFile, path: Path, split: str) -> zipfile.ZipInfo:
    candidates = [
        info for info in archive.infolist() if info.filename.endswith(".json") and split in Path(info.filename).name
    ]
    candidates = [info for info in candidates if "task1" in info.filename] or candidates
    candidates = [info for info in candidates if not Path(info.filename).name.startswith("._")]
    if not candidates:
        names = ", ".join(info.filename for info in archive.infolist()[:5]) or "nothing"
        raise DataError(f"{path} has no {split} JSON (it has {names}). Use task1_classic_classification.zip.")
    if candidates[0].file_size > _MAX_JSON_BYTES:
        raise DataError(
            f"{candidates[0].filename} in {path} declares {candidates[0].file_size:,} bytes, so it is not a CalMS21 file."
        )
    return candidates[0]


@contextmanager
def _open_official(path: Path, split: str) -> Iterator[_CountingStream]:
    """Open the JSON of a split as a stream with its size, estimated for gzip."""
    with refuse_damage(f"{path} cannot be read", _AGAIN, (OSError, EOFError, zlib.error, zipfile.BadZipFile)):
        size = path.stat().st_size
        if path.suffix == ".zip":
            with refuse_damage(f"{path} is not a readable zip file", _AGAIN):
                archive = zipfile.ZipFile(path)
            with archive:
                member = _find_member(archive, path, split)
                with archive.open(member) as file:
                    yield _CountingStream(file, path, member.file_size)
        elif path.suffix == ".gz":
            with gzip.open(path) as file:
                yield _CountingStream(file, path, 10 * size)  # type: ignore[arg-type]  # keypoints as text compress about ten to one
        else:
            with path.open("rb") as file:
                yield _CountingStream(file, path, size)


def _stream_trials(stream: _CountingStream, path: Path) -> Iterator[tuple[str, Any]]:
    """Yield (name, record) of each trial of the first annotator; task 1 has one."""
    import ijson

    opening = _FIRST_KEY.match(stream.peek())
    if opening is None:
        raise DataError(f"{path} is not a CalMS21 file: it does not start with an annotator. {_NOT_READABLE}")
    kinds = (ijson.JSONError, UnicodeDecodeError, json.JSONDecodeError)
    with refuse_damage(f"{path} is not valid JSON", "It may be cut short: download it again.", kinds):
        annotator = json.loads(b'"' + opening[1] + b'"')
        yield from ijson.kvitems(stream, annotator, use_float=True)


Split = Literal["train", "test"]

LABEL_NAMES = ("attack", "investigation", "mount", "other")
ANIMALS = ("resident", "intruder")  # mouse 0 is the black resident, mouse 1 the white intruder
PARTS = ("nose", "left ear", "right ear", "neck", "left hip", "right hip", "tail base")
EDGES = ((0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (3, 5), (4, 6), (5, 6), (1, 2))
FRAMES = ("keypoints", "scores", "labels")  # stored arrays with a row per frame
LAYOUT: dict[str, Any] = {  # arguments of KeypointTable
    "animals": ANIMALS, "parts": PARTS, "rate_hz": 30.0, "label_names": LABEL_NAMES, "edges": EDGES, "image_size": (1024.0, 570.0),
}  # fmt: skip

WHERE_TO_GET = (
    "CalMS21 is published by CaltechDATA as record s0vdx-0k302 (https://data.caltech.edu/records/s0vdx-0k302). Download "
    "task1_classic_classification.zip (457 MB) and put it, or the two JSON files inside it, into the data folder. "
    "Read the licence on that page before you use the data; other sources contradict each other. This project contains no "
    "frame of it."
)

_LAYOUT_VERSION = 2


def find(folder: str | Path) -> dict[Split, Path]:
    """Find each split's JSON in a folder, or else the zip with both."""
    folder = Path(folder)
    found: dict[Split, Path] = {}
    zips = sorted(folder.rglob("*task1*.zip"))
    for split in cast(tuple[Split, ...], ("train", "test")):
        plain = sorted(folder.rglob(f"*task1*{split}*.json")) + sorted(folder.rglob(f"*task1*{split}*.json.gz"))
        if candidates := plain + zips:
            found[split] = candidates[0]
    return found


def load(
    source: str | Path,
    split: Split = "train",
    features: FeatureSet = "keypoints",
    scaling: Scaling = "image",
    progress: ProgressCallback | None = None,
) -> Trials:
    """Load the published training (70) or test (19) trials with 28 channels of coordinates.

    The paper divides by the image size and then standardises, which models do by their training data.

    source         the official JSON or zip, or a folder with them
    split          "train" or "test"
    features       "keypoints" as published, or "egocentric"
    progress       called with the share done, 0 to 1, and a sentence
    """
    return load_recordings(source, split, progress).to_trials(features, scaling)


def load_recordings(
    source: str | Path, split: Split = "train", progress: ProgressCallback | None = None
) -> KeypointSet:
    """Load a split's recordings with keypoints in pixels, scores and labels, with the arguments of `load`."""
    cache = convert(source, split, progress)
    about = json.loads((cache / "about.json").read_text())
    arrays = {name: np.load(cache / f"{name}.npy", mmap_mode="r", allow_pickle=False) for name in (*FRAMES, "offsets")}
    offsets = arrays["offsets"]
    tables = tuple(
        KeypointTable(
            arrays["keypoints"][start:stop],
            scores=arrays["scores"][start:stop],
            labels=arrays["labels"][start:stop],
            name=name,
            notes=tuple(notes),
            **LAYOUT,
        )
        for name, notes, start, stop in zip(about["names"], about["notes"], offsets[:-1], offsets[1:], strict=True)
    )
    return KeypointSet(tables, f"CalMS21 task 1 {split}", source=WHERE_TO_GET)


def convert(source: str | Path, split: Split = "train", progress: ProgressCallback | None = None) -> Path:
    """Convert the official file to a folder of arrays if needed, and return it."""
    if split not in ("train", "test"):
        raise ConfigError(f"split is {split!r}; CalMS21 has 'train' and 'test'.")
    path = _official_path(Path(source), split)
    base = cache_dir("calms21")
    stat = path.stat()
    key = hashlib.sha256(
        repr((_LAYOUT_VERSION, str(path.resolve()), stat.st_size, stat.st_mtime_ns)).encode()
    ).hexdigest()
    target = base / f"{split}-{key[:16]}"
    if (target / "about.json").is_file():
        return target
    work = Path(tempfile.mkdtemp(dir=base, prefix=".converting-"))
    try:
        _write_arrays(path, split, work, progress)
        try:
            os.replace(work, target)
        except OSError:  # another process finished first
            if not (target / "about.json").is_file():
                raise
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return target


def _official_path(source: Path, split: Split) -> Path:
    if source.is_dir():
        found = find(source)
        if split not in found:
            raise DataError(f"There is no CalMS21 {split} file in {source}. {WHERE_TO_GET}")
        return found[split]
    if not source.is_file():
        raise DataError(f"There is no file at {source}. {WHERE_TO_GET}")
    return source


def _write_arrays(path: Path, split: Split, folder: Path, progress: ProgressCallback | None) -> None:
    trials = list(_read_trials(path, split, progress))
    if not trials:
        raise DataError(f"{path} has no CalMS21 {split} trial. {WHERE_TO_GET}")
    for i, name in enumerate(FRAMES):
        np.save(folder / f"{name}.npy", np.concatenate([arrays[i] for _, arrays, _ in trials]))
    offsets = np.cumsum([0, *(len(arrays[0]) for _, arrays, _ in trials)])
    np.save(folder / "offsets.npy", offsets)
    names, notes = [name for name, _, _ in trials], [note for _, _, note in trials]
    (folder / "about.json").write_text(json.dumps({"names": names, "notes": notes, "split": split}))
    if progress is not None:
        progress(1.0, f"{len(trials)} trials, {offsets[-1]:,} frames")


TrialArrays = tuple[str, tuple[npt.NDArray[Any], ...], list[str]]  # name, one array for each of FRAMES, and notes


def _read_trials(path: Path, split: Split, progress: ProgressCallback | None) -> Iterator[TrialArrays]:
    with _open_official(path, split) as stream:
        for name, record in _stream_trials(stream, path):
            parts = name.split("/")
            if progress is not None:
                progress(stream.share, f"reading {parts[-1]}")
            if {"train", "test"} & set(parts) and split not in parts:
                continue
            yield _parse_trial(name, record, path)


def _parse_trial(name: str, record: Any, path: Path) -> TrialArrays:
    """Convert a trial's record to arrays, noting irregularities of the published files."""
    where = f"{path}: trial {name!r}"
    if not isinstance(record, dict) or "keypoints" not in record:
        raise DataError(f"{where} has no keypoints. {_NOT_READABLE}")
    with refuse_damage(f"{where} is damaged: its arrays are not numeric or rectangular", kinds=(TypeError, ValueError)):
        xy = np.asarray(record["keypoints"], dtype="<f4")  # [T, 2 mice, 2 coordinates, 7 parts]
        raw_scores = record.get("scores")
        scores = np.full((len(xy), 2, 7), np.nan) if raw_scores is None else np.asarray(raw_scores, dtype=np.float64)
        annotations = np.asarray(record.get("annotations", []), dtype=np.int64)
    expected = "[frames, 2 mice, 2 coordinates, 7 parts]", "[frames, 2 mice, 7 parts]", "one label per frame"
    valid = (
        xy.ndim == 4 and xy.shape[1:] == (2, 2, 7) and len(xy) > 0,
        scores.shape == (len(xy), 2, 7),
        annotations.ndim == 1,
    )
    for what, array, fits, text in zip(FRAMES, (xy, scores, annotations), valid, expected, strict=True):
        if not fits:
            raise DataError(f"{where} has {what} of shape {array.shape}; expected {text}.")
    unseen = (~np.isfinite(xy) | (xy == 0)).all(axis=(1, 2, 3))
    lead = len(unseen) if unseen.all() else int(np.argmin(unseen))
    notes = (f"nothing was tracked in the first {lead:,} frames",) if lead else ()
    found = finish_table(KeypointTable(xy, scores=scores, notes=notes, **LAYOUT), LAYOUT["rate_hz"])
    found = with_labels(found, _canonical_labels(annotations, record.get("metadata"), where), LABEL_NAMES)
    arrays = np.asarray(found.xy), scores.astype("<f2"), np.asarray(found.labels, np.int8)
    return name, arrays, list(found.notes)


def _canonical_labels(annotations: npt.NDArray[np.int64], metadata: Any, where: str) -> npt.NDArray[np.int8]:
    """Map labels to indices into LABEL_NAMES by the trial's vocabulary; unknown labels become -1."""
    vocabulary = metadata.get("vocab") if isinstance(metadata, dict) else None
    if not isinstance(vocabulary, dict):
        vocabulary = {label: i for i, label in enumerate(LABEL_NAMES)}
    labels = np.full(annotations.shape, -1, dtype=np.int8)
    for label, code in vocabulary.items():
        if not isinstance(code, int):
            raise DataError(f"{where}: the vocabulary gives {label!r} the code {code!r}, which is not an integer.")
        if label in LABEL_NAMES:
            labels[annotations == code] = LABEL_NAMES.index(label)
    return labels
