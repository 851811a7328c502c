"""Compare groups of animals.

Fit one model to all recordings, then compare groups with animals as the unit. The data are simulated: in the treated group,
one behaviour lasts twice as long.
"""

# %% Recordings and their sheet
# One row per recording: its name, the animal and the group. With real data, use `pd.read_csv("sheet.csv")`.

import pandas as pd

from gdm_core import GDM, Study
from gdm_studio import plot
from gdm_studio.datasets import cohort

simulated = cohort.simulate(n_animals=10, minutes=1.5, change=cohort.Change("rear", times=2.0), seed=1)
sheet = pd.DataFrame(simulated.sheet)
recordings = simulated.recordings()
print(sheet.head(3).to_string(index=False))

# %% One model for all animals
# The model is fitted to an equal number of samples of each animal, without the sheet.

study = Study.fit(recordings, sheet, GDM(n_states=6, n_latent=6, seed=0))
for note in study.notes:
    print(note)

# %% Tests
# The flow test compares all transition rates at once. The table has a permutation test per state, corrected over states.

flow = study.flow(between="group")
print(f"flow: distance {flow.distance:.2f}, p = {flow.p:.3f} ({flow.n} animals)")
table = study.compare("mean_bout_s", between="group")
shown = ["name", "mean_control", "mean_treated", "effect_low", "effect_high", "p_holm"]
print(table[shown].round(3).to_string(index=False))

# %% Draw three animals of each group
# One minute of each.

shown = [*sheet["recording"][:3], *sheet["recording"][-3:]]
rows = {name: study.model.predict_proba(recordings[name])[:1500] for name in shown}
plot.ethogram(rows, rate_hz=simulated.rate_hz).show()
