"""A study: what differs between groups.

Many recordings and a sheet of their conditions: one model for all animals, then what differs between groups, with animals as the
unit. Simulated, so that it is known that one behaviour lasts twice as long in the treated group.
"""

# %% Recordings and their sheet
# One row a recording: its name, the animal, the group. A real study reads `pd.read_csv("sheet.csv")` and files.

import pandas as pd

import gdm_core
from gdm_core import GDM
from gdm_studio import plot
from gdm_studio.datasets import cohort

made = cohort.simulate(n_animals=10, minutes=1.5, change=cohort.Change("rear", times=2.0), seed=1)
sheet = pd.DataFrame(made.sheet)
recordings = made.recordings()
print(sheet.head(3).to_string(index=False))

# %% One model for all animals
# Fitted to equally many samples of each animal, blind to conditions.

study = gdm_core.study(recordings, sheet, GDM(n_states=6, n_latent=6, seed=0))
for note in study.notes:
    print(note)

# %% One number for the whole, then a row for each state
# Permutation tests of animals, corrected over states. The flow test asks whether the groups' changes between states differ at all.

flow = study.flow(between="group")
print(f"flow: distance {flow.distance:.2f}, p = {flow.p:.3f} ({flow.n} animals)")
table = study.compare("mean_bout_s", between="group")
shown = ["state", "mean_control", "mean_treated", "effect_low", "effect_high", "p_holm"]
print(table[shown].round(3).to_string(index=False))

# %% Animals beside each other
# A minute of three animals of each group.

shown = [*sheet["recording"][:3], *sheet["recording"][-3:]]
rows = {name: study.model.predict_proba(recordings[name])[:1500] for name in shown}
plot.ethogram(rows, rate_hz=made.rate_hz).show()
