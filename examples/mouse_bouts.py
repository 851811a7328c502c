"""From poses of mice to bouts.

Compute features of the poses of two mice, fit states, and compare bouts with expert labels. The mice are simulated;
`keypoints.read("video.h5")` reads your files.
"""

# %% Recordings
# Egocentric features: the shape and speed of each animal, and the relative position of the other one.

import numpy as np

from gdm_core import GDM
from gdm_core.analysis.bouts import fit_bout_rule, runs, transition_shares
from gdm_studio import plot
from gdm_studio.datasets import mice

trials = mice.simulate(n_trials=3, n_frames=900, seed=0, features="egocentric")
train, new = trials.trials[:2], trials.trials[2]
model = GDM(n_states=4, n_latent=4, seed=0).fit(train)

# %% From states to bouts
# Brief changes of state are not bouts. The median length of the expert's bouts sets the smoothing.

rule = fit_bout_rule([trial.labels for trial in train], new.rate_hz)
print(f"bouts: states averaged over {rule.smooth_s:.1f} s, none shorter than {rule.shortest_s:.1f} s")
shares = model.predict_proba(new)
bouts = rule.labels(shares, new.rate_hz)
states, lengths = runs(bouts)
print(f"{len(states)} bouts in {new.n_samples / new.rate_hz:.0f} s, the longest {lengths.max() / new.rate_hz:.1f} s")

# %% Transitions, and expert labels of each state

print("transition shares (from rows to columns):")
print(np.nan_to_num(transition_shares(bouts, 4)).round(2))
for state in np.unique(bouts):
    words = np.bincount(new.labels[bouts == state], minlength=len(trials.label_names)) / (bouts == state).sum()
    print(f"S{state + 1}: {trials.label_names[words.argmax()]} in {words.max():.0%} of its frames")
plot.ethogram({"bouts": bouts, "states": shares}, rate_hz=new.rate_hz).show()
plot.usage(shares).show()
