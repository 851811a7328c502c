"""What states are held against, as pictures show it: what an expert saw, or the true states of a simulation."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gdm_studio.plot import figures, palette
from pages.ui import shell

OTHERS = "others"


def words_of(names: Sequence[str], n: int) -> tuple[str, ...]:
    """A name for each of `n` labels or more."""
    return (*names, *(f"behaviour {k + 1}" for k in range(len(names), n)))


@dataclass(frozen=True, eq=False)
class Words:
    """Labels and their colours.

    names   of what is drawn, one for each colour
    place   [labels] which of them stands for each label of the data
    joined  how many labels share the last one, "others"; 0 where each has its own
    """

    names: tuple[str, ...]
    place: npt.NDArray[np.int64]
    joined: int = 0

    @classmethod
    def of(cls, names: Sequence[str], labels: Sequence[npt.NDArray[Any] | None]) -> Words | None:
        """For the labels of all trials together; None where nothing is labelled."""
        known = [np.asarray(z, np.int64) for z in labels if z is not None]
        count = np.bincount(np.concatenate([z[z >= 0] for z in known])) if known else np.zeros(0, np.int64)
        if not count.sum():
            return None
        n = max(len(names), len(count))
        count = np.pad(count, (0, n - len(count)))
        every = words_of(names, n)
        if n <= palette.MAX_STATES:
            return cls(every, np.arange(n))
        kept = np.sort(np.argsort(-count, kind="stable")[: palette.MAX_STATES - 1])
        place = np.full(n, len(kept))
        place[kept] = np.arange(len(kept))
        return cls((*(every[k] for k in kept), OTHERS), place, n - len(kept))

    @property
    def colours(self) -> list[str]:
        return palette.colours(len(self.names))

    @property
    def remark(self) -> str:
        """What a picture has to say about it."""
        if not self.joined:
            return ""
        return f"The {len(self.names) - 1} commonest labels have a colour each; the other {self.joined} share one."

    def grouped(self, labels: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """[T] which of `names` each moment shows, -1 where nothing was noted."""
        z = np.asarray(labels, np.int64)
        known = (z >= 0) & (z < len(self.place))
        return np.where(known, self.place[np.where(known, z, 0)], -1)

    def hot(self, labels: npt.ArrayLike) -> npt.NDArray[np.float32]:
        """[T, names], as strips and bars take them."""
        return figures.one_hot(self.grouped(labels), len(self.names))

    def known(self, labels: npt.ArrayLike) -> Known:
        """The labels of a trial beside its states."""
        return Known("expert", self.grouped(labels), self.hot(labels), self.names, self.remark)


@dataclass(frozen=True, eq=False)
class Known:
    """What is known of a trial besides the fit.

    who      "expert", or "true" of a simulation
    labels   [T] which of `names` each moment is, -1 where nothing is known
    shares   [T, names] the same as states
    remark   what a picture has to say about it
    """

    who: str
    labels: npt.NDArray[np.int64]
    shares: npt.NDArray[np.float32]
    names: tuple[str, ...]
    remark: str = ""

    @classmethod
    def truth(cls, states: npt.ArrayLike) -> Known:
        """True soft states [T, K]."""
        shares = np.asarray(states, np.float32)
        names = tuple(figures.names_of(shares.shape[1]))
        return cls("true", np.asarray(shares.argmax(axis=1), np.int64), shares, names)


def colour_key(who: str, names: Sequence[str], columns: Iterable[int]) -> str:
    """Which colour is which, as HTML: the names of some columns of the palette."""
    colours = palette.colours(len(names))
    return f"<div>{shell.key_html(who, ((colours[k], names[k]) for k in columns), head=who)}</div>"
