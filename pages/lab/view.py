"""A page in one script run: its fit, the displayed trial, queries about the fit, and its picture."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt
import streamlit as st

from gdm_core.analysis.bouts import BoutRule, median_bout
from gdm_core.analysis.inference import InferredStates, filter_states
from gdm_core.analysis.matching import Order, in_order
from gdm_core.text import format_percent
from gdm_core.trials import Trial
from gdm_core.units import SECONDS, STEPS, Unit, dwell_unit
from gdm_studio.plot import palette
from pages.lab import live, shipped
from pages.lab.dataset import Dataset
from pages.lab.live.queries import query_key
from pages.lab.live.session import PageSpec
from pages.lab.naming import LabelNames, Reference, StateNames
from pages.lab.shipped import Shipped
from pages.ui import shell
from pages.ui.controls import switch
from pages.ui.exports import slug
from pages.ui.model_controls import Choice
from pages.ui.plot import Panel, State
from pages.ui.shell import Frame

Array = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]
CAUSAL = "Causal (filtered) states: each uses past samples only."
LAST_LOOK = "last look"
NO_FILTERED = "Causal states could not be computed"
NO_STATES = "Exact states could not be computed"
LAST_FIT = "_last-fit"  # session key of the page title and model of the last finished fit


@dataclass(frozen=True, eq=False, kw_only=True)
class TrialView:
    """One trial in a picture, with or without states.

    state   status of the picture, for `plot(state=)`
    unit    unit of time
    words   names of the expert's labels, if there are any
    """

    trial: Trial
    state: State
    note: str = ""
    unit: Unit = SECONDS
    words: LabelNames | None = None

    @property
    def counted(self) -> Literal["s", "step"]:
        """Unit of time in exported tables."""
        return "step" if self.unit is STEPS else "s"

    @property
    def _sample(self) -> float:
        """Length of a sample, in seconds or steps."""
        return 1.0 / self.trial.rate_hz

    @property
    def timing(self) -> dict[str, Any]:
        """Start, step and unit of the time axis, as figures take them."""
        unit = self.unit
        return {"start": unit.convert(self.trial.start_seconds), "step": unit.convert(self._sample), "unit": unit.name}

    def dwell_unit(self, labels: Ints) -> Unit:
        """Return the unit of dwell times, which may be short in a long trial."""
        return dwell_unit(median_bout([labels]) * self._sample, self.unit)

    def lengths(self, labels: Ints) -> dict[str, Any]:
        """Return step and unit for dwell times."""
        unit = self.dwell_unit(labels)
        return {"step": unit.convert(self._sample), "unit": unit.plural}

    @property
    def expert(self) -> Ints | None:
        """Labels of the expert, None without any."""
        labels = self.trial.labels
        if self.words is None or labels is None or not (np.asarray(labels) >= 0).any():
            return None
        return np.asarray(labels, np.int64)

    @property
    def reference(self) -> Reference | None:
        """Reference: the expert's labels, or the true states of a simulation."""
        if (expert := self.expert) is not None and self.words is not None:
            return self.words.make_reference(expert)
        return None if self.trial.states is None else Reference.from_truth(self.trial.states)


@dataclass(frozen=True, eq=False, kw_only=True)
class Undecoded(TrialView):
    """A trial without states; `title` and `note` explain why."""

    title: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Decoded(TrialView):
    """A trial with its states: named, merged and cut into bouts.

    states   [T, columns] in the order of colours
    bouts    [T] column of each sample's bout; the most probable state, unless a rule of bouts applies
    origin   identity of the fit; a figure must not mix states of several origins
    soft     [T, K] the states as fitted, neither named nor merged
    differs  [T, columns] the strongest state where it differs from the smoothed one, NaN elsewhere; for filtered states
    """

    states: Array
    bouts: Ints
    origin: object
    naming: StateNames
    soft: Array
    differs: Array | None = None

    @property
    def names(self) -> tuple[str, ...]:
        return self.naming.names

    @property
    def used(self) -> list[int]:
        """Columns with a state."""
        return self.naming.used

    @property
    def looks(self) -> dict[str, Any]:
        """Names and colours of the columns with a state."""
        colours = palette.colours(len(self.names))
        return {"names": [self.names[k] for k in self.used], "colours": [colours[k] for k in self.used]}

    @property
    def shares(self) -> Array:
        """[T, states] in the columns with a state."""
        return self.states[:, self.used]


def mark_differences(states: Array, others: Array) -> tuple[Array, float]:
    """Return the strongest state [T, K] where it differs from that of `others`, NaN elsewhere, and the share of such samples."""
    known = np.isfinite(states).all(axis=1) & np.isfinite(others).all(axis=1)
    mine, other = np.nan_to_num(states).argmax(axis=1), np.nan_to_num(others).argmax(axis=1)
    changed = known & (mine != other)
    found = np.full(states.shape, np.nan, np.float32)
    found[changed] = np.eye(states.shape[1], dtype=np.float32)[mine[changed]]
    return found, float(changed.sum() / max(1, known.sum()))


