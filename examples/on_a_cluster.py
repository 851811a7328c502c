"""Many fits on a cluster.

Fit a grid of settings and seeds on worker processes: on this machine, or on the Dask cluster in `GDM_SCHEDULER`. A sweep
that was stopped continues.
"""

# %% The grid
# Every combination of K and gamma, from two seeds, fitted to one lap and scored on another.

from gdm_core import GDM, sweep
from gdm_core.engine import get_engine
from gdm_studio.datasets import nascar

train, test = nascar.train_test("soft", seed=0, T=400)
grid: dict[str, list] = {"n_states": [3, 4], "stickiness": [0.0, "learn"]}
print(len(grid["n_states"]) * len(grid["stickiness"]) * 2, "fits")

# %% Run it
# A script that starts worker processes needs the line `if __name__ == "__main__":`. With `scorer=""`, fits are scored by the
# held-out ELBO only, which is fast.

if __name__ == "__main__":
    engine = get_engine()
    found = sweep(GDM(n_latent=2, n_steps=100), grid, train, test, seeds=[0, 1], scorer="", engine=engine)
    engine.close()
    table = found.to_frame()
    print(table[["n_states", "stickiness", "seed", "elbo_test"]].round(2).to_string(index=False))
