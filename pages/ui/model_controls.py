"""The controls of a model that pages share, in a user's words with the symbol in brackets. They live in the address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import streamlit as st

from gdm_core.models.registry import NAMED_MODELS, TITLES, available
from gdm_studio.plot import palette
from pages.ui import settings, shell
from pages.ui.controls import number, one_of, slide

# One line for each: what it is for.
ABOUT = {
    "gdm": "Moments blend states. The model of the paper, and the quickest: start here.",
    "gdm-rnn": "Blends states, and remembers more than the last moment. For switching that depends on what came long before.",
    "gdm-mixture": "Blends the dynamics themselves, with a hidden path beneath. Slower; for noisy recordings.",
    "slds-sticky": "One state at a time over a hidden path, and states that like to stay. The usual reference.",
    "rslds-sticky": "As the sticky SLDS, but where one is decides what comes next.",
    "rslds-ro": "Where one is decides alone what comes next. For states that belong to places.",
    "arhmm": "One state at a time, straight on the data, no hidden path. Quick and hard to beat at short range.",
    "arhmm-sticky": "As the AR-HMM, with states that like to stay.",
    "pdlds": "Adds up several dynamics at once with weights of any sign: a mixture that is no proportion.",
}
MODELS = {name: TITLES[name] for name in ABOUT}
GROUPS = {
    "Soft: a moment can be 70 % one state and 30 % another": ("gdm", "gdm-rnn", "gdm-mixture", "pdlds"),
    "Hard: one state at a time, and how sure": ("slds-sticky", "rslds-sticky", "rslds-ro", "arhmm", "arhmm-sticky"),
}
# Which of the controls a family has; those of NAMED_MODELS decide themselves what they fix.
SOFT = {"gdm", "gdm_mixture"}
STAY = {"learn": "Learn it", "fix": "Set it"}
SEES = {"moves": "window", "places": "linear"}
MADE_OF = {"moves": "Moves", "places": "Places"}  # SEES on the screen
K_RANGE, D_RANGE = (2, palette.MAX_STATES), (1, 6)
TAU_RANGE, GAMMA_RANGE, SEED_RANGE = (0.01, 3.0), (0.0, 0.99), (0, 9999)
STAY_START = 0.3


@dataclass(frozen=True)
class Choice:
    """The model that the controls describe.

    name      as in `named_models.build`; family and config are what a fit request takes
    label     its name on the screen
    of        the recording that K and D are set for; "" where they belong to none
    """

    name: str
    family: str
    config: dict[str, Any]
    label: str
    of: str = ""

    @property
    def n_states(self) -> int:
        return int(self.config["n_states"])

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Name and value of what matters, for the page's header."""
        found = [("states K", str(self.n_states))]
        if "temperature" in self.config:
            found.append(("softness τ", f"{self.config['temperature']:g}"))
        if "stickiness" in self.config:
            stay = self.config["stickiness"]
            found.append(("stay γ", "learned" if stay == "learn" else f"{stay:g}"))
        found.append(("seed", str(self.config["seed"])))
        return found


def _models_help(offered: Sequence[str]) -> str:
    """All models in their groups, a line each."""
    parts = []
    for title, names in GROUPS.items():
        lines = [f"- **{MODELS[name]}**: {ABOUT[name]}" for name in names if name in offered]
        if lines:
            parts.append("\n".join([f"{title}\n", *lines]))
    return "\n\n".join(parts)


