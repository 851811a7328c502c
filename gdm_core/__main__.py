"""`python -m gdm_core fit|predict|sweep|reproduce|info` is the command `gdm`, which knows data as well as models."""

import sys

from gdm_studio.cli import main

if __name__ == "__main__":
    sys.exit(main())
