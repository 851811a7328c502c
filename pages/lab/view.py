"""A page in one script run: its fit, the displayed trial, queries about the fit, and its picture."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Self, cast

import streamlit as st

from gdm_core.analysis.bouts import BoutRule
from gdm_core.analysis.inference import InferredStates, calibrate, filter_states
from gdm_core.analysis.matching import in_order
from gdm_core.arrays import Array
from gdm_core.text import format_percent
from gdm_core.trials import Trial
from gdm_core.units import SECONDS, Unit
from pages.lab import live
from pages.lab.dataset import Dataset
from pages.lab.decoded import Decoded, Undecoded, mark_differences
from pages.lab.live.queries import query_key
from pages.lab.live.state import PageSpec
from pages.lab.naming import StateNames
from pages.ui import shell
from pages.ui.controls import switch
from pages.ui.exports import slug
from pages.ui.model_controls import Choice
from pages.ui.plot import Panel
from pages.ui.shell import Frame

PAST_ONLY = "These states use past samples only."
NO_FILTERED = "States from past samples could not be computed"
LAST_FIT = "_last-fit"  # session key of the page title and model of the last finished fit


@dataclass(frozen=True, eq=False)
class View:
    """A page in one run of its script.

    spec        the fit that the controls describe
    fit, state  the visitor's fit and its state
    precise     float states of all trials for files, in place of 8-bit ones
    index       number of the displayed trial, training trials first
    naming      names, mergers and colours of states, chosen by the user
    rule        how states become bouts
    filtered    states from past data only, if the picture shows them
    """

    frame: Frame
    spec: PageSpec
    fit: live.FitSession
    state: live.FitState
    precise: InferredStates | None = None
    index: int = 0
    naming: StateNames | None = None
    rule: BoutRule = field(default_factory=BoutRule)
    filtered: live.Query | None = None

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
    def known_scores(self) -> Mapping[str, Any]:
        """Scores of a precomputed result ("scores", and "seeds" of more fits), {} unless the page measures the same."""
        result, spec = self.state.result, self.spec
        if result is None or self.made_for != spec.number or not result.has_states(spec.test):
            return {}
        return result.scores if tuple(result.scores.get("options", ())) == spec.measure.options else {}

    def select_trial(self, index: int) -> Self:
        """Return the view of another trial."""
        return replace(self, index=min(max(index, 0), len(self.dataset.trials) - 1))

    # ---- states -------------------------------------------------------------------------------------------------
    def read(self, now: live.FitState | None = None) -> Decoded | Undecoded:
        """Return the displayed trial with its states in the picture `now`, or with those of an earlier picture.

        Training trials have states from the first snapshot on, which is thinned; held-out trials at the end of the fit.
        """
        now = now or self.state
        seen: dict[str, Any] = {"trial": self.trial, "unit": self.unit, "words": self.dataset.words}
        found, filtered = self._find_states(now), self.filtered
        if found is not None:
            named = self.name_states(now, self.index, found)
            if filtered is not None and filtered.fresh and now.result is self.state.result:
                past, key, smoothed = filtered.value, ("filtered", self.index), named["states"]
                soft = now.memoize(key, lambda: in_order((past,), now.order)[0], inputs=(past,))
                named = self.name_states(now, key, soft)
                seen |= _compare_filtered(now, self.index, named["states"], smoothed, self.rule)
            return Decoded(state=now.status, origin=now.origin, **named, **seen)
        title, note = self._explain_missing(now)
        earlier = self.fit.last
        states = None if earlier is None else self._find_states(earlier)
        if earlier is not None and states is not None:
            note = f"Showing the previous fit. {note}" if self.is_new else ""
            named = self.name_states(now, self.index, states)
            return Decoded(state="stale", origin=earlier.origin, note=note, **named, **seen)
        return Undecoded(state=now.status, title=title, note=note, **seen)

    def read_samples(self, now: live.FitState | None = None) -> Decoded | Undecoded:
        """Return `read` with the states of every sample of the recording, also where windows are fitted."""
        here, trial = self.read(now), self.dataset.recording(self.index)
        if trial is here.trial or isinstance(here, Undecoded):
            return replace(here, trial=trial)
        now, key = now or self.state, ("samples", self.index)
        soft = now.memoize(key, lambda: self.dataset.to_samples(self.index, here.soft), inputs=(here.soft,))
        return replace(here, trial=trial, differs=None, **self.name_states(now, key, soft, trial))

    def name_states(self, now: live.FitState, key: Hashable, soft: Array, trial: Trial | None = None) -> dict[str, Any]:
        """Return the fields of a `Decoded` that follow from states as fitted [T, K]."""
        naming, rule, trial = self.naming_for(soft.shape[1]), self.rule, trial or self.trial
        states = now.memoize(("named", key), lambda: naming.apply(soft), inputs=(soft,), settings=naming)
        cut = partial(rule.labels, states, trial.rate_hz)
        bouts = now.memoize(("bouts", key), cut, inputs=(states, trial), settings=rule)
        return {"states": states, "bouts": bouts, "naming": naming, "soft": soft}

    def naming_for(self, n_states: int) -> StateNames:
        """Return the user's names, or plain ones for another number of states."""
        given = self.naming is not None and len(self.naming.into) == n_states
        return self.naming if given and self.naming is not None else StateNames.plain(n_states)

    @property
    def is_new(self) -> bool:
        return self.index >= len(self.dataset.train)

    def _find_states(self, now: live.FitState) -> Array | None:
        """Return the states [T, K] of the trial; None if there are none."""
        spec = now.spec
        if spec is None or not now.states or spec.trials.fingerprint != self.dataset.train.fingerprint:
            return None
        index, known = self.index, now.find_states(self.dataset.test)
        precise = self.precise if now is self.state else None
        find: Callable[[int], Array]
        if precise is not None:
            find = (*precise.train, *precise.test).__getitem__
        elif known is not None and not known.error:
            find = known.soft
        else:
            return now.states[index] if index < len(now.states) and not self.is_new else None
        key, inputs = ("states", index, precise is None), (precise or known,)
        return cast(Array, now.memoize(key, lambda: in_order((find(index),), now.order)[0], inputs=inputs))

    def _explain_missing(self, now: live.FitState) -> tuple[str, str]:
        """Return why there are no states: a title, and what brings them."""
        if not self.is_new:
            if now.message or now.cancelled:
                return "No fit yet", "Change a setting or try again to start one."
            return "Fitting for the first time", "Workers start with the server; this takes a few seconds."
        name = f"the {self.dataset.tested}"
        if now.fitting or now.result is None:
            return "No states yet", f"States of {name} are computed when fitting finishes."
        if self.fit.completing:
            return "Computing states", f"The fit is applied to {name}."
        known = now.find_states(self.dataset.test)
        return "No states", f"States of {name} could not be computed. {'' if known is None else known.error}".strip()

    # ---- queries ----------------------------------------------------------------------------------------------
    def query(
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        about: Any = None,
        kept: bool = False,
        wait_s: float = 0.0,
        calibrated: bool = False,
        known: Any = None,
    ) -> live.Query:
        """Return `function(model_bytes, *args)` of the displayed fit, computed on a worker.

        name        an earlier result of this name stands in meanwhile
        about       stored with the result; default: (displayed trial, order of colours)
        kept        whether the result, which must be JSON, is stored on disk with the fit
        wait_s      seconds that the page may wait
        calibrated  whether the function needs calibrated intervals, and waits for them
        known       the result, if it came with the application
        """
        state = self.state
        about = (self.trial, state.order) if about is None else about
        if state.result is None:
            return self.fit.queries.latest(name)
        key, model = query_key(state.result.key, function, args), state.result.model_bytes
        if calibrated:
            if not (ready := self.query_calibrated(wait_s)).fresh:
                earlier = self.fit.queries.latest(name)
                return replace(earlier, name=ready.name, pending=ready.pending, message=ready.message)
            model = ready.value
        if known is not None:
            self.fit.queries.put(name, key, known, about)
        kept = kept and self.dataset.keep
        return self.fit.query(name, key, function, model, *args, about=about, kept=kept, wait_s=wait_s)

    def query_calibrated(self, wait_s: float = 0.0) -> live.Query:
        """Return the displayed model with calibrated prediction intervals, as bytes."""
        result, spec = self.state.result, self.state.spec or self.spec
        if result is not None and result.is_precomputed:  # it was calibrated when it was made
            return live.Query(result.model_bytes, fresh=True)
        return self.query("calibrated", calibrate, spec.trials, wait_s=wait_s)


