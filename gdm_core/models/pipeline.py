"""A model in the middle of a scikit-learn pipeline: soft states are what it makes of its input."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
import numpy.typing as npt

from gdm_core.errors import ConfigError


class PipelineStep:
    """`transform` and what goes with it, over `fit` and `predict_proba` of a model."""

    def transform(self, data: Any) -> Any:
        """Soft states [T, K] of `data`, as `predict_proba` gives them; pandas after `set_output(transform="pandas")`."""
        found = self.predict_proba(data)  # type: ignore[attr-defined]
        if getattr(self, "_sklearn_output_config", {}).get("transform") != "pandas" or isinstance(found, list):
            return found
        import pandas as pd

        index = data.index if isinstance(data, pd.DataFrame) else None
        return pd.DataFrame(found, index=index, columns=self.get_feature_names_out())

    def fit_transform(self, data: Any, y: Any = None) -> Any:
        """`fit`, then `transform`, both of `data`; `y` is ignored, as in `fit`."""
        return self.fit(data).transform(data)  # type: ignore[attr-defined]

    def set_output(self, *, transform: str | None = None) -> Self:
        """What `transform` gives: "default" (NumPy) or "pandas"; None leaves it. The name under which scikit-learn keeps it is
        theirs, so that `clone` takes it along."""
        if transform not in (None, "default", "pandas"):
            raise ConfigError(f"transform is {transform!r}; choose 'default' or 'pandas'.")
        if transform is not None:
            self._sklearn_output_config = {"transform": transform}
        return self

    def get_feature_names_out(self, input_features: Any = None) -> npt.NDArray[np.object_]:
        """Names of the columns that `transform` gives: S1, S2, ... `input_features` is there for scikit-learn."""
        return np.array([f"S{k + 1}" for k in range(self.config.n_states)], dtype=np.object_)  # type: ignore[attr-defined]
