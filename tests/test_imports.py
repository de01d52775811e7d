"""Nothing heavy is imported before it is needed."""

from __future__ import annotations

import json
import os
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import microtome

HEAVY = (
    "torch",
    "transformers",
    "matplotlib",
    "scipy.stats",
    "numba",
    "pandas",
    "pyarrow",
    "rich",
    "sklearn",
)
SOURCE = Path(microtome.__file__).parents[1]


def imported_by(code: str, *arguments: str) -> set[str]:
    """Run code in a new interpreter, and say which of the heavy packages it imported."""
    listing = (
        f"import sys, json; sys.stderr.write('\\n' + json.dumps([m for m in {HEAVY!r} if m in sys.modules]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", f"{code}\n{listing}", *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE)},
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stderr.splitlines()[-1]))


def test_the_package_alone_imports_nothing_heavy() -> None:
    assert imported_by("import microtome; dir(microtome)") == set()


def test_no_module_imports_anything_heavy() -> None:
    names = [
        m.name for m in pkgutil.walk_packages(microtome.__path__, "microtome.") if "__main__" not in m.name
    ]
    assert "microtome.comparison.similarity" in names
    loading = "\n".join(f"import {name}" for name in names)
    assert imported_by(loading) == set()


@pytest.mark.parametrize(
    "words", [["--help"], ["similarity", "--help"], ["ls", "measures"], ["ls", "measures", "--json"]]
)
def test_help_and_lists_import_neither_torch_nor_figures(words: list[str]) -> None:
    found = imported_by("import sys; from microtome.cli import main; assert main(sys.argv[1:]) == 0", *words)
    assert found <= {"rich"}


def test_a_record_is_read_and_drawn_without_torch(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    maps = microtome.similarity_matrix(
        [rng.normal(size=(30, 3)) for _ in range(2)], measures=["debiased_cka", "svcca"]
    )
    maps.save(tmp_path)
    code = (
        "import sys; from microtome.findings.opening import open_found\n"
        "from microtome.figures.heatmap import save_figures\n"
        "maps = open_found(sys.argv[1]); maps.document(); save_figures(maps, sys.argv[1])\n"
        "assert 'matplotlib.pyplot' not in sys.modules\n"
    )
    assert imported_by(code, str(tmp_path)) == {"matplotlib"}
    assert (tmp_path / "svcca.pdf").exists()
