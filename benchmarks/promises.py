"""Which promises about cost were not kept in a run of the benchmarks?"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

# Packages that microtome may not be slower than, and the mode with the numbers that they compute in.
MODES = {
    "pytorch-cka": "fast",
    "torch-cka": "fast",
    "ckatorch": "fast",
    "rsatoolbox": "exact",
    "scikit-learn": "exact",
}
GROWTH = 1.2  # of the peak memory from the fewest rows to the most
FASTER, ERROR = 10.0, 1e-6  # Jensen-Shannon: against two divergences, and off the value in float64


def missed(results: Mapping[str, Any]) -> list[str]:
    """
    List what a run of the full benchmarks shows that was promised otherwise.

    Parameters
    ----------
    results : mapping
        As `run.gather` makes them; sections that did not run are passed over.

    Returns
    -------
    list of str
        A sentence each; empty when everything was kept.
    """
    parts = {
        "engine": _engine,
        "intervals": _intervals,
        "peers": _peers,
        "memory": _memory,
        "attention": _attention,
        "extraction": _extraction,
    }
    return [said for name, part in parts.items() if name in results for said in part(results[name])]


def _engine(results: list[Mapping[str, Any]]) -> Iterator[str]:
    for result in results:
        shape = " x ".join(f"{size:,}" for size in result["shape"])
        for row in result["rows"]:
            if row["target"] is not None and row["ratio"] > row["target"]:
                yield f"{shape}, {row['name']}: {row['ratio']:.2f} products, promised {row['target']:.1f}."


def _intervals(result: Mapping[str, Any]) -> Iterator[str]:
    for line in result["lines"]:
        if line["ratio"] > line["target"]:
            what = f"{line['measure']} of {line['rows']:,} rows, {line['clusters']}"
            yield f"{what}: intervals take {line['ratio']:.2f} plain maps, promised {line['target']:.1f}."


def _peers(result: Mapping[str, Any]) -> Iterator[str]:
    for row in result["values"]:
        if not row["microtome_right"]:
            yield f"{row['measure']} on {row['input']}: {row['microtome']:.4f}, but it is {row['true']:.4f}."
    for row in result["times"]:
        mode = MODES.get(row["who"].split(" ", 1)[0])
        if mode is not None and row[f"to_{mode}"] < 1:
            ratio = f"{row[f'to_{mode}']:.2f} of the time of microtome {mode}"
            yield f"{row['measure']}, {row['shape']}: {row['who']} takes {ratio}."


def _memory(result: Mapping[str, Any]) -> Iterator[str]:
    if result["growth"] > GROWTH:
        yield f"peak memory grows {result['growth']:.2f} times with the rows, promised flat."


def _attention(rows: list[Mapping[str, Any]]) -> Iterator[str]:
    ours = [row for row in rows if row["variant"].startswith("microtome")]
    if (best := max(row["times_faster"] for row in ours)) < FASTER:
        yield f"Jensen-Shannon: {best:.1f} times two divergences, promised {FASTER:g}."
    for row in ours:
        if not row["max_error"] <= ERROR:
            yield f"Jensen-Shannon, {row['variant']}: off by {row['max_error']:.0e}, promised {ERROR:g}."


def _extraction(result: Mapping[str, Any]) -> Iterator[str]:
    for row in result["rows"]["rows"]:
        if row["target"] is not None and row["ratio"] > row["target"]:
            yield f"extraction, {row['name']}: {row['ratio']:.2f}, promised {row['target']:.2f}."
    if result["memory"]["growth"] > GROWTH:
        yield f"memory of extraction grows {result['memory']['growth']:.2f} times, promised flat."
