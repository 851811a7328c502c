"""Controls of Compare: the data, and up to six models with their parameters."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import streamlit as st

from datasets import formula1, mice, nascar, windows
from gdm_core.models.registry import NAMED_MODELS, available
from gdm_core.trials import Trials
from pages import lab
from pages.lab.card import OPEN_ON
from pages.lab.live import require_open_fit
from pages.lab.time_scale import choose_window, describe
from pages.ui import navigation, shell
from pages.ui import settings as ui_settings
from pages.ui.controls import number, number_in_address, one_of
from pages.ui.model_controls import (
    DEFINED_BY,
    GAMMA_RANGE,
    GAMMA_START,
    K_RANGE,
    MODELS,
    POSTERIORS,
    SOFT,
    STICKINESS,
    TAU_RANGE,
    Choice,
    has_posterior,
    make_choice,
)

LETTERS = "ABCDEF"
SHORT = {
    "gdm": "GDM",
    "gdm-network": "GDM (network)",
    "gdm-rnn": "GDM (GRU)",
    "gdm-mixture": "GDM, three levels",
    "slds-sticky": "sticky SLDS",
    "rslds-sticky": "sticky rSLDS",
    "rslds-ro": "rSLDS",
    "arhmm": "AR-HMM",
    "arhmm-sticky": "sticky AR-HMM",
    "pdlds": "p-dLDS",
}
FIRST = ("gdm", "arhmm", "rslds-ro", "gdm", "gdm", "gdm")  # of a first visit, and what further models begin as
N_FIRST = 3
SEES = {posterior: name for name, posterior in POSTERIORS.items()}  # what the controls call a posterior
COUNT = "settings"  # number of models, in the address


@dataclass(frozen=True)
class ComparedSetting:
    """A model by name, with all parameters of its family except the seed."""

    letter: str
    name: str
    family: str
    config: dict[str, Any]


def labels(chosen: list[ComparedSetting]) -> list[str]:
    """Return a label for each: letter, model, and the parameters that differ."""
    symbols = {"n_states": "K", "temperature": "τ", "stickiness": "γ", "posterior": "states by"}
    differ = [name for name in symbols if len({repr(one.config[name]) for one in chosen if name in one.config}) > 1]
    found = []
    for one in chosen:
        parts = [
            f"{symbols[name]} {SEES.get(value, value)}"
            for name in differ
            if (value := one.config.get(name)) is not None
        ]
        found.append(f"{one.letter} {', '.join([SHORT[one.name], *parts])}")
    return found


def drop_duplicates(chosen: list[ComparedSetting]) -> tuple[list[ComparedSetting], str]:
    """Return each model once, and a sentence about the duplicates."""
    kept: dict[str, ComparedSetting] = {}
    notes = []
    for one in chosen:
        same = kept.setdefault(repr((one.name, one.config)), one)
        if same is not one:
            notes.append(f"{one.letter} equals {same.letter} and is left out. Change one of its parameters.")
    return list(kept.values()), " ".join(notes)


def choose(source: ComparedData, advanced: Any) -> list[ComparedSetting]:
    """Show a button with the controls of each model."""
    shell.section("Models")
    count = _count()
    offered = {name: words for name, words in MODELS.items() if name in available()}
    chosen = []
    for letter in LETTERS[:count]:
        with st.popover(_summarise(letter), width="stretch"):
            chosen.append(_row(letter, offered, source))
    with st.container(horizontal=True):
        st.button("Add model", on_click=_set_count, args=(count + 1,), disabled=count == len(LETTERS))
        st.button("Remove model", on_click=_set_count, args=(count - 1,), disabled=count == 1)
    with advanced:
        _offer_fit(count)
    return chosen


def _summarise(letter: str) -> str:
    """Return the model and K of a row, which its controls have yet to show."""

    def current(name: str, start: Any) -> Any:
        key = ui_settings.key(name, letter)
        return st.session_state.get(ui_settings.widget_key(key), ui_settings.text(key) or start)

    names = {MODELS[name]: name for name in MODELS}
    name = current("model", FIRST[LETTERS.index(letter)])
    return f"{letter}: {SHORT.get(names.get(name, name), name)}, K {current('K', 4)}"


def _offer_fit(count: int) -> None:
    """Show a button that adds the model of the last finished fit on a lab page."""
    last: tuple[str, Choice] | None = st.session_state.get(lab.LAST_FIT)
    text = "No finished fit yet. Open a lab page and wait for its fit."
    if last is not None:
        facts = ", ".join(f"{name} {value}" for name, value in last[1].facts if name != "seed")
        text = f"{last[1].label}, {facts}, from {last[0]}. Compare uses its own seeds."
    full = last is None or count == len(LETTERS)
    clicked: dict[str, Any] = {"on_click": _add_fit, "args": (count, last)}
    st.button("Add the current fit", key="add-fit", disabled=full, help=text, width="stretch", **clicked)


def _add_fit(count: int, last: tuple[str, Choice]) -> None:
    """Set the controls of the next row to the model of that fit."""
    for name, text in address_of(last[1].name, last[1].config).items():
        ui_settings.change(ui_settings.key(name, LETTERS[count]), text)
    _set_count(count + 1)


def address_of(model: str, config: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of a model as a lab page's address has them."""
    found = {"model": MODELS[model], "K": f"{config['n_states']}"}
    if "posterior" in config:
        found["sees"] = DEFINED_BY[SEES[config["posterior"]]]
    if "temperature" in config:
        stay = config["stickiness"]
        found |= {"tau": f"{config['temperature']:g}", "stay": STICKINESS["learn" if stay == "learn" else "fix"]}
        found |= {} if stay == "learn" else {"gamma": f"{stay:g}"}
    return found


