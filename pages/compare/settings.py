"""The settings that stand side by side: up to six models with their K, softness and stickiness, all in the address."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import streamlit as st

from gdm_core.models.registry import NAMED_MODELS, available
from pages.ui import limits, shell
from pages.ui.controls import number, one_of
from pages.ui.model_controls import K_RANGE, MODELS, SOFT, TAU_RANGE

LETTERS = "ABCDEF"
SHORT = {
    "gdm": "GDM",
    "gdm-rnn": "GDM (GRU)",
    "gdm-mixture": "GDM, three levels",
    "slds-sticky": "sticky SLDS",
    "rslds-sticky": "sticky rSLDS",
    "rslds-ro": "rSLDS",
    "arhmm": "AR-HMM",
    "arhmm-sticky": "sticky AR-HMM",
    "pdlds": "p-dLDS",
}
FIRST = ("gdm", "arhmm", "rslds-ro")  # what a first visit compares
STAYS = {"learn": "Learn it", "0": "0", "0.3": "0.3", "0.5": "0.5", "0.7": "0.7", "0.9": "0.9"}
COUNT = "settings"  # how many there are, in the address


@dataclass(frozen=True)
class Chosen:
    """One setting: the model by its name, and the parameters of its family, all but the seed."""

    letter: str
    name: str
    family: str
    config: dict[str, Any]


def labels(chosen: list[Chosen]) -> list[str]:
    """A name for each: its letter, its model, and what else it does not share with all others."""
    told = {"n_states": "K", "temperature": "τ", "stickiness": "γ"}
    differ = [name for name in told if len({repr(one.config[name]) for one in chosen if name in one.config}) > 1]
    named = []
    for one in chosen:
        parts = [f"{told[name]} {one.config[name]}" for name in differ if name in one.config]
        named.append(f"{one.letter} {', '.join([SHORT[one.name], *parts])}")
    return named


def once(chosen: list[Chosen]) -> tuple[list[Chosen], str]:
    """(each setting once, a sentence on those that were there twice): a setting cannot be compared with itself."""
    kept: list[Chosen] = []
    said = []
    for one in chosen:
        same = next((other for other in kept if (other.name, other.config) == (one.name, one.config)), None)
        if same is None:
            kept.append(one)
        else:
            said.append(
                f"{one.letter} is the same setting as {same.letter}, and is left out: change its model, K or softness."
            )
    return kept, " ".join(said)


def choose(n_channels: int, n_samples: int, n_latent: int) -> list[Chosen]:
    """Show a row of controls for each setting."""
    shell.section("Settings")
    count = _count()
    offered = [name for name in MODELS if name in available()]
    chosen = []
    for letter in LETTERS[:count]:
        with st.container(border=True, key=f"compare-row-{letter}"):
            chosen.append(_row(letter, offered, n_channels, n_samples, n_latent))
    more, fewer = st.columns(2, gap="small")
    more.button("Add one", on_click=_set_count, args=(count + 1,), disabled=count == len(LETTERS), width="stretch")
    fewer.button("Remove one", on_click=_set_count, args=(count - 1,), disabled=count == 1, width="stretch")
    return chosen


def _count() -> int:
    """How many settings there are: in the address, so that a link has them all."""
    asked = st.query_params.get(COUNT, "")
    if not asked:
        return len(FIRST)
    wanted = limits.whole(asked)
    count = len(FIRST) if wanted is None else min(max(wanted, 1), len(LETTERS))
    if str(count) != asked:
        shell.quiet(f"The link asks for {asked[:20]} settings; 1 to {len(LETTERS)} are offered: {count} are shown.")
    return count


def _set_count(count: int) -> None:
    st.query_params[COUNT] = str(count)


def _row(letter: str, offered: list[str], n_channels: int, n_samples: int, n_latent: int) -> Chosen:
    first = FIRST[LETTERS.index(letter)] if LETTERS.index(letter) < len(FIRST) else "gdm"
    name = one_of(f"Model {letter}", {name: MODELS[name] for name in offered}, first, key="model", of=letter)
    family, fixed = NAMED_MODELS[name]
    left, right = st.columns(2, gap="small")
    k = number("States (K)", *K_RANGE, 4, key="K", of=letter, at=left, called=f"States (K) of {letter}")
    config: dict[str, Any] = {"n_states": min(k, max(K_RANGE[0], n_samples // 2))}
    if family in SOFT:
        shown: dict[str, Any] = {"at": right, "step": 0.1, "format": "%.2f", "called": f"Softness of {letter}"}
        tau = number("Softness (τ)", *TAU_RANGE, 0.99, key="tau", of=letter, **shown)
        stay = one_of("How long to stay (γ)", STAYS, key="gamma", of=letter)
        config |= {"temperature": tau, "stickiness": stay if stay == "learn" else float(stay)}
    return Chosen(letter, name, family, config | {"n_latent": min(n_latent, n_channels)} | fixed)
