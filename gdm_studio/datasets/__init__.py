"""Loaders and simulators of data: `from gdm_studio.datasets import nascar`."""

from gdm_studio.paths import APP

# The dashboard imports the same files as `datasets`; their own imports are relative, so both names work.
__path__ = [str(APP / "datasets")]
