"""A table of your own: read it, see how it was understood, fit, and write the states beside the time."""

import numpy as np
import pandas as pd

from gdm_core import GDM
from gdm_core.analysis.tables import csv, states_table
from gdm_studio.datasets import nascar, tables

# A file as instruments write them: a clock, two trials, gaps, a column of text.
lap = nascar.simulate("soft", T=600, seed=3, n_channels=4)
table = pd.DataFrame(lap.y.copy(), columns=["speed", "throttle", "brake", "steering"])
table.insert(0, "time", np.arange(600) / 20)
table["driver"] = np.where(np.arange(600) < 300, "VER", "PIA")
table.loc[100:104, "brake"] = np.nan
table.to_csv("laps.csv", index=False)

read = tables.read("laps.csv")
print("roles:", ", ".join(f"{name} is {role}" for name, role in read.roles.items()))
trials = read.to_trials(fill_seconds=0.1)  # longer gaps stay missing: the model takes them
print(f"{len(trials)} trials at {trials[0].rate_hz:g} Hz, notes: {'; '.join(read.report().notes)}")
model = GDM(n_states=3, n_latent=2, seed=0).fit(trials)
for trial, shares in zip(trials, model.predict_proba(trials), strict=True):
    name = f"{trial.name.replace(' ', '-')}-states.csv"
    with open(name, "wb") as file:
        file.write(csv(states_table(shares, trial)))
    print(name, "written; moments in each state:", np.bincount(shares.argmax(axis=1), minlength=3))
