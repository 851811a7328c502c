"""The loaders and simulators under a name that leaves `datasets` to others: `from gdm_studio.datasets import nascar`."""

from gdm_studio.paths import APP

# The files themselves stay where the dashboard finds them; imports among them are relative, so both names work.
__path__ = [str(APP / "datasets")]
