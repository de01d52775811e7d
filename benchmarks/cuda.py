"""How long does a whole map take on a CUDA device, where does the time go, and are its numbers the CPU's?

Layers lie on the device before the clock starts, everything has run once, and the device is waited for before
the clock stops. The stages are maps with more and more measures, beside the two things that no map can do
without: the float64 products of all pairs of layers, and the eigenvectors of every layer. Some of the layers
are compared on the CPU too, in exact mode. It needs torch, numpy and scipy alone. Run it as

    PYTHONPATH=src python benchmarks/cuda.py --json cuda.json

and show the file with `benchmarks/run.py --cuda cuda.json`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from engine import FIVE, Layer, Table, interleaved, power_law, residual_stack

from microtome.errors import SmallSampleWarning

SHAPE = (26, 10_000, 768)
CHECKED = 6  # layers compared on the CPU too
AGREE = 1e-9  # the largest difference allowed
PRODUCT, EIGENVECTORS = "products of all pairs, float64", "eigenvectors of all layers, float64"


def draw(spectrum: str, shape: tuple[int, int, int], seed: int = 0) -> list[Layer]:
    """
    Draw a stack whose eigenvalues and canonical correlations are easy or hard for an iterative method.

    Parameters
    ----------
    spectrum : {"power law", "log-uniform"}
        Log-uniform: eigenvalues and correlations of neighbors spread over four orders of magnitude.
    shape : tuple of int
        Layers, rows, width.
    seed : int
    """
    width = shape[2]
    if spectrum == "power law":
        return residual_stack(*shape, seed=seed, eigenvalues=power_law(width))
    return residual_stack(*shape, seed=seed, eigenvalues=np.geomspace(1, 1e-4, width), weakest=1e-4)


def floors(tensors: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    """Make what every map has to do: products of centered rows in strips, and a batch of eigenproblems."""
    import torch

    wide = torch.cat([x.double() - x.double().mean(0) for x in tensors], dim=1)
    starts = np.cumsum([0, *(x.shape[1] for x in tensors)]).tolist()
    scatters = torch.stack([wide[:, a:b].T @ wide[:, a:b] for a, b in itertools.pairwise(starts)])

    def products() -> None:
        for start, stop in itertools.pairwise(starts):
            torch.mm(wide[:, start:stop].T, wide[:, start:])

    return {PRODUCT: products, EIGENVECTORS: lambda: torch.linalg.eigh(scatters)}


def measure(
    spectrum: str,
    shape: tuple[int, int, int] = SHAPE,
    *,
    device: str = "cuda",
    checked: int = CHECKED,
    repeats: int = 3,
) -> dict[str, Any]:
    """
    Time the stages on one stack, and compare some of its layers with the CPU.

    Parameters
    ----------
    spectrum : str
        See `draw`.
    shape : tuple of int
        Layers, rows, width.
    device : str
        "cuda"; "cpu" only to try the script.
    checked : int
        How many layers, evenly spread, the CPU compares too.
    repeats : int

    Returns
    -------
    dict
        Plain data: `stages` with seconds, `differences` by measure, `kept` and `rank` (medians over layers),
        `peak_bytes` on the device (None on a CPU).
    """
    import torch

    import microtome as mt

    stack = draw(spectrum, shape)
    tensors = [torch.from_numpy(x).to(device) for x in stack]
    on_gpu = torch.device(device).type == "cuda"

    def waited(call: Callable[[], Any]) -> Callable[[], Any]:
        def whole() -> Any:
            result = call()
            if on_gpu:
                torch.cuda.synchronize()
            return result

        return whole

    def similarity(layers: Sequence[Any], measures: Sequence[str], where: str) -> Any:
        return mt.similarity_matrix(list(layers), measures=list(measures), precision="exact", device=where)

    calls = {name: waited(call) for name, call in floors(tensors).items()}
    sets = {_stage(count): FIVE[:count] for count in range(1, len(FIVE) + 1)}
    for name, measures in sets.items():
        calls[name] = waited(lambda measures=measures: similarity(tensors, measures, device))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        for call in calls.values():
            call()
        held = torch.cuda.memory_allocated() if on_gpu else 0
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        timings, values = interleaved(calls, repeats)
        peak = torch.cuda.max_memory_allocated() - held if on_gpu else None
        few = np.unique(np.linspace(0, len(stack) - 1, checked).astype(int))
        expected = similarity([stack[i] for i in few], FIVE, "cpu")
    found = values[_stage(len(FIVE))]
    return {
        "spectrum": spectrum,
        "shape": list(shape),
        "checked": len(few),
        "kept": float(np.median(found["svcca"].kept.left)),
        "rank": float(np.median(found["mixed_regression"].rank.left)),
        "peak_bytes": peak,
        "stages": {name: asdict(timing) for name, timing in timings.items()},
        "differences": {
            name: float(np.abs(found[name].values[np.ix_(few, few)] - expected[name].values).max())
            for name in FIVE
        },
    }


def _stage(count: int) -> str:
    return f"+ {FIVE[count - 1]}" if count > 1 else FIVE[0]


def run(
    shape: tuple[int, int, int] = SHAPE, *, device: str = "cuda", checked: int = CHECKED, repeats: int = 3
) -> dict[str, Any]:
    """Measure both spectra; see `measure`."""
    import torch

    on_gpu = torch.device(device).type == "cuda"
    return {
        "device": torch.cuda.get_device_name(device) if on_gpu else f"CPU ({platform.machine()})",
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "python": platform.python_version(),
        "results": [
            measure(spectrum, shape, device=device, checked=checked, repeats=repeats)
            for spectrum in ("power law", "log-uniform")
        ],
    }


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Show the result of `run`."""
    return [_table(result, one) for one in result["results"]]


