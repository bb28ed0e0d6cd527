"""`python -m headway.worker MODULE[:attr]…`."""

import sys

from headway.worker._command import main

if __name__ == "__main__":
    sys.exit(main())
