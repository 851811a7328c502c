"""Many fits on a cluster.

A grid of settings and seeds on worker processes: those of this machine, or of a Dask scheduler when `GDM_SCHEDULER` names one. It
can be stopped at any time, and goes on where it was.
"""

# %% What is to be fitted
# Every combination of K and gamma, each from two seeds, fitted to one lap and judged on another by the bound.

from gdm_core import Trials
from gdm_core.engine import get_engine
from gdm_core.engine.sweep import Sweep, run
from gdm_studio.datasets import nascar

train, test = (Trials((lap,)) for lap in nascar.train_test("soft", seed=0, T=400))
sweep = Sweep(
    family="gdm",
    base={"n_latent": 2, "n_steps": 100},
    grid={"n_states": [3, 4], "stickiness": [0.0, "learn"]},
    seeds=[0, 1],
    train=train,
    test=test,
    scorer="",  # judged by the held-out bound, which costs next to nothing
)
print(len(sweep.cells()), "fits")

# %% Run it
# Workers are processes of their own: a script that starts them needs the line `if __name__ == "__main__":`.

if __name__ == "__main__":
    engine = get_engine()
    records = run(sweep, engine=engine)
    engine.close()
    for row in records:
        print(f"{row.config}, seed {row.seed}: held-out bound {row.elbo_test:.2f} nats a step")
