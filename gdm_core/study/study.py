"""A study: the states of many recordings beside a sheet of their conditions, and what is asked of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
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
from gdm_core.study.design import FRAME, Design, Question, design_of
from gdm_core.study.flow import COUNT, RATE, Flow, check_lengths, flow_of
from gdm_core.study.power import Power, power_of
from gdm_core.study.rare import MINIMUM, Occurrence, advice, notes_of
from gdm_core.study.sheet import ANIMAL, RECORDING, Sheet, checked, listed, near
from gdm_core.study.states import (
    OF_CHANGES,
    OF_RECORDINGS,
    OF_STATES,
    SHARES,
    Counted,
    Counts,
    Recording,
    as_names,
    recording_of,
    states_of,
)
from gdm_core.trials import Trial, Trials, painted

RESERVED = (
    "state", "name", "minute", "changes", "changes_per_min", "from_state", "to_state", *OF_STATES, *OF_CHANGES
)  # fmt: skip
Names = Mapping[int, str] | Sequence[str] | None
FORMAT = "gdm-studio-study"
FORMAT_VERSION = 1
_OWN = ("states", "soft", "rate_hz", "start_seconds")
_SHEET = "sheet."
_MEASURES = OF_STATES | OF_CHANGES | OF_RECORDINGS


@dataclass(frozen=True, eq=False)
class Study(Counted):
    """States of recordings and the sheet of their conditions. Made by `fit`, `of_model`, `of_states` or `open`.

    sheet       a row for each recording, matched by name
    recordings  their states by name
    states      the numbers of all states, as the data has them
    names       of states, by number
    model       that found them, None where another tool did
    flagged     recording -> in what it is unlike the rest
    marks, questions   what a page keeps with the study: plain values that JSON can hold
    notes       what was understood and left out, in sentences
    """

    model: StateModel | None = None
    flagged: Mapping[str, str] = field(default_factory=dict)
    marks: Sequence[Any] = ()
    questions: Sequence[Any] = ()
    notes: tuple[str, ...] = ()

    # ---- making one -------------------------------------------------------------------------------------------------
    @classmethod
    def of_states(
        cls,
        states: Mapping[str, npt.ArrayLike],
        sheet: pd.DataFrame,
        rate_hz: float | Mapping[str, float] = 1.0,
        names: Names = None,
    ) -> Study:
        """A study of states that are known, from any tool.

        states    recording -> [T] whole numbers, -1 unlabelled; or soft states [T, K]
        sheet     a row for each recording: its name in "recording" (or "file"), "animal", and any columns; a row with
                  yes in "exclude" takes no part
        rate_hz   samples a second, of all or by recording
        names     of states, by number, or a list that begins with state 0
        """
        if not isinstance(states, Mapping) or not states:
            raise DataError("Study.of_states takes states as {name of the recording: its states}; there are none.")
        rates = rate_hz if isinstance(rate_hz, Mapping) else dict.fromkeys(states, rate_hz)
        if lacking := [str(name) for name in states if name not in rates]:
            raise DataError(f"rate_hz says nothing of {listed(lacking)}.")
        made = {str(name): recording_of(str(name), one, float(rates[name])) for name, one in states.items()}
        return cls._of(checked(sheet, made, RESERVED), made, as_names(names))

    @classmethod
    def fit(
        cls, recordings: Mapping[str, Trial], sheet: pd.DataFrame, model: StateModel, on: Sequence[str] | None = None,
        names: Names = None, rule: BoutRule = fitting.STEADY,
    ) -> Study:  # fmt: skip
        """One model fitted to all animals, none outweighing another, blind to the sheet; then every recording read with it.

        recordings   name -> Trial, with the same channels and rate
        sheet        as for `of_states`
        model        of any family; it is left as it is. A fitted one is not fitted again
        on           recordings to fit to, where not all; the others are only read
        names        of states
        rule         how soft states become bouts: `gdm_core.analysis.bouts.BoutRule(smooth_s, shortest_s)`. 0.2 s each: a
                     tracker that trembles makes many shorter ones, on one day more than on another
        """
        notes: list[str] = []
        known = checked(sheet, recordings, RESERVED)
        kept, aside = fitting.prepared({name: recordings[name] for name in known.names}, notes)
        if unknown := [str(name) for name in on or () if name not in kept]:
            raise ConfigError(f"on names {listed(unknown)}, which takes no part{near(unknown[0], kept)}.")
        chosen = kept if on is None else {name: kept[name] for name in on}
        fitted = model if model.params_ else fitting.fitted(model, cls.training(chosen, known, notes))
        part = replace(known, set_aside={**known.set_aside, **aside}, notes=(*known.notes, *notes))
        return cls.of_model(fitted, kept, part, names, rule)

    @staticmethod
    def training(recordings: Mapping[str, Trial], sheet: Sheet | pd.DataFrame, notes: list[str]) -> Trials:
        """What `fit` fits its model to, for who fits it elsewhere: the same samples of each animal.

        recordings   name -> Trial
        sheet        of the study
        notes        what a reader has to know is added here
        """
        known = sheet if isinstance(sheet, Sheet) else checked(sheet, recordings, RESERVED)
        return fitting.balanced(recordings, known.animals, notes)

    @classmethod
    def of_model(
        cls, model: StateModel, recordings: Mapping[str, Trial], sheet: Sheet | pd.DataFrame, names: Names = None,
        rule: BoutRule = fitting.STEADY,
    ) -> Study:  # fmt: skip
        """Every recording read with a fitted model; those that it explains far worse than the rest are flagged.

        model        fitted
        recordings   name -> Trial
        sheet        of the study
        names        of states
        rule         how soft states become bouts
        """
        model.raise_if_failed()
        known = sheet if isinstance(sheet, Sheet) else checked(sheet, recordings, RESERVED)
        read = fitting.read_states(model, recordings, rule)
        return cls.of_read(model, read, fitting.unlike(model, recordings), known, names, rule)

    @classmethod
    def of_read(
        cls, model: StateModel | None, read: Mapping[str, Recording], odd: Mapping[str, str], sheet: Sheet, names: Names = None,
        rule: BoutRule = fitting.STEADY,
    ) -> Study:  # fmt: skip
        """The study of recordings that were read with a model elsewhere, as `fitting.read_by` reads them.

        model   fitted, None for states of another tool
        read    recording -> its states
        odd     recording -> in what it is unlike the rest
        sheet   of the study
        names   of states
        rule    by which soft states became bouts
        """
        made = cls._of(sheet, read, as_names(names))
        said = [f"{name} is {why}." for name, why in odd.items()]
        if not rule.plain:
            said.append(
                f"Soft states were averaged over {rule.smooth_s:g} s; bouts below {rule.shortest_s:g} s belong to neighbours."
            )
        return replace(made, model=model, flagged=odd, notes=(*made.notes, *said))

    @classmethod
    def _of(cls, sheet: Sheet, recordings: Mapping[str, Recording], names: Mapping[int, str]) -> Study:
        ones = [recordings[name] for name in sheet.names]
        states = states_of(ones, names)
        if not states:
            raise DataError("No recording has a single labelled sample, so there are no states to study.")
        # clocks round: 25 and 25.0001 are one rate
        rates = list(dict.fromkeys(f"{rate:.4g}" for rate in sorted(one.rate_hz for one in ones)))
        mixed = (
            f"Recordings have {len(rates)} rates, {rates[0]} to {rates[-1]} Hz: what is counted in seconds can be "
            "compared, but faster cameras see shorter bouts."
        )
        made = cls(sheet, recordings, states, names, notes=(*sheet.notes, *([mixed] if len(rates) > 1 else [])))
        return replace(made, notes=(*made.notes, *advice(len(made.unused), len(states))))

    def with_labels(
        self, recordings: Mapping[str, Trial], marks: Sequence[fitting.Mark], rule: BoutRule = fitting.STEADY
    ) -> Study:
        """Return the study with labels in place of states, predicted for all recordings from a few marks.

        recordings   name -> Trial, those that the study was made of
        marks        (recording, first sample, the sample after the last, label) of each
        rule         how probabilities of labels become bouts
        """
        notes: list[str] = []
        kept = {name: recordings[name] for name in self.sheet.names}
        train, stretches, names = fitting.label_trials(kept, self.sheet.animals, marks, notes)
        label_model = LabelModel(self.model).fit(train, painted(train, stretches), names)
        part = replace(self.sheet, notes=(*self.sheet.notes, *notes))
        read = fitting.read_states(label_model, kept, rule)
        made = Study.of_read(self.model, read, self.flagged, part, names, rule)
        return replace(made, marks=list(marks), questions=self.questions)

    def with_names(self, names: Names) -> Study:
        """The same study with names of states.

        names   by number, or a list that begins with state 0
        """
        given = as_names(names)
        if unknown := [str(state) for state in given if state not in self.states]:
            raise ConfigError(f"There is no state {listed(unknown)}; the study has {listed(self.states)}.")
        return replace(self, names=given)

    # ---- what is asked ----------------------------------------------------------------------------------------------
    def _design(self, question: Question) -> Design:
        return design_of(question, self.sheet, self.sheet.names, self.counts.labelled_minutes == 0)

    def per_unit(self, measure: str, between: str | Sequence[str], **asked: Any) -> pd.DataFrame:
        """The values that `compare` compares: a row for each unit (animal), its group and state.

        measure, between   as for `compare`
        asked              further arguments of it: unit, within, blocks, where
        """
        question = _question(measure, between, **asked)
        values, labels, _ = self.values_of(measure)
        design = self._design(question)
        its, k = design.averaged(values), len(labels)
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
        """Does it differ? A row for each state: means of groups, effect with its 95 % interval, p by permutation, p_holm and
        p_bh corrected over the states, and the classical test with its degrees of freedom. What a reader has to know stands
        in `.attrs["notes"]`, each row in words in `.attrs["sentences"]`.

        measure         one of `measures`, "transitions", "transition_shares", "entropy", "changes_per_min", or a column of
                        numbers in the sheet
        between         the column that says what differs, or two for two factors and what they do together
        unit            the column that says what counts as one: "animal" (its recordings under one condition are
                        averaged), "recording", or "frame" to see what that mistake would claim
        within          the column that says whose sessions are paired: "animal"
        blocks          a column within whose values animals are exchanged, such as a batch
        covariates      columns whose share is taken away first
        where           column -> value, or a list of them: the recordings that take part
        n_permutations, seed   how many re-labelled studies, and what they are drawn with
        trend           for numbers such as doses: test the trend, in place of any difference; None does so where hardly two
                        animals share a dose. Where doses are shared the trend stands beside, as trend and p_trend
        mixed           a mixed model over recordings as the classical test, which uses animals with missing sessions, too
        """
        question = _question(measure, between, unit, within, blocks, covariates, where)
        values, labels, words = self.values_of(measure)
        if unit == FRAME:
            return self._by_frames(question, n_permutations, seed, trend)
        design = self._design(question)
        occurrence = self._occurrence(design)
        tested = occurrence.tested(measure, len(labels))
        found, notes = comparing.compared(
            design, design.averaged(values), n_permutations, seed, trend, values if mixed else None, tested
        )
        every_name = [self.called(state) for state in self.states]
        notes += notes_of(occurrence, measure, every_name)
        if measure in ("bouts", "changes") and (uneven := self._uneven(design)):
            notes.append(uneven + " Numbers of bouts grow with the time: bouts_per_min does not.")
        table = comparing.ordered(found, labels)
        called = [self._called(row) for _, row in table.iterrows()]
        table.attrs = {
            "question": question,
            "n_permutations": n_permutations,
            "notes": notes,
            "unused": occurrence.unused(every_name),
            "sentences": [
                comparing.sentence(row, name, words, measure in SHARES)
                for (_, row), name in zip(table.iterrows(), called, strict=True)
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
        """Name of each state that is too rare to be tested -> what there is of it."""
        whose = [self.sheet.animals[name] for name in self.sheet.names]
        _, animals = np.unique(whose, return_inverse=True)
        occurrence = Occurrence.in_recordings(self.counts, np.arange(len(whose)), animals)
        return occurrence.unused([self.called(state) for state in self.states])

    def _called(self, row: Any) -> str:
        name = (
            f"{self.called(row['from_state'])} to {self.called(row['to_state'])}"
            if "to_state" in row
            else self.called(row["state"])
        )
        return f"{row['term']}: {name}" if "term" in row else name

    def _uneven(self, design: Design) -> str:
        minutes = self.counts.labelled_minutes[np.concatenate(design.rows)]
        return (
            f"Recordings last {minutes.min():.1f} to {minutes.max():.1f} minutes."
            if minutes.max() > 1.1 * minutes.min()
            else ""
        )

    def _by_frames(self, question: Question, n_permutations: int, seed: int, trend: bool | None) -> pd.DataFrame:
        """The table of animals with what frames as units would have claimed in place of their p."""
        if question.measure not in OF_STATES:
            raise ConfigError(f"unit='frame' takes a measure of states: {', '.join(OF_STATES)}.")
        q = replace(question, unit=ANIMAL)
        table = self.compare(
            q.measure, q.between, ANIMAL, q.within, q.blocks, q.covariates, q.where, n_permutations, seed, trend
        )
        design = self._design(question)
        claimed = comparing.by_frames(design, self.counts, q.measure)
        table["p_by_animal"] = table["p"]
        for column in ("statistic", "df", "df_residual", "p_classical"):
            table[column] = claimed[column].to_numpy()
        table["p"] = table["p_classical"]
        table.loc[table["p_by_animal"].isna(), ["p", "p_classical"]] = np.nan  # unused states
        comparing.correct(table, np.ones(len(table), bool))
        table["n"] = sum(self.counts.recordings[row].labelled for row in np.concatenate(design.rows))
        table["test"], table["flag"] = "frames as units (a mistake)", "not independent"
        table.attrs |= {"question": question, "notes": [comparing.WHY_NOT, *table.attrs["notes"]]}
        return table

    def flow(
        self, between: str, where: Mapping[str, Any] | None = None, unit: str = ANIMAL, within: str | None = None,
        blocks: str | None = None, n_permutations: int = 10_000, seed: int = 0, counts: bool = False,
    ) -> Flow:  # fmt: skip
        """The flow test: one number for the whole. Manhattan distance between the mean matrices of changes of groups, against
        animals re-labelled (after von Ziegler et al. 2024). Changes between different states are compared per minute of
        valid time, so that recordings may differ in length.

        between, where, unit, within, blocks   as for `compare`
        n_permutations, seed                   how many re-labelled studies, and what they are drawn with
        counts   compare numbers of changes, gaps left out, as von Ziegler et al. do; refused where valid time differs
        """
        if unit == FRAME:
            raise ConfigError(
                "The flow test re-labels animals; frames cannot be its units. Choose 'animal' or 'recording'."
            )
        design = self._design(_question("flow", between, unit, within, blocks, (), where))
        if counts:
            check_lengths(self.counts.labelled_minutes[np.concatenate(design.rows)])
        changes = self.counts.changes if counts else self.counts.change_rates
        kind = COUNT if counts else RATE
        return flow_of(design, design.averaged(changes), self.states, n_permutations, seed, kind)

    def power(
        self, measure: str, between: str, state: int | None = None, effect: float = 0.5, relative: bool = False,
        unit: str = ANIMAL, within: str | None = None, blocks: str | None = None, covariates: Sequence[str] = (),
        where: Mapping[str, Any] | None = None, seed: int = 0,
    ) -> Power:  # fmt: skip
        """How often a study like this one would find a difference, and how many animals it would take: by simulation from the
        spread that was measured between animals.

        measure, between, unit, within, blocks, covariates, where   as for `compare`
        state                                   whose measure it is, by its number; None for a measure of the whole recording
        effect      the difference in standard deviations between animals (of differences, where sessions are paired; of what
                    blocks and covariates leave, where there are any); of doses between the first and the last
        relative    the effect is a share of the mean: 0.5 is half as much again
        seed        of the simulation
        """
        values, labels, _ = self.values_of(measure)
        column = 0
        if len(labels) > 1 or state is not None:
            if "state" not in labels or state not in labels["state"].tolist():
                raise ConfigError(f"state is {state!r}; choose one of {listed(labels.iloc[:, 0].unique().tolist())}.")
            column = labels["state"].tolist().index(state)
        design = self._design(_question(measure, between, unit, within, blocks, covariates, where))
        return power_of(design, design.averaged(values)[:, column], effect, relative, seed)

    # ---- taking it along --------------------------------------------------------------------------------------------
    def methods(self, *found: pd.DataFrame | Flow) -> str:
        """A paragraph for a paper: what was done, with versions and numbers.

        found   tables of `compare` and results of `flow` to speak of
        """
        return methods_of(self.sheet, self.counts, self.model, found)

    def save(self, path: str | Path) -> None:
        """Write the study into one file (Arrow and JSON): states, sheet, names, model, marks and questions.

        path   where to
        """
        write_whole(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """What `save` writes."""
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
        return _encoded(self.sheet.frame, self.recordings, header, model)

    @classmethod
    def open(cls, path: str | Path) -> Study:
        """The study that `save` wrote.

        path   of the file
        """
        if not Path(path).is_file():
            raise DataError(f"There is no study at {path}.")
        return cls.from_bytes(Path(path).read_bytes(), str(path))

    @classmethod
    def from_bytes(cls, content: bytes, path: str = "The study") -> Study:
        """The study whose `to_bytes` this is.

        content   of the file
        path      what messages call it
        """
        from gdm_core.models.loading import model_from_bytes

        frame, recordings, header, model = _read(content, path)
        try:
            sheet = Sheet(frame, {str(k): str(v) for k, v in header["set_aside"].items()}, ())
            names = {int(state): str(name) for state, name in header["names"].items()}
            states = tuple(int(state) for state in header["states"])
            notes = tuple(str(note) for note in header["notes"])
            flagged = {str(k): str(v) for k, v in header["flagged"].items()}
            marks, questions = list(header["marks"]), list(header["questions"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(f"{path}: the description of the study is damaged ({str(error)[:160]}).") from error
        if set(states_of([recordings[name] for name in sheet.names])) - set(states):
            raise ModelFileError(
                f"{path}: recordings have states that its description does not know. The file is damaged."
            )
        read = None if model is None else model_from_bytes(model, path)
        return cls(sheet, recordings, states, names, read, flagged, marks, questions, notes)


def _question(
    measure: str, between: str | Sequence[str], unit: str = ANIMAL, within: str | None = None, blocks: str | None = None,
    covariates: Sequence[str] = (), where: Mapping[str, Any] | None = None,
) -> Question:  # fmt: skip
    several = (between,) if isinstance(between, str) else tuple(between)
    along = (covariates,) if isinstance(covariates, str) else tuple(covariates)
    return Question(measure, several, unit, within, blocks, along, dict(where or {}))


# ---- as one file: an Arrow table with a row for each recording, and JSON in its header; never a pickle -------------------
def _encoded(
    frame: pd.DataFrame, recordings: Mapping[str, Recording], header: Mapping[str, Any], model: bytes | None
) -> bytes:
    """Everything of a study, as one file holds it."""
    import pyarrow as pa
    from pyarrow import feather

    ones = [recordings.get(name) for name in frame[RECORDING]]  # None: a row of which nothing was read
    try:
        sheet = pa.Table.from_pandas(frame, preserve_index=False)
    except pa.ArrowException:  # columns of mixed kinds, as sheets have them, are kept as text
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
    said = {"format": FORMAT, "format_version": FORMAT_VERSION, **header}
    table = pa.table(columns).replace_schema_metadata({b"study": json.dumps(said).encode(), b"model": model or b""})
    made = BytesIO()
    feather.write_feather(table, made, compression="zstd")
    return made.getvalue()


def _read(content: bytes, path: str) -> tuple[pd.DataFrame, dict[str, Recording], dict[str, Any], bytes | None]:
    """(sheet, recordings, header, model) of what `_encoded` made, or a message that says what is wrong with it.

    path   what messages call it
    """
    import pyarrow as pa
    from pyarrow import feather

    try:
        table = feather.read_table(BytesIO(content), memory_map=False)
        table.validate(full=True)
        metadata = table.schema.metadata or {}
        header = json.loads(metadata.get(b"study", b"null"))
    except (pa.ArrowException, OSError, ValueError, RecursionError, MemoryError) as error:
        raise ModelFileError(
            f"{path} is not a readable study ({str(error)[:160]}). It may be damaged or of another kind."
        ) from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ModelFileError(f"{path} is an Arrow file, but no study that this library wrote.")
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
        raise ModelFileError(f"{path} is a study with parts missing or damaged ({str(error)[:160]}).") from error
    return frame, found, header, metadata.get(b"model") or None


def _recording(table: Any, row: int) -> Recording:
    labels = np.array(table["states"][row].values.to_numpy(), np.int32)
    packed = table["soft"][row].as_py()
    soft = None if packed is None else np.frombuffer(packed, np.float32).reshape(len(labels), -1)
    rate = float(table["rate_hz"][row].as_py())
    if not len(labels) or labels.min() < -1 or not rate > 0:
        raise ValueError(f"recording {row} has no states or no rate")
    return Recording(labels, rate, soft, float(table["start_seconds"][row].as_py()))


# ---- the methods paragraph: what was done, in the words, versions and numbers that a paper prints ------------------------
def methods_of(sheet: Sheet, counts: Counts, model: StateModel | None, found: Sequence[pd.DataFrame | Flow]) -> str:
    """One paragraph."""
    minutes, rates = counts.labelled_minutes, counts.rates
    rate = " to ".join(dict.fromkeys(f"{one:.4g}" for one in (rates.min(), rates.max())))
    taking_part = sheet.frame["recording"].isin(sheet.names)
    whose = f" of {sheet.frame.loc[taking_part, sheet.animal].nunique()} animals" if sheet.animal else ""
    how = "as found by another tool"
    if model is not None:
        how = (
            f"found by one model for all animals, blind to conditions ({model!r}; equally many samples of each animal)"
        )
    said = [
        f"{len(counts.recordings)} recordings{whose} ({minutes.min():.1f} to {minutes.max():.1f} minutes with a state, "
        f"{rate} Hz) were described by {len(counts.states)} states, {how}."
    ]
    if sheet.set_aside:
        said.append(
            f"{len(sheet.set_aside)} recordings were left out ({listed(sorted(set(sheet.set_aside.values())))})."
        )
    said += [_flow(one) if isinstance(one, Flow) else _comparison(one) for one in found]
    said.append(f"Computed with GDM Studio {__version__}, {_versions()}.")
    return " ".join(said)


def _versions() -> str:
    from importlib.metadata import version

    return ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", "statsmodels"))


def _flow(found: Flow) -> str:
    groups = ", ".join(f"{name} n = {n}" for name, n in found.sizes.items())
    return (
        f"Behavioural flow ({groups}) was compared by the Manhattan distance between mean matrices of changes from one state to "
        f"another, in {found.unit} (after von Ziegler et al. 2024), against {len(found.null):,} studies with animals re-labelled: "
        f"distance {found.distance:.4g}, z = {found.z:.2f}, p = {found.p:.2g}."
    )


def _comparison(table: pd.DataFrame) -> str:
    question: Question = table.attrs["question"]
    if question.unit == "frame":
        return "Frames were taken for units, which they are not: see the notes of this comparison."
    said = [
        f"The {_MEASURES.get(question.measure, question.measure)} was compared between {' and '.join(question.between)}"
    ]
    said += [f"where {name} is {listed(np.ravel(value).tolist())}" for name, value in question.where.items()]
    for words, value in (("with sessions paired within", question.within), ("within blocks of", question.blocks)):
        said += [f"{words} {value}"] if value else []
    said += [f"adjusted for {listed(list(question.covariates))}"] if question.covariates else []
    test = str(table["test"].iloc[0]).removeprefix("permutation, ")
    unused = len(table.attrs["unused"]) if question.measure in (*OF_STATES, *OF_CHANGES) else 0
    left_out = f" {unused} unused states ({MINIMUM}) were not tested." if unused else ""
    return (
        f"{' '.join(said)}, with one value per {question.unit} (n = {table['n'].max()}; its recordings under the same "
        f"condition averaged). Differences were tested by {table.attrs['n_permutations']:,} permutations of {test}; p was "
        f"corrected over {int(np.isfinite(table['p']).sum())} tests by Holm's method, and intervals hold 95 %. The "
        f"classical test beside it is {test}.{left_out}"
    )
