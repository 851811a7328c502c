"""Forecast with prediction intervals.

Predict the next samples with intervals, and measure how often the outcomes are inside.
"""

# %% Fit, and forecast from every sample
# `mean[t, h - 1]` predicts sample t + h from the samples up to t.

from gdm_core import GDM
from gdm_core.forecast import coverage
from gdm_studio import plot
from gdm_studio.datasets import nascar

train, test = nascar.train_test("standard", seed=1)
model = GDM(n_states=4, n_latent=2, seed=0).fit(train)
forecast = model.forecast(test, horizon=10, n_paths=100, seed=0)
low, high = forecast.interval(0.90)  # each [T, horizon, channels]

# %% One origin
# The interval widens with the horizon.

origin = 500
print(f"channel 1 from sample {origin}:")
for step in range(0, 10, 3):
    bounds = f"{low[origin, step, 0]:6.2f} .. {forecast.mean[origin, step, 0]:6.2f} .. {high[origin, step, 0]:6.2f}"
    print(f"  +{step + 1:2d}  {bounds}  observed: {test.y[origin + step + 1, 0]:6.2f}")
plot.envelope(forecast, test.y, origin=origin, title="channel 1").show()

# %% Coverage
# A 90% interval should cover 90% of outcomes at every horizon.

covered = coverage(forecast, test.y, level=0.90)  # [horizon]
print(f"the 90% interval covers {covered[0]:.1%} one step ahead, {covered[-1]:.1%} ten steps ahead")
