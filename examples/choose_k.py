"""How many states.

Two halves of a recording judge each other's models: what one half teaches must hold on the other, and both must find the
same states.
"""

# %% Ask
# The question names a model and what to try. Fits are kept on disk, so that a second run is done at once; `gdm suggest TABLE` asks
# the same on the command line.

from gdm_core import ARHMM, Trials
from gdm_core.engine.suggest import Question, suggest
from gdm_studio import plot
from gdm_studio.datasets import nascar

lap = Trials((nascar.simulate("standard", T=800, seed=0),))
question = Question("arhmm-ro", lap, states=[1, 2, 3, 4, 5], seeds=[0])
found = next(suggest(question, progress=lambda done, total: print(f"{done} of at most {total} fits", end="\r")))

# %% What was found
# More states always fit better where they were fitted. The held-out score stops growing, and agreement falls, where states are
# split that are one.

for tried in found.verdicts[0].probes:
    k = tried.setting["n_states"]
    mark = "<- taken" if k == found.settings["n_states"] else ""
    print(f"K = {k}: {tried.mean:.2f} nats a step on the other half, halves agree on {tried.agreement:.0%} {mark}")
print(*found.sentences, sep="\n")

# %% The lap in that many states

model = ARHMM(n_states=found.settings["n_states"], transitions="recurrent_only", seed=0).fit(lap)
plot.track(lap[0], model.predict_proba(lap[0])).show()
