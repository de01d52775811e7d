"""Lazily imported modules: first uses from several threads, and names that do not exist."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import microtome
from microtome.lazy import LazyModule

# Threads that begin while the first one is in the middle of the import.
THREADS = """
import threading, time
import numpy as np
import microtome as mt

x, y = np.random.default_rng(0).normal(size=(2, 30, 4))
values = []
compare = lambda: values.append(mt.similarity(x, y, "svcca").value)
threads = [threading.Thread(target=compare) for _ in range(8)]
for thread in threads:
    thread.start()
    time.sleep(0.15)
for thread in threads:
    thread.join()
assert len(set(values)) == 1 and len(values) == 8, values
"""


def test_several_threads_may_use_torch_first() -> None:
    source = str(Path(microtome.__file__).parents[1])
    subprocess.run([sys.executable, "-c", THREADS], check=True, timeout=120, env={"PYTHONPATH": source})


def test_a_module_is_imported_when_a_name_is_read() -> None:
    module = LazyModule("colorsys")
    assert module.rgb_to_hsv(0.0, 0.0, 0.0) == (0.0, 0.0, 0.0)
    with pytest.raises(AttributeError, match="nothing"):
        _ = module.nothing
