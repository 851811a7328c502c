"""What settings can be compared on: simulations with known states, and what this visitor has opened on other pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import streamlit as st

from datasets import formula1, mice, nascar
from gdm_core.trials import Trials
from pages.compare.settings import Chosen
from pages.lab.card import OPEN_ON
from pages.lab.data import open_on
from pages.ui import navigation, shell
from pages.ui import settings as ui_settings
from pages.ui.controls import number, one_of
from pages.ui.model_controls import MODELS

SIMULATED = {
    "nascar-soft": "NASCAR, soft and sticky",
    "nascar-standard": "NASCAR, standard",
    "nascar-variable": "NASCAR, variable speed",
    "race": "Formula 1, simulated laps",
    "mice": "Mice, simulated",
}
# Of each simulated track what the simulator calls its setting, and what the NASCAR lab calls it in its address.
SETTINGS = {
    "nascar-soft": ("soft", "Soft and sticky"),
    "nascar-standard": ("standard", "Standard"),
    "nascar-variable": ("variable_speed", "Variable speed"),
}
LABS = ("nascar", "formula1", "behaviour", "your_data")  # pages whose data can be compared on
T, LAPS, FRAMES = 1000, 6, 2000
SEEDS = (0, 9999)


@dataclass(frozen=True, eq=False)
class Source:
    """Trials to fit, new ones to measure on, and a line about them.

    n_latent   dimensions of the dynamics, the same for all settings
    keep       whether what is found may stay on disk
    page       the folder of the page that shows these data, at `address` and with K under the key `k_key`; "" for none
    """

    about: str
    train: Trials
    test: Trials
    n_latent: int = 2
    unit: str = "step"
    keep: bool = True
    page: str = ""
    address: Mapping[str, Any] = field(default_factory=dict)
    k_key: str = "K"

    def query(self, chosen: Chosen) -> dict[str, Any]:
        """The address at which the page shows `chosen` fitted to these data."""
        config = chosen.config
        query = {**self.address, "model": MODELS[chosen.name], self.k_key: str(config["n_states"])}
        if "temperature" in config:
            stay = config["stickiness"]
            query |= {"tau": f"{config['temperature']:g}", "stay": "Learn it" if stay == "learn" else "Set it"}
            query |= {} if stay == "learn" else {"gamma": f"{stay:g}"}
        return query


@st.cache_resource(max_entries=12, show_spinner="Simulating")
def simulated(name: str, seed: int) -> Source:
    """The same object each time, so that its fingerprint is computed once."""
    about = f"{SIMULATED[name]}, number {seed}"
    if name in SETTINGS:
        setting, called = SETTINGS[name]
        lap, another = nascar.train_test(setting, seed, T)
        address = {"setting": called, "track": str(seed)}
        sides = Trials((lap,), name=lap.name), Trials((another,), name=another.name)
        return Source(about, *sides, page="nascar", address=address)
    if name == "race":
        session = formula1.simulate_race(drivers=2, laps=LAPS, seed=seed)
        train, test = (formula1.to_trials(session, driver.code) for driver in session.drivers)
        return Source(about, train, test, unit="s")
    whole = mice.simulate(4, FRAMES, seed)
    return Source(about, Trials(whole.trials[:3], "three trials"), Trials(whole.trials[3:], "a fourth"), 4, "s")


def choose() -> Source | None:
    """Show the controls. None, with what to do on the screen, where nothing is open on the page that was chosen."""
    shell.section("Data")
    pages = {info.folder: OPEN_ON.format(info.title) for info in navigation.available() if info.folder in LABS}
    names = SIMULATED | pages
    said = "Simulations whose states are known, or the data that you have open on another page."
    name = one_of("Compare on", names, key="data", help=said)
    if name in pages:
        return _open(name)
    return simulated(name, number("Simulation (seed)", *SEEDS, 0, key="track", help="Another number draws other data."))


def _open(page: str) -> Source | None:
    """The data that this visitor has on another page."""
    setting = open_on(page)
    if setting is None:
        return None
    data, choice = setting.data, setting.choice
    n_latent, left = int(choice.config["n_latent"]), navigation.left_at(navigation.info(page).url)
    k_key = ui_settings.key("K", choice.of)
    return Source(data.about, data.train, data.test, n_latent, data.unit, data.keep, page, left, k_key)
