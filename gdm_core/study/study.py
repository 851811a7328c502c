"""The class `Study`: states of many recordings, a sheet of conditions, and comparisons."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from gdm_core import __version__
from gdm_core.analysis.bouts import BoutRule
from gdm_core.errors import ConfigError, DataError, ModelFileError
from gdm_core.files import write_whole
from gdm_core.models.base import StateModel
from gdm_core.study import comparing, fitting
from gdm_core.study.design import LENGTH, MISSING, SCORE, ColumnClass, Design, make_design, unit_values
from gdm_core.study.files import decode_study, encode_study
from gdm_core.study.flow import COUNT, RATE, Flow, check_lengths, run_flow_test
from gdm_core.study.means import adjust_values, tabulate_means
from gdm_core.study.permutation import Floats
from gdm_core.study.power import Power, estimate_power
from gdm_core.study.question import Question
from gdm_core.study.sheet import RECORDING, Sheet, find_column, match_sheet, select_rows
from gdm_core.study.states import (
    CHANGE_MEASURES,
    MEASURES,
    SHARES,
    STATE_MEASURES,
    Counts,
    Occurrence,
    Recording,
    advise_fewer_states,
    collect_states,
    make_recording,
    parse_names,
)
from gdm_core.study.structure import Pooling, find_confounds, find_pooling
from gdm_core.study.text import did_you_mean, format_list
from gdm_core.trials import Trial

# Fields in the header of a study file.
_SAVED: dict[str, Callable[..., Any]] = {
    "scores": dict, "flagged": dict, "questions": list, "preparation": tuple, "smoothing": dict, "notes": tuple,
    "origin": str, "rate_source": str, "why_k": str, "plan": dict, "tried": list,
}  # fmt: skip
Names = Mapping[int, str] | Sequence[str] | None


@dataclass(frozen=True, eq=False)
class Study:
    """States of recordings and the sheet of their conditions; see `fit`, `from_states` and `open`.

    sheet       one row per recording
    recordings  name -> states
    states      state numbers, as in the data
    names       state number -> name
    scores      recording -> score of the model in nats per sample, low for poor tracking
    model       the fitted model, None for states of another tool
    flagged     outlying recording -> reason
    questions   JSON values that a page stores with the study
    preparation notes on cropping, windows and missing data, as sentences of the methods paragraph
    smoothing   smooth_s and shortest_s of the rule that made bouts from soft states
    origin      where the states came from, as a sentence, if neither from `model` nor from another tool
    rate_source where sampling rates came from, such as "time column"
    notes       caveats, in sentences
    plan        what was planned before results were seen, by heading; `gdm_core.study.methods.describe_plan`
    tried       questions that were answered so far, as JSON
    why_k       reason for the number of states, for the methods paragraph: a sentence that starts with K, or other words
    """

    sheet: Sheet
    recordings: Mapping[str, Recording]
    states: tuple[int, ...]
    names: Mapping[int, str] = field(default_factory=dict)
    scores: Mapping[str, float] = field(default_factory=dict)
    model: StateModel | None = None
    flagged: Mapping[str, str] = field(default_factory=dict)
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
        cls, states: Mapping[str, npt.ArrayLike], sheet: pd.DataFrame, rate_hz: float | Mapping[str, float] = 1.0,
        names: Names = None, starts: Mapping[str, float] | None = None,
    ) -> Study:  # fmt: skip
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
        return cls._build(match_sheet(sheet, recordings), recordings, parse_names(names))

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
        matched, kept = fitting.prepare(recordings, match_sheet(sheet, recordings))
        if model.params_:
            model.raise_if_failed()
        else:
            training, matched = fitting.balance(kept, matched)
            model = fitting.fit_copy(model, training)
        decoded = {name: fitting.decode_and_score(model, one, rule) for name, one in kept.items()}
        return cls.from_decoded(model, decoded, matched, names, rule)

    @classmethod
    def from_decoded(
        cls, model: StateModel | None, decoded: Mapping[str, fitting.Decoding], sheet: Sheet, names: Names = None,
        rule: BoutRule = fitting.STEADY,
    ) -> Study:  # fmt: skip
        """Make a study from states that a model found; low scores and recordings outside the fit are flagged.

        sheet     the matched sheet, as from `fitting.prepare`
        """
        study = cls._build(sheet, {name: one.states for name, one in decoded.items()}, parse_names(names))
        scores = {name: one.score for name, one in decoded.items()}
        odd = fitting.flag(decoded)
        notes = (*study.notes, *(f"{name} is {reason}." for name, reason in odd.items()))
        return replace(study, model=model, flagged=odd, scores=scores, smoothing=asdict(rule), notes=notes)

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

    def with_names(self, names: Names) -> Study:
        """Return the study with names of states: a mapping from number to name, or a list that starts with state 0."""
        given = parse_names(names)
        if unknown := [str(state) for state in given if state not in self.states]:
            raise ConfigError(f"There is no state {format_list(unknown)}; the study has {format_list(self.states)}.")
        return replace(self, names=given)

    # ---- tables -----------------------------------------------------------------------------------------------------
    @cached_property
    def counts(self) -> Counts:
        """Bouts and changes of the included recordings, in the order of the sheet."""
        return Counts(tuple(self.recordings[name] for name in self.sheet.names), self.states)

    @property
    def conditions(self) -> pd.DataFrame:
        """Rows of the sheet for the included recordings, in the order of `counts`."""
        frame = self.sheet.frame
        return frame[frame[RECORDING].isin(self.sheet.names)].reset_index(drop=True)

    @cached_property
    def occurrence(self) -> Occurrence:
        """States that are common enough to test, over all recordings."""
        _, animals = np.unique([self.sheet.animals[name] for name in self.sheet.names], return_inverse=True)
        return self._occurrence(np.arange(len(animals)), animals, self.sheet.subject)

    def _occurrence(self, rows: npt.NDArray[np.int64], subjects: npt.NDArray[np.int64], word: str) -> Occurrence:
        return Occurrence.in_recordings(self.counts, rows, subjects, self.labels["name"], word)

    def state_name(self, state: int) -> str:
        """Return the name of a state, by default S1 for column 0 of soft states, or "state" and the number in the data."""
        is_soft = any(one.soft is not None for one in self.counts.recordings)
        return self.names.get(state, f"S{state + 1}" if is_soft else f"state {state}")

    @property
    def labels(self) -> pd.DataFrame:
        """Numbers and names of the states."""
        return pd.DataFrame({"state": list(self.states), "name": [self.state_name(state) for state in self.states]})

    @property
    def _pairs(self) -> pd.DataFrame:
        named = list(zip(self.states, self.labels["name"], strict=True))
        pairs = [(a, b, f"{first} to {second}") for a, first in named for b, second in named if a != b]
        return pd.DataFrame(pairs, columns=["from_state", "to_state", "name"])

    def measures(self) -> pd.DataFrame:
        """Return a table of the state measures, with a row for each recording and state."""
        table = self._tabulate({name: self.counts.measure(name) for name in STATE_MEASURES}, self.labels)
        return table if table["bouts"].isna().any() else table.astype({"bouts": np.int64})

    def transitions(self) -> pd.DataFrame:
        """Return a table of changes, with a row per recording and pair of states; `flow` compares changes_per_min."""
        values = {"changes": self.counts.changes, "changes_per_min": self.counts.change_rates}
        values |= {name: self.counts.measure(name) for name in CHANGE_MEASURES}
        apart = ~np.eye(len(self.states), dtype=bool)
        return self._tabulate({name: one[:, apart] for name, one in values.items()}, self._pairs)

    def _tabulate(self, values: Mapping[str, Floats], labels: pd.DataFrame) -> pd.DataFrame:
        """Return a table with a row for each recording and label, and the sheet's columns."""
        left = self.conditions
        long = left.loc[left.index.repeat(len(labels))].reset_index(drop=True)
        columns = pd.DataFrame({name: one.ravel() for name, one in values.items()})
        return pd.concat([long, pd.concat([labels] * len(left), ignore_index=True), columns], axis=1)

    def bouts(self) -> pd.DataFrame:
        """Return a table of bouts, with times on each recording's clock."""
        recording, place, first, long = self.counts.runs
        rates = self.counts.rates[recording]
        start = np.array([one.start_seconds for one in self.counts.recordings])[recording] + first / rates
        table = pd.DataFrame({RECORDING: np.array(self.sheet.names)[recording]})
        table = table.join(self.labels.iloc[place].reset_index(drop=True))
        return table.assign(start_s=start, stop_s=start + long / rates, duration_s=long / rates)

    def measure_values(self, measure: str) -> tuple[Floats, pd.DataFrame]:
        """Return a measure's values [R, M] and a table of column labels."""
        if measure in STATE_MEASURES:
            return self.counts.measure(measure), self.labels
        if measure in CHANGE_MEASURES:
            return self.counts.measure(measure)[:, ~np.eye(len(self.states), dtype=bool)], self._pairs
        whole, frame = pd.DataFrame({"state": ["all"], "name": ["whole recording"]}), self.conditions
        if measure in MEASURES:
            return self.counts.measure(measure)[:, None], whole
        if measure in frame and pd.api.types.is_numeric_dtype(frame[measure].dtype):
            return frame[measure].to_numpy(np.float64)[:, None], whole
        raise ConfigError(
            f"There is no measure {measure!r}{did_you_mean(measure, MEASURES)}. Choose one of {', '.join(MEASURES)}, or a numeric "
            "column of the sheet."
        )

    # ---- comparisons ------------------------------------------------------------------------------------------------
    def compare(
        self, measure: str, between: str | Sequence[str], n_permutations: int = 10_000, seed: int = 0, **options: Any
    ) -> pd.DataFrame:
        """Compare a measure between groups, with a row for each state.

        Columns are means of groups, the effect with its 95% interval, p by permutation, p_holm and p_bh corrected over
        states, and the classical test. `.attrs["notes"]` has caveats and `.attrs["sentences"]` a sentence for each row.

        measure   a column of `measures`, "transitions", "transition_shares", "entropy", "changes_per_min", or a numeric
                  column of the sheet
        between   column to compare between, or two columns for two factors and their interaction
        n_permutations, seed   number and seed of the permutations
        options   unit, within, blocks, covariates, planned, where and trend: see `gdm_core.study.Question`
        """
        question = Question.ask(measure, between, **options)
        values, labels = self.measure_values(measure)
        design = self.design(question)
        rows = np.concatenate(design.rows)
        subjects = np.repeat(design.subjects, [len(one) for one in design.rows])
        occurrence = self._occurrence(rows, subjects, design.unit_word)
        found, notes = comparing.compare_groups(
            design, design.average(values), n_permutations, seed, question.trend, occurrence.tested(measure, len(labels))
        )  # fmt: skip
        notes += [*occurrence.describe_untested(measure), *self._describe_values(question, rows)]
        if measure in SHARES:
            differences = found["effect_is"].str.contains(" minus ")
            found.loc[differences, ["effect_low", "effect_high"]] = found[["effect_low", "effect_high"]].clip(-1, 1)
        table, used = comparing.order_columns(found, labels), design.part(~design.unpaired)
        names = [self.sheet.names[row] for row in np.concatenate(used.rows)]
        contrasts = comparing.has_contrasts(design, question.trend)
        table.attrs = {
            "question": question, "n_permutations": n_permutations, "notes": notes, "unused": occurrence.unused,
            "sentences": [comparing.write_sentence(row, measure in SHARES) for _, row in table.iterrows()],
            "sizes": used.sizes, "recordings": names, "unit": used.unit_word, "averaged": len(names) > len(used.units),
            "n_contrasts": len(design.factors[0].levels) - 1 if contrasts else 0, "control": design.factors[0].words[0],
            "n_tests": int(table["p"].iloc[: len(labels)].notna().sum()),
        }  # fmt: skip
        return table

    def _describe_values(self, question: Question, rows: npt.NDArray[np.int64]) -> list[str]:
        """Return caveats about the compared values of some recordings."""
        notes, blocks = [], [question.blocks] if question.blocks and not question.within else []
        if adjusted := [*question.covariates, *question.planned, *blocks]:
            notes.append(f"Group means are adjusted for {format_list(adjusted)}.")
        if question.measure == "log_ratio" and (zeros := int((self.counts.usage[rows] == 0).sum())):
            half = f"{self.counts.zero_share:.2g}, half of the smallest other one"
            notes.append(f"{zeros:,} shares of zero were replaced by {half}.")
        minutes = self.counts.labelled_minutes[rows]
        if question.measure in ("bouts", "changes") and minutes.max() > 1.1 * minutes.min():
            lengths = f"{minutes.min():.1f} to {minutes.max():.1f} minutes"
            notes.append(
                f"Recordings last {lengths}. Longer recordings have more bouts; use bouts_per_min, or adjust for {LENGTH}."
            )
        return notes

    def flow(
        self, between: str, n_permutations: int = 10_000, seed: int = 0, counts: bool = False, **options: Any
    ) -> Flow:
        """Test whether groups differ in their transitions (after von Ziegler et al. 2024).

        The statistic is the Manhattan distance between mean matrices of changes per minute of valid time, tested by
        permutation of animals.

        between, n_permutations, seed, options   as in `compare`
        counts   compare numbers of changes, as von Ziegler et al. do; needs recordings of equal valid time
        """
        design = self.design(Question.ask("flow", between, **options))
        if counts:
            check_lengths(self.counts.labelled_minutes[np.concatenate(design.rows)])
        changes = self.counts.changes if counts else self.counts.change_rates
        unit = COUNT if counts else RATE
        return run_flow_test(design, design.average(changes), self.states, n_permutations, seed, unit)

    def power(self, measure: str, between: str, state: int | None = None, effect: float = 0.5, **options: Any) -> Power:
        """Estimate power after correction over states (Holm), and the number of animals needed, from their spread.

        measure, between, options   as in `compare`
        state     number of the state; None for a measure of whole recordings
        effect    difference in standard deviations between animals, net of blocks and covariates (of differences, if
                  sessions are paired); for doses, between the first and the last
        """
        values, labels = self.measure_values(measure)
        column = 0
        if len(labels) > 1 or state is not None:
            known = labels.iloc[:, 0].unique().tolist()
            if "state" not in labels or state not in known:
                raise ConfigError(f"state is {state!r}; choose one of {format_list(known)}.")
            column = known.index(state)
        question = Question.ask(measure, between, **options)
        design = self.design(question)
        is_trend = comparing.is_trend(design, question.trend)
        n_tests = len(labels) - len(self.occurrence.unused) * (measure in STATE_MEASURES)
        return estimate_power(design, design.average(values)[:, column], effect, max(1, n_tests), is_trend)

    def design(self, question: Question) -> Design:
        """Return the design of a question, with a note on experiments that it pools."""
        sheet, adjusted = self.sheet, question.covariates + question.planned
        known = sheet.frame[RECORDING].isin(sheet.names).to_numpy()
        for name, values in self._recorded.items():
            if name in adjusted and name not in sheet.frame:
                filled = np.full(len(known), np.nan)
                filled[known] = values
                sheet = replace(sheet, frame=sheet.frame.assign(**{name: filled}))
        design = make_design(question, sheet, self.counts.labelled_minutes == 0)
        pooling = self.find_pooling(question.between[0], question.where, question.accounted)
        return design if pooling is None else replace(design, notes=(pooling.note, *design.notes))

    def adjusted_values(self, question: Question) -> tuple[Design, Floats, pd.DataFrame]:
        """Return the compared units, their adjusted values [n, m] and the labels of the columns."""
        values, labels = self.measure_values(question.measure)
        design = self.design(question)
        return design, adjust_values(design, design.average(values), comparing.is_trend(design, question.trend)), labels

    def per_unit(self, measure: str, between: str | Sequence[str], **options: Any) -> pd.DataFrame:
        """Return the values that `compare` compares, adjusted for covariates and blocks, per unit (animal) and state.

        `gdm_core.study.tables` turns them into wide tables and tables for Prism. Arguments: as in `compare`.
        """
        design, values, labels = self.adjusted_values(Question.ask(measure, between, **options))
        table = pd.DataFrame({design.unit_word: np.repeat(design.units, len(labels))})
        for j, factor in enumerate(design.factors):
            table[factor.name] = np.repeat([factor.levels[code] for code in design.levels[:, j]], len(labels))
        tiled = pd.concat([labels] * len(values), ignore_index=True)
        return pd.concat([table, tiled], axis=1).assign(**{measure: values.ravel()})

    def group_means(self, measure: str, between: str | Sequence[str], **options: Any) -> pd.DataFrame:
        """Return n, mean and 95% interval per group and state, adjusted as in `per_unit`."""
        design, values, labels = self.adjusted_values(Question.ask(measure, between, **options))
        return tabulate_means(design.part(~design.unpaired), values[~design.unpaired], labels, measure)

    # ---- other columns of the sheet ---------------------------------------------------------------------------------
    @property
    def _recorded(self) -> dict[str, Floats]:
        """Length, missing share and score of each recording, which can serve as covariates."""
        lengths = np.array([one.n_samples / one.rate_hz / 60 for one in self.counts.recordings])
        found = {LENGTH: lengths, MISSING: 1 - self.counts.labelled_minutes / lengths}
        if self.scores:
            found[SCORE] = np.array([self.scores.get(name, np.nan) for name in self.sheet.names])
        return found

    def find_pooling(
        self, between: str, where: Mapping[str, Any] | None = None, ignored: Sequence[str] = ()
    ) -> Pooling | None:
        """Return the experiments or drugs that a comparison would pool, with the question to ask; None if there are none.

        ignored   columns that the comparison accounts for, such as blocks
        """
        frame = select_rows(self.conditions, where)
        return find_pooling(frame, find_column(frame, between, "between"), ignored, self.sheet.animal or RECORDING)

    def find_confounds(self, between: str | Sequence[str], **options: Any) -> pd.DataFrame:
        """Return the association of the groups with other columns, recording length, missing data and model score.

        Columns are column, association, strength, p, p_holm, n, kind (class of the column) with its reason, offered (as a
        covariate), associated, same (columns that measure the same) and sentence. Arguments: as in `compare`.
        """
        return find_confounds(*self._other_columns(Question.ask("", between, **options)))

    def classify_columns(self, between: str | Sequence[str], **options: Any) -> dict[str, ColumnClass]:
        """Return the class of each other column: design, before treatment, or outcome or mediator."""
        design, columns = self._other_columns(Question.ask("", between, **options))
        return {str(name): design.classify(str(name), columns[name]) for name in columns}

    def _other_columns(self, question: Question) -> tuple[Design, pd.DataFrame]:
        """Return the compared units, and their values of the columns without a role in the question."""
        design, frame = self.design(question), self.conditions.assign(**self._recorded)
        roles = (*question.between, question.within, question.blocks, self.sheet.animal, RECORDING)
        return design, pd.DataFrame({c: unit_values(frame[c], design.rows) for c in frame if c not in roles})

    # ---- files ------------------------------------------------------------------------------------------------------
    def save(self, path: str | Path) -> None:
        """Write the study to one file (Arrow and JSON)."""
        write_whole(Path(path), self.to_bytes())

    def to_bytes(self) -> bytes:
        """Return the content of the file that `save` writes."""
        header = {
            "version": __version__, "names": {str(state): name for state, name in self.names.items()},
            "states": list(self.states), "set_aside": dict(self.sheet.set_aside),
            **{name: kind(getattr(self, name)) for name, kind in _SAVED.items()},
        }  # fmt: skip
        return encode_study(self.sheet.frame, self.recordings, header, self.model.to_bytes() if self.model else None)

    @classmethod
    def open(cls, path: str | Path) -> Study:
        """Read a study that `save` wrote."""
        if not Path(path).is_file():
            raise DataError(f"There is no study at {path}.")
        return cls.from_bytes(Path(path).read_bytes(), str(path))

    @classmethod
    def from_bytes(cls, content: bytes, path: str = "The study") -> Study:
        """Read a study from the content of its file; `path` is its name in error messages."""
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
