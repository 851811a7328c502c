"""What the browser draws pictures from while the thumb of a slider is held: states at some values of its setting.

A server's own picture of a held slider takes it 57 ms of processor time and more, and the browser as much to take it in;
from these states the browser draws without asking. Between two values it goes in straight lines, which is near the server's
picture on average (OFF), while a single moment may be another where the fit hardly knows. For K they are those of the fits
that are there, and of the first steps of one where none is. Let go, the picture is the server's again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import streamlit as st

from gdm_core.analysis import looks
from gdm_core.analysis.matching import in_order
from gdm_core.engine import FitResult
from gdm_core.models.registry import ADJUSTABLE, WARM_CHANGES
from gdm_studio.plot import palette
from gdm_studio.plot.figures.base import typed
from pages.channel import Tables, channel
from pages.lab import replay, state_tables
from pages.lab.live import Answer, Wanted
from pages.lab.live.pictures import unpack
from pages.lab.state_tables import HardStates as HardStates
from pages.lab.state_tables import Parts, States
from pages.lab.view import View, question_key
from pages.ui import settings
from pages.ui.component import component
from pages.ui.model_controls import GAMMA_RANGE, K_RANGE, TAU_RANGE
from pages.ui.plot import BADGES

Array = npt.NDArray[np.float32]
VALUES = {
    "temperature": ("tau", np.geomspace(*TAU_RANGE, 32).round(4).tolist()),
    "stickiness": ("gamma", np.linspace(*GAMMA_RANGE, 24).round(4).tolist()),
}
# What a picture half-way between two values may be off on a simulated track, as a share on average over its moments.
# Another stickiness is read from the first steps of a fit, which jump at some values; at most it is as near as softness.
OFF = {"temperature": 0.005, "stickiness": 0.02}
SETTINGS = {key: setting for setting, (key, _) in VALUES.items()}
FINE = 6_000  # samples; where more are read, every second value has to do
MOST_SAMPLES = 60_000  # that are read for each value: a tenth of a second for 20,000
SOON_S = 0.5  # a fit that takes less is waited for; of others, the first steps are looked at before
ENOUGH = 6_000  # samples of fitted trials, of which the states of another K are read to find their colours
MOST_PREFETCHED = 16_000  # the same of data whose fits of other K are begun before they are asked for
BESIDE = 4  # other numbers of states that are worked out when a hand comes near; once it holds the thumb, all of them


@dataclass(frozen=True, eq=False)
class Followed:
    """What the pictures of a page show of a fit.

    trials    whose states: their numbers in `view.data.trials`
    parts     what is drawn of these states [T, K], in the order of colours: by name, soft states or labels. For another K it
              also gets those of the first fitted trials, and None otherwise
    figures   key of each figure: how it is drawn, of which part; see below
    settings  plain values that `parts` depends on besides
    other_k   whether `parts` can say what another number of states would look like
    replayed  figures of the training replay, if not all: held-out trials have no states before the end; {} for none
    """

    trials: tuple[int, ...]
    parts: Callable[[States, States | None], Parts]
    figures: Mapping[str, Mapping[str, Any]]
    settings: tuple[Any, ...] = ()
    other_k: bool = True
    replayed: Mapping[str, Mapping[str, Any]] | None = None


# ---- how a figure is drawn over (components/states_canvas.js) ------------------------------------------------------------
PREVIEW = {"badge": BADGES["preview"]}  # said of a whole figure


def track(part: str) -> dict[str, Any]:
    """A figure of figures.track."""
    return {"kind": "track", "part": part} | PREVIEW


def strips(
    rows: Mapping[str, str], step: float, *, waiting: Sequence[str] = (), opacity: float | None = None
) -> dict[str, Any]:
    """A figure of figures.state_strips.

    rows     the part that each row shows
    step     from one sample to the next, in the figure's units
    waiting  rows that follow from the states, and only once the slider is let go: they fade
    opacity  of these rows, in a figure whose others are not in question
    """
    found = {"kind": "strips", "rows": dict(rows), "step": step, "waiting": list(waiting)}
    return found | (PREVIEW if opacity is None else {"opacity": opacity})


def areas(part: str) -> dict[str, Any]:
    """A figure of figures.proportions, with all states; what is written on the areas fades."""
    return {"kind": "areas", "part": part, "fades": ["area"]} | PREVIEW


def places(
    part: str, where: Array, *, line: float = 0.0, dot: float = 0.0, fades: Sequence[str] = ()
) -> dict[str, Any]:
    """Samples at places [S, 2] above the first trace of a figure: dots `dot` wide, or a line; annotations of some names fade."""
    x, y = np.asarray(where, np.float32).T
    return {
        "kind": "places",
        "part": part,
        "x": typed(x),
        "y": typed(y),
        "line": line,
        "dot": dot,
        "fades": [*fades],
    } | PREVIEW


def player(states: str, bouts: str) -> dict[str, Any]:
    return {"kind": "player", "part": states, "bouts": bouts}


# ---- what the browser is given ------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class HeldTables:
    """The tables that were made last: they stay as long as what they are made of does.

    name     what they depend on: the fit, the setting, the trials, the colours
    tables   by name
    follows  the states whose colours those of K follow
    """

    name: str = ""
    tables: Mapping[str, dict[str, Any]] = field(default_factory=dict)
    follows: Any = None


def follow(view: View, followed: Followed) -> None:
    """Let the browser draw while softness, stickiness or K is held.

    The browser says over the live channel that somebody comes near: the states are worked out from then on, and no script runs.
    """
    states = settings.key("K", view.choice.of)
    fitting = view.fit.running
    offers: dict[str, str] = {}
    if fitting:  # it goes on, and nothing is worked out beside it: a hand that moves on sees what it waits for
        view.fit.held_answers.give_up_all()
        offers = dict.fromkeys((*SETTINGS, states, replay.KEY), "")
    elif view.then is None:  # tables hold what the whole recording says
        known = {key: asked for key in SETTINGS if (asked := _sweeps(view, followed, SETTINGS[key]))}
        offers = {key: asked[0].name for key, asked in known.items()}
        beside = _Beside(view, followed)
        if beside.wanted:
            offers[states] = beside.wanted[0].key
        if recorded := replay.name(view, followed):
            offers[replay.KEY] = recorded

    def tables(key: str, held: bool, value: float) -> Tables:
        if not offers.get(key):  # anybody may send anything
            return Tables()
        if key == replay.KEY:
            return replay.make_tables(view, followed, _how(followed))
        if key != states:
            return _sweep(view, followed, known[key])
        return _fits(view, followed, value if held else None)

    channel().scene.tables = tables
    with st.container(key="held-states"):
        component("held")(key="held", data={"offers": offers})


def _how(followed: Followed) -> dict[str, Any]:
    """What is drawn of the tables, and in which colours."""
    return {
        "figures": dict(followed.figures),
        "mixing": palette.mixing_constants(palette.MAX_STATES),
        "colours": palette.colours(palette.MAX_STATES),
    }


# ---- one question to a worker -------------------------------------------------------------------------------------------
class _Sweep:
    """Asks a worker for the states of some trials at some values of a setting; `name` is that of what it answers."""

    def __init__(
        self, view: View, under: str, fitted: FitResult, which: Sequence[int], setting: str, values: Sequence[float]
    ) -> None:
        asked = (view.data.train, view.data.test, tuple(which), setting, list(values))
        self.name, self.values = question_key(fitted.key, looks.sweep, asked), values
        self._answers, self._under, self._asked = view.fit.held_answers, under, (fitted.model_bytes, *asked)

    def answer(self) -> Answer:
        found = self._answers.ask(self._under, self.name, looks.sweep, *self._asked)
        if found.fresh:
            self._answers.keep_latest(self._under)
        return found


def _way(family: str, setting: str) -> str:
    """How a fit of this family is looked at with another value: "read" as it is, "begun" anew, or not at all ("")."""
    return (
        "read" if setting in ADJUSTABLE.get(family, ()) else "begun" if setting in WARM_CHANGES.get(family, ()) else ""
    )


def _samples(view: View, followed: Followed, how: str) -> int:
    """How many are read for each value; 0 where a page has nothing to draw."""
    read = {*followed.trials, *(range(len(view.data.train)) if how == "begun" and followed.trials else ())}
    return sum(view.data.trials[i].n_samples for i in read)


# ---- softness and stickiness --------------------------------------------------------------------------------------------
def _sweeps(view: View, followed: Followed, setting: str) -> list[_Sweep]:
    """One question, or two for what takes long: some values come first. None where the browser cannot draw by itself."""
    fitted, how = view.fit.beside(setting), _way(view.choice.family, setting)
    samples = _samples(view, followed, how)
    if fitted is None or not how or not 0 < samples <= MOST_SAMPLES or len(view.shown.order) < 2:
        return []
    values = VALUES[setting][1]
    if samples > FINE:
        values = [*values[:-1:2], values[-1]]
        rounds = [[*values[:-1:4], values[-1]], [value for i, value in enumerate(values[:-1]) if i % 4]]
    else:
        rounds = [values]
    return [
        _Sweep(view, f"sweep-{setting}-{i}", fitted, followed.trials, setting, part) for i, part in enumerate(rounds)
    ]


def _sweep(view: View, followed: Followed, asked: Sequence[_Sweep]) -> Tables:
    fit, order = view.fit, view.shown.order
    answers = [one.answer() for one in asked]
    fresh = [(one, answer.value) for one, answer in zip(asked, answers, strict=True) if answer.fresh]
    more = any(answer.pending for answer in answers)
    found = {value: soft for one, every in fresh for value, soft in zip(one.values, every, strict=True)}
    if not found or next(iter(found.values()))[0].shape[1] != len(order):
        return Tables(more=more)
    name = state_tables.digest([one.name for one, _ in fresh], order, followed.settings)
    kept = fit.records.last(HeldTables)
    if kept is None or kept.name != name:
        values = sorted(found)
        parts = [followed.parts(in_order(tuple(map(_share, found[value])), order), None) for value in values]
        kept = fit.records.keep(HeldTables(name, {name: state_tables.encode(values, parts)}))
    return Tables(name, kept.tables, _how(followed), more)


def _share(levels: npt.NDArray[np.uint8]) -> Array:
    return (levels / np.float32(255)).astype(np.float32)


# ---- the number of states -----------------------------------------------------------------------------------------------
class _Beside:
    """Fits of other numbers of states, or what the first steps of one from the fit that stands look like."""

    def __init__(self, view: View, followed: Followed, thumb: float | None = None) -> None:
        self._view, self._followed = view, followed
        self._stands = view.fit.beside("n_states")
        self._readable = bool(_way(view.choice.family, "n_states"))
        self.waits = False
        data, choice, (low, high) = view.data, view.choice, K_RANGE
        here = choice.n_states if thumb is None else thumb
        numbers = sorted(range(low, high + 1), key=lambda k: (abs(k - here), k))
        drawn = self._stands is not None and followed.other_k and 0 < _samples(view, followed, "begun") <= MOST_SAMPLES
        # Nearest first: the one that stands, or that the thumb is at, is the first of them.
        self.wanted = [view.setting.wanted(n_states=k) for k in numbers if drawn and (self._readable or self._few(k))]
        lengths = np.cumsum([trial.n_samples for trial in data.train])
        self._first = min(len(lengths), 1 + int(np.searchsorted(lengths, ENOUGH)))  # so many fitted trials are enough
        self._soon = bool(self.wanted) and view.fit.history.quickest(self.wanted[0]) <= SOON_S

    def _few(self, n_states: int) -> bool:
        return max(trial.n_samples for trial in self._view.data.trials) * n_states <= MOST_PREFETCHED

    def work(self, most: int) -> bool:
        """Have the nearest `most` worked out, and begin to fit them where that is quick; whether more is to come."""
        near = self.wanted[: 1 + most]
        for one in near:
            self._states(one)
        # What is seen now comes before what may be asked for later.
        if self.waits:
            return True
        return self._view.fit.look_ahead([one for one in near if self._few(one.config["n_states"])])

    def _states(self, wanted: Wanted) -> tuple[str, Mapping[int, Array]] | None:
        """(what they are of, states [T, K] of the trials that are there, in the model's order)."""
        view, n_states = self._view, int(wanted.config["n_states"])
        result = view.fit.prefetch.known(wanted)
        known: dict[int, Array] = {}
        if result is not None and result.snapshot is not None:
            known = dict(enumerate(unpack(result.snapshot, wanted.train)))
        stands = view.shown.result
        if view.look is not None and stands is not None and wanted.key == stands.key:
            known |= dict(enumerate((*view.look.train, *view.look.test)))
        missing = sorted({*range(self._first), *self._followed.trials} - set(known))
        if not missing:
            return wanted.key, known
        begun = self._readable and not (self._soon and self._few(n_states))
        model = result or (self._stands if begun else None)
        if model is None:
            return None
        asked = _Sweep(view, f"beside-{n_states}", model, missing, "n_states", [n_states])
        answer = asked.answer()
        self.waits |= answer.pending
        if not answer.fresh:
            return None
        return asked.name, known | dict(zip(missing, map(_share, answer.value[0]), strict=True))

    def tables(self, name: str, most: int) -> dict[str, dict[str, Any]]:
        """Those of the nearest `most`, by what each is made of."""
        fit, followed = self._view.fit, self._followed
        follows = fit.colours_follow
        kept = fit.records.last(HeldTables)
        before = kept.tables if kept is not None and kept.name == name and kept.follows is follows else {}
        found = {}
        for wanted in self.wanted[: 1 + most]:
            n_states = int(wanted.config["n_states"])
            if (soft := self._states(wanted)) is None:
                continue
            source = f"{n_states}/{soft[0]}"
            if source in before:
                found[source] = before[source]
                continue
            fitted = tuple(soft[1][i] for i in range(self._first))
            order = fit.order_of(wanted, fitted)
            shown = in_order(tuple(soft[1][i] for i in followed.trials), order)
            found[source] = state_tables.encode([n_states], [followed.parts(shown, in_order(fitted, order))])
        fit.records.keep(HeldTables(name, found, follows))
        return found


def _fits(view: View, followed: Followed, thumb: float | None) -> Tables:
    """What the browser draws from while K is held (where its thumb is), or a hand is near (None): more of it each time."""
    beside = _Beside(view, followed, thumb)
    if not beside.wanted:
        return Tables()
    most = BESIDE if thumb is None else len(beside.wanted)
    more = beside.work(most)
    stands = view.shown.result
    name = state_tables.digest(
        "K", stands.key if stands is not None else "", view.shown.order, followed.trials, followed.settings
    )
    return Tables(name, beside.tables(name, most), _how(followed), more)