D = TypeVar("D", bound=Decoded)


def together(trials: Iterable[D | Undecoded]) -> list[D]:
    """Return the decoded trials of the same fit as the first."""
    decoded = [trial for trial in trials if not isinstance(trial, Undecoded)]
    return [trial for trial in decoded if trial.origin is decoded[0].origin]


@dataclass(frozen=True, eq=False)
class LastLook:
    """The last exact states of all trials, displayed until a newer fit has some.

    content   fingerprints of the training and held-out trials
    """

    content: tuple[str, str]
    look: InferredStates
    order: Order
    origin: object

    def states(self, index: int) -> Array:
        """Return states [T, K] of one trial in the order of colours, training trials first."""
        return in_order(((*self.look.train, *self.look.test)[index],), self.order)[0]


@dataclass(frozen=True, eq=False)
class View:
    """A page in one run of its script.

    spec        the fit that the controls describe
    fit, state  the visitor's fit and its state
    look_query  states of all trials
    number      name of the settings in `spec`
    shipped     the precomputed result, if displayed
    came        whether the model is a precomputed one, whatever it is applied to
    index       number of the displayed trial, training trials first
    naming      names, mergers and colours of states, chosen by the user
    rule        how states become bouts
    filtered    states from past data only, if the picture shows them
    """

    frame: Frame
    spec: PageSpec
    fit: live.FitSession
    state: live.FitState
    look_query: live.Query = field(default_factory=live.Query)
    number: str = ""
    shipped: Shipped | None = None
    came: bool = False
    index: int = 0
    naming: StateNames | None = None
    rule: BoutRule = field(default_factory=BoutRule)
    filtered: live.Query | None = None

    @property
    def look(self) -> InferredStates | None:
        """States of all trials, once known."""
        found: InferredStates | None = self.look_query.value
        return found

    @property
    def page(self) -> str:
        return self.frame.folder

    @property
    def dataset(self) -> Dataset:
        return self.spec.dataset

    @property
    def choice(self) -> Choice:
        return self.spec.choice

    @property
    def n_states(self) -> int:
        """Number of states of the displayed fit, or else of the requested one."""
        return (self.state.spec or self.spec).n_states

    @property
    def trial(self) -> Trial:
        return self.dataset.trials[self.index]

    @property
    def stem(self) -> str:
        """Start of file names: the page, and the recording if it is the user's own."""
        return "-".join([self.page, *([slug(self.dataset.name)] if self.dataset.name else [])])

    @property
    def unit(self) -> Unit:
        """Unit of time on the page: seconds next to a player."""
        return self.dataset.time_unit if self.dataset.pose(self.index) is None else SECONDS

    @property
    def timing(self) -> dict[str, Any]:
        """Start, step and unit of the time axis, as figures take them."""
        start = self.unit.convert(self.trial.start_seconds)
        return {"start": start, "step": self.unit.convert(self.dataset.step(self.trial)), "unit": self.unit.name}

    @property
    def settled(self) -> bool:
        """Return whether the page shows the result of its settings and no fit runs."""
        state = self.state
        return state.result is not None and state.status == "fresh" and not state.fitting

    @property
    def made_for(self) -> str:
        """Number of the settings behind the picture; "" if it is not final.

        Text in `shell.made_for(view.made_for)` fades when the controls describe another fit.
        """
        spec = self.state.spec
        return "" if spec is None or self.state.status != "fresh" else spec.number

    @property
    def current(self) -> bool:
        """Return whether the picture shows the current settings."""
        return self.made_for == self.number

    @property
    def shipped_scores(self) -> Mapping[str, Any] | None:
        """Scores of the precomputed result ("scores", and "seeds" of more fits), if the page measures the same."""
        if self.shipped is None or tuple(self.shipped.more.get("options", ())) != self.spec.measure.options:
            return None
        return self.shipped.more

    def select_trial(self, index: int) -> Self:
        """Return the view of another trial."""
        return replace(self, index=min(max(index, 0), len(self.dataset.trials) - 1))

    # ---- states -------------------------------------------------------------------------------------------------
    def read(self, now: live.FitState | None = None, *, exact: bool | None = None) -> Decoded | Undecoded:
        """Return the displayed trial with its states in the picture `now`, or with those of an earlier picture.

        Training trials have states from the first snapshot on, held-out trials at the end of the fit.

        exact   use exact states for training trials too, whose snapshots are thinned; default: for recordings
        """
        now, trial = now or self.state, self.trial
        seen: dict[str, Any] = {"trial": trial, "unit": self.unit, "words": self.dataset.words}
        filtered = self.filtered
        if filtered is not None and filtered.fresh and now.result is not None and now.result is self.state.result:
            past = filtered.value
            states = now.memoize(("filtered", self.index), lambda: in_order((past,), now.order)[0], of=(past,))
            named = self.name_states(now, ("filtered", self.index), states)
            note = CAUSAL if self.rule.plain else f"{CAUSAL} Smoothing bouts still looks ahead."
            smoothed = self._find_states(now, exact=True)
            if smoothed is not None:
                mine = named["states"]
                others = self.name_states(now, ("smoothed", self.index), smoothed)["states"]
                compare = partial(mark_differences, mine, others)
                seen["differs"], share = now.memoize(("differs", self.index), compare, of=(mine, others))
                note = (
                    f"{note} The strongest state differs from the smoothed one at {format_percent(share)} of samples."
                )
            return Decoded(state=now.status, origin=now.origin, note=note, **named, **seen)
        found = self._find_states(now, self.dataset.recorded if exact is None else exact)
        if found is not None:
            named = self.name_states(now, self.index, found)
            return Decoded(state=now.status, origin=now.origin, **named, **seen)
        title, note = self._explain_missing(now)
        earlier: LastLook | None = self.fit.memory.get(LAST_LOOK)
        if earlier is not None and earlier.content == self._content:
            states = now.memoize(("earlier", self.index), lambda: earlier.states(self.index), of=(earlier,))
            note = f"Showing the previous fit. {note}" if self.is_new else ""
            named = self.name_states(now, self.index, states)
            return Decoded(state="stale", origin=earlier.origin, note=note, **named, **seen)
        return Undecoded(state=now.status, title=title, note=note, **seen)

    def read_samples(self, now: live.FitState | None = None, *, exact: bool | None = None) -> Decoded | Undecoded:
        """Return `read` with the states of every sample of the recording, also where windows are fitted."""
        here, trial = self.read(now, exact=exact), self.dataset.recording(self.index)
        if trial is here.trial or isinstance(here, Undecoded):
            return replace(here, trial=trial)
        now, key = now or self.state, ("samples", self.index, exact)
        soft = now.memoize(key, lambda: self.dataset.to_samples(self.index, here.soft), of=(here.soft,))
        return replace(here, trial=trial, differs=None, **self.name_states(now, key, soft, trial))

    def name_states(self, now: live.FitState, key: Hashable, soft: Array, trial: Trial | None = None) -> dict[str, Any]:
        """Return the fields of a `Decoded` that follow from states as fitted [T, K]."""
        naming, rule, trial = self.naming_for(soft.shape[1]), self.rule, trial or self.trial
        states = now.memoize(("named", key), lambda: naming.apply(soft), of=(soft,), settings=naming)
        cut = partial(rule.labels, states, trial.rate_hz)
        bouts = now.memoize(("bouts", key), cut, of=(states, trial), settings=rule)
        return {"states": states, "bouts": bouts, "naming": naming, "soft": soft}

    def naming_for(self, n_states: int) -> StateNames:
        """Return the user's names, or plain ones for another number of states."""
        given = self.naming is not None and len(self.naming.into) == n_states
        return self.naming if given and self.naming is not None else StateNames.plain(n_states)

    @property
    def _content(self) -> tuple[str, str]:
        return self.dataset.train.fingerprint, self.dataset.test.fingerprint

    @property
    def is_new(self) -> bool:
        return self.index >= len(self.dataset.train)

    def ask_states(self, now: live.FitState) -> live.Query:
        """Return the states of all trials in the picture `now`, also while no script runs."""
        spec = now.spec
        if now.result is None or spec is None or spec.dataset.test.fingerprint != self.dataset.test.fingerprint:
            return live.Query()
        known = self.look_query.fresh and now.result is self.state.result
        return self.look_query if known else live.query_states(self.fit, now)

    def _find_states(self, now: live.FitState, exact: bool) -> Array | None:
        """Return the states [T, K] of the trial; None if there are none."""
        spec = now.spec
        if spec is None or not now.states or spec.trials.fingerprint != self.dataset.train.fingerprint:
            return None
        look = self.ask_states(now).value if self.is_new or exact else None
        if look is not None:
            last = self.fit.memory[LAST_LOOK] = LastLook(self._content, look, now.order, now.origin)
            found: Array = now.memoize(("look", self.index), lambda: last.states(self.index), of=(look,))
            return found
        return now.states[self.index] if self.index < len(now.states) and not self.is_new else None

    def _explain_missing(self, now: live.FitState) -> tuple[str, str]:
        """Return why there are no states: a title, and what brings them."""
        if not self.is_new:
            if now.message:
                return "No fit yet", "Change a setting or try again to start one."
            if now.cancelled:
                return "No fit yet", "The fit was cancelled. Change a setting to start one."
            return "Fitting for the first time", "Workers start with the server; this takes a few seconds."
        name = f"the {self.dataset.tested}"
        if now.fitting or now.result is None:
            return "No states yet", f"States of {name} are computed when fitting finishes."
        if self.ask_states(now).pending:
            return "Computing states", f"The fit is applied to {name}."
        return "No states", f"States of {name} could not be computed. Try again."

    # ---- queries ----------------------------------------------------------------------------------------------
    def query(
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        about: Any = None,
        kept: bool = False,
        wait_s: float = 0.0,
    ) -> live.Query:
        """Return `function(model_bytes, *args)` of the displayed fit, computed on a worker.

        name    an earlier result of this name stands in meanwhile
        about   stored with the result; default: (displayed trial, order of colours)
        kept    whether the result, which must be JSON, is stored on disk with the fit
        wait_s  seconds that the page may wait
        """
        state = self.state
        about = (self.trial, state.order) if about is None else about
        if state.result is None:
            return self.fit.queries.latest(name)
        key, model = query_key(state.result.key, function, args), state.result.model_bytes
        kept = kept and self.dataset.keep
        return self.fit.query(name, key, function, model, *args, about=about, kept=kept, wait_s=wait_s)

    @property
    def for_files(self) -> Self:
        """Return the view with the exact states that exported files contain, once known."""
        return replace(self, look_query=self.exact) if self.exact.fresh else self

    @cached_property
    def exact(self) -> live.Query:
        """Exact states for files: a precomputed result has 8-bit states."""
        return live.query_states(self.fit, self.state, exact=True)


