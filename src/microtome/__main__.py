"""The command line as a module: `python -m microtome`."""

import sys

from microtome.cli import main

if __name__ == "__main__":
    sys.exit(main())
