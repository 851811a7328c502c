"""What can be taken along of one trial, as tables that other programs read: named, merged and cut as on the page."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from gdm_core.analysis.tables import bouts_table, csv, first_frame, states_table
from pages.lab.data import Data
from pages.lab.view import Reading, Unread
from pages.ui import exports

File = tuple[str, Callable[[], bytes], str]  # label, what makes it, name


def files_of(data: Data, here: Reading | Unread) -> list[File]:
    """States, bouts and features of one trial, and which column is which state."""
    if isinstance(here, Unread):
        return []
    words, name = data.every_label if data.recorded else (), exports.slug(here.trial.name)
    return [
        ("States (CSV)", lambda: csv(named_states(here, words)), f"{name}-states.csv"),
        ("States (Parquet)", lambda: named_states(here, words).to_parquet(index=False), f"{name}-states.parquet"),
        (
            "Bouts (CSV, as in BORIS)",
            lambda: csv(bouts_of(here, data.observation(here.trial), data.subject)),
            f"{name}-bouts.csv",
        ),
        ("Key (CSV)", lambda: csv(key_of(here)), f"{name}-key.csv"),
        ("Features (CSV)", lambda: csv(features_of(here)), f"{name}-features.csv"),
    ]


def named_states(here: Reading, words: Sequence[str] = ()) -> pd.DataFrame:
    """time, frame, p_1 .. p_K, state, entropy, the name of the bout at each moment, and what the expert called it.

    words   the expert's names, of which `expert_code` is the place; empty and -1 where nothing was marked. Columns that a
            merger left empty are left out.
    """
    kept = here.used
    table = _timed(states_table(here.states[:, kept], here.trial), here)
    table["bout"] = [here.names[k] for k in here.bouts]
    if (expert := here.expert) is not None:
        table["expert"] = [words[z] if 0 <= z < len(words) else "" for z in expert]
        table["expert_code"] = expert
    # Numbers are those of the states on the page: after a merger there may be p_1 and p_3 alone.
    numbers = [here.naming.numbers[column] for column in kept]
    table["state"] = np.array(numbers)[table["state"] - 1]
    return table.rename(columns={f"p_{j + 1}": f"p_{number}" for j, number in enumerate(numbers)})


def key_of(here: Reading) -> pd.DataFrame:
    """Which column of the states is which state, under which name and in which colour."""
    numbers, looks = [here.naming.numbers[column] for column in here.used], here.looks
    columns = [f"p_{number}" for number in numbers]
    return pd.DataFrame({"column": columns, "state": numbers, "name": looks["names"], "colour": looks["colours"]})


def bouts_of(here: Reading, observation: str = "", subject: str = "") -> pd.DataFrame:
    """One row a bout as shown, in the columns of BORIS.

    observation  what is called so in BORIS: the recording, also where the trial is a part of it
    """
    named = {"observation": observation, "subject": subject, "unit": here.counted}
    return bouts_table(here.states, here.trial, here.names, bouts=here.bouts, **named)


def features_of(here: Reading) -> pd.DataFrame:
    """Time, frame, and every channel that the model saw."""
    return _timed(pd.DataFrame(here.trial.y, columns=list(here.trial.channels)), here)


def _timed(table: pd.DataFrame, here: Reading) -> pd.DataFrame:
    """The table with frames after its time, which is left out where nobody said how long a frame takes."""
    made = table.drop(columns="time", errors="ignore")
    made.insert(0, "frame", first_frame(here.trial) + np.arange(len(table)))
    if here.counted == "s":
        made.insert(0, "time", here.trial.seconds)
    return made
