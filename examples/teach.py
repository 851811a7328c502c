"""Teaching: name a few moments.

Say of some stretches what the animals do there. States are then tied to words, every other moment is named, and the model says
where one more word would help most.
"""

# %% A few marks
# The expert's labels are known here; two stretches of each behaviour, two
# seconds long, are shown to the model.

import numpy as np
from sklearn.metrics import f1_score

from gdm_core import GDM
from gdm_core.analysis.proposals import propose
from gdm_studio import plot
from gdm_studio.datasets import mice

trials = mice.simulate(n_trials=2, n_frames=3000, seed=0, features="egocentric")
train, new = trials
marks = np.full(train.n_samples, -1)
stretch = int(2 * train.rate_hz)
for word in range(len(trials.label_names)):
    for begin in np.flatnonzero(train.labels == word)[[0, -stretch]]:
        shown = slice(begin, begin + stretch)
        marks[shown] = np.where(train.labels[shown] == word, word, -1)
print(f"{(marks >= 0).mean():.1%} of the frames carry a word")

# %% Fit with them
# The same `fit`, with words for a few moments. Probabilities are calibrated on marks that were held back.

model = GDM(n_states=6, n_latent=4, posterior="linear", seed=0).fit(train, labels=marks, class_names=trials.label_names)
named = model.predict_labels(new)
score = f1_score(new.labels, named, average="macro")
common = f1_score(new.labels, np.full(new.n_samples, np.bincount(train.labels).argmax()), average="macro")
print(f"macro-F1 on a recording without marks: {score:.2f} (always the commonest word: {common:.2f})")
print("states stand for:", ", ".join(f"S{k + 1} {word or 'free'}" for k, word in enumerate(model.state_words_)))
rows = {"expert": new.labels, "named": named}
plot.ethogram(rows, rate_hz=new.rate_hz, names=trials.label_names).show()

# %% What to mark next
# The moments whose words would teach most, for you to look at in the video.

print(propose(model, train, [marks], n=3).to_frame().round(2).to_string(index=False))
