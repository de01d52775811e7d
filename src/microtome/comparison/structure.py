"""Structure of stacks: blocks of layers, convergence in the number of rows, and neuron localization."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arguments import checked
from ..checks import whole_number
from ..errors import InputError, SmallSampleWarning, must
from ..findings.blocks import BlockFinding, block_structure
from ..findings.localization import RotationLocalization, localization_rotation
from ..findings.paired import cell_errors
from ..findings.squares import LEAST_LAYERS
from ..findings.stackblocks import StackBlocks
from ..findings.words import at_most
from ..inference.resampling import ANOTHER_DIFFERENCE, POPULATION, POPULATION_DIFFERENCE
from ..lazy import torch
from ..measures.cka import CONSTANT
from ..measures.declare import Chosen, Measure, invariant
from ..measures.neurons import NEURON_CORRELATION
from ..moments.stack import make_stack
from ..moments.strip import Cells, Strip, undefined
from ..randomness import generator
from .inputs import prepare, read_clusters
from .request import SimilarityOptions
from .similarity import compute_maps, similarity_matrix

if TYPE_CHECKING:
    from ..findings.maps import Map


BLOCK_MEASURE = "debiased_cka"


@checked
def find_blocks(
    layers: Any,
    other: Any = None,
    *,
    clusters: Any = None,
    measure: str = BLOCK_MEASURE,
    tolerance: int = 0,
    **options: Any,
) -> BlockFinding:
    """
    Find the blocks of a stack: runs of layers more similar among themselves than to any layer outside.

    A run of at least three consecutive layers is a block if its least similar pair is more similar than any
    pair with one layer inside and one outside. A block is certain where the simultaneous interval of this
    margin is positive.

    Parameters
    ----------
    layers : list of arrays, array of shape (layers, rows, features), or path
    other : as `layers`, optional
        Another stack over the same rows, with as many layers: blocks are then runs of layers that both
        stacks share.
    clusters : array_like of shape (rows,), optional
        Cluster of each row.
    measure : str
    tolerance : int
        How many outlying layers inside a run may be left out to make it a block.
    **options
        As in `similarity_matrix`: level, seed, precision, memory, device, threads, sample, leave_out, zscore,
        remove_top, names.

    Returns
    -------
    BlockFinding
        `finding.blocks` are the largest blocks, `finding.headline()` is a one-sentence summary.

    References
    ----------
    Phang et al. 2021, Fine-Tuned Transformers Show Clusters of Similar Representations Across Layers.

    Examples
    --------
    >>> import microtome as mt
    >>> import numpy as np
    >>> layers = np.random.default_rng(0).normal(size=(5, 200, 4))
    >>> layers[1:4] = layers[0] + 0.1 * layers[1:4]
    >>> layers[0] = np.random.default_rng(1).normal(size=(200, 4))
    >>> block = mt.analysis.find_blocks(layers).blocks[0]
    >>> block.first, block.last
    (1, 3)
    """
    maps = similarity_matrix(layers, other, measure, clusters=clusters, certainty=True, **options)
    return map_blocks(next(iter(maps.values())), two_stacks=other is not None, tolerance=tolerance)


def map_blocks(found: Map, *, two_stacks: bool = False, tolerance: int = 0) -> BlockFinding:
    """
    Find the blocks of a map that was computed with intervals.

    Parameters
    ----------
    found : Map
        Of a stack with itself, or of two stacks of equal depth.
    two_stacks, tolerance
        As in `block_structure`.

    Returns
    -------
    BlockFinding
    """
    left_depth, right_depth = found.shape
    if left_depth != right_depth:
        raise must(
            "blocks between two models",
            "asked of models with equally many layers",
            f"{left_depth} and {right_depth}",
        )
    assert found.resamples is not None
    assert found.level is not None
    errors, dof = cell_errors(found.resamples, found.values)
    population = found.target == POPULATION
    return block_structure(
        found.values,
        errors,
        dof=dof,
        two_stacks=two_stacks,
        tolerance=tolerance,
        level=found.level,
        method=str(found.method),
        unit=found.unit,
        target=POPULATION_DIFFERENCE if population else ANOTHER_DIFFERENCE,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """
    Values of a measure on nested subsets of the rows, which show how many rows are needed.

    Parameters
    ----------
    sizes : tuple of int
    values, low, high, null_mean : ndarray of shape (sizes,)
        Of nested subsets of the rows.
    measure : str
    """

    sizes: tuple[int, ...]
    values: np.ndarray
    low: np.ndarray
    high: np.ndarray
    null_mean: np.ndarray
    measure: str

    def sentence(self) -> str:
        """State whether the last increase in rows still changed the value."""
        moved = abs(self.values[-1] - self.values[-2])
        width = (self.high[-1] - self.low[-1]) / 2
        settled = "has settled" if moved <= width else "still moves: more rows are needed"
        return (
            f"{self.measure} is {self.values[-1]:.3f} on {self.sizes[-1]} rows and {self.values[-2]:.3f} on "
            f"{self.sizes[-2]}; it {settled} (half the interval is {at_most(width, 3)})."
        )


@checked
def convergence(
    x: Any,
    y: Any,
    measure: str = BLOCK_MEASURE,
    *,
    sizes: Sequence[int] | None = None,
    clusters: Any = None,
    seed: int = 0,
    **options: Any,
) -> Convergence:
    """
    Compare two layers on nested subsets of their rows.

    Parameters
    ----------
    x, y : array_like of shape (rows, features)
    measure : str
    sizes : sequence of int, optional
        Rows of each subset; halves, quarters and so on, down to about 50, when absent.
    clusters : array_like of shape (rows,), optional
        Subsets then consist of whole clusters.
    seed : int
    **options
        As in `similarity_matrix`.

    Returns
    -------
    Convergence

    Examples
    --------
    >>> import microtome as mt
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(400, 4))
    >>> mt.analysis.convergence(x, x @ x.T[:4, :4], sizes=[100, 200]).sizes
    (100, 200)
    """
    n = make_stack([x], "x", None).rows
    grouped = read_clusters(clusters, n)
    if sizes is None:
        # At least about 50 rows, in about 10 clusters.
        count = n if grouped is None else len(grouped)
        halvings = max(1, int(np.log2(max(min(n / 50, count / 10), 2))))
        sizes = [n // 2**k for k in range(halvings, -1, -1)]
    if len(sizes) < 2 or max(sizes) > n or min(sizes) < 8:
        raise must("sizes", f"at least two numbers of rows between 8 and {n}", list(sizes))
    subset_maps = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        for size in sorted(sizes):
            maps = similarity_matrix(
                [x], [y], measure, clusters=clusters, seed=seed, sample=size, certainty=True, **options
            )
            subset_maps.append(next(iter(maps.values())))
    return Convergence(
        sizes=tuple(m.n for m in subset_maps),
        values=np.array([m.values[0, 0] for m in subset_maps]),
        low=np.array([m.low[0, 0] for m in subset_maps if m.low is not None]),
        high=np.array([m.high[0, 0] for m in subset_maps if m.high is not None]),
        null_mean=np.array([m.null_mean[0, 0] for m in subset_maps]),
        measure=subset_maps[-1].measure,
    )


@checked
def find_localization(
    left: Any, right: Any = None, *, rotations: int = 10, seed: int = 0, **options: Any
) -> RotationLocalization:
    """
    Estimate how much of the similarity of two stacks is localized in single neurons.

    The neuron correlation of each pair of layers is compared with its mean after random rotations of both
    layers, which preserve everything but the axes.

    Parameters
    ----------
    left, right : as in `similarity_matrix`
    rotations : int
    seed : int
    **options
        As in `similarity_matrix`.

    Returns
    -------
    RotationLocalization

    Examples
    --------
    >>> import microtome as mt
    >>> import numpy as np
    >>> layers = np.random.default_rng(0).normal(size=(2, 200, 4))
    >>> mt.analysis.find_localization(layers, rotations=2).value.shape
    (2, 2)
    """
    whole_number("rotations", rotations, 2)
    turned = [_rotated(seed, k) for k in range(rotations)]
    maps = similarity_matrix(left, right, [NEURON_CORRELATION, *turned], seed=seed, **options)
    return localization_rotation(
        maps["neuron_correlation"].values, np.stack([maps[m.name].values for m in turned])
    )


def _rotated(seed: int, draw: int) -> Measure:
    """The neuron correlation of two layers after a random rotation of each, from moments alone."""

    def compute_rotated(strip: Strip, options: Any) -> Cells:
        Q = _rotation(strip.left.width, seed, draw, "left").to(strip.cross)
        P = _rotation(strip.right.width, seed, draw, "right").to(strip.cross)
        table = (Q.T @ strip.cross @ P).abs()
        left_scatter = strip.left.scatter[strip.row]
        left_variances = torch.einsum("ik,ij,jk->k", Q, left_scatter, Q)
        right_variances = torch.einsum("ik,bij,jk->bk", P, strip.right.scatter[strip.columns], P)
        table = table / (left_variances[:, None] * right_variances[:, None, :]).sqrt()
        varies = (bool(variances.min() > 0) for variances in right_variances)
        reasons = undefined(bool(left_variances.min() > 0), varies, CONSTANT)
        return Cells(forward=table.amax(2).mean(1), backward=table.amax(1).mean(1), reasons=reasons)

    return Measure(
        name=f"rotated_neuron_correlation_{draw}",
        title="neuron correlation after rotation",
        summary="Neuron correlation after a random rotation of both layers.",
        formula="mean over k of max_j |corr((X Q)_k, (Y P)_j)|",
        citations=NEURON_CORRELATION.citations,
        range=(0.0, 1.0),
        symmetric=False,
        invariances=invariant("isotropic_scale", "translation"),
        needs="moments",
        compute=compute_rotated,
        options=MappingProxyType({}),
    )


def _rotation(width: int, seed: int, draw: int, side: str) -> torch.Tensor:
    normal = torch.as_tensor(generator(seed, "rotation", draw, side, width).standard_normal((width, width)))
    Q, R = torch.linalg.qr(normal)
    # Without the signs, Q would not be uniformly distributed over the rotations.
    return Q * R.diagonal().sign()


def stack_blocks(
    stacks: Sequence[Mapping[str, Any]], measures: Sequence[Chosen], options: SimilarityOptions, unit: str
) -> list[StackBlocks]:
    """
    Find the blocks of each model.

    Parameters
    ----------
    stacks : sequence of mapping of str to array
        The layers of each model by their names.
    measures : sequence of Chosen
        Blocks are tested only where debiased CKA is among them.
    options : SimilarityOptions
        Of the comparison.
    unit : str
        Name of what is independent: "sentence".

    Returns
    -------
    list of StackBlocks
        Models with too few layers or too few rows are left out.
    """
    label = next((choice.label for choice in measures if choice.measure.name == BLOCK_MEASURE), None)
    if label is None:
        return []
    out = []
    for stack in stacks:
        # A final state with an additional normalization is not a layer of its own.
        names = tuple(name for name in stack if name.rpartition("/")[2].isdigit())
        if len(names) <= LEAST_LAYERS:
            continue
        layers = [stack[name] for name in names]
        own_options = replace(options, names=names, certainty=True, permutations=0, spectra=False)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", SmallSampleWarning)
                similarity_map = compute_maps(prepare(layers, None, label, own_options))[label]
                finding = map_blocks(replace(similarity_map, unit=unit))
        except InputError:
            continue
        model = names[0].rpartition("/")[0]
        out.append(StackBlocks(stack=model, measure=label, names=names, finding=finding))
    return out
