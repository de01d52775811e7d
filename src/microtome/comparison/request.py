"""Comparison requests: stacks, measures, rows and device, checked before anything is computed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

from ..arguments import check_value
from ..checks import check_level
from ..errors import InputError, must, unknown
from ..extraction.rowtable import Grouping
from ..inference.clusters import Clusters
from ..lazy import torch
from ..measures.declare import Chosen
from ..measures.table import chosen_all
from ..moments.spread import controlled
from ..moments.stack import Stack
from ..runtime import find_device
from .inputs import (
    check_remove_top,
    choose_rows,
    gather,
    read_clusters,
    recorded_grouping,
)
from .plan import EnginePlan, make_plan, read_bytes

if TYPE_CHECKING:
    import numpy as np

Progress = Callable[[str, int, int], None]
PRECISIONS = ("fast", "exact")
# Rounding averages out over the neurons of a wide layer; up to this width there are too few of them.
NARROW = 64


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
        clusters = self.clusters
        return replace(
            self,
            left=self.left.take(rows),
            right=None if self.right is None else self.right.take(rows),
            clusters=None
            if clusters is None
            else read_clusters(clusters.codes[rows], len(rows), balanced=False),
        )

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


def prepare(left: Any, right: Any, measures: Any, options: SimilarityOptions) -> Request:
    """
    Check a comparison and plan it, without reading a row.

    Parameters
    ----------
    left, right, measures
        As in `similarity_matrix`.
    options : SimilarityOptions

    Returns
    -------
    Request
    """
    choices = tuple(chosen_all(measures))
    for choice in choices:
        if choice.declared("needs") == "attention":
            raise InputError(
                f"{choice.measure.name} must be given attention maps, not rows; "
                "use `microtome compare` on the shell, and attention_similarity_matrix in Python."
            )
    left_stack, right_stack = gather(left, right, options.names, options.right_names)
    total = left_stack.rows
    grouping = recorded_grouping(left, right) if options.clusters is None else None
    cluster_options: dict[str, Any] = {
        "balanced": any(c.measure.interval == "debiased" for c in choices),
        "noun": "cluster" if grouping is None else grouping.unit,
    }
    clusters = read_clusters(
        options.clusters if grouping is None else grouping.codes, total, **cluster_options
    )
    index = choose_rows(
        total, clusters, sample=options.sample, leave_out=options.leave_out, seed=options.seed
    )
    if index is not None:
        left_stack = left_stack.take(index)
        right_stack = None if right_stack is None else right_stack.take(index)
        if clusters is not None:
            clusters = read_clusters(clusters.codes[index], len(index), **cluster_options)
    check_remove_top(options.remove_top, (right_stack or left_stack).widths + left_stack.widths)
    n = left_stack.rows
    if n < 2:
        raise InputError(f"a comparison must have at least 2 rows, but got {n}.")
    if n < 4 and any(c.measure.name == "debiased_cka" for c in choices):
        raise InputError(f"debiased_cka must have at least 4 rows, but got {n}.")
    request = Request(
        left=left_stack,
        right=right_stack,
        measures=choices,
        options=options,
        exact=options.precision == "exact",
        device=find_device(options.device),
        memory=read_bytes(options.memory),
        clusters=clusters,
        grouping=grouping,
        note=f"{n} of {total} rows" if index is not None else "",
        progress=options.progress,
    )
    return _settled(request)


def with_controls(request: Request) -> Request:
    """Standardize neurons or remove those of largest variance, where the options say so: this reads rows."""
    zscore, remove_top = request.options.zscore, request.options.remove_top
    if not zscore and not remove_top:
        return request
    sides = [
        controlled(stack, zscore=zscore, remove_top=remove_top, device=request.device)
        for stack in request.sides
    ]
    notes = [request.note] if request.note else []
    notes += ["neurons standardized"] if zscore else []
    notes += [f"the {remove_top} neurons of largest variance removed"] if remove_top else []
    right = None if request.right is None else sides[1]
    return _settled(replace(request, left=sides[0], right=right, note="; ".join(notes)))


def _settled(request: Request) -> Request:
    """Decide the precision and the memory by the stacks."""
    options, device, memory = request.options, request.device, request.memory
    exact, switched = options.precision == "exact", ""
    widest = max(request.widths)
    if not exact and device.type == "cuda":
        exact, switched = True, "float64 costs a data-center GPU no more"
    elif not exact and any(c.declared("subspace") is not None for c in request.measures):
        if widest <= NARROW:
            exact, switched = True, "layers are narrow, and float64 costs little"
        elif request.n < 2 * widest:
            exact, switched = True, "fewer than twice as many rows as features"
    if device.type == "cuda" and options.memory == "2GB":
        memory = int(0.6 * torch.cuda.mem_get_info(device)[0])
    return replace(request, exact=exact, switched=switched, memory=memory)