# ---- the script of a page -------------------------------------------------------------------------------------
def begin(frame: Frame, dataset: Dataset, choice: Choice, *, ships: Sequence[str] = ()) -> View:
    """Request the fit that the controls describe, show it in the header, and return the page's view.

    ships  names of precomputed results that may match
    """
    spec = PageSpec.from_choice(dataset, choice)
    cache = live.panels.engine().cache
    ready = next((found for name in ships if (found := shipped.offer(name, spec, cache)) is not None), None)
    fit = live.open_fit(frame.folder, spec)
    state = fit.poll()
    came = any((found := shipped.load(name)) is not None and found.includes(state.result) for name in ships)
    if ready is not None and not ready.matches(state.result):
        ready = None
    if ready is not None:
        for known in shipped.list_fits(ready, spec):
            fit.keep(*known)
    query = live.query_states(fit, state)
    view = View(frame, spec, fit, state, query, spec.number, shipped=ready, came=came)
    facts = [("model", choice.label), *choice.facts]
    frame.header(dataset.about, facts, wanted=spec.number, waits=_describe_wait(view))
    return view


def _describe_wait(view: View) -> str:
    """Return what the picture waits for; "" if it is current."""
    if view.current:
        return ""
    if not view.fit.running:
        return "Not fitted yet"
    before = view.state.spec if view.state.states else None
    same_data = before is not None and before.trials.fingerprint == view.dataset.train.fingerprint
    return f"Fitting {view.spec.describe_changes(before)}".strip() if before is not None and same_data else "Fitting"


