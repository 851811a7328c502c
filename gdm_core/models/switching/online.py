"""Models with hard states, sample by sample: the candidates of every sample are its K states."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from gdm_core.maths.emission import Observed
from gdm_core.maths.hmm import log_normalise
from gdm_core.maths.pca import ComponentScores
from gdm_core.models.online import Arrays, Candidates, SampleReader
from gdm_core.models.switching import arhmm_em
from gdm_core.models.switching import laplace_em as slds
from gdm_core.models.switching.filtering import SwitchingBelief, predicted, updated

Float = npt.NDArray[np.float64]


class HardStateReader(SampleReader):
    """What the readers of AR-HMM and SLDS share."""

    def words(self, lag: int) -> None:
        return None


def _candidates(log_transfer: Float) -> Candidates:
    return Candidates(np.exp(log_transfer - log_transfer.max()), np.eye(log_transfer.shape[1]))


class ArhmmReader(HardStateReader):
    """Remembers as many samples as the dynamics look back at, gaps carried forward."""

    def __init__(self, parameters: arhmm_em.ARParameters, scores: ComponentScores, lags: int) -> None:
        self._parameters, self._scores, self._lags = parameters, scores, lags
        self.memory: Arrays = {"past": np.zeros((0, len(scores.center)))}

    def read(self, y: npt.NDArray[np.float32]) -> Candidates:
        past = self.memory["past"]
        carried = np.where(np.isfinite(y), y, past[-1] if len(past) else 0.0)
        series = arhmm_em.ScoreSeries.prepare([np.concatenate([past, y[None]])], self._scores, self._lags)
        seen = arhmm_em.log_likelihoods(series, self._parameters, self._scores)[0][-1]  # [K]
        chain = self._parameters.transitions
        moves = chain.log_initial[None]
        if len(past):
            table = chain.expected_log(series.x)
            moves = table if table.ndim == 2 else table[-1]
        self.memory = {"past": np.concatenate([past, carried[None]])[-self._lags :]}
        return _candidates(moves + seen)


class SldsReader(HardStateReader):
    """Remembers one Gaussian of the latent path for each state, as the filter of forecasts does."""

    def __init__(self, parameters: slds.SLDSParameters) -> None:
        p = self._parameters = parameters
        k, d = p.dynamics.coefficients.shape[:2]
        self.memory: Arrays = {
            "log_weight": p.transitions.log_initial[None],
            "mean": np.broadcast_to(p.start_mean, (1, k, d)),
            "covariance": np.broadcast_to(p.start_covariance, (1, k, d, d)),
            "begun": np.zeros((1, 1)),
        }

    def read(self, y: npt.NDArray[np.float32]) -> Candidates:
        p, m = self._parameters, self.memory
        belief = SwitchingBelief(m["log_weight"], m["mean"], m["covariance"])
        moves = belief.log_weight
        if m["begun"].any():
            moves = log_normalise(p.transitions.logits(np.arange(moves.shape[1]), belief.mean))[0]
            moves = np.broadcast_to(moves, (1, *(moves.shape[-1],) * 2))[0]
            belief = predicted(belief, p.dynamics, p.transitions)
        after = updated(belief, *p.emission.information(Observed.prepare([y[None]])))
        self.memory = vars(after) | {"begun": np.ones((1, 1))}
        return _candidates(moves + (after.log_weight - belief.log_weight))
