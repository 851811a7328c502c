"""Errors of the library. Messages say what is wrong and what to do.

GdmError
    DataError (also ValueError)
        DataTypeError (also TypeError)
    ConfigError (also ValueError)
    FitError (also RuntimeError)
        NotFittedError (also scikit-learn's, in `gdm_core.models.estimator`)
    ModelFileError (also ValueError)
"""

from __future__ import annotations


class GdmError(Exception):
    """Base class of all errors that the library raises."""


class DataError(GdmError, ValueError):
    """The data are invalid."""


class DataTypeError(DataError, TypeError):
    """A value of the data is not a number."""


class ConfigError(GdmError, ValueError):
    """A parameter is out of range, or parameters contradict each other."""


class FitError(GdmError, RuntimeError):
    """A model is not fitted, or a fit failed."""


class ModelFileError(GdmError, ValueError):
    """A model file is damaged, has an unknown format or an incompatible version."""


class FitWarning(UserWarning):
    """A fit failed, or data are unlike those of the fit. The message says why and what to try."""