def choose_filtered(view: View) -> View:
    """Show a switch to filtered states; return the view for the picture. Tabs, scores and files stay smoothed."""
    on = switch(
        "Causal (filtered) states",
        False,
        key="then",
        help="Uses past samples only, as in a running experiment; states switch later and waver more. Tabs, scores and files "
        "stay smoothed.",
    )
    if not on:
        return view
    query = view.query(f"then-{view.index}", filter_states, view.trial)
    if not live.show_failure(view.fit, query, NO_FILTERED) and not query.fresh:
        shell.quiet("Computing causal states; the picture shows smoothed ones meanwhile.")
    return replace(view, filtered=query)


def picture(
    view: View, make: Callable[[live.FitState], Mapping[str, Panel]], places: Mapping[str, Any] | None = None
) -> None:
    """Draw the page's picture, which follows a running fit, below any errors."""
    with view.frame.picture:
        live.show_problem(view.fit, view.state, view.page)
        live.show_failure(view.fit, view.look_query, NO_STATES)
        live.draw_panels(view.fit, make, places)


def end(view: View) -> None:
    """Keep the order of colours in the address and draw the footer. Call at the end of a page's script."""
    live.keep_colours(view.state)
    if view.settled:
        st.session_state[LAST_FIT] = view.frame.title, view.choice
    shell.footer(list(view.dataset.licences))
    live.rerun_when_answered(view.fit)
