"""What stands on the page: which fit, its states on which trial, and what else is asked about it."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt

from gdm_core.analysis.bouts import BoutRule, median_bout
from gdm_core.analysis.looks import Look
from gdm_core.analysis.matching import Order
from gdm_core.trials import Trial, Trials
from gdm_core.units import SECONDS, STEPS, Unit, unit_of_stays
from gdm_studio.plot import palette
from pages.lab import live
from pages.lab.data import Data, Setting
from pages.lab.live.pictures import Origin, State
from pages.lab.naming import Known, Naming, Words
from pages.lab.shipped import Shipped
from pages.ui.exports import slug
from pages.ui.model_controls import Choice
from pages.ui.shell import Frame

KNOWN_THEN = "What was known at each moment, from nothing that came later."
Array = npt.NDArray[np.float32]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Seen:
    """One trial in a picture, whether or not its states are known.

    state   what `plot(state=)` takes: of an earlier fit, it is "stale"
    unit    that of time
    words   what labels of the trial are called, where an expert gave some
    """

    trial: Trial
    state: State
    note: str = ""
    unit: Unit = SECONDS
    words: Words | None = None

    @property
    def counted(self) -> Literal["s", "step"]:
        """What exports count in."""
        return "step" if self.unit is STEPS else "s"

    @property
    def _sample(self) -> float:
        """The length of a sample, in seconds or steps."""
        return 1.0 / self.trial.rate_hz

    @property
    def timing(self) -> dict[str, Any]:
        """When the trial begins, from one sample to the next, and what that is counted in, as figures take them."""
        unit = self.unit
        return {"start": unit.of(self.trial.start_seconds), "step": unit.of(self._sample), "unit": unit.name}

    def unit_of_stays(self, labels: Ints) -> Unit:
        """The unit for the lengths of stays, which may be short in a long trial."""
        return unit_of_stays(median_bout([labels]) * self._sample, self.unit)

    def lengths(self, labels: Ints) -> dict[str, Any]:
        """Step and unit for the lengths of these stays."""
        unit = self.unit_of_stays(labels)
        return {"step": unit.of(self._sample), "unit": unit.plural}

    @property
    def expert(self) -> Ints | None:
        """The expert's labels, None where there are none at all."""
        labels = self.trial.labels
        if self.words is None or labels is None or not (np.asarray(labels) >= 0).any():
            return None
        return np.asarray(labels, np.int64)

    @property
    def known(self) -> Known | None:
        """What states are held against: the expert's labels, or the true states of a simulation."""
        if (expert := self.expert) is not None and self.words is not None:
            return self.words.known(expert)
        return None if self.trial.states is None else Known.truth(self.trial.states)


@dataclass(frozen=True, eq=False, kw_only=True)
class Unread(Seen):
    """A trial that has no states yet; `title` and `note` say why."""

    title: str = ""


@dataclass(frozen=True, eq=False, kw_only=True)
class Reading(Seen):
    """A trial as a fit reads it, named, merged and cut into bouts.

    states   [T, columns] in the order of colours
    bouts    [T] the column that each moment's bout belongs to: the strongest state, where no rule of bouts says else
    origin   the look at a fit that `states` belong to: those of two origins must not meet in one figure
    soft     [T, K] the states as fitted, neither named nor merged
    rough    `states` are those of a picture: rounded to 8 bits, and thinned where they are long
    """

    states: Array
    bouts: Ints
    origin: Origin
    naming: Naming
    soft: Array
    rough: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        return self.naming.names

    @property
    def used(self) -> list[int]:
        """Columns that hold a state."""
        return self.naming.used

    @property
    def looks(self) -> dict[str, Any]:
        """Names and colours of the states that there are, without columns that a merger or another colour left empty."""
        colours = palette.colours(len(self.names))
        return {"names": [self.names[k] for k in self.used], "colours": [colours[k] for k in self.used]}

    @property
    def shares(self) -> Array:
        """[T, states] of the states that there are."""
        return self.states[:, self.used]


