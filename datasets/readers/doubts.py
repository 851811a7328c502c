"""Questions that a file does not answer, and their answers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from gdm_core.errors import ConfigError, DataError
from gdm_core.text import listed

Answers = Mapping[str, str]


@dataclass(frozen=True)
class Doubt:
    """A question that a file does not answer.

    key       name of the question, as in `answers={"dates": "day first"}`
    question  one sentence
    choices   possible answers, the most likely first
    """

    key: str
    question: str
    choices: tuple[str, ...]

    def chosen(self, answers: Answers) -> str:
        """Return the answer that was given, or else the most likely one."""
        answer = answers.get(self.key, self.choices[0])
        if answer not in self.choices:
            choices = ", ".join(map(repr, self.choices))
            raise ConfigError(f"The answer to {self.key!r} is {answer!r}; choose one of {choices}.")
        return answer


def unanswered(doubts: Iterable[Doubt], answers: Answers) -> tuple[Doubt, ...]:
    """Return the doubts without an answer, once for each key."""
    return tuple({doubt.key: doubt for doubt in doubts if doubt.key not in answers}.values())


class UnansweredError(DataError):
    """A file leaves questions open.

    doubts   questions without an answer
    columns  names of the columns of the file
    """

    def __init__(self, message: str, doubts: tuple[Doubt, ...] = (), columns: tuple[str, ...] = ()) -> None:
        super().__init__(message)
        self.doubts, self.columns = doubts, columns

    def __reduce__(self) -> tuple[type[UnansweredError], tuple[object, ...]]:
        return type(self), (str(self), self.doubts, self.columns)


def require_answers(name: str, doubts: Iterable[Doubt], answers: Answers, columns: tuple[str, ...] = ()) -> None:
    """Raise UnansweredError that names the first doubt without an answer, and how to answer it."""
    for doubt in (left := unanswered(doubts, answers)):
        options = listed([f'--answer {doubt.key}="{choice}"' for choice in doubt.choices]).replace(" and ", " or ")
        raise UnansweredError(
            f"{name}: {doubt.question} On the command line, add {options}; in Python, pass answers={{...}}; the pages ask.",
            left,
            columns,
        )
