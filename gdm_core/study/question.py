"""Questions to a study: the measure, the groups, and the covariates."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from gdm_core.study.sheet import ANIMAL

CORRECTIONS = {"p_holm": "Holm", "p_bh": "Benjamini and Hochberg"}


@dataclass(frozen=True)
class Question:
    """A question to a study, with the options of `Study.compare` and the correction that is reported.

    measure         name of the measure
    between         columns to compare between: one, or two for two factors and their interaction
    unit            "animal" (averages its recordings under one condition), "recording", or a column such as the litter
    within          column of the subjects of paired sessions, such as "animal"
    blocks          column within which units are exchangeable, such as a batch
    covariates      columns to adjust for, known before the treatment
    planned         other columns to adjust for, as planned in advance although they may follow from the groups
    where           column -> value or values, to select recordings
    trend           test the trend over numbers (such as doses) or ordered categories instead of any difference; by default
                    if there are three or more. `compare_pairs` compares each with the lowest
    """

    measure: str
    between: tuple[str, ...]
    unit: str = ANIMAL
    within: str | None = None
    blocks: str | None = None
    covariates: tuple[str, ...] = ()
    planned: tuple[str, ...] = ()
    where: Mapping[str, Any] = field(default_factory=dict)
    trend: bool | None = None
    correction: str = "p_holm"

    @classmethod
    def ask(cls, measure: str, between: str | Sequence[str], **options: Any) -> Question:
        """Return a question, in which a single column may stand for a sequence of columns."""
        for name in ("covariates", "planned"):
            options[name] = (one,) if isinstance(one := options.get(name, ()), str) else tuple(one)
        options["where"] = dict(options.get("where") or {})
        return cls(measure, (between,) if isinstance(between, str) else tuple(between), **options)

    @property
    def key(self) -> str:
        """Text that identifies the question."""
        return json.dumps(asdict(self), default=str)

    @property
    def options(self) -> dict[str, Any]:
        """Arguments of `Study.compare` besides the measure and the groups."""
        names = ("unit", "within", "blocks", "covariates", "planned", "where", "trend")
        return {name: getattr(self, name) for name in names}

    @property
    def arguments(self) -> dict[str, Any]:
        """Options that differ from their defaults, as written in a script."""
        usual = Question(self.measure, self.between).options
        chosen = {name: value for name, value in self.options.items() if value != usual[name]}
        return {name: list(value) if isinstance(value, tuple) else value for name, value in chosen.items()}

    @property
    def accounted(self) -> list[str]:
        """Columns that the comparison accounts for, besides the groups."""
        return [*self.between[1:], *self.covariates, *self.planned, *([self.blocks] if self.blocks else [])]
