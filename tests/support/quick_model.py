"""Models that are fitted in milliseconds."""

from dataclasses import replace

from gdm_core import ARHMM, Trial


def quick_model(n_states: int = 4, n_latent: int = 2, seed: int = 0) -> ARHMM:
    return ARHMM(n_states, n_latent, n_iter=5, n_restarts=1, seed=seed)


def narrow_model(trial: Trial) -> ARHMM:
    """Return a fit whose intervals are half as wide as they should be."""
    model = quick_model().fit(trial)
    model.calibration_ = replace(model.calibration_, scale=model.calibration_.scale / 2)
    return model
