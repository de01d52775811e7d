"""How much dearer than its own matrix products is a map of layer similarities?

The unit is the float32 product of all pairs of layers, X_i' X_j for i <= j, on centered rows: no map that
looks at every pair of layers over all rows does less. It is computed in two ways, pair by pair and as strips
X_i' [X_i .. X_L], and the cheaper one counts. Every figure is a median over rounds; a round runs everything
once, in turn, on one thread. Run it as

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/engine.py --repeats 3

The other benchmarks take the stacks, the clock and the tables from here.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import math
import statistics
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microtome.errors import SmallSampleWarning
from microtome.randomness import generator

Layer = NDArray[np.float32]

KEPT = 0.82  # of the dimensions hold 99 % of the variance: a flat spectrum, where subspaces cost most
WIDTHS_OF_TARGETS = (128, 768)


@dataclass(frozen=True, slots=True, kw_only=True)
class Work:
    """A set of measures, the precision, and the promised ratio at each of `WIDTHS_OF_TARGETS`."""

    name: str
    measures: tuple[str, ...]
    targets: tuple[float, float] | None
    precision: str = "fast"


CKA = ("linear_cka", "debiased_cka")
FIVE = (*CKA, "neuron_correlation", "mixed_regression", "svcca")
WORKS = (
    Work(name="CKA, debiased CKA", measures=CKA, targets=(1.2, 1.2)),
    Work(name="+ neurons, mixed regression, SVCCA", measures=FIVE, targets=(1.6, 1.9)),
    Work(name="+ PWCCA on the SVCCA subspaces", measures=(*FIVE, "pwcca:variant=svcca"), targets=(2.3, 2.2)),
    Work(name="the five + PWCCA at full rank", measures=(*FIVE, "pwcca"), targets=(3.3, 2.8)),
    Work(name="the same six, exact", measures=(*FIVE, "pwcca"), targets=None, precision="exact"),
)
SHAPES = ((26, 5_000, 128), (13, 10_000, 768))


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Medians of one call, in seconds, and how often it was made."""

    cpu: float
    wall: float
    runs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """What a reader sees: a title, a header, rows of text, and what must be known to read them."""

    title: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""

    def markdown(self) -> str:
        """Write it as a section with a table."""
        lines = [self.header, tuple("---" for _ in self.header), *self.rows]
        plain = [[" ".join(cell.split()).replace("|", "\\|") for cell in cells] for cells in lines]
        body = "\n".join(f"| {' | '.join(cells)} |" for cells in plain)
        return f"### {self.title}\n\n{body}\n" + (f"\n{self.note}\n" if self.note else "")


def interleaved(
    calls: Mapping[str, Callable[[], Any]], repeats: int, *, patience: float = math.inf
) -> tuple[dict[str, Timing], dict[str, Any]]:
    """
    Time calls in rounds, so that a busy moment of the machine falls on all of them.

    Parameters
    ----------
    calls : mapping of str to callable
    repeats : int
        Rounds.
    patience : float
        A call that takes more CPU seconds than this is not repeated.

    Returns
    -------
    timings : dict of str to Timing
    values : dict of str to object
        What each call returned last.
    """
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in calls}
    values: dict[str, Any] = {}
    for _ in range(repeats):
        for name, call in calls.items():
            if seconds[name] and seconds[name][0][0] > patience:
                continue
            values.pop(name, None)
            gc.collect()
            wall, cpu = time.perf_counter(), time.process_time()
            values[name] = call()
            seconds[name].append((time.process_time() - cpu, time.perf_counter() - wall))
    timings = {
        name: Timing(
            cpu=statistics.median(c for c, _ in found),
            wall=statistics.median(w for _, w in found),
            runs=len(found),
        )
        for name, found in seconds.items()
    }
    return timings, values


def power_law(width: int, kept: float = KEPT) -> NDArray[np.float64]:
    """
    Eigenvalues i^-a, with the exponent at which a share `kept` of them holds 99 % of their sum.

    Returns
    -------
    ndarray of shape (width,)
    """
    places = np.arange(1, width + 1, dtype=np.float64)
    low, high = 0.0, 4.0
    for _ in range(60):
        exponent = (low + high) / 2
        share = np.cumsum(places**-exponent) / np.sum(places**-exponent)
        needed = int(np.searchsorted(share, 0.99)) + 1
        low, high = (exponent, high) if needed > kept * width else (low, exponent)
    return places**-high


def residual_stack(
    layers: int,
    rows: int,
    width: int,
    *,
    seed: int = 0,
    eigenvalues: NDArray[np.float64] | None = None,
    weakest: float = 0.5,
) -> list[Layer]:
    """
    Draw a stack in which every layer is the one before, turned a little and with some of it drawn anew.

    Parameters
    ----------
    layers, rows, width : int
    seed : int
    eigenvalues : ndarray of shape (width,), optional
        Of the covariance of each layer; `power_law(width)` when absent.
    weakest : float
        Canonical correlations of neighboring layers are log-uniform between this and 1.

    Returns
    -------
    list of ndarray of shape (rows, width), float32
        Rows have mean 0 and length sqrt(width), as LayerNorm leaves them: the rank is width - 1.
    """
    rng = generator(seed, "stack", layers, rows, width)
    scales = np.sqrt(power_law(width) if eigenvalues is None else eigenvalues).astype(np.float32)
    axes = _rotation(rng, width, 1.0)
    state = rng.standard_normal((rows, width), dtype=np.float32)
    stack: list[Layer] = []
    for _ in range(layers):
        h = (state * scales) @ axes
        h -= h.mean(axis=1, keepdims=True)
        h /= h.std(axis=1, keepdims=True) + np.float32(1e-12)
        stack.append(h)
        kept = np.exp(rng.uniform(math.log(weakest), 0.0, size=width)).astype(np.float32)
        fresh = rng.standard_normal((rows, width), dtype=np.float32)
        state = (state * kept + fresh * np.sqrt(1 - kept * kept)) @ _rotation(rng, width, 0.1)
    return stack