def _table(result: Mapping[str, Any], one: Mapping[str, Any]) -> Table:
    layers, rows, width = one["shape"]
    shape = f"{layers} layers, {rows:,} rows, {width} features"
    floor = one["stages"][PRODUCT]["wall"]
    shown = [
        (name, f"{timing['wall']:.4f}", f"{timing['wall'] / floor:.1f}")
        for name, timing in one["stages"].items()
    ]
    differences = one["differences"]
    worst = max(differences, key=lambda name: differences[name])
    peak = "" if one["peak_bytes"] is None else f" Peak above the input: {one['peak_bytes'] / 1e9:.2f} GB."
    runs = min(timing["runs"] for timing in one["stages"].values())
    return Table(
        title=f"{result['device']}: {shape}, {one['spectrum']} spectrum",
        header=("what", "wall s", "ratio to the products"),
        rows=tuple(shown),
        note=(
            f"torch {result['torch']}, CUDA {result['cuda']}; medians over rounds: {runs}, after a warm-up. "
            f"A row with + has all measures above it too. SVCCA keeps {one['kept']:.0f} dimensions of rank "
            f"{one['rank']:.0f}. Largest difference from the CPU's exact mode over {one['checked']} layers: "
            f"{differences[worst]:.1e} ({worst}); {'within' if differences[worst] <= AGREE else '**above**'} "
            f"{AGREE:g}.{peak}"
        ),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Time of a map on a CUDA device.")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--layers", type=int, default=SHAPE[0])
    parser.add_argument("--rows", type=int, default=SHAPE[1])
    parser.add_argument("--width", type=int, default=SHAPE[2])
    parser.add_argument("--checked", type=int, default=CHECKED, help="layers compared on the CPU too")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--json", type=Path, help="where to write the results")
    chosen = parser.parse_args(arguments)
    shape = (chosen.layers, chosen.rows, chosen.width)
    result = run(shape, device=chosen.device, checked=chosen.checked, repeats=chosen.repeats)
    for table in tables(result):
        print(table.markdown())
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(result, indent=1))
    agree = all(d <= AGREE for one in result["results"] for d in one["differences"].values())
    return 0 if agree else 1


if __name__ == "__main__":
    raise SystemExit(main())
