"""Controls of a model, shared by pages. Their values are in the page's address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from gdm_core.models.parameters import Repeated
from gdm_core.models.registry import NAMED_MODELS, TITLES, available
from gdm_core.text import plural
from gdm_studio.plot import palette
from pages.ui import settings, shell
from pages.ui.controls import number, one_of, slide, switch

ABOUT = {  # when to use each model
    "gdm": "States blend. The paper's model and the fastest: start here.",
    "gdm-network": "States blend; the next one depends nonlinearly on state and position.",
    "gdm-rnn": "States blend and depend on a longer past.",
    "gdm-mixture": "Blends dynamics over a latent path. Slower; for noisy recordings.",
    "slds-sticky": "One state at a time over a latent path; states persist. The usual reference.",
    "rslds-sticky": "The sticky SLDS whose next state also depends on position.",
    "rslds-ro": "The next state depends on position alone.",
    "arhmm": "One state at a time, without a latent path. Fast, and strong at short horizons.",
    "arhmm-sticky": "The AR-HMM with states that persist.",
    "pdlds": "Adds up several dynamics at once; weights need not sum to 1.",
}
MODELS = {name: TITLES[name] for name in ABOUT}
GROUPS = {
    "Soft states: 70% one state, 30% another": ("gdm", "gdm-network", "gdm-rnn", "gdm-mixture", "pdlds"),
    "Hard states: one at a time, with a probability": (
        "slds-sticky", "rslds-sticky", "rslds-ro", "arhmm", "arhmm-sticky",
    ),
}  # fmt: skip
SOFT = {"gdm", "gdm_mixture"}  # families with a temperature and a stickiness
STICKINESS = {"learn": "Learned from data", "fix": "Set by hand"}
DEFINED_BY = {"dynamics": "Dynamics", "position": "Position"}
POSTERIORS = {"dynamics": "window", "position": "linear"}
K_RANGE, D_RANGE = (2, palette.MAX_STATES), (1, 6)
TAU_RANGE, GAMMA_RANGE, SEED_RANGE = (0.01, 3.0), (0.0, 0.99), (0, 9999)
GAMMA_START = 0.3
CHIPS = {"Hard": 0.1, "Default": 0.99, "Soft": 3.0}  # temperatures to try


@dataclass(frozen=True)
class Choice:
    """The model that the controls describe.

    name      as in `gdm_core.models.registry`; family and config go to the fit
    label     shown on the page
    of        scope of K and D: a recording, or "" for the page
    """

    name: str
    family: str
    config: dict[str, Any]
    label: str
    scope: str = ""

    @property
    def n_states(self) -> int:
        return int(self.config["n_states"])

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Name and value of the main settings, for the page's header."""
        found = [("K", str(self.n_states))]
        if "temperature" in self.config:
            found.append(("temperature τ", f"{self.config['temperature']:g}"))
        if "stickiness" in self.config:
            stickiness = self.config["stickiness"]
            found.append(("stickiness γ", "learned" if stickiness == "learn" else f"{stickiness:g}"))
        found.append(("seed", str(self.config["seed"])))
        return found


