"""Execution plans: groups of layers, memory use and estimated time."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..errors import must
from ..moments.clustered import MOST_PRODUCTS, MOST_UNITS
from ..moments.tiles import TILE_ROWS

if TYPE_CHECKING:
    from .request import Request

UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
# Multiply-adds per second of one thread of an ordinary processor; only for the time estimate.
RATE = 4e10
# Pairs of layers, each of one row, that the second pass handles per second.
PAIR_RATE = 5e6
# Values that are read and shifted per second.
READ_RATE = 2e8
# What each measure adds, in products of two layers' rows; measured at 10,000 rows of 768 features.
EXTRA_COST = {
    "cca": 0.6,
    "svcca": 0.4,
    "pwcca": 1.3,
    "mixed_regression": 0.2,
    "linear_regression": 0.2,
    "procrustes": 2.5,
}


# Least number of rows of a tile in the second pass.
LEAST_TILE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """
    Memory budget of the second pass over the rows, for intervals or clusters.

    Parameters
    ----------
    units : int
        Units whose scores are kept, at most.
    held : bool
        Whether the weights of all rows are held.
    cells : int
        Rows of a tile times pairs of layers.
    products : int
        Inner products within clusters that are held at once.
    bytes : int
        In total.
    """

    units: int
    held: bool
    cells: int
    products: int
    bytes: int


def second_share(layers: int, rows: int, clusters: int, memory: int) -> Share:
    """
    Divide the memory for the second pass over the rows.

    Parameters
    ----------
    layers : int
        Of both sides.
    rows, clusters, memory : int

    Returns
    -------
    Share
    """
    # Eight tables of float64 with one value for each pair of layers and unit; fewer units make larger groups.
    table = 8 * 8 * layers**2
    units = int(np.clip(0.8 * memory / table, 512, MOST_UNITS))
    scores = table * min(units, clusters)
    # Sums k and weights u of all rows.
    weights = 2 * 8 * layers * rows
    held = weights <= memory / 4
    room = max(memory - scores - held * weights, memory / 8)
    # Six temporary tables of a tile; three copies of the inner products.
    cells = int(min(2e7, room / 96))
    products = int(min(MOST_PRODUCTS, room / 64))
    return Share(
        units=units,
        held=held,
        cells=cells,
        products=products,
        bytes=int(scores + held * weights + 48 * max(min(cells, rows * layers**2), LEAST_TILE * layers**2)),
    )


def read_bytes(memory: str | int | float) -> int:
    """
    Read an amount of memory.

    Examples
    --------
    >>> read_bytes("2GB"), read_bytes("512 MiB")
    (2000000000, 536870912)
    """
    if isinstance(memory, (int, float)) and not isinstance(memory, bool) and memory > 0:
        return int(memory)
    match = re.fullmatch(r"\s*([0-9]+(?:\.[0-9]*)?)\s*([A-Za-z]*)\s*", str(memory))
    if match is None or match[2].upper() not in UNITS or not float(match[1]):
        raise must("memory", "an amount such as '2GB' or '512MiB'", memory)
    return int(float(match[1]) * UNITS[match[2].upper()])


@dataclass(frozen=True, slots=True, kw_only=True)
class EnginePlan:
    """
    Groups of layers, and their cost.

    Parameters
    ----------
    left, right : tuple of tuple of int
        Layers of each group; a pass over the rows handles one left and one right group.
    tile_rows : int
        Rows read at a time.
    passes : int
        Passes over the rows.
    state_bytes : int
        Peak memory of the engine besides the input.
    operations : float
        Multiply-adds.
    seconds : float
        A rough estimate for one thread.
    """

    left: tuple[tuple[int, ...], ...]
    right: tuple[tuple[int, ...], ...]
    tile_rows: int
    passes: int
    state_bytes: int
    operations: float
    seconds: float

    def sentence(self) -> str:
        """Describe the cost in words."""
        return (
            f"about {_amount(self.state_bytes)} of memory beside the input, {self.passes} reading"
            f"{'s' if self.passes > 1 else ''} of the rows, about {_duration(self.seconds)} on one thread"
        )


def _amount(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(size / 1e6, 1):.0f} MB"


def _duration(seconds: float) -> str:
    if seconds < 1:
        return "a second"
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"


def make_plan(request: Request) -> EnginePlan:
    """
    Split the layers of a request into as few groups as fit its memory, and estimate the cost.

    Parameters
    ----------
    request : Request

    Returns
    -------
    EnginePlan
    """
    left, right, measures = request.left, request.right, request.measures
    certainty, clustered = request.options.certainty, request.clusters is not None
    resampled = certainty and any(choice.measure.interval == "halves" for choice in measures)
    n, memory, itemsize = request.n, request.memory, _itemsize(request)
    left_widths = np.array(left.widths)
    right_widths = left_widths if right is None else np.array(right.widths)
    spectra = sum(w * w for w in [*left_widths, *([] if right is None else right_widths)]) * (
        16 + 2 * itemsize
    )
    most = max(len(left), len(right_widths))
    lefts, rights, tile_rows, state = (), (), TILE_ROWS, 0
    for groups in range(1, most + 1):
        lefts, rights = _groups(len(left), groups), _groups(len(right_widths), groups)
        tile_rows, state = _state(request, (left_widths, right_widths), lefts, rights)
        if state + spectra <= memory or groups == most:
            break
    symmetric = right is None
    count = len(lefts)
    passes = count * (count + 1) // 2 if symmetric else len(lefts) * len(rights)
    pairs = np.outer(left_widths, right_widths)
    products = float(
        np.triu(pairs).sum() if symmetric else pairs.sum() + (left_widths**2).sum() + (right_widths**2).sum()
    )
    operations = n * products * (1 + sum(EXTRA_COST.get(m.measure.name, 0.02) for m in measures))
    rows_too = [m for m in measures if m.declared("needs") == "rows"]
    operations += len(rows_too) * n * n * float(left_widths.sum() + right_widths.sum())
    repeats = 1.0 + request.options.permutations + (2.4 if certainty else 0.0)
    repeats += 0.5 * request.options.halves * resampled
    slower = 2.0 if itemsize == 8 else 1.0
    layers = len(left_widths) if symmetric else len(left_widths) + len(right_widths)
    second = certainty or clustered
    share = second_share(layers, n, n, memory).bytes if second else 0
    # Cluster debiasing is repeated with the map; scores are computed once.
    pairs_of_rows = (1.0 if certainty else 0.3) * n * layers**2 if second else 0.0
    readings = passes + (2 if clustered else 0) + (passes + 1 if certainty else 0)
    values_read = readings * n * float(left_widths.sum() + (0 if symmetric else right_widths.sum()))
    return EnginePlan(
        left=lefts,
        right=lefts if symmetric else rights,
        tile_rows=tile_rows,
        passes=readings,
        state_bytes=int(state + spectra + share),
        operations=operations * repeats,
        seconds=operations * repeats * slower / RATE + pairs_of_rows / PAIR_RATE + values_read / READ_RATE,
    )


def _itemsize(request: Request) -> int:
    return 8 if request.exact else 4


def _groups(count: int, groups: int) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(i) for i in part) for part in np.array_split(np.arange(count), min(groups, count)))


def _state(
    request: Request,
    widths: tuple[np.ndarray, np.ndarray],
    lefts: tuple[tuple[int, ...], ...],
    rights: tuple[tuple[int, ...], ...],
) -> tuple[int, int]:
    """Tile rows and bytes of the largest pass: sums, one product, and the tile."""
    left_widths, right_widths = widths
    itemsize, n, memory = _itemsize(request), request.n, request.memory
    largest_left = max(int(left_widths[list(g)].sum()) for g in lefts)
    largest_right = max(int(right_widths[list(g)].sum()) for g in rights)
    single_pass = request.right is None and len(lefts) == 1
    sums = 8 * largest_left * largest_right // (2 if single_pass else 1)
    sums += 8 * int(left_widths.max()) * largest_right // (2 if single_pass else 1)
    product = itemsize * int(left_widths.max()) * largest_right
    columns = largest_left if single_pass else largest_left + largest_right
    room = max(memory - sums - product, memory // 4)
    tile_rows = int(np.clip(room // (itemsize * columns), 256, TILE_ROWS))
    return tile_rows, sums + product + min(tile_rows, n) * columns * itemsize
