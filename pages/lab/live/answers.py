"""Questions about a finished fit (scores, envelopes, maps), answered on the workers while the page goes on."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from gdm_core.engine import Engine, FitSpec, Job, JobStatus, Priority
from gdm_core.errors import GdmError

MAX_KEPT = 48


@dataclass(frozen=True, eq=False)
class Answer:
    """What is known of a question: the value asked for, or an earlier one of the same name that may be shown as such.

    fresh     whether `value` belongs to the question as it was asked
    pending   whether the answer is being worked out
    message   why there is none
    about     what the asker said `value` is about, when that was asked: an earlier value keeps its own
    name      what the question was asked under
    so_far    what is known already of an answer that comes by and by
    queued    whether nobody works on it yet: others are before it
    """

    value: Any = None
    fresh: bool = False
    pending: bool = False
    message: str = ""
    about: Any = None
    name: str = ""
    so_far: Any = None
    queued: bool = False


class Answers:
    """The questions of one page and one visitor; of each name, the latest wins."""

    def __init__(self, engine: Engine, session: str) -> None:
        self._engine, self._session = engine, session
        self._known: OrderedDict[tuple[str, str], Answer] = OrderedDict()
        self._failed: dict[tuple[str, str], str] = {}
        self._jobs: dict[str, tuple[str, Job, Any]] = {}
        self._latest: dict[str, Answer] = {}
        self._patience: dict[str, float] = {}  # how many times its deadline a question is given
        self._heard: dict[str, Any] = {}  # what was last known of those that come by and by
        self._owed: set[str] = set()  # names of questions whose asker was told to ask again later
        self._idle: set[str] = set()  # names of questions that are worked out while nobody waits for any other
        self.news = 0  # how often something has been answered, or more is known of an answer
        self.settled = 0  # how often something has been answered that the page waited for

    @property
    def pending(self) -> bool:
        return bool(self._jobs)

    @property
    def awaited(self) -> bool:
        """Whether the page waits for one: not for those that are worked out while nobody waits."""
        return any(name not in self._idle for name in self._jobs)

    def ask(
        self,
        name: str,
        key: str,
        function: Callable[..., Any],
        *args: Any,
        deadline_s: float = 60.0,
        about: Any = None,
        kept: bool = False,
        idle: bool = False,
        wait_s: float = 0.0,
        watched: bool = False,
        here: bool = False,
    ) -> Answer:
        """The answer of `function(*args)` if it is there; otherwise it is being worked out: ask again later.

        `key` must name everything that the answer depends on. A question of the same name with another key replaces
        the one before. `about` comes back with the answer, also when it is shown as an earlier one. An answer that JSON
        can hold may be `kept` on disk, for whoever asks the same on another day. An `idle` one is worked out when nobody waits
        for any other. `wait_s` is how long to wait for it at the most. A `watched` one is part of the picture: it goes as soon as a
        fit does. What is worked out `here`, in this process, takes less than the way to a worker.
        """
        if here and (name, key) not in self._known and (name, key) not in self._failed:
            try:
                self._take_in(name, key, function(*args), about)
            except GdmError as error:
                self._failed[name, key] = str(error)

        def begin() -> Job:
            return self._engine.submit(
                function,
                *args,
                session=self._session,
                name=f"ask-{name}",
                priority=Priority.HIGH if watched else Priority.LOW if idle else Priority.NORMAL,
                deadline_s=deadline_s * self._patience.get(name, 1.0),
                cached_as=key if kept else "",
            )

        return self._answer(name, key, begin, about, idle, wait_s)

    def ask_fit(self, name: str, spec: FitSpec) -> Answer:
        """A fit that nobody waits for, with its result as the answer."""

        def begin() -> Job:
            return self._engine.submit(spec, session=self._session, name=f"ask-{name}", priority=Priority.LOW)

        return self._answer(name, spec.key, begin, None, True)

    def _answer(
        self, name: str, key: str, begin: Callable[[], Job], about: Any, idle: bool, wait_s: float = 0.0
    ) -> Answer:
        """The answer to a question if it is there; otherwise the job that `begin` starts works it out, unless it does already."""
        self.collect()
        self._owed.discard(name)
        if idle:
            self._idle.add(name)
        question = (name, key)
        if question in self._known:
            self._drop(name, unless=key)
            self._known.move_to_end(question)
            self._latest[name] = self._known[question]
            return self._known[question]
        if question in self._failed:
            return replace(self.latest(name), message=self._failed[question])
        if name not in self._jobs or self._jobs[name][0] != key:
            self.give_up(name)
            try:
                job = begin()
            except GdmError as error:
                return replace(self.latest(name), message=str(error))
            self._jobs[name], self._heard[name] = (key, job, about), None
            if wait_s:
                job.wait(wait_s)
            if job.poll().status.final:  # kept from another day, or done meanwhile
                return self._answer(name, key, begin, about, idle)
        self._owed.add(name)
        view = self._jobs[name][1].poll()
        self._heard[name] = view.found
        return replace(self.latest(name), pending=True, so_far=view.found, queued=view.status is JobStatus.QUEUED)

    def find(self, name: str, key: str) -> Any:
        """The answer to a question that was asked before, if it is there; None otherwise. Asks nothing."""
        found = self._known.get((name, key))
        return None if found is None else found.value

    def give_up(self, name: str) -> None:
        """Cancel the question of that name, if it is under way."""
        self._drop(name, unless="")

    def give_up_all(self) -> None:
        """Cancel all questions that are under way."""
        for name in list(self._jobs):
            self.give_up(name)

    def pending_besides(self, name: str) -> bool:
        """Whether another question is under way."""
        return any(other != name for other in self._jobs)

    def latest(self, name: str) -> Answer:
        """The newest answer of that name, for a page that has nothing to ask at the moment."""
        return replace(self._latest.get(name, Answer(name=name)), fresh=False)

    def learn(self, name: str, value: Any, about: Any = None) -> None:
        """Take in what is known from elsewhere, to be shown as an earlier answer while a new one is worked out."""
        self._latest[name] = Answer(value, about=about, name=name)

    def keep_latest(self, name: str) -> None:
        """Of all answers of that name, keep the newest alone: for those that weigh megabytes."""
        newest = self._latest.get(name)
        for here in [here for here, known in self._known.items() if here[0] == name and known is not newest]:
            del self._known[here]

    def again(self, name: str) -> None:
        """Forget that a question could not be answered, and give it twice the time from now on."""
        self._patience[name] = 2 * self._patience.get(name, 1.0)
        self._failed = {here: why for here, why in self._failed.items() if here[0] != name}

    def take_owed(self) -> bool:
        """Whether something has been answered whose asker does not know it yet; said once.

        Every question takes in all answers: one that came after its asker had asked, and before the next question of the
        same run, would be news to nobody.
        """
        answered = {name for name in self._owed if name not in self._jobs}
        self._owed -= answered
        return bool(answered - self._idle)

    def collect(self) -> None:
        """Take in what has been worked out."""
        for name, (key, job, about) in list(self._jobs.items()):
            view = job.poll()
            if not view.status.final:
                self.news += view.found is not self._heard[name]
                self._heard[name] = view.found
                continue
            del self._jobs[name]
            self.news += 1
            self.settled += name not in self._idle
            if view.status is JobStatus.DONE:
                self._take_in(name, key, view.result, about)
            elif view.status is JobStatus.FAILED:
                self._failed[name, key] = view.message

    def _take_in(self, name: str, key: str, value: Any, about: Any) -> None:
        self._known[name, key] = Answer(value, fresh=True, about=about, name=name)
        while len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)

    def _drop(self, name: str, unless: str) -> None:
        if name in self._jobs and self._jobs[name][0] != unless:
            self._owed.discard(name)
            self._jobs.pop(name)[1].cancel()
