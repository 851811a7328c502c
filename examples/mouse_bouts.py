"""Mice, from poses to bouts.

Two mice: features of their poses, states, and bouts beside the labels of an expert. Simulated; `keypoints.read("video.h5")` takes
files of yours in their place.
"""

# %% Recordings
# Egocentric features: the shape and speed of each animal, and where the other one is as seen from it.

import numpy as np

from gdm_core import GDM
from gdm_core.analysis.bouts import like_expert, runs, transition_shares
from gdm_studio import plot
from gdm_studio.datasets import mice

trials = mice.simulate(n_trials=3, n_frames=900, seed=0, features="egocentric")
train, new = trials.trials[:2], trials.trials[2]
model = GDM(n_states=4, n_latent=4, seed=0).fit(train)

# %% From states to bouts
# What comes and goes within a moment no expert calls a bout. How long the expert's bouts are says what a bout is.

rule = like_expert([trial.labels for trial in train], new.rate_hz)
print(f"bouts: states averaged over {rule.smooth_s:.1f} s, none shorter than {rule.shortest_s:.1f} s")
shares = model.predict_proba(new)
bouts = rule.labels(shares, new.rate_hz)
states, lengths = runs(bouts)
print(f"{len(states)} bouts in {new.n_samples / new.rate_hz:.0f} s, the longest {lengths.max() / new.rate_hz:.1f} s")

# %% What follows what, and what the expert calls it

print("what follows what (rows end, columns begin):")
print(np.nan_to_num(transition_shares(bouts, 4)).round(2))
for state in np.unique(bouts):
    words = np.bincount(new.labels[bouts == state], minlength=len(trials.label_names)) / (bouts == state).sum()
    print(f"S{state + 1}: {trials.label_names[words.argmax()]} in {words.max():.0%} of its frames")
plot.ethogram({"bouts": bouts, "states": shares}, rate_hz=new.rate_hz).show()
plot.usage(shares).show()
