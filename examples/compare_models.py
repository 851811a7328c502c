"""Comparing models.

Three models on the same laps: which can be told apart, and whether they pass what learns no dynamics. A score that k-means reaches
says nothing.
"""

# %% Three models with the same verbs

import gdm_core
from gdm_core import ARHMM, GDM, SLDS
from gdm_studio import plot
from gdm_studio.datasets import nascar

train, test = nascar.train_test("soft", seed=0, T=400)
models = (
    GDM(n_states=4, n_latent=2, seed=0),
    ARHMM(n_states=4, transitions="recurrent_only", seed=0),
    SLDS(n_states=4, n_latent=2, transitions="sticky", seed=0),
)

# %% What can be told apart
# Fitted on one lap, measured on the other, in this process; fits are kept, so that a second run is done at once.

print(gdm_core.compare(models, train, test, seeds=[0]))

# %% All scores of one model, and the line to beat
# Each score stands beside the best of what is compared with it: clusters of places and of steps, a Gaussian HMM, nearest
# neighbours, an autoregression.

print(gdm_core.evaluate(models[0].fit(train), train, test))

# %% Where they disagree
# The true states above those of each model, in the colours of the model's own numbers.

rows = {type(model).__name__: model.fit(train).predict_proba(test) for model in models}
plot.ethogram({"truth": test.states} | rows).show()
