"""Does fine-tuning run where only the few packages exist that it may need?"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import pytest

import tiny

ALLOWED = ("torch", "transformers", "accelerate", "safetensors", "numpy", "scipy", "pyarrow", "typer", "rich")
ABSENT = ("datasets", "conllu", "matplotlib", "pandas", "sklearn", "h5py", "peft", "threadpoolctl", "numba")
SCRIPT = """
import sys
for name in sys.argv[4].split(","):
    try:
        __import__(name)
    except ImportError:
        continue
    raise SystemExit(f"{name} is here")
from microtome.cli import main
words = "--column text=text --column label=label --recipe wu2020 --set steps=3 --set longest=32 --threads 1"
model, table, store = sys.argv[1:4]
raise SystemExit(main(["finetune", model, "--task", table, *words.split(), "--store", store, "--json"]))
"""


def needed(names: tuple[str, ...]) -> set[str]:
    """The packages, and those that they cannot do without."""
    found: set[str] = set()
    waiting = list(names)
    while waiting:
        name = waiting.pop().lower().replace("_", "-")
        if name in found:
            continue
        try:
            wants = distribution(name).requires or []
        except PackageNotFoundError:  # for another system
            continue
        found.add(name)
        waiting += [re.split(r"[^\w.-]", want)[0] for want in wants if "extra ==" not in want]
    return found


@pytest.mark.slow
def test_it_runs_with_few_packages(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    for name in needed(ALLOWED):
        found = distribution(name)
        for top in {
            file.parts[0] for file in found.files or () if file.parts[0] not in ("..", "__pycache__")
        }:
            place, link = Path(str(found.locate_file(top))), site / top
            if place.exists() and not link.exists():
                link.symlink_to(place)
    folder = tiny.save_checkpoint(tmp_path / "model", "bert")
    table = tmp_path / "mine.csv"
    rows = "".join(f"the cat {i} sleeps,{'yes' if i % 2 else 'no'}\n" for i in range(60))
    table.write_text(f"text,label\n{rows}")
    source = Path(__file__).parents[2] / "src"
    done = subprocess.run(
        [sys.executable, "-S", "-c", SCRIPT, folder, table, tmp_path / "shelf", ",".join(ABSENT)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(source), str(site)])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert '"format": "microtome/finetune/1"' in done.stdout
