"""Choose a model and its number of states.

Models are fitted to two halves of a recording. Each is scored on the other half, and both halves must find the same states.
"""

# %% Ask
# Name the models and numbers of states to try. Fits are cached on disk; `gdm suggest TABLE` does the same for a file.

import gdm_core
from gdm_core import ARHMM
from gdm_studio import plot
from gdm_studio.datasets import nascar


def tell(done: int, total: int) -> None:
    print(f"{done} of at most {total} fits", end="\r")


lap = nascar.simulate("standard", T=800, seed=0)
found = gdm_core.suggest(lap, ["arhmm-ro"], states=[1, 2, 3, 4, 5], progress=tell)

# %% Recommendation
# The held-out score stops rising and agreement falls when a state is split in two.

print(found)
print(found.to_frame().to_string(float_format="{:.2f}".format))

# %% The lap in that many states

model = ARHMM(n_states=found.settings["n_states"], transitions="recurrent_only", seed=0).fit(lap)
plot.track(lap, model.predict_proba(lap)).show()
