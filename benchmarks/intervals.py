"""What do intervals cost beside the plain map?

The same stack, with and without `certainty=True`, in turn, on one thread. The figure is the processor time of
the map with intervals over that of the plain one, without clusters and with the same clusters; on a CUDA
device, where the layers lie on it already, it is the time that passed. Run it as one of

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/intervals.py --json intervals.json
    PYTHONPATH=src python benchmarks/intervals.py --device cuda --repeats 5 --json intervals-cuda.json

and show the files with

    python benchmarks/intervals.py --load intervals.json intervals-cuda.json --markdown docs/performance.md
"""

from __future__ import annotations

import argparse
import json
import sys
import warnings
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from engine import Table, interleaved, residual_stack
from run import fill

from microtome.errors import SmallSampleWarning

LAYERS, WIDTH = 13, 768
ROWS = (500, 1_500, 6_000, 25_000)
# Number of clusters, by the number of rows; None where every row stands for itself.
CLUSTERS = {
    "independent rows": lambda rows: None,
    "clusters of 10 rows": lambda rows: rows // 10,
    "50 clusters": lambda rows: 50,
    "20 clusters": lambda rows: 20,
}
# Clusters cost measures of subspaces nothing, except that the rows of few clusters are all scored.
OF_SUBSPACES = ("independent rows", "20 clusters")
# Promised ratios to the plain map.
TARGETS = {"debiased_cka": 2.5, "svcca": 6.0, "pwcca": 6.0}
# A call of more seconds than this is made once.
PATIENCE = 10.0


def run(
    *,
    rows: Sequence[int] = ROWS,
    measures: Sequence[str] = tuple(TARGETS),
    layers: int = LAYERS,
    width: int = WIDTH,
    repeats: int = 3,
    device: str = "cpu",
    seed: int = 0,
) -> dict[str, Any]:
    """
    Time maps with and without intervals.

    Parameters
    ----------
    rows : sequence of int
    measures : sequence of str
        PWCCA is left out where there are too few rows to define it.
    layers, width, repeats, seed : int
    device : {"cpu", "cuda"}

    Returns
    -------
    dict
        Plain data: the shape, the device, and a row for each measure, number of rows and kind of clusters.
    """
    import torch

    torch.set_num_threads(1)
    lines = []
    for count in rows:
        stack = [torch.from_numpy(x).to(device) for x in residual_stack(layers, count, width, seed=seed)]
        for measure in measures:
            if measure == "pwcca" and count < 2 * width:
                continue
            lines += [{"rows": count, **line} for line in _measure(stack, measure, repeats, device)]
    what = torch.cuda.get_device_name() if device == "cuda" else "one thread"
    return {"layers": layers, "width": width, "device": device, "on": what, "lines": lines}


def _measure(stack: list[Any], measure: str, repeats: int, device: str) -> list[dict[str, Any]]:
    import microtome as mt

    rows = len(stack[0])
    kinds = CLUSTERS if measure == "debiased_cka" else OF_SUBSPACES
    counts = {kind: CLUSTERS[kind](rows) for kind in kinds}
    codes = {kind: None if n is None else np.arange(rows) * n // rows for kind, n in counts.items()}

    def similarities(kind: str = "independent rows", layers: list[Any] = stack, **options: Any) -> Any:
        settings = {"measures": measure, "clusters": codes[kind], "device": device, "threads": 1}
        return mt.similarity_matrix(layers, **settings, **options)

    # Clusters matter to the plain map of debiased CKA alone.
    plain = {kind: partial(similarities, kind) for kind in kinds if kinds is CLUSTERS or codes[kind] is None}
    calls = plain | {f"{kind}, intervals": partial(similarities, kind, certainty=True) for kind in kinds}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        # The first call loads libraries, and on a device kernels for these shapes.
        similarities(layers=stack if device == "cuda" else [x[:100, :8] for x in stack[:2]], certainty=True)
        timings, _ = interleaved(calls, repeats, patience=PATIENCE)
    seconds = {name: timing.wall if device == "cuda" else timing.cpu for name, timing in timings.items()}
    return [
        {
            "measure": measure,
            "clusters": kind,
            "seconds": {name: seconds[name] for name in ("independent rows", kind, cost) if name in seconds},
            "ratio": seconds[cost] / seconds["independent rows"],
            "ratio_with_clusters": seconds[cost] / seconds.get(kind, seconds["independent rows"]),
            "target": TARGETS[measure],
            "runs": min(timing.runs for timing in timings.values()),
        }
        for kind in kinds
        for cost in [f"{kind}, intervals"]
    ]


def merged(results: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Put the lines of runs on one device together, by measure, and by rows as they were measured."""
    lines = [line for result in results for line in result["lines"]]
    return {**results[0], "lines": sorted(lines, key=lambda line: list(TARGETS).index(line["measure"]))}


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Show the result of `run`."""
    shown = [
        (
            line["measure"],
            f"{line['rows']:,}",
            line["clusters"],
            f"{line['ratio']:.2f}",
            f"{line['ratio_with_clusters']:.2f}",
            f"{line['target']:.1f}",
            "yes" if line["ratio"] <= line["target"] else "**no**",
        )
        for line in result["lines"]
    ]
    header = (
        "measure",
        "rows",
        "unit",
        "to the plain map",
        "to the plain map with clusters",
        "target",
        "reached",
    )
    runs = sorted({line["runs"] for line in result["lines"]})
    clock = "Processor time" if result["device"] == "cpu" else "Time"
    rounds = " or ".join(map(str, runs))
    note = f"{clock} of the map with intervals over that without; medians over {rounds} rounds, in turn."
    title = f"{result['layers']} layers of {result['width']} features, {result['on']}"
    return [Table(title=title, header=header, rows=tuple(shown), note=note)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Cost of intervals beside the plain map.")
    parser.add_argument("--rows", type=int, nargs="+", default=list(ROWS))
    parser.add_argument("--layers", type=int, default=LAYERS)
    parser.add_argument("--measures", nargs="+", default=list(TARGETS), choices=list(TARGETS))
    parser.add_argument("--repeats", type=int, default=3, help="rounds")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--json", type=Path, help="where to write the results")
    parser.add_argument("--load", type=Path, nargs="+", help="show these results instead of running")
    parser.add_argument("--markdown", type=Path, help="the page to fill, such as docs/performance.md")
    options = parser.parse_args(arguments)
    if options.load is None:
        settings = {
            name: getattr(options, name) for name in ("rows", "layers", "measures", "repeats", "device")
        }
        results = [run(**settings)]
    else:
        results = [json.loads(path.read_text()) for path in options.load]
    alike: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for result in results:
        alike.setdefault((result["on"], result["layers"]), []).append(result)
    results = [merged(runs) for runs in alike.values()]
    shown = [table for result in results for table in tables(result)]
    for table in shown:
        print(table.markdown())
    if options.json is not None:
        options.json.write_text(json.dumps(results[0], indent=1) + "\n")
    if options.markdown is not None:
        page = options.markdown.read_text(encoding="utf-8")
        options.markdown.write_text(fill(page, {"intervals": shown}), encoding="utf-8")
    return int(any(line["ratio"] > line["target"] for result in results for line in result["lines"]))


if __name__ == "__main__":
    sys.exit(main())
