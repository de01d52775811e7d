"""The examples in docstrings run and show what they say."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import microtome as mt

SOURCE = Path(__file__).parent.parent / "src"
MODULES = sorted(
    ".".join(path.relative_to(SOURCE).with_suffix("").parts)
    for path in SOURCE.rglob("*.py")
    if ">>>" in path.read_text()
)


def public_functions() -> dict[str, Any]:
    """Functions of the package and of `mt.analysis`, by name."""
    # `getattr` would return the package of the same name once it is imported.
    names = {name: vars(mt)["__getattr__"](name) for name in dir(mt) if not name.startswith("_")}
    names |= {f"analysis.{name}": getattr(mt.analysis, name) for name in dir(mt.analysis)}
    return {name: value for name, value in names.items() if inspect.isfunction(value)}


@pytest.fixture(scope="module")
def shared_store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Examples fine-tune the same small model: the first trains it, the others read it."""
    return str(tmp_path_factory.mktemp("store"))


@pytest.fixture(autouse=True)
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shared_store: str) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MICROTOME_STORE", shared_store)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")


@pytest.mark.parametrize("name", public_functions())
def test_public_functions_have_examples(name: str) -> None:
    # `test_examples` runs them; those of experiments stand in their classes.
    assert "\nExamples\n" in (inspect.getdoc(public_functions()[name]) or "")


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert tried > 0
    assert failed == 0


def test_the_page_for_users_of_other_packages_runs_as_printed() -> None:
    page = (SOURCE.parent / "docs" / "moving.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("[") == 3
