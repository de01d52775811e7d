"""One thread a test process: several run side by side, and their threads would wait for each other."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import hypothesis
import pytest

# Tests are not timed: the first example of a test may import a library on a busy machine.
hypothesis.settings.register_profile("untimed", deadline=None)
hypothesis.settings.load_profile("untimed")

# Before any library reads it; commands that tests start inherit it.
os.environ.setdefault("OMP_NUM_THREADS", "1")


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Hold also where the environment asks for more: models this small are slower with them."""
    from threadpoolctl import threadpool_limits

    # Tests that need torch have imported it by now; others are not to wait for it.
    torch = sys.modules.get("torch")
    before = 1 if torch is None else torch.get_num_threads()
    with threadpool_limits(1):
        if torch is not None:
            torch.set_num_threads(1)
        yield
        if torch is not None:
            torch.set_num_threads(before)
