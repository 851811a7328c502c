"""Three models on the same laps: which can be told apart, and what they have to beat."""

import gdm_core
from gdm_core import ARHMM, GDM, SLDS
from gdm_studio.datasets import nascar

train, test = nascar.train_test("soft", seed=0, T=400)
models = {
    "GDM": GDM(n_states=4, n_latent=2),
    "ARHMM": ARHMM(n_states=4, transitions="recurrent_only"),
    "SLDS": SLDS(n_states=4, n_latent=2, transitions="sticky"),
}
print(gdm_core.compare(models, train, test, seeds=[0]))
scores = gdm_core.evaluate(models["GDM"].fit(train), train, test)
print(scores)  # all of one model's scores, each beside what it has to beat
