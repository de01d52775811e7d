"""The version stands in three places and is one."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import microtome

ROOT = Path(__file__).parent.parent


def test_the_version_is_the_same_everywhere() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), flags=re.MULTILINE)
    assert cited is not None
    assert microtome.__version__ == project == cited[1]
    assert f"## {project}" in (ROOT / "CHANGELOG.md").read_text()