def _compare_filtered(now: live.FitState, index: int, mine: Array, smoothed: Array, rule: BoutRule) -> dict[str, Any]:
    """Return the fields of a `Decoded` that say where filtered states differ from smoothed ones."""
    compare = partial(mark_differences, mine, smoothed)
    differs, share = now.memoize(("differs", index), compare, inputs=(mine, smoothed))
    note = PAST_ONLY if rule.plain else f"{PAST_ONLY} Smoothing bouts still looks ahead."
    note += f" The strongest state differs from the smoothed one at {format_percent(share)} of samples."
    return {"differs": differs, "note": note}


# ---- the script of a page -------------------------------------------------------------------------------------
def begin(frame: Frame, dataset: Dataset, choice: Choice) -> View:
    """Request the fit that the controls describe, show it in the header, and return the page's view."""
    spec = PageSpec.from_choice(dataset, choice)
    fit = live.open_fit(frame.folder, spec)
    frame.header(dataset.about, [("model", choice.label), *choice.facts], wanted=spec.number)
    return View(frame, spec, fit, fit.poll())


def choose_filtered(view: View) -> View:
    """Show a switch to filtered states; return the view for the picture. Tabs, scores and files stay smoothed."""
    on = switch(
        "Use past samples only",
        False,
        key="then",
        help="As in a running experiment: states switch later and waver more. Tabs, scores and files stay smoothed.",
    )
    if not on:
        return view
    query = view.query(f"then-{view.index}", filter_states, view.trial)
    if not live.show_failure(view.fit, query, NO_FILTERED) and not query.fresh:
        shell.quiet("Computing states from past samples; the picture shows smoothed ones meanwhile.")
    return replace(view, filtered=query)


def picture(
    view: View, make: Callable[[live.FitState], Mapping[str, Panel]], places: Mapping[str, Any] | None = None
) -> None:
    """Draw the page's picture, which follows a running fit, below any errors."""
    with view.frame.picture:
        live.show_problem(view.fit, view.state, view.page)
        live.draw_panels(view.fit, make, places)


def end(view: View) -> None:
    """Keep the order of colours in the address and draw the footer. Call at the end of a page's script."""
    live.keep_colours(view.state)
    if view.settled:
        st.session_state[LAST_FIT] = view.frame.title, view.choice
    shell.footer(list(view.dataset.licences))
    live.rerun_when_answered(view.fit)
