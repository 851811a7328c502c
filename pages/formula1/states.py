"""The tab States: map, strips, difference between the drivers, scores and details of a fit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import streamlit as st

from gdm_core.analysis.segments import composition
from gdm_core.text import plural
from gdm_studio.plot import figures
from gdm_studio.plot.figures.base import Figure, names_of, numbered
from pages import lab
from pages.formula1 import circuit_map, map_labels, scores, state_names, teams, time_gained
from pages.formula1.circuit import Circuit
from pages.formula1.comparison import describe
from pages.formula1.data import along_lap
from pages.formula1.driver_states import DriverReading, on_map, race_of, read, standing
from pages.lab import Decoded, Undecoded, View, live, preview_figures
from pages.lab.figures import matrix
from pages.ui import controls, shell
from pages.ui.controls import one_of, slide, switch
from pages.ui.plot import Panel, Picture, by_key, plot


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
    sides, about = {"train": f"{train} (training)", "test": f"{test} (held-out)"}, f"{train}-{test}"
    which = one_of(
        "Driver", sides, key="who", as_ids=True, help="The model is fitted to the first driver and applied to the second.",
        options_key=about, row=True, width="content", label_visibility="collapsed",
    )  # fmt: skip
    with st.popover("Labels", icon=":material/label:"):
        on = switch("Label segments with states", True, key="badges")
        about = "As in the paper's figure; otherwise only the strongest."
        every = switch("All states of a segment", False, key="badge-all", help=about)
        about = "The paper uses 1%."
        weight = slide("Minimum weight of a state (%)", 1, 50, 1, key="badge-weight", live=True, help=about)
        label, about = "Main states: minimum presence (% of samples)", "The paper's main figure uses 20%."
        presence = slide(label, 5, 95, 20, 5, key="badge-presence", live=True, help=about)
        about = "States present in 5% of samples or more (the paper's appendix)."
        grey = switch("Complementary states in grey", False, key="badge-grey", help=about)
    return MapOptions(which, on, map_labels.MOST if every else 1, weight / 100, presence / 100, grey)


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
        draw = {"map": lambda: track_map(circuit, here, options, names), "shares": lambda: shares(circuit, here, names)}
        made = {  # cache only the last map of a dragged slider
            name: now.memoize((name, options.which), make, inputs=(here.states,), settings=(options, names))
            for name, make in draw.items()
        }
        track, area = (replace(one, figure=made[one.key], state=here.state) for one in (track, area))
    if drivers := lab.together([ours, theirs]):
        states = tuple(driver.states for driver in drivers)
        made = now.memoize(
            "strips", lambda: strips(circuit, drivers, codes, names), inputs=states, settings=(codes, names)
        )
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
    marks: tuple[map_labels.Badge, ...] = ()
    if laps.segment is not None and options.badges:
        limits = {"weight": options.weight, "presence": options.presence, "complementary": 0.05}
        parts = composition(states, laps.segment, len(circuit.segments), **limits)
        marks = map_labels.badges(circuit, parts, complementary=options.complementary, most=options.most)
    what = f"{laps.code}, {plural(laps.n_laps, 'lap')}"
    caption = map_caption(options, circuit, marks)
    return circuit_map.circuit_map(circuit, laps, states, badges=marks, title=what, caption=caption, names=names)


def map_caption(options: MapOptions, circuit: Circuit, marks: Sequence[map_labels.Badge]) -> str:
    what = "One dot per sample, coloured by its mix of states: muted where several share the moment."
    if not marks:
        return what
    rest = "; others in grey" if options.complementary else ""
    labels = (
        "Labels: strongest state per segment; hover for the others and for hidden labels."
        if options.most == 1
        else f"Labels: states with weight above {options.weight:.0%} in over "
        f"{options.presence:.0%} of a segment's samples, by presence, sized by weight{rest}."
    )
    return f"{what} {labels}"


def strips(
    circuit: Circuit, drivers: Sequence[DriverReading], codes: Sequence[str], names: Sequence[str] = ()
) -> Figure:
    """Draw the average lap of each driver; rows without states stay empty."""
    known = {driver.laps.code: driver.average(circuit) for driver in drivers}
    nothing = np.full_like(next(iter(known.values())), np.nan)
    rows, caption = (
        {code: known.get(code, nothing) for code in codes},
        "Average lap of each driver; T1, T2, … are corners.",
    )
    return figures.state_strips(rows, **circuit.axis, names=names, caption=caption)


def shares(circuit: Circuit, here: DriverReading, names: Sequence[str] = ()) -> Figure:
    """Draw stacked mean proportions along the lap."""
    mean, caption = here.average(circuit), f"{here.laps.code}: mean proportion of each state along the lap."
    labels = names_of(mean.shape[1], None)
    return figures.proportions(mean, **circuit.axis, names=names, labels=labels, height=150, caption=caption)


def show_moment(circuit: Circuit, here: DriverReading | Undecoded) -> None:
    """Draw the mean proportions at one place of the lap as bars, which follow the strips and play."""
    if isinstance(here, DriverReading):
        mean, name = here.average(circuit)[:, here.used], f"the average lap of {here.laps.code}"
        recording = f"{here.laps.trials.fingerprint}/{here.origin}"
        lab.show_clock(recording, name, mean, here.looks, circuit.axis)


def name_states(view: View) -> View:
    """Return the view of the displayed race, with the names of its states."""
    shown = standing(view)
    return replace(shown, naming=state_names.naming(shown))


def tab(view: View) -> None:
    """Show the picture, what the states say about the drivers, the scores and the details."""
    page = view.frame
    with page.picture, st.container(key="formula1-head", horizontal=True, vertical_alignment="center"):
        race = race_of(view)
        options = choose_options(race.train.code, race.test.code)
    with page.picture:
        key = st.container()
    shown = name_states(view)
    called = () if shown.naming is None else shown.naming.names
    named = {} if view.state.result is None else {view.state.result.key: called}
    lab.picture(view, lambda now: make_panels(view, now, options, named))
    lab.preview(view, make_preview(view, options))
    shown = on_map(shown, options.which)
    with key, shell.made_for(view.made_for):
        shell.state_key(max(2, view.state.n_states or view.choice.n_states), called or None)
    scores.show_card(view)
    state_names.keep_in_address(view)
    laps = race_of(shown).test if options.which == "test" else race_of(shown).train
    here = read(shown, laps, options.which)
    with page.picture:
        show_moment(race_of(shown).circuit, here)
    lab.show_explanation(shown)
    lab.show_curves(view)
    _show_details(shown, here)


def usage(view: View, here: DriverReading) -> None:
    """Show shares in each segment, on each lap and over the race."""
    laps, states, names = here.laps, here.states, here.names
    left, right = st.columns([0.68, 0.32], gap="small")
    with left:
        if laps.segment is not None:
            with shell.panel("by-segment", "Usage by segment"):
                plot(usage_by_segment(race_of(view).circuit, here), key="by-segment", state=here.state)
        with shell.panel("by-lap", "Usage by lap"):
            plot(usage_by_lap(here), key="by-lap", state=here.state)
    with right, shell.panel("usage", "Usage over all laps"):
        plot(figures.usage(states, names=names), key="usage", state=here.state)


def usage_by_lap(here: DriverReading) -> Figure:
    caption = "Pit stops and safety cars are visible as outliers."
    return figures.usage_by_segment(here.states, here.laps.lap, names=here.names, height=180, caption=caption)


def usage_by_segment(circuit: Circuit, here: DriverReading) -> Figure:
    assert here.laps.segment is not None
    figure = figures.usage_by_segment(
        here.states, here.laps.segment, names=here.names, what="segment", height=200,
        caption="State proportions from each corner to the next; columns sum to 100%.",
    )  # fmt: skip
    present = np.unique(here.laps.segment)
    segments = [circuit.segments[c] for c in present]
    figure["layout"]["xaxis"] |= {
        "tickvals": present.tolist(), "ticktext": segments, "dtick": None, "tickangle": -50, "title": None,
    }  # fmt: skip
    return figure


def delta_by_state(view: View) -> None:
    """Show the delta between the drivers by state."""
    race = race_of(view)
    drivers = [read(view, race.train, "train"), read(view, race.test, "test")]
    if race.found is None or race.codes[0] == race.codes[1]:
        shell.empty("No delta by state", "It needs timed laps of two drivers.")
        return
    gains = time_gained.gains_of(view, race.found, drivers, numbered(state_names.names(view)))
    if "state" not in gains:
        shell.empty("Computing the delta by state", f"The model is applied to {race.test.code}.")
        return
    with shell.panel("gain-by-state", f"Delta by state: {race.codes[0]} vs {race.codes[1]}"):
        styles = teams.line_styles(race.session, race.codes)
        plot(time_gained.bars(race.found.names, gains["state"], "state", styles), key="gain-by-state")
        shell.quiet(describe(race.found))


def stays(view: View, reading: Decoded) -> None:
    left, right = st.columns(2, gap="small")
    with left:
        lab.show_dwell_times(view, reading)
    with right, shell.panel("matrix", "Transition matrix"):
        plot(matrix(reading), key="matrix", state=reading.state)


def prediction(view: View, reading: Decoded) -> None:
    if not race_of(view).pick.selection.channels:
        shell.quiet(
            "The model sees ten random mixtures of X and Y, as in the paper, and predicts those. To predict speed, choose Car "
            "telemetry under The model sees."
        )
    lab.show_prediction(view, reading)


DETAILS: dict[str, Callable[[View, DriverReading], None]] = {
    "Usage": usage,
    "Names": lambda view, _: state_names.show_names(view),
    "Delta by state": lambda view, _: delta_by_state(view),
    "Dwell times": stays,
    "Prediction": prediction,
    "Accuracy against K": lambda view, _: scores.show_accuracy(view),
    "Recommended settings": lab.show_suggestion,
}


def _show_details(view: View, here: DriverReading | Undecoded) -> None:
    """Show the open detail, once there are states."""
    with view.frame.below:
        for name, place in controls.tabs(list(DETAILS), "detail"):
            if not place.open:
                continue
            with place:
                if isinstance(here, DriverReading):
                    with shell.made_for(view.made_for if here.state == "fresh" else ""):
                        DETAILS[name](view, here)
                else:
                    shell.empty(here.title, here.note)
