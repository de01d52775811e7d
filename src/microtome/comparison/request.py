"""Comparison requests: layers, measures and options, the groups that fit the memory, and their cost."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from ..arguments import check_value
from ..checks import check_level
from ..context import Progress
from ..errors import must, unknown
from ..extraction.recording import Grouping
from ..inference.clusters import Clusters
from ..lazy import torch
from ..measures.declare import Chosen
from ..moments.gram import gram_bytes
from ..moments.rowweights import second_share
from ..moments.stack import Stack
from ..moments.tiles import TILE_ROWS
from ..runtime import duration

PRECISIONS = ("fast", "exact")
UNITS = {"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
# Multiply-adds per second of one thread of an ordinary processor; only for the time estimate.
RATE = 4e10
# Pairs of layers, each of one row, that the second pass handles per second.
PAIR_RATE = 5e6
# Values that are read and shifted per second.
READ_RATE = 2e8
# Measures that depend on norms of scatter matrices only.
NORMS_ONLY = ("linear_cka", "debiased_cka")
# What each measure adds, in products of two layers' rows; measured at 10,000 rows of 768 features.
EXTRA_COST = {
    "cca": 0.6,
    "svcca": 0.4,
    "pwcca": 1.3,
    "mixed_regression": 0.2,
    "linear_regression": 0.2,
    "procrustes": 2.5,
}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SimilarityOptions:
    """
    Options of a similarity map, beside the layers and the measures.

    Parameters
    ----------
    clusters : array_like of shape (rows,), or path, optional
        Cluster of each row, such as the sentence of each word: debiasing and intervals are then computed over
        clusters. When absent, a folder that `extract` wrote supplies them: documents, where it names ten or
        more, and sentences otherwise. A distinct number for each row makes rows independent.
    precision : {"fast", "exact"}
        Float32 products added up in float64, or float64 throughout. Fast switches to exact on a CUDA
        device, where values are too small or too large for float32 products, and, for measures of
        canonical correlations and regression, where a rank would depend on rounding: layers of up to
        64 features, fewer than twice as many rows as features, an eigenvalue near the tolerance.
    certainty : bool
        Whether to read the rows again for intervals.
    memory : str or int
        Memory of the engine besides the input, such as "2GB"; layers are handled in groups to fit.
    device : {"auto", "cpu", "cuda"}
    threads : int, optional
        Processor threads; torch's setting when absent.
    seed : int
        For half-samples, permutations and sampled rows.
    level : float
        Nominal coverage of the intervals.
    halves : int
        Number of half-samples for the measures that have no influence function.
    permutations : int
        Number of permutations of the rows (of whole clusters, where given) of the right side.
    sample : int, optional
        Number of rows of a random sample (of whole clusters, where given).
    leave_out : array of bool of shape (rows,), or path, optional
        Rows to leave out, such as the first position of a causal model.
    zscore : bool
        Standardize every neuron first.
    remove_top : int
        Number of neurons of largest variance to remove from each layer.
    names, right_names : sequence of str, optional
        Names of the layers.
    spectra : bool
        Whether `layers` of the maps also holds each layer's spectrum: its shares of variance by principal
        direction, 64 at most. It comes from the moments, and is absent where no measure needs them.
    progress : callable, optional
        Called with the name of the step, the amount done, and the total.
    """

    clusters: Any = None
    precision: str = "fast"
    certainty: bool = False
    memory: str | int = "2GB"
    device: Any = "auto"
    threads: int | None = None
    seed: int = 0
    level: float = 0.95
    halves: int = 40
    permutations: int = 0
    sample: int | None = None
    leave_out: Any = None
    zscore: bool = False
    remove_top: int = 0
    names: Sequence[str] | None = None
    right_names: Sequence[str] | None = None
    spectra: bool = False
    progress: Progress | None = None

    def __post_init__(self) -> None:
        for option in fields(self):
            check_value(option.name, str(option.type), getattr(self, option.name))
        check_level(self.level)
        if self.precision not in PRECISIONS:
            raise must("precision", "'fast' or 'exact'", self.precision)

    @classmethod
    def read(cls, options: Mapping[str, Any], names: Sequence[str] = ()) -> SimilarityOptions:
        """Take options by name; one that is unknown, or not of these names, is refused with the nearest."""
        names = names or [option.name for option in fields(cls)]
        for name in options:
            if name not in names:
                raise unknown("option", name, names)
        return cls(**options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """
    A checked comparison: layers, measures, and how they are computed.

    Parameters
    ----------
    left, right : Stack, Stack or None
    measures : tuple of Chosen
    options : SimilarityOptions
    exact : bool
        Float64 throughout.
    device : torch.device
    memory : int
        Bytes.
    clusters : Clusters or None
    grouping : Grouping or None
        From recorded layers, where the user passed no clusters.
    note : str
        What was done to the rows and the neurons.
    switched : str
        Why the arithmetic is exact although it was not requested.
    progress : callable, optional
    """

    left: Stack
    right: Stack | None
    measures: tuple[Chosen, ...]
    options: SimilarityOptions
    exact: bool
    device: torch.device
    memory: int
    clusters: Clusters | None = None
    grouping: Grouping | None = None
    note: str = ""
    switched: str = ""
    progress: Progress | None = None

    @property
    def n(self) -> int:
        """Number of rows in the comparison."""
        return self.left.rows

    @property
    def dtype(self) -> torch.dtype:
        """Of the products."""
        return torch.float64 if self.exact else torch.float32

    @property
    def sides(self) -> list[Stack]:
        """The stacks of the comparison: one where a stack is compared with itself."""
        return [self.left] if self.right is None else [self.left, self.right]

    @property
    def widths(self) -> list[int]:
        """Number of features of every layer."""
        return [width for stack in self.sides for width in stack.widths]

    @property
    def units(self) -> Clusters:
        """What is independent: the clusters, or every row for itself."""
        return Clusters.singletons(self.n) if self.clusters is None else self.clusters

    @property
    def plan(self) -> EnginePlan:
        """How the layers are grouped to fit the memory, and the cost."""
        return make_plan(self)

    def take(self, rows: np.ndarray) -> Request:
        """Restrict the request to some of its rows."""
        right = None if self.right is None else self.right.take(rows)
        clusters = self.clusters
        if clusters is not None:
            clusters = Clusters.from_ids(clusters.codes[rows], balanced=False)
            clusters = None if clusters.single else clusters
        return replace(self, left=self.left.take(rows), right=right, clusters=clusters)

    def sentence(self) -> str:
        """Describe the size of the work."""
        names = ", ".join(choice.label for choice in self.measures)
        layers = f"{len(self.left)} x {len(self.sides[-1])} layers"
        return f"{layers}, {self.n:,} rows, {names}: {self.plan.sentence()}, on {self.device}"

    def summary(self) -> dict[str, Any]:
        """The same as plain data."""
        plan = self.plan
        return {
            "left": list(self.left.names),
            "right": list(self.sides[-1].names),
            "rows": self.n,
            "measures": [choice.label for choice in self.measures],
            "memory_bytes": plan.state_bytes,
            "readings": plan.passes,
            "operations": plan.operations,
            "seconds_on_one_thread": plan.seconds,
            "device": str(self.device),
        }

    def files(self) -> list[str]:
        """The files that the layers lie in, each once."""
        return list(dict.fromkeys(str(layer.path) for stack in self.sides for layer in stack.layers))


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


def gram_pays(request: Request, measures: Sequence[Chosen]) -> bool:
    """Whether every measure can be computed from Gram matrices, and these cost less than moments."""
    if not measures or request.n < 4:
        return False
    if any(m.measure.name not in NORMS_ONLY for m in measures):
        return False
    if gram_bytes(request.sides, 8 if request.exact else 4) > request.memory:
        return False
    pairs = sum(request.left.widths) * sum(request.sides[-1].widths) / (2 if request.right is None else 1)
    return _gram_operations(request) < 0.8 * request.n * pairs


def _gram_operations(request: Request) -> float:
    """Multiply-adds of half of each Gram matrix, and of the products of all of them."""
    return request.n**2 * (sum(request.widths) / 2 + len(request.widths) ** 2)


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
            f"{'s' if self.passes > 1 else ''} of the rows, about {duration(self.seconds)} on one thread"
        )


def _amount(size: int) -> str:
    return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{max(size / 1e6, 1):.0f} MB"


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
    measures, n, memory, itemsize = request.measures, request.n, request.memory, request.dtype.itemsize
    certainty, clustered = request.options.certainty, request.clusters is not None
    resampled = certainty and any(
        m.measure.interval == "halves" and m.measure.influence is None for m in measures
    )
    symmetric = request.right is None
    left_widths, right_widths = (np.array(stack.widths) for stack in (request.left, request.sides[-1]))
    spectra = sum(width * width for width in request.widths) * (16 + 2 * itemsize)
    most = max(len(left_widths), len(right_widths))
    lefts, rights, tile_rows, state = (), (), TILE_ROWS, 0
    for groups in range(1, most + 1):
        lefts, rights = _groups(len(left_widths), groups), _groups(len(right_widths), groups)
        tile_rows, state = _state(request, (left_widths, right_widths), lefts, rights)
        if state + spectra <= memory or groups == most:
            break
    passes = len(lefts) * (len(lefts) + 1) // 2 if symmetric else len(lefts) * len(rights)
    pairs = np.outer(left_widths, right_widths)
    products = float(
        np.triu(pairs).sum() if symmetric else pairs.sum() + (left_widths**2).sum() + (right_widths**2).sum()
    )
    operations = n * products * (1 + sum(EXTRA_COST.get(m.measure.name, 0.02) for m in measures))
    rows_too = [m for m in measures if m.declared("needs") == "rows"]
    if gram_pays(request, [m for m in measures if m not in rows_too]):
        operations = _gram_operations(request)
    operations += len(rows_too) * n * n * float(left_widths.sum() + right_widths.sum())
    repeats = 1.0 + request.options.permutations + (1.4 if certainty else 0.0)
    repeats += 0.5 * request.options.halves * resampled
    slower = 2.0 if itemsize == 8 else 1.0
    layers = len(request.widths)
    second = certainty or clustered
    share = second_share(layers, n, n, memory).bytes if second else 0
    # Cluster debiasing is repeated with the map; scores are computed once.
    pairs_of_rows = (1.0 if certainty else 0.3) * n * layers**2 if second else 0.0
    readings = passes + (2 if clustered else 0) + (passes + 1 if certainty else 0)
    values_read = readings * n * float(sum(request.widths))
    return EnginePlan(
        left=lefts,
        right=lefts if symmetric else rights,
        tile_rows=tile_rows,
        passes=readings,
        state_bytes=int(state + spectra + share),
        operations=operations * repeats,
        seconds=operations * repeats * slower / RATE + pairs_of_rows / PAIR_RATE + values_read / READ_RATE,
    )


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
    itemsize, n, memory = request.dtype.itemsize, request.n, request.memory
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
