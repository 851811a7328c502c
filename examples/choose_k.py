"""How many states.

Two halves of a recording judge each other's models: what one half teaches must hold on the other, and both must find the
same states.
"""

# %% Ask
# Name a model and what to try. Fits are kept on disk, so that a second run is done at once; `gdm suggest TABLE` asks the same on
# the command line.

import gdm_core
from gdm_core import ARHMM
from gdm_studio import plot
from gdm_studio.datasets import nascar


def tell(done: int, total: int) -> None:
    print(f"{done} of at most {total} fits", end="\r")


lap = nascar.simulate("standard", T=800, seed=0)
found = gdm_core.suggest(lap, "arhmm-ro", states=[1, 2, 3, 4, 5], seeds=[0], progress=tell)

# %% What was found
# More states always fit better where they were fitted. The held-out score stops growing, and agreement falls, where states are
# split that are one.

print(found)
print(found.to_frame().to_string(float_format="{:.2f}".format))

# %% The lap in that many states

model = ARHMM(n_states=found.settings["n_states"], transitions="recurrent_only", seed=0).fit(lap)
plot.track(lap, model.predict_proba(lap)).show()
