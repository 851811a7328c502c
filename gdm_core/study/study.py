"""The class `Study`: states of many recordings, a sheet of conditions, and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
from gdm_core.study.classes import LENGTH
from gdm_core.study.files import decode_study, encode_study
from gdm_core.study.flow import COUNT, RATE, Flow, check_lengths, run_flow_test
from gdm_core.study.followup import compare_doses, compare_pairs, compare_recordings, has_contrasts
from gdm_core.study.methods import write_methods
from gdm_core.study.power import Power, estimate_power
from gdm_core.study.questions import StudyDesigns, make_question
from gdm_core.study.rare import Occurrence, advise_fewer_states
from gdm_core.study.record import Record, make_record
from gdm_core.study.sheet import ANIMAL, Sheet, format_list, match_sheet
from gdm_core.study.states import (
    CHANGE_MEASURES,
    SHARES,
    STATE_MEASURES,
    Recording,
    collect_states,
    make_recording,
    parse_names,
)
from gdm_core.trials import Trial, paint_labels

RESERVED = (
    "state", "name", "minute", "changes", "changes_per_min", "from_state", "to_state", *STATE_MEASURES, *CHANGE_MEASURES
)  # fmt: skip
# Fields in the header of a study file.
_SAVED: dict[str, Callable[..., Any]] = {
    "scores": dict, "flagged": dict, "marks": list, "questions": list, "preparation": tuple, "smoothing": dict, "notes": tuple,
    "origin": str, "rate_source": str, "why_k": str, "plan": dict, "tried": list,
}  # fmt: skip
Names = Mapping[int, str] | Sequence[str] | None


@dataclass(frozen=True, eq=False)
class Study(StudyDesigns):
    """States of recordings and the sheet of their conditions; see `fit`, `from_states` and `open`.

    sheet       one row per recording
    recordings  name -> states
    states      state numbers, as in the data
    names       state number -> name
    scores      recording -> score of the model in nats per sample, low for poor tracking
    model       the fitted model, None for states of another tool
    flagged     outlying recording -> reason
    marks, questions   JSON values that a page stores with the study
    preparation notes on cropping, windows and missing data, as sentences of the methods paragraph
    smoothing   smooth_s and shortest_s of the rule that made bouts from soft states
    origin      where the states came from, as a sentence, if neither from `model` nor from another tool
    rate_source where sampling rates came from, such as "time column"
    notes       caveats, in sentences
    plan        what was planned before results were seen, by heading; `gdm_core.study.plan`
    tried       questions that were answered so far, as JSON
    why_k       reason for the number of states, for the methods paragraph: a sentence that starts with K, or other words
    """

    model: StateModel | None = None
    flagged: Mapping[str, str] = field(default_factory=dict)
    marks: Sequence[Any] = ()
    questions: Sequence[Any] = ()
    preparation: tuple[str, ...] = ()
    smoothing: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    origin: str = ""
    rate_source: str = ""
    why_k: str = ""
    plan: Mapping[str, str] = field(default_factory=dict)
    tried: Sequence[str] = ()

    # ---- construction -----------------------------------------------------------------------------------------------
    @classmethod
    def from_states(
        cls,
        states: Mapping[str, npt.ArrayLike],
        sheet: pd.DataFrame,
        rate_hz: float | Mapping[str, float] = 1.0,
        names: Names = None,
        starts: Mapping[str, float] | None = None,
    ) -> Study:
        """Make a study from states that any tool found.

        states    recording -> integer states [T], -1 unlabelled; or soft states [T, K]
        sheet     one row per recording: "recording" (or "file"), "animal", and any other columns; "exclude" drops a row
        rate_hz   samples per second, one value or recording -> value
        names     names of states: a mapping from number to name, or a list that starts with state 0
        starts    recording -> time of its first sample in seconds, 0 if omitted
        """
        if not isinstance(states, Mapping) or not states:
            raise DataError("Study.from_states needs {recording name: states}, with at least one recording.")
        rates = rate_hz if isinstance(rate_hz, Mapping) else dict.fromkeys(states, rate_hz)
        if lacking := [str(name) for name in states if name not in rates]:
            raise DataError(f"rate_hz has no value for {format_list(lacking)}.")
        recordings = {str(name): make_recording(str(name), one, float(rates[name])) for name, one in states.items()}
        recordings |= {name: replace(recordings[name], start_seconds=start) for name, start in (starts or {}).items()}
        return cls._build(match_sheet(sheet, recordings, RESERVED), recordings, parse_names(names))

    @classmethod
    def fit(
        cls, recordings: Mapping[str, Trial], sheet: pd.DataFrame, model: StateModel, names: Names = None,
        rule: BoutRule = fitting.STEADY,
    ) -> Study:  # fmt: skip
        """Fit one model to all animals, blind to conditions, and find all states.

        recordings   name -> Trial, all with the same channels and rate
        sheet        as in `from_states`
        model        of any family; not modified. A fitted model is not fitted again
        names        names of states
        rule         `gdm_core.analysis.bouts.BoutRule(smooth_s, shortest_s)`, 0.2 s each by default: tracking jitter makes
                     many shorter bouts
        """

        def fit(kept: Mapping[str, Trial], known: Sheet, notes: list[str]) -> StateModel:
            if not model.params_:
                return fitting.fit_copy(model, fitting.balance(kept, known, notes))
            model.raise_if_failed()
            return model

        def decode(fitted: StateModel, kept: Mapping[str, Trial]) -> dict[str, tuple[Recording, float]]:
            return {name: fitting.decode_and_score(fitted, one, rule) for name, one in kept.items()}

        return cls.fit_with(recordings, match_sheet(sheet, recordings, RESERVED), fit, decode, names, rule)

    @classmethod
    def fit_with(
        cls, recordings: Mapping[str, Trial], sheet: Sheet,
        fit: Callable[[Mapping[str, Trial], Sheet, list[str]], StateModel],
        decode: Callable[[StateModel, Mapping[str, Trial]], Mapping[str, tuple[Recording, float]]],
        names: Names = None, rule: BoutRule = fitting.STEADY,
    ) -> Study:  # fmt: skip
        """Fit a study like `fit`, with functions that may run elsewhere.

        fit      returns the fitted model, given the recordings, the sheet, and a list for caveats
        decode   returns recording -> (states, score in nats per sample), given the model and the recordings
        """
        notes: list[str] = []
        kept, aside = fitting.prepare({name: recordings[name] for name in sheet.names}, notes)
        model = fit(kept, sheet, notes)
        found = decode(model, kept)
        part = replace(sheet, set_aside={**sheet.set_aside, **aside}, notes=(*sheet.notes, *notes))
        read = {name: one for name, (one, _) in found.items()}
        return cls._from_decoded(model, read, {name: score for name, (_, score) in found.items()}, part, names, rule)

    @classmethod
    def _from_decoded(
        cls, model: StateModel | None, read: Mapping[str, Recording], scores: Mapping[str, float], sheet: Sheet, names: Names,
        rule: BoutRule,
    ) -> Study:  # fmt: skip
        """Make a study from states that a model found; low scores are flagged."""
        study = cls._build(sheet, read, parse_names(names))
        odd = fitting.find_low_scores(scores)
        notes = [f"{name} is {reason}." for name, reason in odd.items()]
        return replace(
            study, model=model, flagged=odd, scores=scores, smoothing=asdict(rule), notes=(*study.notes, *notes)
        )

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
        return replace(study, notes=(*study.notes, *advise_fewer_states(study.occurrence)))

    def with_labels(
        self, recordings: Mapping[str, Trial], marks: Sequence[fitting.Mark], rule: BoutRule = fitting.STEADY,
        predict: Callable[..., Mapping[str, Recording]] | None = None,
    ) -> Study:  # fmt: skip
        """Return a study of labels, predicted for all recordings from labelled clips.

        recordings   name -> Trial, as for this study
        marks        (recording, first sample, end, label) of each clip
        rule         turns probabilities of labels into bouts
        predict      predicts labels elsewhere, given the recordings and the arguments of `label_model_bytes`
        """
        notes: list[str] = []
        kept = {name: recordings[name] for name in self.sheet.names}
        train, stretches, names = fitting.label_trials(kept, self.sheet, marks, notes)
        if predict is None:
            label_model = LabelModel(self.model).fit(train, paint_labels(train, stretches), names)
            read: Mapping[str, Recording] = {name: fitting.decode(label_model, one, rule) for name, one in kept.items()}
        else:
            read = predict(kept, train, stretches, names)
        part = replace(self.sheet, notes=(*self.sheet.notes, *notes))
        study = Study._from_decoded(self.model, read, self.scores, part, names, rule)
        return replace(
            study, marks=list(marks), questions=self.questions, preparation=self.preparation, origin=notes[-1]
        )

    def with_names(self, names: Names) -> Study:
        """Return the study with names of states.

        names   mapping from number to name, or a list that starts with state 0
        """
        given = parse_names(names)
        if unknown := [str(state) for state in given if state not in self.states]:
            raise ConfigError(f"There is no state {format_list(unknown)}; the study has {format_list(self.states)}.")
        return replace(self, names=given)

    # ---- comparisons ------------------------------------------------------------------------------------------------
    def compare(
        self,
        measure: str,
        between: str | Sequence[str],
        unit: str = ANIMAL,
        within: str | None = None,
        blocks: str | None = None,
        covariates: Sequence[str] = (),
        planned: Sequence[str] = (),
        where: Mapping[str, Any] | None = None,
        n_permutations: int = 10_000,
        seed: int = 0,
        trend: bool | None = None,
    ) -> pd.DataFrame:
        """Compare a measure between groups, with a row for each state.

        Columns are means of groups, the effect with its 95% interval, p by permutation, p_holm and p_bh corrected over
        states, and the classical test. `.attrs["notes"]` has caveats and `.attrs["sentences"]` a sentence for each row.

        measure         a column of `measures`, "transitions", "transition_shares", "entropy", "changes_per_min", or a
                        numeric column of the sheet
        between         column to compare between, or two columns for two factors and their interaction
        unit            "animal" (averages its recordings under one condition), "recording" or another column
        within          column of the subjects of paired sessions, such as "animal"
        blocks          column within which animals are exchangeable, such as a batch
        covariates      columns to adjust for, known before the treatment
        planned         other columns to adjust for, as planned in advance although they may follow from the groups
        where           column -> value or values, to select recordings
        n_permutations, seed   number and seed of the permutations
        trend           test the trend over numbers (such as doses) or ordered categories instead of any difference; by
                        default if there are three or more. `compare_pairs` compares each with the control
        """
        question = make_question(measure, between, unit, within, blocks, covariates, planned, where, trend)
        values, labels = self.measure_values(measure)
        design = self.design(question)
        rows = np.concatenate(design.rows)
        occurrence = self._occurrence(
            rows, np.repeat(design.subjects, [len(one) for one in design.rows]), design.unit_word
        )
        tested = occurrence.tested(measure, len(labels))
        found, notes = comparing.compare_groups(design, design.average(values), n_permutations, seed, trend, tested)
        notes += occurrence.describe_untested(measure)
        if adjusted := [*question.covariates, *question.planned, *([blocks] if blocks and not within else [])]:
            notes.append(f"Group means are adjusted for {format_list(adjusted)}.")
        if measure in SHARES:
            differences = found["effect_is"].str.contains(" minus ")
            found.loc[differences, ["effect_low", "effect_high"]] = found[["effect_low", "effect_high"]].clip(-1, 1)
        if measure == "log_ratio" and (zeros := int((self.counts.usage[rows] == 0).sum())):
            notes.append(
                f"{zeros:,} shares of zero were replaced by {self.counts.zero_share:.2g}, half of the smallest other one."
            )
        minutes = self.counts.labelled_minutes[rows]
        if measure in ("bouts", "changes") and minutes.max() > 1.1 * minutes.min():
            lengths = f"{minutes.min():.1f} to {minutes.max():.1f} minutes"
            notes.append(
                f"Recordings last {lengths}. Longer recordings have more bouts; use bouts_per_min, or adjust for {LENGTH}."
            )
        table = comparing.order_columns(found, labels)
        used = design.part(~design.unpaired)
        names = [self.sheet.names[row] for row in np.concatenate(used.rows)]
        table.attrs = {
            "question": question,
            "n_permutations": n_permutations,
            "notes": notes,
            "unused": occurrence.unused,
            "sentences": [comparing.write_sentence(row, measure in SHARES) for _, row in table.iterrows()],
            "sizes": used.sizes,
            "recordings": names,
            "unit": used.unit_word,
            "averaged": len(names) > len(used.units),
            "n_contrasts": len(design.factors[0].levels) - 1 if has_contrasts(design, question.trend) else 0,
            "control": design.factors[0].words[0],
        }
        return table

    def _occurrence(self, rows: npt.NDArray[np.int64], subjects: npt.NDArray[np.int64], word: str) -> Occurrence:
        names = [self.state_name(state) for state in self.states]
        return Occurrence.in_recordings(self.counts, rows, subjects, names, word)

    def compare_pairs(self, table: pd.DataFrame) -> pd.DataFrame:
        """Compare every pair of groups in the states that survive correction, or each dose with the control (Dunnett).

        Both are corrected over all states. The control is the lowest dose.

        table   result of `compare` with three or more groups or doses
        """
        return compare_doses(self, table) if table.attrs["n_contrasts"] else compare_pairs(self, table)

    def compare_recordings(self, table: pd.DataFrame) -> pd.DataFrame:
        """Repeat a comparison by a mixed model of all recordings, with a random intercept for each animal.

        table   result of `compare` of two groups or a trend, without pairs or blocks
        """
        return compare_recordings(self, table)

    @property
    def occurrence(self) -> Occurrence:
        """States that are common enough to test, over all recordings."""
        _, animals = np.unique([self.sheet.animals[name] for name in self.sheet.names], return_inverse=True)
        return self._occurrence(np.arange(len(animals)), animals, self.sheet.subject)

    def flow(
        self, between: str, n_permutations: int = 10_000, seed: int = 0, counts: bool = False, **options: Any
    ) -> Flow:
        """Test whether groups differ in their transitions (after von Ziegler et al. 2024).

        The statistic is the Manhattan distance between mean matrices of changes per minute of valid time, tested by
        permutation of animals.

        between                as in `compare`
        n_permutations, seed   number and seed of the permutations
        counts                 compare numbers of changes, as von Ziegler et al. do; needs recordings of equal valid time
        options                unit, within, blocks, covariates, planned and where, as in `compare`
        """
        design = self.design(make_question("flow", between, **options))
        if counts:
            check_lengths(self.counts.labelled_minutes[np.concatenate(design.rows)])
        changes = self.counts.changes if counts else self.counts.change_rates
        kind = COUNT if counts else RATE
        return run_flow_test(design, design.average(changes), self.states, n_permutations, seed, kind)

    def power(self, measure: str, between: str, state: int | None = None, effect: float = 0.5, **options: Any) -> Power:
        """Estimate power after correction over states (Holm), and the number of animals needed, from their spread.

        measure, between   as in `compare`
        state     number of the state; None for a measure of whole recordings
        effect    difference in standard deviations between animals, net of blocks and covariates (of differences, if
                  sessions are paired); for doses, between the first and the last
        options   unit, within, blocks, covariates, planned and where, as in `compare`
        """
        values, labels = self.measure_values(measure)
        column = 0
        if len(labels) > 1 or state is not None:
            if "state" not in labels or state not in labels["state"].tolist():
                raise ConfigError(
                    f"state is {state!r}; choose one of {format_list(labels.iloc[:, 0].unique().tolist())}."
                )
            column = labels["state"].tolist().index(state)
        question = make_question(measure, between, **options)
        design = self.design(question)
        is_trend = comparing.is_trend(design, question.trend)
        n_tests = len(labels) - len(self.occurrence.unused) * (measure in STATE_MEASURES)
        return estimate_power(design, design.average(values)[:, column], effect, max(1, n_tests), is_trend)

    # ---- export and files -------------------------------------------------------------------------------------------
    def record(self, *found: pd.DataFrame | Flow, correction: str = "p_holm") -> Record:
        """Return the record of an analysis, with the numbers that methods and page state.

        found        tables of `compare` and results of `flow`
        correction   "p_holm" or "p_bh", as reported in the paper
        """
        return make_record(self, found, correction)

    def methods(self, *found: pd.DataFrame | Flow, correction: str = "p_holm") -> str:
        """Return a methods paragraph for a paper, with numbers and versions.

        found, correction   as in `record`
        """
        return write_methods(self.record(*found, correction=correction))

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
            **{name: kind(getattr(self, name)) for name, kind in _SAVED.items()},
        }
        model = None if self.model is None else self.model.to_bytes()
        return encode_study(self.sheet.frame, self.recordings, header, model)

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

        frame, recordings, header, model = decode_study(content, path)
        try:
            sheet = Sheet(frame, {str(k): str(v) for k, v in header["set_aside"].items()}, ())
            names = {int(state): str(name) for state, name in header["names"].items()}
            states = tuple(int(state) for state in header["states"])
            more: dict[str, Any] = {name: kind(header.get(name, kind())) for name, kind in _SAVED.items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ModelFileError(f"{path}: the header of the study is damaged ({str(error)[:160]}).") from error
        if set(collect_states([recordings[name] for name in sheet.names])) - set(states):
            raise ModelFileError(f"{path}: recordings have states that the header does not list. The file is damaged.")
        read = None if model is None else model_from_bytes(model, path)
        return cls(sheet, recordings, states, names, model=read, **more)
