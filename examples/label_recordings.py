"""Label recordings from a few clips.

Label a few seconds of a recording. A label model on top of a fitted GDM then predicts labels for all other samples and
proposes clips to label next.
"""

# %% A few labelled clips
# The data come with expert labels. The label model gets two clips of two seconds per behaviour.

import numpy as np
from sklearn.metrics import f1_score

from gdm_core import GDM, LabelModel
from gdm_core.labels import propose
from gdm_studio import plot
from gdm_studio.datasets import mice

trials = mice.simulate(n_trials=2, n_frames=3000, seed=0, features="egocentric")
train, new = trials
labels = np.full(train.n_samples, -1)
length = int(2 * train.rate_hz)
for code in range(len(trials.label_names)):
    for start in np.flatnonzero(train.labels == code)[[0, -length]]:
        span = slice(start, start + length)
        labels[span] = np.where(train.labels[span] == code, code, -1)
print(f"{(labels >= 0).mean():.1%} of the frames have a label")

# %% Fit a model, then a label model
# The GDM sees no labels. Its soft states are evidence for the label model, next to the channels themselves.

model = GDM(n_states=6, n_latent=4, posterior="linear", seed=0).fit(train)
label_model = LabelModel(model).fit(train, labels, trials.label_names)
predicted = label_model.predict(new)
score = f1_score(new.labels, predicted, average="macro")
majority = f1_score(new.labels, np.full(new.n_samples, np.bincount(train.labels).argmax()), average="macro")
print(f"macro-F1 on a recording without labels: {score:.2f} (most common label: {majority:.2f})")
print(f"macro-F1 on held-out labels: {label_model.held_out_.macro_f1:.2f}")
rows = {"expert": new.labels, "predicted": predicted}
plot.ethogram(rows, rate_hz=new.rate_hz, names=trials.label_names).show()

# %% What to label next
# The clips with the least certain predictions.

for clip in propose(label_model, train, [labels], n=3):
    print(f"{clip.start / train.rate_hz:.1f} to {clip.stop / train.rate_hz:.1f} s")
