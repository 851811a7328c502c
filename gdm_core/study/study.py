"""The class `Study`: states of many recordings, a sheet of conditions, and comparisons."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core import __version__
from gdm_core.analysis.bouts import BoutRule
from gdm_core.errors import ConfigError, DataError, ModelFileError
from gdm_core.files import write_whole
from gdm_core.labels.model import LabelModel
from gdm_core.models.base import StateModel
from gdm_core.study import comparing, fitting
from gdm_core.study.design import FRAME, Design, Question, make_design
from gdm_core.study.flow import COUNT, RATE, Flow, check_lengths, run_flow_test
from gdm_core.study.power import Power, simulate_power
from gdm_core.study.rare import MINIMUM, Occurrence, advise_fewer_states, describe_untested
from gdm_core.study.sheet import ANIMAL, RECORDING, Sheet, did_you_mean, format_list, match_sheet
from gdm_core.study.states import (
    CHANGE_MEASURES,
    RECORDING_MEASURES,
    SHARES,
    STATE_MEASURES,
    Counts,
    Recording,
    StudyTables,
    collect_states,
    make_recording,
    parse_names,
)
from gdm_core.trials import Trial, Trials, paint_labels

RESERVED = (
    "state", "name", "minute", "changes", "changes_per_min", "from_state", "to_state", *STATE_MEASURES, *CHANGE_MEASURES
)  # fmt: skip
Names = Mapping[int, str] | Sequence[str] | None
FORMAT = "gdm-studio-study"
FORMAT_VERSION = 1
_OWN = ("states", "soft", "rate_hz", "start_seconds")
_SHEET = "sheet."
_MEASURES = STATE_MEASURES | CHANGE_MEASURES | RECORDING_MEASURES


@dataclass(frozen=True, eq=False)
class Study(StudyTables):
    """States of recordings and the sheet of their conditions; see `fit`, `from_model`, `from_states` and `open`.

    sheet       one row per recording
    recordings  name -> states
    states      state numbers, as in the data
    names       state number -> name
    model       the fitted model, None for states of another tool
    flagged     outlying recording -> reason
    marks, questions   JSON values that a page stores with the study
    notes       caveats, in sentences
    """

    model: StateModel | None = None
    flagged: Mapping[str, str] = field(default_factory=dict)
    marks: Sequence[Any] = ()
    questions: Sequence[Any] = ()
    notes: tuple[str, ...] = ()

    # ---- construction -----------------------------------------------------------------------------------------------
    @classmethod
    def from_states(
        cls,
        states: Mapping[str, npt.ArrayLike],
        sheet: pd.DataFrame,
        rate_hz: float | Mapping[str, float] = 1.0,
        names: Names = None,
    ) -> Study:
        """Make a study from states that any tool found.

        states    recording -> integer states [T], -1 unlabelled; or soft states [T, K]
        sheet     one row per recording: "recording" (or "file"), "animal", and any other columns; "exclude" drops a row
        rate_hz   samples per second, one value or recording -> value
        names     names of states: a mapping from number to name, or a list that starts with state 0
        """
        if not isinstance(states, Mapping) or not states:
            raise DataError("Study.from_states needs {recording name: states}, with at least one recording.")
        rates = rate_hz if isinstance(rate_hz, Mapping) else dict.fromkeys(states, rate_hz)
        if lacking := [str(name) for name in states if name not in rates]:
            raise DataError(f"rate_hz has no value for {format_list(lacking)}.")
        recordings = {str(name): make_recording(str(name), one, float(rates[name])) for name, one in states.items()}
        return cls._build(match_sheet(sheet, recordings, RESERVED), recordings, parse_names(names))

    @classmethod
    def fit(
        cls, recordings: Mapping[str, Trial] | Iterable[Trial], sheet: pd.DataFrame, model: StateModel,
        on: Sequence[str] | None = None, names: Names = None, rule: BoutRule = fitting.STEADY,
    ) -> Study:  # fmt: skip
        """Fit one model to all animals, blind to conditions, and find all states.

        recordings   name -> Trial, or Trials with different names, all with the same channels and rate
        sheet        as in `from_states`
        model        of any family; not modified. A fitted model is not fitted again
        on           recordings to fit to; all by default
        names        names of states
        rule         `gdm_core.analysis.bouts.BoutRule(smooth_s, shortest_s)`, 0.2 s each by default: tracking jitter makes
                     many shorter bouts
        """
        notes: list[str] = []
        recordings = fitting.by_name(recordings)
        known = match_sheet(sheet, recordings, RESERVED)
        kept, aside = fitting.prepare({name: recordings[name] for name in known.names}, notes)
        if unknown := [str(name) for name in on or () if name not in kept]:
            raise ConfigError(
                f"on names {format_list(unknown)}, which is not in the study{did_you_mean(unknown[0], kept)}."
            )
        chosen = kept if on is None else {name: kept[name] for name in on}
        fitted = model if model.params_ else fitting.fit_copy(model, cls.training(chosen, known, notes))
        part = replace(known, set_aside={**known.set_aside, **aside}, notes=(*known.notes, *notes))
        return cls.from_model(fitted, kept, part, names, rule)

    @staticmethod
    def training(recordings: Mapping[str, Trial], sheet: Sheet | pd.DataFrame, notes: list[str]) -> Trials:
        """Return the training data of `fit`, to fit the model elsewhere.

        recordings   name -> Trial
        sheet        sheet of the study
        notes        list that receives caveats
        """
        known = sheet if isinstance(sheet, Sheet) else match_sheet(sheet, recordings, RESERVED)
        return fitting.balance(recordings, known.animals, notes)

    @classmethod
    def from_model(
        cls, model: StateModel, recordings: Mapping[str, Trial], sheet: Sheet | pd.DataFrame, names: Names = None,
        rule: BoutRule = fitting.STEADY,
    ) -> Study:  # fmt: skip
        """Find the states of every recording with a fitted model, flagging outlying recordings.

        model        fitted model
        recordings   name -> Trial
        sheet        sheet of the study
        names        names of states
        rule         turns soft states into bouts
        """
        model.raise_if_failed()
        known = sheet if isinstance(sheet, Sheet) else match_sheet(sheet, recordings, RESERVED)
        read = fitting.decode_states(model, recordings, rule)
        return cls.from_decoded(model, read, fitting.find_outliers(model, recordings), known, names, rule)

    @classmethod
    def from_decoded(
        cls, model: StateModel | None, read: Mapping[str, Recording], odd: Mapping[str, str], sheet: Sheet, names: Names = None,
        rule: BoutRule = fitting.STEADY,
    ) -> Study:  # fmt: skip
        """Make a study from states that `fitting.decode_recording` found elsewhere.

        model   fitted model, None for states of another tool
        read    recording -> states
        odd     outlying recording -> reason
        sheet   sheet of the study
        names   names of states
        rule    rule that turned soft states into bouts
        """
        study = cls._build(sheet, read, parse_names(names))
        notes = [f"{name} is {reason}." for name, reason in odd.items()]
        if not rule.plain:
            notes.append(
                f"Soft states were averaged over {rule.smooth_s:g} s; bouts below {rule.shortest_s:g} s were merged into "
                "their neighbours."
            )
        return replace(study, model=model, flagged=odd, notes=(*study.notes, *notes))

    @classmethod
    def _build(cls, sheet: Sheet, recordings: Mapping[str, Recording], names: Mapping[int, str]) -> Study:
        ones = [recordings[name] for name in sheet.names]
        states = collect_states(ones, names)
        if not states:
            raise DataError("No recording has a labelled sample.")
        # 25 and 25.0001 are one rate
        rates = list(dict.fromkeys(f"{rate:.4g}" for rate in sorted(one.rate_hz for one in ones)))
        mixed = (
            f"Recordings have {len(rates)} rates, {rates[0]} to {rates[-1]} Hz. Measures in seconds are comparable, "
            "but higher rates resolve shorter bouts."
        )
        study = cls(sheet, recordings, states, names, notes=(*sheet.notes, *([mixed] if len(rates) > 1 else [])))
        return replace(study, notes=(*study.notes, *advise_fewer_states(len(study.unused), len(states))))

    def with_labels(
        self, recordings: Mapping[str, Trial], marks: Sequence[fitting.Mark], rule: BoutRule = fitting.STEADY
    ) -> Study:
        """Return a study of labels, predicted for all recordings from labelled clips.

        recordings   name -> Trial, as for this study
        marks        (recording, first sample, end, label) of each clip
        rule         turns probabilities of labels into bouts
        """
        notes: list[str] = []
        kept = {name: recordings[name] for name in self.sheet.names}
        train, stretches, names = fitting.label_trials(kept, self.sheet.animals, marks, notes)
        label_model = LabelModel(self.model).fit(train, paint_labels(train, stretches), names)
        part = replace(self.sheet, notes=(*self.sheet.notes, *notes))
        read = fitting.decode_states(label_model, kept, rule)
        study = Study.from_decoded(self.model, read, self.flagged, part, names, rule)
        return replace(study, marks=list(marks), questions=self.questions)

    def with_names(self, names: Names) -> Study:
        """Return the study with names of states.

        names   mapping from number to name, or a list that starts with state 0
        """
        given = parse_names(names)
        if unknown := [str(state) for state in given if state not in self.states]:
            raise ConfigError(f"There is no state {format_list(unknown)}; the study has {format_list(self.states)}.")
        return replace(self, names=given)

    # ---- comparisons ------------------------------------------------------------------------------------------------
    def _design(self, question: Question) -> Design:
        return make_design(question, self.sheet, self.sheet.names, self.counts.labelled_minutes == 0)

    def per_unit(self, measure: str, between: str | Sequence[str], **options: Any) -> pd.DataFrame:
        """Return the values that `compare` compares, with a row for each unit (animal) and state.

        measure, between   as in `compare`
        options            unit, within, blocks and where, as in `compare`
        """
        question = _question(measure, between, **options)
        values, labels, _ = self.measure_values(measure)
        design = self._design(question)
        its, k = design.average(values), len(labels)
        table = pd.DataFrame({design.unit_word: np.repeat(design.units, k)})
        for j, factor in enumerate(design.factors):
            table[factor.name] = np.repeat([factor.levels[code] for code in design.levels[:, j]], k)
        return pd.concat([table, pd.concat([labels] * len(its), ignore_index=True)], axis=1).assign(
            **{measure: its.ravel()}
        )

    def compare(
        self,
        measure: str,
        between: str | Sequence[str],
        unit: str = ANIMAL,
        within: str | None = None,
        blocks: str | None = None,
        covariates: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        n_permutations: int = 10_000,
        seed: int = 0,
        trend: bool | None = None,
        mixed: bool = False,
    ) -> pd.DataFrame:
        """Compare a measure between groups, with a row for each state.

        Columns are means of groups, the effect with its 95% interval, p by permutation, p_holm and p_bh corrected over
        states, and the classical test. `.attrs["notes"]` has caveats and `.attrs["sentences"]` a sentence for each row.

        measure         a column of `measures`, "transitions", "transition_shares", "entropy", "changes_per_min", or a
                        numeric column of the sheet
        between         column to compare between, or two columns for two factors and their interaction
        unit            "animal" (averages its recordings under one condition), "recording", another column, or "frame" to
                        show the effect of pseudoreplication
        within          column of the subjects of paired sessions, such as "animal"
        blocks          column within which animals are exchangeable, such as a batch
        covariates      columns to adjust for
        where           column -> value or values, to select recordings
        n_permutations, seed   number and seed of the permutations
        trend           for numbers such as doses, test the trend instead of any difference; by default if few animals
                        share a dose. Otherwise doses also get the columns trend and p_trend
        mixed           use a mixed model over recordings as the classical test, with animals that lack a session
        """
        question = _question(measure, between, unit, within, blocks, covariates, where)
        values, labels, words = self.measure_values(measure)
        if unit == FRAME:
            return self._by_frames(question, n_permutations, seed, trend)
        design = self._design(question)
        occurrence = self._occurrence(design)
        tested = occurrence.tested(measure, len(labels))
        found, notes = comparing.compare_groups(
            design, design.average(values), n_permutations, seed, trend, values if mixed else None, tested
        )
        every_name = [self.state_name(state) for state in self.states]
        notes += describe_untested(occurrence, measure, every_name)
        minutes = self.counts.labelled_minutes[np.concatenate(design.rows)]
        if measure in ("bouts", "changes") and minutes.max() > 1.1 * minutes.min():
            lengths = f"{minutes.min():.1f} to {minutes.max():.1f} minutes"
            notes.append(f"Recordings last {lengths}. Longer recordings have more bouts; use bouts_per_min.")
        table = comparing.order_columns(found, labels)
        row_names = [self._row_name(row) for _, row in table.iterrows()]
        table.attrs = {
            "question": question,
            "n_permutations": n_permutations,
            "notes": notes,
            "unused": occurrence.unused(every_name),
            "sentences": [
                comparing.write_sentence(row, name, words, measure in SHARES)
                for (_, row), name in zip(table.iterrows(), row_names, strict=True)
            ],
        }
        return table

    def _occurrence(self, design: Design) -> Occurrence:
        rows = np.concatenate(design.rows)
        return Occurrence.in_recordings(
            self.counts, rows, np.repeat(design.subjects, [len(one) for one in design.rows])
        )

    @property
    def unused(self) -> dict[str, str]:
        """Name -> description of how rarely it occurs, for each state too rare to test."""
        _, animals = np.unique([self.sheet.animals[name] for name in self.sheet.names], return_inverse=True)
        occurrence = Occurrence.in_recordings(self.counts, np.arange(len(animals)), animals)
        return occurrence.unused([self.state_name(state) for state in self.states])

    def _row_name(self, row: Any) -> str:
        keys = ("from_state", "to_state") if "to_state" in row else ("state",)
        name = " to ".join(self.state_name(row[key]) for key in keys)
        return f"{row['term']}: {name}" if "term" in row else name

    def _by_frames(self, question: Question, n_permutations: int, seed: int, trend: bool | None) -> pd.DataFrame:
        """Return the comparison with p values of frames as units, to show pseudoreplication."""
        if question.measure not in STATE_MEASURES:
            raise ConfigError(f"unit='frame' needs a measure of states: {', '.join(STATE_MEASURES)}.")
        q = replace(question, unit=ANIMAL)
        table = self.compare(
            q.measure, q.between, ANIMAL, q.within, q.blocks, q.covariates, q.where, n_permutations, seed, trend
        )
        design = self._design(question)
        claimed = comparing.compare_frames(design, self.counts, q.measure)
        table["p_by_animal"] = table["p"]
        for column in ("statistic", "df", "df_residual", "p_classical"):
            table[column] = claimed[column].to_numpy()
        table["p"] = table["p_classical"]
        table.loc[table["p_by_animal"].isna(), ["p", "p_classical"]] = np.nan  # unused states
        comparing.correct_p(table, np.ones(len(table), bool))
        table["n"] = sum(self.counts.recordings[row].labelled for row in np.concatenate(design.rows))
        table["test"], table["flag"] = "frames as units (a mistake)", "not independent"
        table.attrs |= {"question": question, "notes": [comparing.FRAMES_NOTE, *table.attrs["notes"]]}
        return table

    def flow(
        self, between: str, where: Mapping[str, Any] | None = None, unit: str = ANIMAL, within: str | None = None,
        blocks: str | None = None, n_permutations: int = 10_000, seed: int = 0, counts: bool = False,
    ) -> Flow:  # fmt: skip
        """Test whether groups differ in their transitions (after von Ziegler et al. 2024).

        The statistic is the Manhattan distance between mean matrices of changes per minute of valid time, tested by
        permutation of animals.

        between, where, unit, within, blocks   as in `compare`
        n_permutations, seed                   number and seed of the permutations
        counts   compare numbers of changes, as von Ziegler et al. do; needs recordings of equal valid time
        """
        if unit == FRAME:
            raise ConfigError("The flow test cannot use frames as units. Choose 'animal' or 'recording'.")
        design = self._design(_question("flow", between, unit, within, blocks, (), where))
        if counts:
            check_lengths(self.counts.labelled_minutes[np.concatenate(design.rows)])
        changes = self.counts.changes if counts else self.counts.change_rates
        kind = COUNT if counts else RATE
        return run_flow_test(design, design.average(changes), self.states, n_permutations, seed, kind)

    def power(
        self, measure: str, between: str, state: int | None = None, effect: float = 0.5, relative: bool = False,
        unit: str = ANIMAL, within: str | None = None, blocks: str | None = None, covariates: Sequence[str] = (),
        where: Mapping[str, Any] | None = None, seed: int = 0,
    ) -> Power:  # fmt: skip
        """Estimate power and the number of animals needed, by simulation from the spread between animals.

        measure, between, unit, within, blocks, covariates, where   as in `compare`
        state       number of the state; None for a measure of whole recordings
        effect      difference in standard deviations between animals, net of blocks and covariates (of differences, if
                    sessions are paired); for doses, between the first and the last
        relative    the effect is a share of the mean: 0.5 means 50% more
        seed        seed of the simulation
        """
        values, labels, _ = self.measure_values(measure)
        column = 0
        if len(labels) > 1 or state is not None:
            if "state" not in labels or state not in labels["state"].tolist():
                raise ConfigError(
                    f"state is {state!r}; choose one of {format_list(labels.iloc[:, 0].unique().tolist())}."
                )
            column = labels["state"].tolist().index(state)
        design = self._design(_question(measure, between, unit, within, blocks, covariates, where))
        return simulate_power(design, design.average(values)[:, column], effect, relative, seed)

    # ---- export and files -------------------------------------------------------------------------------------------
    def methods(self, *found: pd.DataFrame | Flow) -> str:
        """Return a methods paragraph for a paper, with numbers and versions.

        found   tables of `compare` and results of `flow` to describe
        """
        return write_methods(self.sheet, self.counts, self.model, found)

    def save(self, path: str | Path) -> None:
        """Write the study to one file (Arrow and JSON)."""
        write_whole(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the content of the file that `save` writes."""
        header = {
            "version": __version__,
            "names": {str(state): name for state, name in self.names.items()},
            "states": list(self.states),
            "set_aside": dict(self.sheet.set_aside),
            "flagged": dict(self.flagged),
            "marks": list(self.marks),
            "questions": list(self.questions),
            "notes": list(self.notes),
        }
        model = None if self.model is None else self.model.to_bytes()
        return _encode(self.sheet.frame, self.recordings, header, model)

    @classmethod
    def open(cls, path: str | Path) -> Study:
        """Read a study that `save` wrote."""
        if not Path(path).is_file():
            raise DataError(f"There is no study at {path}.")
        return cls.from_bytes(Path(path).read_bytes(), str(path))

    @classmethod
    def from_bytes(cls, content: bytes, path: str = "The study") -> Study:
        """Read a study from the content of its file.

        path   name of the file for error messages
        """
        from gdm_core.models.loading import model_from_bytes

        frame, recordings, header, model = _decode(content, path)
        try:
            sheet = Sheet(frame, {str(k): str(v) for k, v in header["set_aside"].items()}, ())
            names = {int(state): str(name) for state, name in header["names"].items()}
            states = tuple(int(state) for state in header["states"])
            notes = tuple(str(note) for note in header["notes"])
            flagged = {str(k): str(v) for k, v in header["flagged"].items()}
            marks, questions = list(header["marks"]), list(header["questions"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(f"{path}: the header of the study is damaged ({str(error)[:160]}).") from error
        if set(collect_states([recordings[name] for name in sheet.names])) - set(states):
            raise ModelFileError(f"{path}: recordings have states that the header does not list. The file is damaged.")
        read = None if model is None else model_from_bytes(model, path)
        return cls(sheet, recordings, states, names, read, flagged, marks, questions, notes)


def _question(
    measure: str, between: str | Sequence[str], unit: str = ANIMAL, within: str | None = None, blocks: str | None = None,
    covariates: Sequence[str] = (), where: Mapping[str, Any] | None = None,
) -> Question:  # fmt: skip
    several = (between,) if isinstance(between, str) else tuple(between)
    along = (covariates,) if isinstance(covariates, str) else tuple(covariates)
    return Question(measure, several, unit, within, blocks, along, dict(where or {}))


# ---- file format: an Arrow table with a row for each recording, and JSON in its header; never a pickle ---------------
def _encode(
    frame: pd.DataFrame, recordings: Mapping[str, Recording], header: Mapping[str, Any], model: bytes | None
) -> bytes:
    """Return the content of a study file."""
    import pyarrow as pa
    from pyarrow import feather

    ones = [recordings.get(name) for name in frame[RECORDING]]  # None: an excluded recording
    try:
        sheet = pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException:  # columns of mixed types become text
        mixed = {
            str(c): frame[c].map(lambda v: None if pd.isna(v) else str(v)) for c in frame if frame[c].dtype == object
        }
        sheet = pa.Table.from_pandas(frame.assign(**mixed), preserve_index=False)
    columns = {f"{_SHEET}{name}": sheet.column(name) for name in sheet.column_names} | {
        "states": pa.array([one and one.labels for one in ones], pa.list_(pa.int32())),
        "soft": pa.array(
            [None if not one or one.soft is None else one.soft.tobytes() for one in ones], pa.large_binary()
        ),
        "rate_hz": pa.array([one and one.rate_hz for one in ones], pa.float64()),
        "start_seconds": pa.array([one and one.start_seconds for one in ones], pa.float64()),
    }
    described = json.dumps({"format": FORMAT, "format_version": FORMAT_VERSION, **header}).encode()
    table = pa.table(columns).replace_schema_metadata({b"study": described, b"model": model or b""})
    buffer = BytesIO()
    feather.write_feather(table, buffer, compression="zstd")
    return buffer.getvalue()


def _decode(content: bytes, path: str) -> tuple[pd.DataFrame, dict[str, Recording], dict[str, Any], bytes | None]:
    """Return (sheet, recordings, header, model) of a study file, or raise ModelFileError."""
    import pyarrow as pa
    from pyarrow import feather

    try:
        table = feather.read_table(BytesIO(content), memory_map=False)
        table.validate(full=True)
        metadata = table.schema.metadata or {}
        header = json.loads(metadata.get(b"study", b"null"))
    except (pa.ArrowException, OSError, ValueError, RecursionError, MemoryError) as error:
        raise ModelFileError(
            f"{path} is not a readable study ({str(error)[:160]}). It may be damaged or a different kind of file."
        ) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(f"{path} is an Arrow file, but not a study.")
    if header.get("format_version") != FORMAT_VERSION:
        raise ModelFileError(
            f"{path} has format version {str(header.get('format_version'))[:40]}; this library reads version {FORMAT_VERSION}."
        )
    try:
        frame = table.drop(list(_OWN)).to_pandas()
        frame = frame.astype({c: object for c in frame if frame[c].dtype == object}).fillna(value=np.nan)
        frame.columns = [str(name).removeprefix(_SHEET) for name in frame.columns]
        names = [str(name) for name in frame[RECORDING]]
        found = {name: _recording(table, i) for i, name in enumerate(names) if table["states"][i].is_valid}
    except (KeyError, ValueError, TypeError, pa.ArrowException) as error:
        raise ModelFileError(f"{path}: parts of the study are missing or damaged ({str(error)[:160]}).") from error
    return frame, found, header, metadata.get(b"model") or None


def _recording(table: Any, row: int) -> Recording:
    labels = np.array(table["states"][row].values.to_numpy(), np.int32)
    packed = table["soft"][row].as_py()
    soft = None if packed is None else np.frombuffer(packed, np.float32).reshape(len(labels), -1)
    rate = float(table["rate_hz"][row].as_py())
    if not len(labels) or labels.min() < -1 or not rate > 0:
        raise ValueError(f"recording {row} has no states or no rate")
    return Recording(labels, rate, soft, float(table["start_seconds"][row].as_py()))


# ---- methods paragraph ----------------------------------------------------------------------------------------------
def write_methods(sheet: Sheet, counts: Counts, model: StateModel | None, found: Sequence[pd.DataFrame | Flow]) -> str:
    """Return the methods paragraph."""
    minutes, rates = counts.labelled_minutes, counts.rates
    rate = " to ".join(dict.fromkeys(f"{one:.4g}" for one in (rates.min(), rates.max())))
    taking_part = sheet.frame["recording"].isin(sheet.names)
    animals = f" of {sheet.frame.loc[taking_part, sheet.animal].nunique()} animals" if sheet.animal else ""
    source = "found by another tool"
    if model is not None:
        source = (
            f"found by one model for all animals, blind to conditions ({model!r}; equally many samples of each animal)"
        )
    sentences = [
        f"{len(counts.recordings)} recordings{animals} ({minutes.min():.1f} to {minutes.max():.1f} minutes with a state, "
        f"{rate} Hz) were described by {len(counts.states)} states, {source}."
    ]
    if sheet.set_aside:
        sentences.append(
            f"{len(sheet.set_aside)} recordings were left out ({format_list(sorted(set(sheet.set_aside.values())))})."
        )
    sentences += [_describe_flow(one) if isinstance(one, Flow) else _describe_comparison(one) for one in found]
    sentences.append(f"Computed with GDM Studio {__version__}, {_versions()}.")
    return " ".join(sentences)


def _versions() -> str:
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "statsmodels"))


