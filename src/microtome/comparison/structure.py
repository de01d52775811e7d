"""What do the layers of one stack say about its structure, beyond single cells?"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import SmallSampleWarning, must
from ..findings.blocks import BlockFinding, block_structure
from ..findings.localization import RotationLocalization, localization_rotation
from ..inference.clusters import Clusters, halves
from ..measures.declare import Measure, invariant
from ..measures.neurons import NEURON_CORRELATION
from ..moments.cells import Cells
from ..randomness import generator
from .certainty import leave_out_values, subset
from .inputs import using_threads
from .similarity import compute, prepare, similarity_matrix

if TYPE_CHECKING:
    import torch

    from ..moments.strip import Strip


def find_blocks(
    layers: Any,
    *,
    clusters: Any = None,
    measure: str = "debiased_cka",
    groups: int = 10,
    seed: int = 0,
    level: float = 0.95,
    threads: int | None = None,
    **options: Any,
) -> BlockFinding:
    """
    Ask whether the layers of a stack fall into two blocks.

    Half of the rows choose the border, the other half tells how far it stands out, with a jackknife
    over groups of rows or of whole clusters.

    Parameters
    ----------
    layers : list of arrays, array of shape (layers, rows, features), or path
    clusters : array_like of shape (rows,), optional
        Which rows belong together.
    measure : str
    groups : int
        Of the jackknife.
    seed : int
        Of the split.
    level : float
        Of the interval.
    threads : int, optional
    **options
        As in `similarity_matrix`: precision, memory, device, rows, leave_out, zscore, remove_top, names.

    Returns
    -------
    BlockFinding
        `finding.sentence(names)` says it in words.
    """
    if not isinstance(groups, int) or groups < 3:
        raise must("groups", "a whole number of at least 3", groups)
    with using_threads(threads):
        request, _, _ = prepare(layers, None, measure, clusters=clusters, seed=seed, **options)
        units = Clusters.singletons(request.n) if request.clusters is None else request.clusters
        first, second = (subset(request, rows) for rows in halves(units, seed))
        label = request.measures[0].label
        select, evaluate = (compute(half).tables[label].values for half in (first, second))
        rest = Clusters.singletons(second.n) if second.clusters is None else second.clusters
        left_out, _ = leave_out_values(second, rest, groups, compute)
    unit = "row" if request.clusters is None else "cluster"
    return block_structure(select, evaluate, left_out[label], level=level, unit=unit)


@dataclass(frozen=True, slots=True, kw_only=True)
class Convergence:
    """
    How a value moves as rows are added: how many rows are needed.

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
        """Say whether the last doubling still moved the value."""
        moved = abs(self.values[-1] - self.values[-2])
        width = (self.high[-1] - self.low[-1]) / 2
        settled = "has settled" if moved <= width else "still moves: more rows are needed"
        return (
            f"{self.measure} is {self.values[-1]:.3f} on {self.sizes[-1]} rows and {self.values[-2]:.3f} on "
            f"{self.sizes[-2]}; it {settled} (half the interval is {width:.3f})."
        )


def convergence(
    x: Any,
    y: Any,
    measure: str = "debiased_cka",
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
        Subsets are then made of whole clusters.
    seed : int
    **options
        As in `similarity_matrix`.

    Returns
    -------
    Convergence
    """
    n = int(x.shape[0])
    if sizes is None:
        # Enough rows to mean something, in enough clusters.
        count = n if clusters is None else len(set(np.asarray(clusters).tolist()))
        halvings = max(1, int(np.log2(max(min(n / 50, count / 10), 2))))
        sizes = [n // 2**k for k in range(halvings, -1, -1)]
    if len(sizes) < 2 or max(sizes) > n or min(sizes) < 8:
        raise must("sizes", f"at least two numbers of rows between 8 and {n}", list(sizes))
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        for size in sorted(sizes):
            maps = similarity_matrix(
                [x], [y], measure, clusters=clusters, seed=seed, rows=size, certainty=True, **options
            )
            found.append(next(iter(maps.values())))
    return Convergence(
        sizes=tuple(m.n for m in found),
        values=np.array([m.values[0, 0] for m in found]),
        low=np.array([m.low[0, 0] for m in found if m.low is not None]),
        high=np.array([m.high[0, 0] for m in found if m.high is not None]),
        null_mean=np.array([m.null_mean[0, 0] for m in found]),
        measure=found[-1].measure,
    )


def find_localization(
    left: Any, right: Any = None, *, rotations: int = 10, seed: int = 0, **options: Any
) -> RotationLocalization:
    """
    Ask how much of the agreement of two stacks sits in single neurons.

    The neuron correlation of each pair of layers is set against its mean after both layers were turned
    by random rotations, which keep everything but the axes.

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
    """
    if not isinstance(rotations, int) or rotations < 2:
        raise must("rotations", "a whole number of at least 2", rotations)
    turned = [_rotated(seed, k) for k in range(rotations)]
    maps = similarity_matrix(left, right, [NEURON_CORRELATION, *turned], seed=seed, **options)
    return localization_rotation(
        maps["neuron_correlation"].values, np.stack([maps[m.name].values for m in turned])
    )


def _rotated(seed: int, draw: int) -> Measure:
    """The neuron correlation of two layers after a random rotation of each, from moments alone."""

    def compute_rotated(strip: Strip, options: Any) -> Cells:
        import torch

        Q = _rotation(strip.left.width, seed, draw, "left").to(strip.cross)
        P = _rotation(strip.right.width, seed, draw, "right").to(strip.cross)
        table = (Q.T @ strip.cross @ P).abs()
        own = strip.left.scatter[strip.row]
        spread = torch.einsum("ik,ij,jk->k", Q, own, Q)
        others = torch.einsum("ik,bij,jk->bk", P, strip.right.scatter[strip.columns], P)
        table = table / (spread[:, None] * others[:, None, :]).sqrt()
        reasons = tuple(
            None if float(spread.min()) > 0 and float(o.min()) > 0 else "a layer is constant over the rows"
            for o in others
        )
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
    import torch

    normal = torch.as_tensor(generator(seed, "rotation", draw, side, width).standard_normal((width, width)))
    Q, R = torch.linalg.qr(normal)
    # Without the signs the factor would not be uniform over the rotations.
    return Q * R.diagonal().sign()