R = TypeVar("R", bound=Reading)


@dataclass(frozen=True, eq=False)
class Looked:
    """The last complete look at all trials, for when a newer fit has not read them yet.

    content   fingerprints of the fitted and the new trials
    """

    content: tuple[str, str]
    look: Look
    order: Order
    origin: Origin

    def states(self, index: int) -> Array:
        """[T, K] of one trial in the order of colours, fitted ones first."""
        return live.in_order(((*self.look.train, *self.look.test)[index],), self.order)[0]


def together(readings: Iterable[R | Unread]) -> list[R]:
    """Those that may stand in one figure: with states, and of the same fit as the first of them."""
    known = [reading for reading in readings if not isinstance(reading, Unread)]
    return [reading for reading in known if reading.origin is known[0].origin]


@dataclass(frozen=True, eq=False)
class View:
    """A page in one run of its script.

    setting   what the controls ask for now
    fit       the live fit of this page and visitor; `shown` what it has to show
    look      the model's own look at all trials, once there is one; `asked`: what became of the question for it
    shipped   the result that ships with the app, if that is what stands
    came      the fit came with the app, whatever it is applied to
    index     which trial is looked at: fitted ones first, then new ones
    number    names the settings that the controls ask for now
    naming    what became of the states of a picture with so many of them, where the page lets its visitor name them
    rule      how bouts are read: the strongest state of each moment is its bout, unless a page says else
    then      states of the trial looked at as they could have been known at each moment, where a picture shows those
    """

    frame: Frame
    setting: Setting
    fit: live.Live
    shown: live.Shown
    look: Look | None = None
    asked: live.Answer = field(default_factory=live.Answer)
    shipped: Shipped | None = None
    came: bool = False
    index: int = 0
    number: str = ""
    naming: Naming | None = None
    rule: BoutRule = field(default_factory=BoutRule)
    then: live.Answer | None = None

    @property
    def page(self) -> str:
        return self.frame.folder

    @property
    def data(self) -> Data:
        return self.setting.data

    @property
    def choice(self) -> Choice:
        return self.setting.choice

    @property
    def n_states(self) -> int:
        """Of the fit that stands, or else of the one that is asked for."""
        wanted = self.shown.wanted
        return self.choice.n_states if wanted is None else int(wanted.config["n_states"])

    @property
    def trial(self) -> Trial:
        return self.data.trials[self.index]

    @property
    def stem(self) -> str:
        """What names of files begin with: the page, and the recording where it is one of the visitor's own."""
        return "-".join([self.page, *([slug(self.data.name)] if self.data.name else [])])

    @property
    def unit(self) -> Unit:
        """That of time, wherever the page shows some: seconds beside a player, which counts them."""
        return self.data.time_unit if self.data.pose(self.index) is None else SECONDS

    @property
    def timing(self) -> dict[str, Any]:
        """From one sample to the next, and what that is counted in, as figures take them."""
        return {"step": self.unit.of(self.data.step(self.trial)), "unit": self.unit.name}

    @property
    def settled(self) -> bool:
        """Whether the result of just these settings stands, and nothing is fitted."""
        shown = self.shown
        return shown.result is not None and shown.state == "fresh" and not shown.fitting

    @property
    def made_for(self) -> str:
        """Number of the settings that the picture is the finished result of; "" of one that still moves, or is out of date.

        What is said of a result is said `with shell.of(view.made_for)`: it fades where the controls ask for another one.
        """
        wanted = self.shown.wanted
        return "" if wanted is None or self.shown.state != "fresh" else wanted.number

    @property
    def current(self) -> bool:
        """Whether the picture is the finished result of what the controls ask for."""
        return self.made_for == self.number

    @property
    def shipped_scores(self) -> Mapping[str, Any] | None:
        """What was measured of the result that ships, as this page measures now: "scores", and "seeds" of more fits."""
        if self.shipped is None or tuple(self.shipped.more.get("options", ())) != self.setting.measure.options:
            return None
        return self.shipped.more

    def at(self, index: int) -> Self:
        """The same, looking at another trial."""
        return replace(self, index=min(max(index, 0), len(self.data.trials) - 1))

    # ---- states -------------------------------------------------------------------------------------------------
    def read(self, now: live.Shown | None = None, *, exact: bool | None = None) -> Reading | Unread:
        """The trial that is looked at, and its states in the picture `now`.

        Fitted trials have states from the first look at a fit on. New ones are read once it is done: until then, and
        while a fit of other data runs, an earlier reading of the very same trial stays.

        exact   take the model's own look also for fitted trials, whose states come thinned where they are long: of
                recordings, unless told
        """
        now, trial = now or self.shown, self.trial
        seen: dict[str, Any] = {"trial": trial, "unit": self.unit, "words": self.data.words}
        then = self.then
        if then is not None and then.fresh and now.result is not None and now.result is self.shown.result:
            states = now.once(
                ("then", self.index), lambda: live.in_order((then.value,), now.order)[0], of=(then.value,)
            )
            named = self.named(now, ("then", self.index), states)
            note = KNOWN_THEN if self.rule.plain else f"{KNOWN_THEN} Smoothing bouts still looks ahead."
            return Reading(state=now.state, origin=now.origin, note=note, **named, **seen)
        found, rough = self._states(now, self.data.recorded if exact is None else exact)
        if found is not None:
            return Reading(
                state=now.state, origin=now.origin, rough=rough, **self.named(now, self.index, found), **seen
            )
        title, note = self._why_not(now)
        earlier = self.fit.records.last(Looked)
        if earlier is not None and earlier.content == self._content:
            states = now.once(("earlier", self.index), lambda: earlier.states(self.index), of=(earlier,))
            note = f"As the earlier fit read it. {note}" if self.is_new else ""
            named = self.named(now, self.index, states)
            return Reading(state="stale", origin=earlier.origin, note=note, **named, **seen)
        return Unread(state=now.state, title=title, note=note, **seen)

    def read_samples(self, now: live.Shown | None = None, *, exact: bool | None = None) -> Reading | Unread:
        """Return `read` with the states of every sample of the recording, also where windows are fitted."""
        here, trial = self.read(now, exact=exact), self.data.recording(self.index)
        if trial is here.trial or isinstance(here, Unread):
            return replace(here, trial=trial)
        now, key = now or self.shown, ("samples", self.index, exact)
        soft = now.once(key, lambda: self.data.to_samples(self.index, here.soft), of=(here.soft,))
        return replace(here, trial=trial, **self.named(now, key, soft, trial))

    def named(self, now: live.Shown, key: Hashable, soft: Array, trial: Trial | None = None) -> dict[str, Any]:
        """States as fitted [T, K] with what becomes of them here: the fields of a reading that follow from them."""
        naming, rule, trial = self.naming_for(soft.shape[1]), self.rule, trial or self.trial
        states = now.once(("named", key), lambda: naming.apply(soft), of=(soft,), settings=naming)
        cut = partial(rule.labels, states, trial.rate_hz)
        bouts = now.once(("bouts", key), cut, of=(states, trial), settings=rule)
        return {"states": states, "bouts": bouts, "naming": naming, "soft": soft}

    def naming_for(self, n_states: int) -> Naming:
        """The naming, unless the picture has another number of states."""
        return self.naming if self.naming is not None and len(self.naming.into) == n_states else Naming.plain(n_states)

    @property
    def _content(self) -> tuple[str, str]:
        return self.data.train.fingerprint, self.data.test.fingerprint

    @property
    def is_new(self) -> bool:
        return self.index >= len(self.data.train)

    def _states(self, now: live.Shown, exact: bool) -> tuple[Array | None, bool]:
        """([T, K] of the trial in the picture `now`, if it is a picture of these data that has them; whether they are rough)."""
        wanted = now.wanted
        if wanted is None or not now.train or wanted.train.fingerprint != self.data.train.fingerprint:
            return None, True
        looked = self._looked(now)
        if looked is not None and (self.is_new or exact):
            mixed: Array = now.once(("look", self.index), lambda: looked.states(self.index), of=(looked.look,))
            return mixed, self.shipped is not None and looked.look is self.shipped.look
        return (now.train[self.index] if self.index < len(now.train) and not self.is_new else None), True

    def _looked(self, now: live.Shown) -> Looked | None:
        """The model's own look, if the picture is of its result and of the trials that it looked at."""
        wanted = now.wanted
        if self.look is None or wanted is None or now.result is None or now.result is not self.shown.result:
            return None
        if wanted.test is None or wanted.test.fingerprint != self.data.test.fingerprint:
            return None
        return self.fit.records.keep(Looked(self._content, self.look, now.order, now.origin))

    def _why_not(self, now: live.Shown) -> tuple[str, str]:
        """Why there are no states: a title and what will change that."""
        if not self.is_new:
            if now.message:
                return "Nothing fitted yet", "Another setting, or Try again, starts another fit."
            if now.stopped:
                return "Nothing fitted yet", "The fit was cancelled. Another setting starts one."
            return "The first fit is on its way", "The workers start with the server; this takes a few seconds."
        name = f"The {self.data.tested}"
        if now.fitting:
            return f"{name} comes last", "It is read when the fit is done."
        if now.result is None:
            return f"{name} was not read", "It is read when a fit is done."
        if self.asked.pending:
            return f"{name} is being read", "The fit is done; this takes a moment."
        return f"{name} could not be read", "Try again asks once more."

    # ---- questions ----------------------------------------------------------------------------------------------
    def ask(
        self,
        name: str,
        function: Callable[..., Any],
        *args: Any,
        deadline_s: float = 120.0,
        about: Any = None,
        kept: bool = False,
        wait_s: float = 0.0,
    ) -> live.Answer:
        """What `function(model_bytes, *args)` says of the fit that stands, worked out on a worker.

        `name` is what an earlier answer is remembered under while the new one is under way. The answer says what it is
        about, with which order of colours: `about`, or (the trial looked at, the order). One that JSON can hold may be
        `kept` on disk beside the fit, unless that is not kept either. `wait_s` is how long the page may wait for it.
        """
        shown = self.shown
        about = (self.trial, shown.order) if about is None else about
        if shown.result is None or shown.state == "preview":
            return self.fit.answers.latest(name)
        key = question_key(shown.result.key, function, args)
        kept = kept and self.data.keep
        model = shown.result.model_bytes
        return self.fit.ask(
            name, key, function, model, *args, deadline_s=deadline_s, about=about, kept=kept, wait_s=wait_s
        )

    @property
    def for_files(self) -> Self:
        """The same, looking by the states that files of data hold, once there are those: figures of one panel agree with them."""
        return self if self.exact.value is None else replace(self, look=self.exact.value)

    @cached_property
    def exact(self) -> live.Answer:
        """The look to take along: not that of a result that ships, which is in eight bits."""
        if self.shipped is not None:
            return live.states_of(self.fit, self.shown)
        return self.asked if self.look is None else live.Answer(self.look, fresh=True)


def question_key(result: str, function: Callable[..., Any], args: Iterable[Any]) -> str:
    """Names everything that an answer depends on: the fit, the function, and the content of each argument."""
    return "/".join([result, f"{function.__module__}.{function.__qualname__}", *map(_content, args)])


def _content(value: Any) -> str:
    if isinstance(value, Trial | Trials):
        return value.fingerprint
    if isinstance(value, np.ndarray):
        return f"{value.dtype}{value.shape}{hashlib.sha256(value.tobytes()).hexdigest()}"
    if isinstance(value, list | tuple):
        return f"({','.join(map(_content, value))})"
    return repr(value)