def choose(
    size: tuple[int, int],
    *,
    n_states: int = 4,
    n_latent: int = 2,
    defined_by: str = "dynamics",
    kept_by: str = "",
    models: Sequence[str] | None = None,
    scope: str = "",
    frame: shell.Frame | None = None,
) -> Choice:
    """Show the controls and return the model that they describe.

    size     numbers of samples and channels
    kept_by  states defined by this are fitted to repeated values by default
    scope    of the values, such as a recording; the other arguments are defaults
    frame    page with a place for rare controls, which gets a place below each slider
    """
    n_samples, n_channels = size

    def reserve(name: str) -> None:
        if frame is not None:
            frame.curves[name] = st.container(key=f"gdm-curve-{name}")

    shell.section("Model")
    offered = [name for name in (models or MODELS) if name in available()]
    name = one_of("Model", {name: MODELS[name] for name in offered}, key="model", help=_list_models(offered))
    soft = NAMED_MODELS[name][0] in SOFT
    most = int(min(K_RANGE[1], max(K_RANGE[0], n_samples // 2)))
    k = slide(
        "States (K)",
        *K_RANGE,
        n_states,
        key=settings.key("K", scope),
        help="Number of states. Too many split one behaviour. Unsure? Open Suggest settings.",
    )
    reserve("n_states")
    help_tau = "Softness: low values switch abruptly, high values blend. Dragging previews; releasing refits."
    tau = slide(
        "Temperature (τ)",
        *TAU_RANGE,
        0.99,
        0.01,
        key="tau",
        disabled=not soft,
        chips=CHIPS,
        help=help_tau if soft else f"{MODELS[name]} has hard states.",
    )
    reserve("temperature")
    stickiness = _choose_stickiness(soft, name)
    advanced = None if frame is None or frame.rare is None else frame.advanced
    with advanced or st.expander("Advanced", icon=":material/tune:"):
        if advanced is not None:
            shell.section("Model")
        chosen = one_of(
            "States defined by",
            DEFINED_BY,
            defined_by,
            row=True,
            key=settings.key("sees", scope),
            disabled=not has_posterior(name),
            help="Dynamics: how the data change from sample to sample. Position: where they are (the paper's linear posterior).",
        )
        d, seed = _choose_size_and_seed(n_channels, n_latent, scope)
        kept = switch(
            "Fit repeated values",
            chosen == kept_by,
            key=settings.key("repeats", chosen if kept_by else scope),
            help="Off: fits leave out values that a sensor repeats. On: repeats count as measurements.",
        )
    repeats: Repeated = "keep" if kept else "auto"
    config: dict[str, Any] = {"n_states": min(k, most), "n_latent": d, "seed": seed}
    return make_choice(name, POSTERIORS[chosen], repeats, scope, **config, temperature=tau, stickiness=stickiness)


def _list_models(offered: Sequence[str]) -> str:
    """Return the models by group, one line each."""
    parts = []
    for title, names in GROUPS.items():
        lines = [f"- **{MODELS[name]}**: {ABOUT[name]}" for name in names if name in offered]
        if lines:
            parts.append("\n".join([f"{title}\n", *lines]))
    return "\n\n".join(parts)


def has_posterior(name: str) -> bool:
    """Return whether the states of this model can be defined by dynamics or by position."""
    family, fixed = NAMED_MODELS[name]
    return family == "gdm" and "posterior" not in fixed and fixed.get("transition") != "gru"


def make_choice(name: str, posterior: str, repeats: Repeated = "auto", scope: str = "", **config: Any) -> Choice:
    """Return the model of that name with the settings that apply to it."""
    family, fixed = NAMED_MODELS[name]
    if family not in SOFT:
        config = {key: value for key, value in config.items() if key not in ("temperature", "stickiness")}
    if has_posterior(name):
        config["posterior"] = posterior
    if repeats != "auto":  # defaults stay out of the keys of results
        config["repeats"] = repeats
    return Choice(name, family, config | fixed, MODELS.get(name, name), scope)


def _choose_stickiness(soft: bool, name: str) -> float | Literal["learn"]:
    mode = one_of(
        "Stickiness (γ)",
        STICKINESS,
        row=True,
        key="stay",
        disabled=not soft,
        help="How strongly a state persists: 0 forgets, higher stays longer."
        if soft
        else f"{MODELS[name]} learns how long its states last.",
    )
    if mode == "learn" or not soft:
        return "learn"
    return slide(
        "Stickiness (γ), set by hand",
        *GAMMA_RANGE,
        GAMMA_START,
        0.01,
        key="gamma",
        help="0: the previous state has no weight. Near 1: states last.",
    )


def _choose_size_and_seed(n_channels: int, n_latent: int, scope: str) -> tuple[int, int]:
    """Return (latent dimensions, seed)."""
    left, right = st.columns(2, gap="small")
    low, high = D_RANGE
    d = number(
        "Latent dimensions (D)",
        *D_RANGE,
        n_latent,
        key=settings.key("D", scope),
        place=left,
        help=f"{low} to {high}, at most the number of channels ({n_channels}).",
    )
    seed = number(
        "Initialization seed",
        *SEED_RANGE,
        0,
        key="seed",
        place=right,
        help="0 to 9999. Trust states that other seeds find as well.",
    )
    used = min(d, n_channels)
    if used != d:
        shell.quiet(f"D = {used}: the data have {plural(n_channels, 'channel')}.")
    return used, seed


def apply(choice: Choice, model: str, wanted: Mapping[str, Any]) -> None:
    """Set the controls to a model and its parameters, as the `on_click` of a button."""
    settings.change("model", MODELS[model])
    settings.change(settings.key("K", choice.scope), f"{wanted['n_states']}")
    settings.change(settings.key("D", choice.scope), f"{wanted['n_latent']}")
    if "temperature" in wanted:
        settings.change("tau", f"{wanted['temperature']:g}")
    if (stickiness := wanted.get("stickiness")) is not None:
        settings.change("stay", STICKINESS["learn" if stickiness == "learn" else "fix"])
        if stickiness != "learn":
            settings.change("gamma", f"{stickiness:g}")


def are_set(choice: Choice, model: str, wanted: Mapping[str, Any]) -> bool:
    """Return whether the controls are set to a model and its parameters."""
    return choice.name == model and all(
        choice.config[name] == value for name, value in wanted.items() if name in choice.config
    )
