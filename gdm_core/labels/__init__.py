"""Labels for every sample of a recording, learned from a few labelled clips."""

from gdm_core.labels.model import LabelModel
from gdm_core.labels.proposals import Clip, propose, unfamiliar_message
from gdm_core.labels.requests import expert_agreement
from gdm_core.labels.scores import Agreement, calibration_error

__all__ = [
    "Agreement",
    "Clip",
    "LabelModel",
    "calibration_error",
    "expert_agreement",
    "propose",
    "unfamiliar_message",
]