def _rotation(rng: np.random.Generator, width: int, size: float) -> Layer:
    """An orthogonal matrix near the identity when `size` is small."""
    q, r = np.linalg.qr(np.eye(width) + size * rng.standard_normal((width, width)) / math.sqrt(width))
    return (q * np.sign(np.diagonal(r))).astype(np.float32)


def products(stack: Sequence[Layer]) -> dict[str, Callable[[], None]]:
    """Make the two ways to multiply all pairs of layers, on rows that are centered beforehand."""
    import torch

    centered = [torch.from_numpy(x - x.mean(axis=0, dtype=np.float64).astype(np.float32)) for x in stack]
    side_by_side = torch.cat(centered, dim=1)
    starts = np.cumsum([0, *(x.shape[1] for x in stack)]).tolist()

    def pairs() -> None:
        for i, x in enumerate(centered):
            for y in centered[i:]:
                torch.mm(x.T, y)

    def strips() -> None:
        for start, stop in itertools.pairwise(starts):
            torch.mm(side_by_side[:, start:stop].T, side_by_side[:, start:])

    return {"product, pair by pair": pairs, "product, strips": strips}


def measure(
    shape: tuple[int, int, int], *, repeats: int = 3, works: Sequence[Work] = WORKS, seed: int = 0
) -> dict[str, Any]:
    """
    Time all works on one stack, in units of its product.

    Parameters
    ----------
    shape : tuple of int
        Layers, rows, width.
    repeats : int
    works : sequence of Work
    seed : int

    Returns
    -------
    dict
        Plain data: `shape`, `kept` and `rank` (medians over layers), and `rows`, one for each product and
        work, with seconds, the ratio to the cheaper product, and the target where there is one.
    """
    import torch

    import microtome as mt

    torch.set_num_threads(1)
    stack = residual_stack(*shape, seed=seed)
    calls: dict[str, Callable[[], Any]] = dict(products(stack))
    plain = tuple(calls)
    for work in works:
        calls[work.name] = lambda work=work: mt.similarity_matrix(
            stack, measures=list(work.measures), precision=work.precision, threads=1
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        timings, values = interleaved(calls, repeats)
    unit_cpu, unit_wall = (min(getattr(timings[name], clock) for name in plain) for clock in ("cpu", "wall"))
    targets = {
        work.name: work.targets[WIDTHS_OF_TARGETS.index(shape[2])]
        for work in works
        if work.targets is not None and shape in SHAPES
    }
    found = [values[work.name] for work in works if "svcca" in work.measures]
    subspaces = {
        "kept": float(np.median(found[0]["svcca"].kept.left)) if found else None,
        "rank": float(np.median(found[0]["mixed_regression"].rank.left)) if found else None,
    }
    rows = [
        {
            "name": name,
            "cpu": timing.cpu,
            "wall": timing.wall,
            "runs": timing.runs,
            "ratio": timing.cpu / unit_cpu,
            "wall_ratio": timing.wall / unit_wall,
            "target": targets.get(name),
            "precision": "" if name in plain else next(iter(values[name].values())).precision,
        }
        for name, timing in timings.items()
    ]
    return {"shape": list(shape), **subspaces, "rows": rows}


def run(*, shapes: Sequence[tuple[int, int, int]] = SHAPES, repeats: int = 3) -> list[dict[str, Any]]:
    """Measure several shapes; see `measure`."""
    return [measure(shape, repeats=repeats) for shape in shapes]


def tables(results: Sequence[Mapping[str, Any]]) -> list[Table]:
    """Show the results of `run`."""
    return [_table(result) for result in results]


def _table(result: Mapping[str, Any]) -> Table:
    layers, rows, width = result["shape"]
    shown = [
        (
            row["name"],
            f"{row['ratio']:.2f}",
            f"{row['wall_ratio']:.2f}",
            "" if row["target"] is None else f"{row['target']:.1f}",
            "" if row["target"] is None else ("yes" if row["ratio"] <= row["target"] else "**no**"),
        )
        for row in result["rows"]
    ]
    known = (
        ""
        if result["kept"] is None
        else (
            f"SVCCA keeps {result['kept']:.0f} dimensions of rank {result['rank']:.0f} "
            f"(medians over layers; {100 * result['kept'] / width:.0f} % of the width). "
        )
    )
    switched = [
        f"{row['name']}: {row['precision']}." for row in result["rows"] if "switch" in row["precision"]
    ]
    runs = min(row["runs"] for row in result["rows"])
    return Table(
        title=f"{layers} layers, {rows:,} rows, {width} features",
        header=("what", "CPU ratio", "wall ratio", "target", "reached"),
        rows=tuple(shown),
        note=" ".join([f"{known}Medians over rounds: {runs}; ratios are to the cheaper product.", *switched]),
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Cost of a map in units of its matrix products.")
    parser.add_argument("--layers", type=int, nargs="+", default=[s[0] for s in SHAPES])
    parser.add_argument("--rows", type=int, nargs="+", default=[s[1] for s in SHAPES])
    parser.add_argument("--width", type=int, nargs="+", default=[s[2] for s in SHAPES])
    parser.add_argument("--repeats", type=int, default=3, help="rounds")
    parser.add_argument("--json", type=Path, help="where to write the results")
    chosen = parser.parse_args(arguments)
    shapes = list(zip(chosen.layers, chosen.rows, chosen.width, strict=True))
    results = run(shapes=shapes, repeats=chosen.repeats)
    for table in tables(results):
        print(table.markdown())
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(results, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