def _describe_flow(found: Flow) -> str:
    groups = ", ".join(f"{name} n = {n}" for name, n in found.sizes.items())
    return (
        f"Behavioural flow ({groups}) was compared by the Manhattan distance between mean matrices of transitions between "
        f"states, in {found.unit} (after von Ziegler et al. 2024), against {len(found.null):,} label permutations: "
        f"distance {found.distance:.4g}, z = {found.z:.2f}, p = {found.p:.2g}."
    )


def _describe_comparison(table: pd.DataFrame) -> str:
    question: Question = table.attrs["question"]
    if question.unit == "frame":
        return "Frames were used as units although they are not independent; see the notes of this comparison."
    sentences = [
        f"The {_MEASURES.get(question.measure, question.measure)} was compared between {' and '.join(question.between)}"
    ]
    sentences += [f"where {name} is {format_list(np.ravel(value).tolist())}" for name, value in question.where.items()]
    for words, value in (("with sessions paired within", question.within), ("within blocks of", question.blocks)):
        sentences += [f"{words} {value}"] if value else []
    sentences += [f"adjusted for {format_list(list(question.covariates))}"] if question.covariates else []
    test = str(table["test"].iloc[0]).removeprefix("permutation, ")
    unused = len(table.attrs["unused"]) if question.measure in (*STATE_MEASURES, *CHANGE_MEASURES) else 0
    left_out = f" {unused} unused states ({MINIMUM}) were not tested." if unused else ""
    return (
        f"{' '.join(sentences)}, with one value per {question.unit} (n = {table['n'].max()}; its recordings under the same "
        f"condition averaged). Differences were tested by {table.attrs['n_permutations']:,} permutations of {test}; p was "
        f"corrected over {int(np.isfinite(table['p']).sum())} tests by Holm's method. Intervals are 95% intervals. The "
        f"classical test is {test}.{left_out}"
    )
