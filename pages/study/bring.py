"""Where a study comes from: simulated animals, files with a sheet, or a study that was saved."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd
import streamlit as st

from datasets import cohort
from gdm_core.study import Study
from pages.ui import limits, shell

# What the second group of simulated animals does differently, in words.
CHANGES = {
    "Grooming lasts half as long again": cohort.Change("groom", times=1.5),
    "After walking they rear twice as often": cohort.Change("walk", "rear", 2.0),
    "Nothing": None,
}
SEEDS, ANIMALS = (0, 9999), (2, 40)
SESSIONS, MINUTES = 2, 4.0


@dataclass(frozen=True, eq=False)
class Brought:
    """A study that is open.

    key      names its content
    of       what its controls belong to; "" of simulated animals
    name     of files that leave the page
    about    it in a line
    private  whether no link can show it to anybody else
    imports, code   how a script makes `study`
    notes    what was understood on the way, besides the study's own notes
    """

    key: str
    of: str
    name: str
    about: str
    study: Study
    private: bool
    imports: Sequence[str]
    code: Sequence[str]
    notes: Sequence[str] = field(default=())


@st.cache_resource(max_entries=8, show_spinner=False)
def _cohort(n_animals: int, change: str, seed: int) -> cohort.Cohort:
    return cohort.simulate(n_animals, change=CHANGES[change], n_sessions=SESSIONS, minutes=MINUTES, seed=seed)


@st.cache_resource(max_entries=8, show_spinner=False)
def _true_study(n_animals: int, change: str, seed: int) -> Study:
    made = _cohort(n_animals, change, seed)
    return Study.of_states(made.states, pd.DataFrame(made.sheet), made.rate_hz, cohort.BEHAVIOURS)


def simulated() -> Brought:
    """Animals of which the truth is known, with their controls."""
    limits.among("change", "What the treated do", list(CHANGES))
    change = st.selectbox(
        "What the treated do", list(CHANGES), key="change", bind="query-params",
        help="The one thing in which the second group differs; the answer should name it, and nothing else.",
    )  # fmt: skip
    change = change if change in CHANGES else next(iter(CHANGES))
    limits.within("animals", "Animals a group", *ANIMALS)
    n = st.number_input("Animals a group", *ANIMALS, 10, key="animals", bind="query-params")
    limits.within("seed", "Simulation (seed)", *SEEDS)
    seed = st.number_input(
        "Simulation (seed)", *SEEDS, 0, key="seed", bind="query-params", help="Another number draws others."
    )
    n, seed = (int(min(max(value, low), high)) for value, (low, high) in ((n, ANIMALS), (seed, SEEDS)))
    made = CHANGES[change]
    said = "None" if made is None else f"cohort.{made!r}"
    return Brought(
        key=f"simulated/{n}/{change}/{seed}",
        of="",
        name="simulated-animals",
        about=f"simulated animals, {2 * n} of them in {2 * n * SESSIONS} recordings",
        study=_true_study(n, change, seed),
        private=False,
        imports=["import pandas as pd", "from gdm_core import Study", "from gdm_studio.datasets import cohort"],
        code=[
            f"animals = cohort.simulate({n}, change={said}, n_sessions={SESSIONS}, minutes={MINUTES:g}, seed={seed})",
            "study = Study.of_states(animals.states, pd.DataFrame(animals.sheet), animals.rate_hz, cohort.BEHAVIOURS)",
        ],
    )


def choose() -> Brought | None:
    """The controls that say where a study comes from."""
    shell.section("Study")
    return simulated()
