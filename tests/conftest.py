"""One thread a test process: several run side by side, and their threads would wait for each other."""

from __future__ import annotations

import os

# Before any library reads it; commands that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")
