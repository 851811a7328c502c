"""A first fit.

Fit the model to one simulated lap, read the soft states of another, and compare them with the truth, which is known here.
"""

# %% Two laps
# A car on an oval, seen by ten noisy sensors. Which of four ways of driving ruled when is known, because the laps are simulated;
# the model never sees it.

from gdm_core import GDM, load_model
from gdm_core.analysis.metrics import matched_accuracy
from gdm_studio import plot
from gdm_studio.datasets import nascar

train, test = nascar.train_test("soft", seed=0)
print(f"{train.n_samples} samples of {train.n_channels} channels: {', '.join(train.channels[:3])}, ...")

# %% Fit
# Half a second on one core. `n_states` is how many states there are, `n_latent` how many dimensions the dynamics see.

model = GDM(n_states=4, n_latent=2, seed=0).fit(train)
print(model)

# %% Read another lap
# Nothing is fitted again: the states of a new recording are one pass. Each row adds up to 1.

shares = model.predict_proba(test)
print(shares.shape, "first moment:", shares[0].round(2), "true state there:", test.labels[0] + 1)
print(f"states that match the truth: {matched_accuracy(shares.argmax(axis=1), test.labels):.1%}")

# %% Look at it
# Each piece of the path wears the mixed colour of its states. Figures are Plotly's: `show()`, or `write_html("lap.html")`.

plot.track(test, shares).show()
plot.strip(shares).show()

# %% Keep it
# One safetensors file: it opens anywhere and runs no code.

model.save("lap.gdm")
print("the same model from its file:", (load_model("lap.gdm").predict_proba(test) == shares).all())
