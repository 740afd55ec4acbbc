"""`python -m e2e.lab`."""

import sys

from e2e.lab.command import main

if __name__ == "__main__":
    sys.exit(main())
