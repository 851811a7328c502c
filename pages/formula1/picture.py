"""Main picture: the map in state colours and both drivers along the lap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st

from gdm_core.analysis.segments import composition
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import Figure, names_of
from pages import lab
from pages.formula1 import circuit_map
from pages.formula1.data import Circuit, DriverReading, along_lap, race_of, read, standing
from pages.lab import Undecoded, live, preview_figures
from pages.ui.controls import one_of, slide, switch
from pages.ui.plot import Panel, Picture, by_key


@dataclass(frozen=True)
class MapOptions:
    """Options of the map: driver ("train" or "test"), and labels."""

    which: str
    badges: bool
    most: int
    weight: float
    presence: float
    complementary: bool


USUAL = MapOptions("train", badges=True, most=1, weight=0.01, presence=0.2, complementary=False)


def choose_options(train: str, test: str) -> MapOptions:
    """Show the controls above the map."""
    which = one_of(
        "Driver",
        {"train": f"{train} (training)", "test": f"{test} (held-out)"},
        key="who",
        as_ids=True,
        help="The model is fitted to the first driver and applied to the second.",
        among=f"{train}-{test}",
        row=True,
        width="content",
        label_visibility="collapsed",
    )
    with st.popover("Labels", icon=":material/label:"):
        on = switch("Label segments with states", True, key="badges")
        every = switch(
            "All states of a segment",
            False,
            key="badge-all",
            help="As in the paper's figure; otherwise only the strongest.",
        )
        weight = slide(
            "Minimum weight of a state (%)", 1, 50, 1, key="badge-weight", live=True,
            help="The paper uses 1%.",
        )  # fmt: skip
        presence = slide(
            "Main states: minimum presence (% of samples)", 5, 95, 20, 5, key="badge-presence", live=True,
            help="The paper's main figure uses 20%.",
        )  # fmt: skip
        grey = switch(
            "Complementary states in grey", False, key="badge-grey",
            help="States present in 5% of samples or more (the paper's appendix).",
        )  # fmt: skip
    return MapOptions(which, on, circuit_map.MOST if every else 1, weight / 100, presence / 100, grey)


def make_panels(
    view: lab.View, now: live.FitState, options: MapOptions, named: Mapping[str, Sequence[str]]
) -> dict[str, Panel]:
    """Return the panels of map and strips.

    named  names of states by the key of a finished fit
    """
    view = standing(view, now)
    race = race_of(view)
    ours, theirs = read(view, race.train, "train", now), read(view, race.test, "test", now)
    here, circuit, revision = theirs if options.which == "test" else ours, race.circuit, str(race.pick.place)
    names = tuple(named.get(now.result.key, ())) if now.result is not None else ()
    codes = (race.train.code, race.test.code)
    track, along, area = (Picture(None, key, revision=revision) for key in ("map", "strips", "shares"))
    if isinstance(here, Undecoded):
        track = replace(track, title=here.title, note=here.note)
    else:
        # Cache only the last map of a dragged slider.
        made = now.memoize(
            ("map", options.which),
            lambda: track_map(circuit, here, options, names),
            of=(here.states,),
            settings=(options, names),
        )
        track = replace(track, figure=made, state=here.state)
        made = now.memoize(
            ("shares", options.which), lambda: shares(circuit, here, names), of=(here.states,), settings=names
        )
        area = replace(area, figure=made, state=here.state)
    if drivers := lab.together([ours, theirs]):
        states = tuple(driver.states for driver in drivers)
        made = now.memoize("strips", lambda: strips(circuit, drivers, codes, names), of=states, settings=(codes, names))
        along = replace(along, figure=made, state=drivers[-1].state)
    return by_key(track, along, area)


def make_preview(view: lab.View, options: MapOptions) -> preview_figures.SliderPreview:
    """Return the figures that the browser draws while a slider is dragged."""
    race, n_train = race_of(view), len(view.dataset.train)
    circuit, sides = race.circuit, {"train": race.train, "test": race.test}
    laps, whole = sides[options.which], f"{options.which} laps"

    def parts(states: preview_figures.States, _: preview_figures.States | None) -> preview_figures.Parts:
        soft = {"train": np.concatenate(states[:n_train]), "test": np.concatenate(states[n_train:])}
        lap = {side: along_lap(sides[side].distance, soft[side], circuit.n_bins, circuit.length) for side in sides}
        return {**lap, whole: soft[options.which]}

    dots = len(laps.place) > circuit_map.DOTS_ABOVE
    seen = preview_figures.places(
        whole, laps.place, line=0 if dots else circuit_map.LINE, dot=circuit_map.DOT if dots else 0, fades=["badge"]
    )
    ours, theirs = race.train.code, race.test.code
    step = circuit.length / circuit.n_bins
    chosen = {"map": seen, "shares": preview_figures.areas(options.which)}
    figures = chosen | {"strips": preview_figures.strips({ours: "train", theirs: "test"}, step)}
    # During a fit only the reference driver is decoded.
    trained = chosen | {"strips": preview_figures.strips({ours: "train"}, step, waiting=[theirs])}
    trials = tuple(range(len(view.dataset.trials)))
    settings = (options.which, view.dataset.test.fingerprint)
    return preview_figures.SliderPreview(
        trials, parts, figures, settings, replayed=trained if options.which == "train" else {}
    )


def track_map(circuit: Circuit, here: DriverReading, options: MapOptions, names: Sequence[str] = ()) -> Figure:
    laps, states = here.laps, here.states
    marks: tuple[circuit_map.Badge, ...] = ()
    if laps.segment is not None and options.badges:
        parts = composition(
            states,
            laps.segment,
            len(circuit.segments),
            weight=options.weight,
            presence=options.presence,
            complementary=0.05,
        )
        marks = circuit_map.badges(circuit, parts, all_of_them=options.complementary, most=options.most)
    what = f"{laps.code}, {laps.n_laps} lap{'s' * (laps.n_laps > 1)}"
    caption = map_caption(options, circuit, marks)
    return circuit_map.circuit_map(circuit, laps, states, badges=marks, title=what, caption=caption, names=names)


def map_caption(options: MapOptions, circuit: Circuit, marks: Sequence[circuit_map.Badge]) -> str:
    what = "One dot per sample, coloured by its mix of states: paler where several share the moment."
    if not marks:
        return what
    rest = "; others in grey" if options.complementary else ""
    left_out = circuit_map.without_room(circuit, marks)
    lacking = [f"{', '.join(names)} below {wider} px" for names, wider in
               zip(left_out.values(), [*list(left_out)[1:], "any"], strict=True) if names]  # fmt: skip
    said = (
        "Labels: strongest state per segment; hover for the others."
        if options.most == 1
        else f"Labels: states with weight above {options.weight:.0%} in over "
        f"{options.presence:.0%} of a segment's samples, by presence, sized by weight{rest}."
    )
    return f"{what} {said}" + (f" No label for {'; '.join(lacking)} wide." if lacking else "")


def strips(
    circuit: Circuit, drivers: Sequence[DriverReading], codes: Sequence[str], names: Sequence[str] = ()
) -> Figure:
    """Draw the average lap of each driver; rows without states stay empty."""
    known = {driver.laps.code: driver.average(circuit) for driver in drivers}
    nothing = np.full_like(next(iter(known.values())), np.nan)
    rows = {code: known.get(code, nothing) for code in dict.fromkeys(codes)}
    said = "Average lap of each driver; T1, T2, … are corners."
    return figures.state_strips(rows, **circuit.axis, names=names, caption=said)


def shares(circuit: Circuit, here: DriverReading, names: Sequence[str] = ()) -> Figure:
    """Draw stacked mean proportions along the lap."""
    mean, said = here.average(circuit), f"{here.laps.code}: mean proportion of each state along the lap."
    labels = names_of(mean.shape[1], None)
    return figures.proportions(mean, **circuit.axis, names=names, labels=labels, height=150, caption=said)