def choose(
    *,
    n_channels: int,
    n_samples: int,
    n_states: int = 4,
    n_latent: int = 2,
    sees: str = "moves",
    models: Sequence[str] | None = None,
    of: str = "",
) -> Choice:
    """Show the controls and say what they describe. The arguments after `n_samples` are what a first visit finds.

    of  names the recording that K, D and what states are made of begin for: another one starts at its own
    """
    shell.section("Model")
    offered = [name for name in (models or MODELS) if name in available()]
    name = one_of("Model", {name: MODELS[name] for name in offered}, key="model", help=_models_help(offered))
    shell.quiet(ABOUT[name])
    soft = NAMED_MODELS[name][0] in SOFT
    most = int(min(K_RANGE[1], max(K_RANGE[0], n_samples // 2)))
    k = slide("States (K)", *K_RANGE, n_states, key="K", of=of, help="How many behaviours to look for.")
    tau = slide(
        "Softness (τ)",
        *TAU_RANGE,
        0.99,
        0.01,
        key="tau",
        disabled=not soft,
        help="Low: nearly one state at a time. High: states blend. The paper uses 0.99."
        if soft
        else f"{MODELS[name]} has hard states: there is no softness to set.",
    )
    stays = _stay(soft, name)
    choice = one_of(
        "States are made of",
        MADE_OF,
        sees,
        row=True,
        key="sees",
        of=of,
        disabled=not has_posterior(name),
        help="Moves: a state is told by how things change from one moment to the next. Places: by where they are "
        "(the paper's linear posterior). Offered by the Gumbel Dynamical Model alone.",
    )
    d, seed = _more(n_channels, n_latent, of)
    return choice_of(name, min(k, most), tau, stays, SEES[choice], d, seed, of)


def has_posterior(name: str) -> bool:
    """Return whether the states of this model can be defined by dynamics or by position."""
    family, fixed = NAMED_MODELS[name]
    return family == "gdm" and "posterior" not in fixed and fixed.get("transition") != "gru"


def choice_of(
    name: str,
    n_states: int,
    softness: float,
    stay: float | Literal["learn"],
    posterior: str,
    n_latent: int,
    seed: int,
    of: str = "",
) -> Choice:
    """The model of that name with what it takes of these settings."""
    family, fixed = NAMED_MODELS[name]
    config: dict[str, Any] = {"n_states": n_states, "n_latent": n_latent, "seed": seed}
    if family in SOFT:
        config |= {"temperature": softness, "stickiness": stay}
    if has_posterior(name):
        config["posterior"] = posterior
    return Choice(name, family, config | fixed, MODELS.get(name, name), of)


def _stay(soft: bool, name: str) -> float | Literal["learn"]:
    """Show the controls of gamma and return it."""
    mode = one_of(
        "How long to stay (γ)",
        STAY,
        row=True,
        key="stay",
        disabled=not soft,
        help="How much of the state before flows into the next one."
        if soft
        else f"{MODELS[name]} learns from the data how long it stays.",
    )
    if mode == "learn" or not soft:
        return "learn"
    return slide(
        "Stickiness (γ)",
        *GAMMA_RANGE,
        STAY_START,
        0.01,
        key="gamma",
        help="0: each moment is decided anew. Towards 1: a state goes on until something speaks against it.",
    )


def _more(n_channels: int, n_latent: int, of: str) -> tuple[int, int]:
    """(latent dimensions, seed)."""
    left, right = st.columns(2, gap="small")
    d = number(
        "Dimensions (D)",
        *D_RANGE,
        n_latent,
        key="D",
        of=of,
        at=left,
        help=f"How many directions the dynamics see, {D_RANGE[0]} to {D_RANGE[1]} and at most the {n_channels} channels of the "
        "data.",
    )
    seed = number(
        "Start (seed)",
        *SEED_RANGE,
        0,
        key="seed",
        at=right,
        help="Another seed starts the fit elsewhere, 0 to 9999. States that come back are more to be trusted.",
    )
    used = min(d, n_channels)
    if used != d:
        shell.quiet(f"{used} of {d} dimensions are used: the data has no more channels.")
    return used, seed


def apply(choice: Choice, model: str, wanted: Mapping[str, Any]) -> None:
    """Set the controls to a model and its parameters, as the `on_click` of a button."""
    settings.change("model", MODELS[model])
    settings.change(settings.key("K", choice.of), f"{wanted['n_states']}")
    settings.change(settings.key("D", choice.of), f"{wanted['n_latent']}")
    if "temperature" in wanted:
        settings.change("tau", f"{wanted['temperature']:g}")
    if (stay := wanted.get("stickiness")) is not None:
        settings.change("stay", STAY["learn" if stay == "learn" else "fix"])
        if stay != "learn":
            settings.change("gamma", f"{stay:g}")


def are_set(choice: Choice, model: str, wanted: Mapping[str, Any]) -> bool:
    """Return whether the controls are set to a model and its parameters."""
    return choice.name == model and all(
        choice.config[name] == value for name, value in wanted.items() if name in choice.config
    )
