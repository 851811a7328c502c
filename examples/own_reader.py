"""Write a reader of your own.

Models take a `Trial`: an array [time, channels] with its sampling rate, labels and so on. `tables` reads common formats; a
reader for another format takes ten lines.
"""

# %% A table
# With a clock, two drivers, a gap and a text column. The reader guesses the role of each column, and you can change it.

import struct

import numpy as np
import pandas as pd

from gdm_core import GDM, Trial, Trials
from gdm_core.analysis.tables import csv, states_table
from gdm_studio import plot
from gdm_studio.datasets import nascar, tables

lap = nascar.simulate("soft", T=600, seed=3, n_channels=4)
table = pd.DataFrame(lap.y.copy(), columns=["speed", "throttle", "brake", "steering"])
table.insert(0, "time", np.arange(600) / 20)
table["driver"] = np.where(np.arange(600) < 300, "VER", "PIA")
table.loc[100:104, "brake"] = np.nan
table.to_csv("laps.csv", index=False)

read = tables.read("laps.csv")
print("roles:", ", ".join(f"{name} is {role}" for name, role in read.roles.items()))
trials = read.to_trials(fill_seconds=0.1)  # longer gaps stay missing, which models accept
print(f"{len(trials)} trials at {trials[0].rate_hz:g} Hz, notes: {'; '.join(read.report().notes)}")

# %% Another format
# A logger writes a header (magic word, rate, channels) and 16-bit numbers, with -32768 for missing values, which become NaN.
# The reader rejects other files by name.

with open("logger.bin", "wb") as file:
    file.write(struct.pack("<4sfH", b"LOGR", 20.0, 4))
    file.write((lap.y * 1000).astype("<i2").tobytes())


def read_logger(path: str) -> Trial:
    with open(path, "rb") as file:
        magic, rate_hz, n_channels = struct.unpack("<4sfH", file.read(10))
        if magic != b"LOGR":
            raise ValueError(f"{path} is not a file of the logger: it begins with {magic!r}.")
        raw = np.frombuffer(file.read(), "<i2").reshape(-1, n_channels)
    y = np.where(raw == -32768, np.nan, raw / 1000).astype(np.float32)
    return Trial(y, rate_hz=rate_hz, channels=("speed", "throttle", "brake", "steering"), name=path)


recording = Trials((read_logger("logger.bin"),))
print(recording[0].name, recording[0].y.shape, f"{recording[0].rate_hz:g} Hz")

# %% Fit, and write the states as tables

model = GDM(n_states=3, n_latent=2, seed=0).fit(trials)
for trial, shares in zip(trials, model.predict_proba(trials), strict=True):
    name = f"{trial.name.replace(' ', '-')}-states.csv"
    with open(name, "wb") as file:
        file.write(csv(states_table(shares, trial)))
    print(name, "written; samples in each state:", np.bincount(shares.argmax(axis=1), minlength=3))
plot.strip(model.predict_proba(recording[0]), rate_hz=recording[0].rate_hz).show()
