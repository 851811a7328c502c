"""What the Playground shows, to take along: its dots in numbers, and a script that draws the same."""

from __future__ import annotations

import numpy as np
import pandas as pd

from pages.playground import gumbel
from pages.ui.exports.code import INSTALL, installed

PICTURE_WIDTH = 640  # a triangle is as high as it is wide


def draws_table(z: gumbel.Array, other: gumbel.Array) -> pd.DataFrame:
    """The dots: shares of each state, the strongest, and which distribution they are drawn from."""
    table = pd.DataFrame(np.concatenate([z, other]), columns=["p_1", "p_2", "p_3"])
    table["state"] = [f"S{k + 1}" for k in table.to_numpy().argmax(axis=1)]
    table.insert(0, "drawn_from", ["evidence"] * len(z) + ["compared_with"] * len(other))
    return table


def script(
    logits: gumbel.Array, other: gumbel.Array, softness: float, noise: float, seed: int, n: int, m: int,
    link: str = "", install: str = INSTALL,
) -> str:  # fmt: skip
    """A script that draws the dots of the page again, and works out the divergence."""
    where = f"\n{link}" if link else ""
    lines = [
        f'"""Soft states of three, as on the Playground. Needs GDM Studio: {install.replace(chr(34), chr(39))}{where}"""',
        "",
        *installed("from gdm_core.maths.relaxed import gumbel_softmax_kl", install),
        "",
        "import numpy as np",
        "import torch",
        "from scipy.special import softmax",
        "",
        f"evidence = np.array({logits.tolist()})",
        f"other = np.array({other.tolist()})  # the hollow dots",
        f"softness, noise = {softness!r}, {noise!r}",
        "",
        "",
        "def draw(logits, n, seed):",
        '    """[n, 3] soft states; the same seed throws the same dice."""',
        "    dice = np.random.default_rng(seed).gumbel(size=(n, 3))",
        "    return softmax((logits + noise * dice) / softness, axis=1)",
        "",
        "",
        f"states = draw(evidence, {n}, {seed})",
        f"hollow = draw(other, {m}, {seed + 2})",
        "exact = float(gumbel_softmax_kl(torch.from_numpy(evidence / noise), torch.from_numpy(other / noise)))",
        'print(f"divergence {exact:.4f} nats; which state wins: {softmax(evidence / noise).round(3)}")',
        'np.savez("playground.npz", states=states, hollow=hollow)',
    ]
    return "\n".join(lines) + "\n"
