"""`python -m gdm_core` runs the command `gdm`."""

import sys

from gdm_studio.cli import main

if __name__ == "__main__":
    sys.exit(main())
