from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real corpora, where there is one."""
    folder = Path(os.environ.get("MICROTOME_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"there are no real corpora at {folder}; MICROTOME_SHARED says where they are")
    return folder
