"""Every executor gives the same twelve calls the same outcomes and the same bits in the store."""

from __future__ import annotations

from pathlib import Path

import pytest

from microtome.executors.base import ExecutorSettings
from microtome.testing.executors import check_executor


@pytest.mark.parametrize("name", ["inline", "processes"])
def test_twelve_calls(name: str, tmp_path: Path) -> None:
    result = check_executor(name, ExecutorSettings(store=tmp_path, workers=3))
    # Killing the process that performs a call kills the coordinator too where they are one.
    assert result.starts == (3 if name == "inline" else 1)
