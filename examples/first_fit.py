"""A first fit.

Fit the model to one simulated lap, infer the soft states of another, and compare them with the true states.
"""

# %% Two laps
# A car on an oval, measured by ten noisy sensors. The simulation switches between four ways of driving; the model does not
# see which one is active.

from gdm_core import GDM, load_model
from gdm_core.analysis.state_scores import matched_accuracy
from gdm_studio import plot
from gdm_studio.datasets import nascar

train, test = nascar.train_test("soft", seed=0)
print(f"{train.n_samples} samples of {train.n_channels} channels: {', '.join(train.channels[:3])}, ...")

# %% Fit
# This takes half a second on one core. `n_states` is the number of states, `n_latent` the dimension of the dynamics.

model = GDM(n_states=4, n_latent=2, seed=0).fit(train)
print(model, "-", model.status_, f"with {model.elbo_:.1f} nats per sample")

# %% Infer the states of another lap
# States of a new recording need no further fit. Each row adds up to 1.

shares = model.predict_proba(test)
print(shares.shape, "first sample:", shares[0].round(2), "true state:", test.labels[0] + 1)
print(f"states that match the truth: {matched_accuracy(shares.argmax(axis=1), test.labels):.1%}")

# %% Draw it
# The path has the mixed colours of its states. Figures are Plotly figures: `show()`, or `write_html("lap.html")`.

plot.track(test, shares).show()
plot.strip(shares).show()

# %% Save it
# A model is one safetensors file, which is safe to load.

model.save("lap.gdm")
print("the loaded model is equal:", (load_model("lap.gdm").predict_proba(test) == shares).all())