def _count() -> int:
    """Return the number of models."""
    count = number_in_address(COUNT, "Models", 1, len(LETTERS), N_FIRST)
    ui_settings.keep(COUNT, None if count == N_FIRST else str(count))
    return count


def _set_count(count: int) -> None:
    ui_settings.change(COUNT, str(count))


def _row(letter: str, offered: Mapping[str, str], source: ComparedData) -> ComparedSetting:
    name = one_of(f"Model {letter}", offered, FIRST[LETTERS.index(letter)], key=ui_settings.key("model", letter))
    left, right = st.columns(2, gap="small")
    k = number(
        "States (K)", *K_RANGE, 4, key=ui_settings.key("K", letter), place=left, called=f"States (K) of {letter}"
    )
    tau, defined_by = 0.99, "dynamics"
    stickiness: float | Literal["learn"] = "learn"
    if NAMED_MODELS[name][0] in SOFT:
        shown: dict[str, Any] = {"place": right, "format": "%.2f"}
        key, called = ui_settings.key("tau", letter), f"Temperature of {letter}"
        tau = number("Temperature (τ)", *TAU_RANGE, tau, key=key, step=0.1, called=called, **shown)
        if one_of("Stickiness (γ)", STICKINESS, key=ui_settings.key("stay", letter)) == "fix":
            key, called = ui_settings.key("gamma", letter), f"Stickiness of {letter}"
            shown |= {"label_visibility": "collapsed", "place": st}
            stickiness = number("Stickiness", *GAMMA_RANGE, GAMMA_START, key=key, step=0.1, called=called, **shown)
    if has_posterior(name):
        start = "position" if source.windowed else "dynamics"
        defined_by = one_of("States defined by", DEFINED_BY, start, key=ui_settings.key("sees", letter))
    k = min(k, max(K_RANGE[0], source.train.n_samples // 2))
    n_latent = min(source.n_latent, source.train.n_channels)
    choice = make_choice(
        name, POSTERIORS[defined_by], n_states=k, n_latent=n_latent, seed=0, temperature=tau, stickiness=stickiness
    )
    config = {name: value for name, value in choice.config.items() if name != "seed"}
    return ComparedSetting(letter, name, choice.family, config)


# ---- data -----------------------------------------------------------------------------------------------------------
SIMULATED = {
    "nascar-soft": "NASCAR, soft-sticky",
    "nascar-standard": "NASCAR, standard",
    "nascar-variable": "NASCAR, variable speed",
    "race": "Formula 1, simulated laps",
    "mice": "Mice, simulated",
}
# Scenario of each simulated track: for the simulator, and in the address of the NASCAR lab.
SETTINGS = {
    "nascar-soft": ("soft", "Soft-sticky"),
    "nascar-standard": ("standard", "Standard"),
    "nascar-variable": ("variable_speed", "Variable speed"),
}
LABS = ("nascar", "formula1", "behaviour", "your_data")  # pages whose data can be used
T, LAPS, FRAMES = 1000, 6, 2000
SEEDS = (0, 9999)


@dataclass(frozen=True, eq=False)
class ComparedData:
    """Training and test trials.

    n_latent   latent dimensions, the same for all models
    keep       whether results may stay on disk
    page       folder of the page that shows these data, at `address`; "" if there is none
    of         scope of that page's K and posterior
    windowed   whether trials are windows of a recording
    """

    about: str
    train: Trials
    test: Trials
    n_latent: int = 2
    unit: str = "step"
    keep: bool = True
    page: str = ""
    address: Mapping[str, Any] = field(default_factory=dict)
    of: str = ""
    windowed: bool = False

    def query(self, chosen: ComparedSetting) -> dict[str, Any]:
        """Return the address at which the page shows `chosen` fitted to these data."""
        of = {"K": self.of, "sees": self.of}
        found = address_of(chosen.name, chosen.config)
        return {**self.address, **{ui_settings.key(name, of.get(name, "")): text for name, text in found.items()}}


@st.cache_resource(max_entries=12, show_spinner="Simulating")
def simulated(name: str, seed: int) -> ComparedData:
    """Return simulated data, cached to compute the fingerprint once."""
    about = SIMULATED[name] + (f", seed {seed}" if seed else "")
    if name in SETTINGS:
        setting, scenario = SETTINGS[name]
        lap, another = nascar.train_test(setting, seed, T)
        address = {"scenario": scenario, "track": str(seed)}
        sides = Trials((lap,), name=lap.name), Trials((another,), name=another.name)
        return ComparedData(about, *sides, page="nascar", address=address)
    if name == "race":
        session = formula1.simulate_race(drivers=2, laps=LAPS, seed=seed)
        train, test = (formula1.to_trials(session, driver.code) for driver in session.drivers)
        return ComparedData(about, train, test, unit="s")
    whole = mice.simulate(4, FRAMES, seed)
    return ComparedData(about, Trials(whole.trials[:3], "three trials"), Trials(whole.trials[3:], "a fourth"), 4, "s")


def choose_data(advanced: Any) -> ComparedData | None:
    """Show the controls and return the data; None if the chosen page has none."""
    shell.section("Data")
    pages = {info.folder: OPEN_ON.format(info.title) for info in navigation.REGISTRY if info.folder in LABS}
    names = SIMULATED | pages
    text = "A simulation with known states, or the data of another page."
    name = one_of("Dataset", names, key="data", help=text)
    source = (
        _open(name)
        if name in pages
        else simulated(name, number("Simulation seed", *SEEDS, 0, key="track", place=advanced))
    )
    if source is None or source.windowed:
        return source
    with advanced:
        length, _ = choose_window(source.train, source.unit, source.of)
    return source if length is None else summarised(source.train.fingerprint, source, length)


@st.cache_resource(scope="session", max_entries=4, show_spinner=False)
def summarised(fingerprint: str, _source: ComparedData, length: int) -> ComparedData:
    """Return windows of `length`, cached to compute the fingerprint once."""
    train, test = (windows.summarise(side, length) for side in (_source.train, _source.test))
    about = f"{_source.about}, windows of {describe(length, _source.train[0].rate_hz, _source.unit)}"
    return replace(_source, about=about, train=train, test=test, n_latent=windows.N_LATENT, page="", windowed=True)


def _open(page: str) -> ComparedData | None:
    """Return the data that this visitor has open on a page."""
    setting = require_open_fit(page)
    if setting is None:
        return None
    data, choice = setting.dataset, setting.choice
    n_latent, left = int(choice.config["n_latent"]), ui_settings.on_page(navigation.info(page).url)
    windowed = bool(data.recordings)
    sides = data.train, data.test
    return ComparedData(data.about, *sides, n_latent, data.unit, data.keep, page, left, choice.scope, windowed)
