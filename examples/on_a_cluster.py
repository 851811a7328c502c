"""Many fits on a cluster.

A grid of settings and seeds on worker processes: those of this machine, or of a Dask scheduler when `GDM_SCHEDULER` names one. It
can be stopped at any time, and goes on where it was.
"""

# %% What is to be fitted
# Every combination of K and gamma, each from two seeds, fitted to one lap and judged on another by the bound.

from gdm_core import GDM, sweep
from gdm_core.engine import get_engine
from gdm_studio.datasets import nascar

train, test = nascar.train_test("soft", seed=0, T=400)
grid: dict[str, list] = {"n_states": [3, 4], "stickiness": [0.0, "learn"]}
print(len(grid["n_states"]) * len(grid["stickiness"]) * 2, "fits")

# %% Run it
# Workers are processes of their own: a script that starts them needs the line `if __name__ == "__main__":`. With `scorer=""` fits
# are judged by the held-out bound alone, which costs next to nothing.

if __name__ == "__main__":
    engine = get_engine()
    found = sweep(GDM(n_latent=2, n_steps=100), grid, train, test, seeds=[0, 1], scorer="", engine=engine)
    engine.close()
    table = found.to_frame()
    print(table[["n_states", "stickiness", "seed", "elbo_test"]].round(2).to_string(index=False))
