"""Teams over one or several sessions: on straights and in slow, medium and fast corners; and all of it as a study."""

from __future__ import annotations

import numpy as np
import pandas as pd
import streamlit as st
from scipy.stats import t as student

from datasets import formula1
from datasets.f1.season import BY, KINDS, SeasonRows, joined, study_rows
from gdm_core import Study
from gdm_core.analysis.tables import csv
from gdm_core.errors import GdmError
from pages.formula1 import data, loading
from pages.formula1.choices import choose_one
from pages.formula1.data import Place, race_of
from pages.formula1.tables import table_with_csv
from pages.lab import View
from pages.lab.live import background
from pages.ui import navigation, shell
from pages.ui.downloads import download

MOST = 24  # sessions: a season's races
FEWEST = 3  # rows from which an interval is told


@st.cache_resource(max_entries=2 * MOST, show_spinner="Measuring every driver's laps")
def measured(place: Place, by: str) -> SeasonRows:
    return study_rows([data.open_session(place)], by)


def tab(view: View) -> None:
    """Which sessions; teams in a table; the sheet and the study to take along."""
    here = race_of(view).pick.place
    stored = [Place(year=year, event=event, name=name) for year, event, name in formula1.stored_sessions()]
    options = list(dict.fromkeys([here, *stored]))
    left, right = st.columns([0.7, 0.3], gap="small", vertical_alignment="bottom")
    with left:
        places = st.multiselect(
            "Sessions", options, [here], key=f"f1-season-{here}", format_func=_called, max_selections=MOST,
            help="What is stored on this server. A session that is not is loaded once from Year, Event and Session at the left.",
        )  # fmt: skip
    with right:
        by = choose_one("A row is a", "row-is", BY, BY[0], row=True)
    rows, waits = [], []
    for place in places:
        load = None if place.simulated else loading.session(place.year, place.event, place.name)
        if load is not None and not load.done:
            waits.append(load)
            continue
        try:
            rows.append(measured(place, by))
        except GdmError as error:
            shell.quiet(f"{_called(place)} is left out: {error}")
    background.follow(
        "f1-season-loading",
        lambda: (
            f"{len(waits)} sessions to load: {waits[0].said[0]}",
            float(np.mean([load.said[1] for load in waits])),
        ),
        lambda: sum(load.done for load in waits),
        not waits,
    )
    if not rows:
        shell.empty("No session yet", "Choose at least one session; those that load come in by themselves.")
        return
    found = joined(rows)
    sheet = pd.DataFrame(found.sheet)
    with shell.panel("teams", "Teams: seconds a lap behind the best one"):
        table = teams_of(sheet)
        table_with_csv(
            table, "teams", view.stem, seconds=[name for name in map(str, table) if name not in ("Team", "Rows")]
        )
        shell.quiet(
            "Each session's best team has 0 in a column; means over rows, with ± 95 % of what they leave open where there are "
            "three. Rows with less than a third of the usual number of laps are left out. A corner is slow below 130 km/h and fast "
            "above 200 km/h at its slowest, whatever the circuit. Undisturbed laps within 107 % of the driver's best."
        )
    with shell.panel("season-rows", f"All drivers by team, a row for each {by} of each session"):
        ordered = sheet.drop(columns="recording").sort_values(["team", "subject"], kind="stable")
        seconds = [str(name) for name in ordered if "(s" in str(name)]
        shapes = {"braking point (m)": "%.1f", "top speed (km/h)": "%.0f"}
        table_with_csv(ordered.rename(columns={"subject": "driver"}), "rows", view.stem, seconds=seconds, shapes=shapes)
    with shell.panel("season-study", "Is it more than chance?"):
        shell.quiet(
            "As a study, its tests answer questions such as: does one team brake later than another over these races? Save it, "
            "open it on the Study page (From: a saved study), ask for “braking point (m)” between “team”, and exchange within "
            "“session”."
        )
        one, other, there = st.columns(3, gap="small", vertical_alignment="center")
        with one:
            download(
                "The study", lambda: as_study(found).to_bytes(), f"{view.stem}-season.study", key="season-study-file"
            )
        with other:
            download("Its sheet (CSV)", lambda: csv(sheet), f"{view.stem}-sheet.csv", key="season-sheet")
        there.page_link(
            navigation.page("study"), label="Study", icon=":material/groups:", query_params={"data": "saved"}
        )


def _called(place: Place) -> str:
    return data.SIMULATED[place.circuit] if place.simulated else f"{place.event} {place.year} · {place.name}"


def as_study(rows: SeasonRows) -> Study:
    """The rows as the Study page takes them: states are what the cars do, measures are those and the columns of the sheet."""
    return Study.of_states(rows.states, pd.DataFrame(rows.sheet), rows.rate_hz, list(rows.names))


def teams_of(sheet: pd.DataFrame) -> pd.DataFrame:
    """A row a team: seconds a lap behind the best team of each session in each kind of place, best teams first."""
    columns = {f"{name} (s a lap)": name.capitalize() for name in KINDS}
    usual = sheet.groupby("session")["laps"].transform("median")
    sheet = sheet[sheet["laps"] >= usual / 3]  # who retired has driven with much fuel alone
    values = sheet[list(columns)].rename(columns=columns)
    values["The lap"] = values.sum(axis=1, min_count=1)
    values = values.assign(team=sheet["team"].replace("", "unknown team"), session=sheet["session"])
    best = values.groupby(["session", "team"]).mean().groupby("session").min()
    behind = values.set_index(["session", "team"])
    behind = behind - best.reindex(behind.index.get_level_values("session")).to_numpy()
    by_team = behind.groupby("team")
    mean, error, n = by_team.mean().round(9) + 0.0, by_team.sem(), by_team.size().to_numpy()
    found = pd.DataFrame({"Team": mean.index, "Rows": n})
    # Two rows would say much by chance: their interval is twelve standard errors wide.
    sure = np.where(n >= FEWEST, student.ppf(0.975, np.maximum(n, FEWEST) - 1), np.nan)
    for name in ["The lap", *columns.values()]:
        found[name] = mean[name].to_numpy()
        found[f"± {name.lower()}"] = sure * error[name].to_numpy()
    return found.sort_values("The lap", kind="stable", ignore_index=True).dropna(axis=1, how="all")
