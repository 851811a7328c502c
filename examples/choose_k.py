"""Choose a model and its number of states.

Models are fitted to each half of a recording and scored on the other half. The states of both fits should agree.
"""

# %% Fit the candidates
# Choose the models and numbers of states to try. Fits are cached on disk. `gdm suggest TABLE` does the same for a file.

import gdm_core
from gdm_core import ARHMM
from gdm_studio import plot
from gdm_studio.datasets import nascar


def show_progress(done: int, total: int) -> None:
    print(f"{done} of {total} fits", end="\r")


lap = nascar.simulate("standard", T=800, seed=0)
found = gdm_core.suggest(lap, ["arhmm-ro"], states=[1, 2, 3, 4, 5], progress=show_progress)

# %% Recommendation
# With too many states, the held-out score stops rising and the agreement falls.

print(found)
print(found.to_frame().to_string(float_format="{:.2f}".format))

# %% Fit the recommended model

model = ARHMM(n_states=found.settings["n_states"], transitions="recurrent_only", seed=0).fit(lap)
plot.track(lap, model.predict_proba(lap)).show()
