"""A module that ends the process that loads it, as a library does that the processor cannot run."""

import os

os._exit(1)
