"""Runs inside the environment of another project: fits its model to data in a file, writes states and times to a file.

`python official_child.py NAME data.npz result.npz SEED`, where data holds `train` and `test`, both [T, N] standardised.
It imports nothing of this repository, so that it runs under any interpreter that has the other project.
"""

import sys
import time

import numpy as np

K, D = 4, 2


def ssm_slds(transitions, train, test, seed) -> tuple:
    """SLDS of the package `ssm` by its Laplace-EM; states of both trials by its `approximate_posterior`."""
    import ssm

    np.random.seed(seed)  # noqa: NPY002 (the package draws from the global generator)
    model = ssm.SLDS(train.shape[1], K, D, transitions=transitions, emissions="gaussian_orthog", single_subspace=True)
    options = {"method": "laplace_em", "variational_posterior": "structured_meanfield", "verbose": 0}
    started = time.process_time()
    model.initialize(train, verbose=0)
    model.fit(train, num_iters=100, initialize=False, alpha=0.0, **options)
    fitted = time.process_time()
    found = [model.approximate_posterior(y, num_iters=50, **options)[1].mean_discrete_states[0] for y in (test, train)]
    return found[1], found[0], fitted - started, (time.process_time() - fitted) / 2


def pdlds(train, test, seed) -> tuple:
    """The package `pdLDS` at its defaults, offset window 20; the states are its coefficients."""
    import torch
    from pdLDS.pdLDS import pdLDS

    model = pdLDS(train.shape[1], D, K, seed=seed)
    started = time.process_time()
    model.fit([train], S=20)
    fitted = time.process_time()
    found = [model.infer([torch.tensor(y).float()])[2][0].detach().numpy() for y in (test, train)]
    seconds = (time.process_time() - fitted) / 2
    first = [np.concatenate([c[:1], c]) for c in found]  # its coefficients begin at the second sample
    return first[1], first[0], fitted - started, seconds


RIVALS = {
    "ssm SLDS sticky": lambda *data: ssm_slds("sticky", *data),
    "ssm rSLDS sticky recurrent": lambda *data: ssm_slds("recurrent", *data),
    "ssm rSLDS recurrent only": lambda *data: ssm_slds("recurrent_only", *data),
    "pdLDS": pdlds,
}


if __name__ == "__main__":
    name, source, target, seed = sys.argv[1:]
    with np.load(source) as data:
        states, states_test, fit, infer = RIVALS[name](data["train"], data["test"], int(seed))
    np.savez(target, states=states, states_test=states_test, fit=fit, infer=infer)
