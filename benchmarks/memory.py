"""Does a map of layers that are read from files need more memory when there are more rows?

For each number of rows a process of its own compares layers in `.npy` files and watches the memory that
belongs to it alone: pages of the files that the system happens to keep mapped can be taken back at any time,
so they are left out. The baseline is what it holds after all imports and a first small map. Run it as

    PYTHONPATH=src python benchmarks/run.py --only memory
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from engine import FIVE, Table

from microtome.randomness import generator

ROWS = (10_000, 50_000, 200_000)
LAYERS, WIDTH = 6, 128
PIECE = 10_000  # rows written at a time
INTERVAL = 0.002  # seconds between looks at the memory
STATUS = Path("/proc/self/status")


class Watch:
    """A thread that looks at this process's memory until it is told to stop."""

    def __init__(self) -> None:
        self.peak = private_bytes()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self.peak = max(self.peak, private_bytes())

    def _look(self) -> None:
        while not self._stop.wait(INTERVAL):
            self.peak = max(self.peak, private_bytes())


def private_bytes() -> int:
    """Memory of this process without mapped files; only Linux tells it, elsewhere see `largest_resident`."""
    return _status("RssAnon") or largest_resident()


def largest_resident() -> int:
    """Largest resident size of this process so far, mapped files included."""
    import resource

    # The kernel's figure first: the other one is inherited from the process that started this one.
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return _status("VmHWM") or (largest if sys.platform == "darwin" else 1024 * largest)


def _status(name: str) -> int:
    if not STATUS.exists():
        return 0
    found = [line.split()[1] for line in STATUS.read_text().splitlines() if line.startswith(f"{name}:")]
    return 1024 * int(found[0]) if found else 0


def write_layers(folder: Path, rows: int, *, layers: int = LAYERS, width: int = WIDTH, seed: int = 0) -> None:
    """Write layers that drift apart, a piece of rows at a time: one `.npy` file each, float32."""
    files = [
        np.lib.format.open_memmap(
            folder / f"layer{k:02d}.npy", mode="w+", dtype=np.float32, shape=(rows, width)
        )
        for k in range(layers)
    ]
    rng = generator(seed, "memory", rows)
    for start in range(0, rows, PIECE):
        count = min(PIECE, rows - start)
        state = rng.standard_normal((count, width), dtype=np.float32)
        for file in files:
            file[start : start + count] = state
            state = state + 0.5 * rng.standard_normal((count, width), dtype=np.float32)
    for file in files:
        file.flush()


def compare(
    folder: Path, measures: Sequence[str] = FIVE, *, certainty: bool = False, memory: str = "2GB"
) -> dict[str, Any]:
    """Compare the layers of a folder and tell what it took; meant for a process of its own."""
    import torch

    import microtome as mt

    torch.set_num_threads(1)
    few = generator(0, "memory", "few").standard_normal((2, 300, 8), dtype=np.float32)
    mt.similarity_matrix(few, measures=list(measures), certainty=certainty)
    baseline, cpu = private_bytes(), time.process_time()
    with Watch() as watch:
        maps = mt.similarity_matrix(folder, measures=list(measures), certainty=certainty, memory=memory)
    found = next(iter(maps.values()))
    return {
        "rows": found.n,
        "cpu": time.process_time() - cpu,
        "wall": found.provenance["seconds"],
        "baseline": baseline,
        "beside_baseline": watch.peak - baseline,
        "resident": largest_resident(),
        "input": sum(path.stat().st_size for path in folder.glob("*.npy")),
    }


def run(
    *,
    rows: Sequence[int] = ROWS,
    layers: int = LAYERS,
    width: int = WIDTH,
    measures: Sequence[str] = FIVE,
    certainty: bool = False,
    memory: str = "2GB",
) -> dict[str, Any]:
    """
    Measure each number of rows in a process of its own, on files in a temporary folder.

    With `certainty` the rows are read again for intervals; `memory` is what the maps may take.

    Returns
    -------
    dict
        Plain data: `layers`, `width`, `rows` (a list, with bytes), and `growth`, the largest peak over the
        smallest.
    """
    found = []
    for count in rows:
        with tempfile.TemporaryDirectory() as folder:
            write_layers(Path(folder), count, layers=layers, width=width)
            done = subprocess.run(
                [sys.executable, __file__, folder, ",".join(measures), str(int(certainty)), memory],
                env={**os.environ, "OMP_NUM_THREADS": "1"},
                stdout=subprocess.PIPE,
                text=True,
                check=True,
            )
        found.append(json.loads(done.stdout))
    peaks = [one["beside_baseline"] for one in found]
    return {"layers": layers, "width": width, "rows": found, "growth": max(peaks) / max(min(peaks), 1)}


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Show the result of `run`."""
    shown = [
        (
            f"{one['rows']:,}",
            f"{one['input'] / 1e6:,.0f}",
            f"{one['beside_baseline'] / 1e6:,.0f}",
            f"{one['baseline'] / 1e6:,.0f}",
            f"{one['resident'] / 1e6:,.0f}",
        )
        for one in result["rows"]
    ]
    return [
        Table(
            title=f"Memory, {result['layers']} layers of {result['width']} features in files",
            header=("rows", "input MB", "peak MB", "baseline MB", "largest resident MB"),
            rows=tuple(shown),
            note="Peak: private memory above the baseline, which is what importing torch and microtome and a "
            "first small map take. Largest resident counts mapped pages of the input files too, which the "
            f"system takes back when it needs them. Largest peak over smallest: {result['growth']:.2f}.",
        )
    ]


if __name__ == "__main__":
    _, place, names, sure, most = sys.argv
    print(json.dumps(compare(Path(place), names.split(","), certainty=sure == "1", memory=most)))
