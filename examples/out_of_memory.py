"""A recording larger than memory.

Files stay on disk: a step of the fit reads windows of rows where they lie, and states are written block by block. A fit takes no
longer for a year than for a day.
"""

# %% A long recording
# Ten days of 2,000 samples here, so that this page is made quickly; the same calls took 50,000,000 samples of 10 channels (2 GB) at
# a peak of 0.53 GB.

from pathlib import Path

import numpy as np

from gdm_core import GDM
from gdm_studio import plot
from gdm_studio.datasets import large, nascar

folder = Path("year")
folder.mkdir()
for day, part in enumerate(np.split(nascar.simulate("soft", T=20_000, seed=0).y, 10)):
    np.save(folder / f"day{day}.npy", part)

# %% Open, fit, write
# Each file of the folder is a trial. `.npy` is read in place; Parquet and Arrow files are unpacked once. Nothing as long
# as the recording is ever in memory.

recording = large.open_large("year", rate_hz=20)
model = GDM(n_states=4, n_latent=2, seed=0).fit(recording)
print(model)
model.predict_to("states.npy", recording)
states = np.load("states.npy", mmap_mode="r")
print(f"{len(states):,} rows of {states.shape[1]} shares on disk")
plot.strip(states[:1000], rate_hz=20).show()

# %% Or take the blocks yourself

used = np.zeros(4)
for block in model.predict_blocks(recording):
    used += block.states.sum(axis=0)
print("usage:", (used / used.sum()).round(3))
print(f"bound of everything: {model.score(recording):.2f} nats a step")
