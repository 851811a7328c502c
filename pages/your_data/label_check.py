"""The expert's labels before any fit: how much of the recording they cover, what was left out, and where they lie."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import streamlit as st

from gdm_core.trials import labels_of
from gdm_studio.plot import figures
from pages.lab import Data
from pages.ui import shell
from pages.ui.plot import plot
from pages.ui.tables import show_table


def label_panel(data: Data) -> None:
    """Counts, time, and a strip of the labels over the channels of the same moments; nothing where there are none."""
    words = data.words
    if words is None:
        return
    every = np.concatenate(labels_of(data.trials))
    with shell.panel("labels", "Labels"):
        shell.quiet(
            f"{100 * (every >= 0).mean():.3g} % of {len(every):,} samples have a label. The fit does not see them: states are "
            "scored against those of the trials kept aside."
        )
        for note in data.notes:
            if note.startswith("labels: "):
                shell.quiet(f"· {note.removeprefix('labels: ')}")
        table = counted(data, every)
        show_table(table, 260, "label-counts")
        unit = data.time_unit
        timing: dict[str, Any] = {"step": unit.of(data.step(data.trials[0])), "unit": unit.name}
        strip = figures.state_strips(
            {"expert": words.hot(every)},
            **timing,
            caption="The labels of all trials, one after the other: those to be fitted first. " + words.remark,
            height=96,
        )
        plot(strip, key="label-strip")
        signal = np.concatenate([trial.y for trial in data.trials])
        plot(figures.channel_strip(signal, **timing, height=min(60 + 8 * signal.shape[1], 200)), key="label-signal")
        st.html(shell.key_html("Labels", zip(words.colours, words.names, strict=True)))


def counted(data: Data, every: np.ndarray) -> pd.DataFrame:
    """A row for each behaviour: bouts, samples, time, and how much of it is kept aside as new."""
    fitted = data.train.n_samples
    starts = np.flatnonzero(np.diff(every, prepend=-2))
    rows = []
    for k, name in enumerate(data.every_label):
        of = every == k
        rows.append(
            {
                "behaviour": name,
                "bouts": int((every[starts] == k).sum()),
                "samples": int(of.sum()),
                "seconds": round(float(of.sum()) / data.train[0].rate_hz, 1),
                "share of the labelled": f"{100 * of.sum() / max((every >= 0).sum(), 1):.3g} %",
                "of these new": f"{100 * of[fitted:].sum() / of.sum():.3g} %" if of.any() else "–",
            }
        )
    table = pd.DataFrame(rows)
    return table.drop(columns="seconds") if data.unit == "step" else table
