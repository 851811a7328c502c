"""Comparing models.

Three models on the same laps, each score beside the best of what learns no dynamics: a score that k-means reaches says nothing.
"""

# %% Three models with the same verbs

from gdm_core import ARHMM, GDM, SLDS, evaluate
from gdm_studio import plot
from gdm_studio.datasets import nascar

train, test = nascar.train_test("soft", seed=0, T=400)
models = (
    GDM(n_states=4, n_latent=2, seed=0),
    ARHMM(n_states=4, transitions="recurrent_only", seed=0),
    SLDS(n_states=4, n_latent=2, transitions="sticky", seed=0),
)

# %% Scores, and the line to beat
# Fitted on one lap, measured on the other. `line_to_beat` is the best of what is compared beside them: clusters of places and of
# steps, a Gaussian HMM, nearest neighbours, an autoregression.

for model in models:
    scores = evaluate(model.fit(train), train, test)
    name, line = scores.line_to_beat("matched_accuracy")
    print(f"{scores.model:6} matched {scores.matched_accuracy:.3f} (to beat: {line:.3f}, {name}),", end=" ")
    print(f"R2 ten steps ahead {scores.forecast_r2[-1]:.4f} (linear AR(1): {scores.ar1_r2[-1]:.4f})")

# %% Where they disagree
# The true states above those of each model, in the colours of the model's own numbers.

rows = {type(model).__name__: model.predict_proba(test) for model in models}
plot.ethogram({"truth": test.states} | rows).show()
