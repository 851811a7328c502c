"""Two mice: from poses to features, states, and bouts beside the expert's labels."""

import numpy as np

from gdm_core import GDM
from gdm_core.analysis.bouts import like_expert, runs, transition_shares
from gdm_studio.datasets import mice

trials = mice.simulate(n_trials=3, n_frames=900, seed=0, features="egocentric")
train, new = trials.trials[:2], trials.trials[2]
model = GDM(n_states=4, n_latent=4, seed=0).fit(train)
expert = [trial.labels for trial in trials if trial.labels is not None]
rule = like_expert(expert[:2], new.rate_hz)  # how long the expert's bouts are says what a bout is
assert rule is not None  # as it would be of an expert who marked nothing
print(f"bouts: states averaged over {rule.smooth_s:.1f} s, none shorter than {rule.shortest_s:.1f} s")
bouts = rule.labels(model.predict_proba(new), new.rate_hz)
states, lengths = runs(bouts)
print(f"{len(states)} bouts in {new.n_samples / new.rate_hz:.0f} s, the longest {lengths.max() / new.rate_hz:.1f} s")
print("what follows what (rows end, columns begin):")
print(np.nan_to_num(transition_shares(bouts, 4)).round(2))
for state in np.unique(bouts):
    shares = np.bincount(expert[2][bouts == state], minlength=len(trials.label_names)) / (bouts == state).sum()
    most = int(shares.argmax())
    print(f"S{state + 1}: {trials.label_names[most]} in {shares[most]:.0%} of its frames")
