"""Forecasting with bands.

Predict the next samples with envelopes, and count how often what came lies inside them.
"""

# %% Fit, and look ahead from every moment
# `mean[t, h - 1]` predicts sample t + h from what was known at t. Nothing of the future is used.

from gdm_core import GDM
from gdm_core.forecast import coverage
from gdm_studio import plot
from gdm_studio.datasets import nascar

train, test = nascar.train_test("standard", seed=1)
model = GDM(n_states=4, n_latent=2, seed=0).fit(train)
forecast = model.forecast(test, horizon=10, n_paths=100, seed=0)
low, high = forecast.interval(0.90)  # each [T, horizon, channels]

# %% One moment
# The envelope widens with the horizon.

origin = 500
print(f"channel 1 from sample {origin}:")
for step in range(0, 10, 3):
    bounds = f"{low[origin, step, 0]:6.2f} .. {forecast.mean[origin, step, 0]:6.2f} .. {high[origin, step, 0]:6.2f}"
    print(f"  +{step + 1:2d}  {bounds}  came: {test.y[origin + step + 1, 0]:6.2f}")
plot.envelope(forecast, test.y, origin=origin, title="channel 1").show()

# %% Does the band keep its word?
# A band of 90 % should hold nine of ten outcomes, at every horizon.

held = coverage(forecast, test.y, level=0.90)  # one share for each step ahead
print(f"a 90 % envelope held {held[0]:.1%} one step ahead, {held[-1]:.1%} ten steps ahead")
