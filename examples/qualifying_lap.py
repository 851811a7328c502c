"""A qualifying lap.

Find ways of driving and where on the lap they occur. This session is simulated; `load_session(2025, "Australian Grand Prix",
"Qualifying")` downloads a real one with FastF1.
"""

# %% Laps as trials
# The channels are position and speed. Corners divide the lap into segments.

import numpy as np

from gdm_core import GDM
from gdm_studio import plot
from gdm_studio.datasets import formula1

session = formula1.simulate_race("suzuka", drivers=2, laps=5, seed=0)
driver = session.codes[0]
laps = formula1.to_trials(session, driver, drop=("first", "pit"), channels=("X", "Y", "speed"))
print(f"{session.title}: {driver}, {laps.n_samples} samples at {laps[0].rate_hz:g} Hz")

# %% Fit

model = GDM(n_states=4, n_latent=3, seed=0).fit(laps)
shares = np.concatenate(model.predict_proba(laps))
samples = np.concatenate([trial.y for trial in laps])
corners = np.concatenate([trial.labels for trial in laps])

# %% Describe each state
# Its mean speed (0 is the session's mean, 1 a standard deviation above), and the segments where it is most active.

for k in range(4):
    speed = np.average(samples[:, 2], weights=shares[:, k])
    most = np.bincount(corners, weights=shares[:, k]).argsort()[::-1][:3]
    where = ", ".join(laps.label_names[part] for part in most)
    print(f"S{k + 1}, {shares[:, k].mean():.0%} of the time, speed {speed:+.1f}: {where}")

# %% One lap on the map

lap = laps[0].segments == laps[0].segments[len(laps[0].segments) // 2]
plot.track(laps[0].position[lap], shares[: len(lap)][lap], title=f"{driver}, one lap").show()
