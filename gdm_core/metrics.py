"""Honest scores under the name that users import; the code is in gdm_core/analysis/metrics.py."""

from gdm_core.analysis.metrics import evaluate

__all__ = ["evaluate"]
