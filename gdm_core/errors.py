"""Every error that the library raises on purpose. Each message says what was wrong, where, and what to do."""

from __future__ import annotations


class GdmError(Exception):
    """Base of all deliberate errors, so that a caller can catch ours and let real bugs through."""


class DataError(GdmError, ValueError):
    """The data cannot be used as given."""


class ConfigError(GdmError, ValueError):
    """A parameter is outside its range, or two parameters contradict each other."""


class FitError(GdmError, RuntimeError):
    """A model was asked for something it cannot do yet (not fitted), or a fit could not be carried out."""


class ModelFileError(GdmError, ValueError):
    """A saved model cannot be read: damaged, foreign, or from an incompatible version."""


class FitWarning(UserWarning):
    """A fit ended without a result that can be used. The message says why and what to try."""
