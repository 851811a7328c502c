"""Fit the model to one simulated lap, read out the soft states of another, and compare them with the truth."""

from gdm_core import GDM, load_model
from gdm_core.analysis.metrics import matched_accuracy
from gdm_studio.datasets import nascar

train, test = nascar.train_test("soft", seed=0)
model = GDM(n_states=4, n_latent=2, seed=0).fit(train)
print(model)
shares = model.predict_proba(test)  # [T, K], nothing is fitted again
assert test.labels is not None  # simulated laps have true states
print(f"first moment: {shares[0].round(2)}, the true state there: {test.labels[0] + 1}")
print(f"states that match the truth: {matched_accuracy(shares.argmax(axis=1), test.labels):.1%}")
model.save("lap.gdm")
print("the same model from its file:", (load_model("lap.gdm").predict_proba(test) == shares).all())
