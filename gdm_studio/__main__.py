"""`python -m gdm_studio` is `gdm`."""

import sys

from gdm_studio.cli import main

if __name__ == "__main__":
    sys.exit(main())
