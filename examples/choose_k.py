"""How many states? Two halves of a lap judge each other's models. Run it twice: fits are kept, and `gdm suggest` asks the same."""

import gdm_core
from gdm_studio.datasets import nascar

lap = nascar.simulate("standard", T=800, seed=0)
found = gdm_core.suggest(
    lap,
    "arhmm-ro",
    states=[1, 2, 3, 4, 5],
    seeds=[0],
    progress=lambda done, total: print(f"{done} of at most {total} fits", end="\r"),
)
print(found)
print(found.to_frame().to_string(float_format="{:.2f}".format))
