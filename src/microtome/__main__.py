"""What runs as `python -m microtome`? The command line."""

import sys

from microtome.cli import main

if __name__ == "__main__":
    sys.exit(main())
