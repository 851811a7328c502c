"""Compare models.

Fit three models to the same lap, test which of them differ, and compare each with baselines that learn no dynamics.
"""

# %% Three models with the same interface

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

# %% Which models differ
# Models are fitted to one lap and measured on the other. Fits are cached, so a second run takes no time.

print(gdm_core.compare(models, train, test, seeds=[0]))

# %% All scores of one model, with baselines
# Baselines are k-means and a Gaussian HMM on positions and on steps, nearest neighbours, and an autoregression.

print(gdm_core.evaluate(models[0].fit(train), train, test))

# %% Where they disagree
# True states, then the states of each model. State numbers, and therefore colours, differ between models.

rows = {type(model).__name__: model.fit(train).predict_proba(test) for model in models}
plot.ethogram({"truth": test.states} | rows).show()
