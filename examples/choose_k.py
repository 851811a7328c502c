"""How many states? A sweep over K and seeds, judged by samples that no fit has seen. Run it twice: fits are kept."""

from gdm_core import Trials
from gdm_core.engine.records import aggregate
from gdm_core.engine.sweep import Sweep, run
from gdm_studio.datasets import nascar

train, test = (Trials((lap,)) for lap in nascar.train_test("soft", seed=0, T=400))
sweep = Sweep(
    "arhmm",
    {"transitions": "recurrent_only"},
    {"n_states": [2, 3, 4, 5]},
    seeds=range(2),
    train=train,
    test=test,
    scorer="",
)
found = aggregate(run(sweep, progress=lambda done, total: print(f"{done} of {total} fits", end="\r")))
best = max(found, key=lambda one: one.mean["elbo_test"])
for one in found:
    mark = "<- best" if one is best else ""
    print(f"K = {one.config['n_states']}: {one.mean['elbo_test']:.2f} nats a step on new samples {mark}")
