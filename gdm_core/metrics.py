"""`evaluate` under the longer name that it had first."""

from gdm_core.analysis.metrics import evaluate as _evaluate
from gdm_core.deprecation import deprecated

evaluate = deprecated("gdm_core.metrics.evaluate", since="0.1.0", use="gdm_core.evaluate")(_evaluate)

__all__ = ["evaluate"]
