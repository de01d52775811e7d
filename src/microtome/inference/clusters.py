"""Clusters of dependent rows, and their assignment to groups."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import InputError, must


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Clusters:
    """
    Rows that are not independent of each other, such as the words of one sentence.

    Parameters
    ----------
    codes : ndarray of int, shape (n,)
        Cluster of each row, numbered 0..S-1 in order of first appearance.
    sizes : ndarray of int, shape (S,)
        Rows of each cluster.
    order : ndarray of int, shape (n,)
        A row order in which clusters are contiguous; the identity if they already are.
    starts : ndarray of int, shape (S,)
        Where each cluster begins in that order.

    Examples
    --------
    >>> clusters = Clusters.from_ids(["b", "a", "b", "c", "d", "e"])
    >>> clusters.codes.tolist(), clusters.sizes.tolist()
    ([0, 1, 0, 2, 3, 4], [2, 1, 1, 1, 1])
    >>> clusters.order.tolist(), clusters.starts.tolist()
    ([0, 2, 1, 3, 4, 5], [0, 2, 3, 4, 5])
    """

    codes: NDArray[np.int64]
    sizes: NDArray[np.int64]
    order: NDArray[np.int64]
    starts: NDArray[np.int64]

    def __post_init__(self) -> None:
        for array in (self.codes, self.sizes, self.order, self.starts):
            array.flags.writeable = False

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def n(self) -> int:
        """Number of rows."""
        return len(self.codes)

    @property
    def single(self) -> bool:
        """Whether every row is its own cluster."""
        return len(self.sizes) == len(self.codes)

    @property
    def unit(self) -> str:
        """The independent unit of an interval over these clusters: "row" or "cluster"."""
        return "row" if self.single else "cluster"

    def rows(self, selected: ArrayLike) -> NDArray[np.int64]:
        """
        List the rows of the selected clusters, in ascending order.

        Parameters
        ----------
        selected : array_like, shape (S,) of bool, or (k,) of int
            A mask over the clusters, or their indices.
        """
        selected = np.asarray(selected)
        marks = selected if selected.dtype == bool else np.zeros(len(self), dtype=bool)
        if marks is not selected:
            marks[selected] = True
        return np.flatnonzero(marks[self.codes])

    @classmethod
    def from_ids(
        cls, ids: Iterable[Any], n: int | None = None, *, balanced: bool = True, noun: str = "cluster"
    ) -> Clusters:
        """
        Build clusters from the cluster id of each row.

        Parameters
        ----------
        ids : iterable of int, str or any other hashable, length n
            Rows with the same id form a cluster, whether or not they are adjacent.
        n : int, optional
            The expected number of rows.
        balanced : bool
            Whether to refuse a cluster of half of the rows or more, which cannot be debiased.
        noun : str
            What a user calls a cluster, such as "sentence".
        """
        if not isinstance(ids, Iterable) or isinstance(ids, (str, Mapping)):
            raise must("clusters", "a flat list of ids", ids)
        names = np.asarray(ids) if hasattr(ids, "__array__") else list(ids)
        if isinstance(names, np.ndarray) and names.ndim != 1:
            raise must("clusters", "a flat list of ids", f"an array of shape {names.shape}")
        if n is not None and len(names) != n:
            raise must("clusters", f"one id for each of the {n} rows", f"{len(names)} ids")
        if isinstance(names, np.ndarray) and names.dtype.kind in "iuUS":
            _, first, inverse = np.unique(names, return_index=True, return_inverse=True)
            rank = np.empty(len(first), dtype=np.int64)
            rank[np.argsort(first)] = np.arange(len(first))
            codes = rank[inverse]
        else:
            codes = _number(names)
        if len(codes) == 0 or codes.max() == 0:
            raise InputError(
                "rows must come from at least 2 clusters, such as sentences or documents, but "
                f"{f'all {len(codes):,} come from one' if len(codes) else 'there are none'}: that is too few "
                "for intervals and for debiased values."
            )
        clusters = _from_codes(codes)
        largest = int(np.argmax(clusters.sizes))
        if balanced and 2 * clusters.sizes[largest] >= len(codes):
            name = names[int(np.argmax(codes == largest))]
            name = name.item() if isinstance(name, np.generic) else name
            raise too_large(int(clusters.sizes[largest]), len(codes), noun, repr(name))
        return clusters

    @classmethod
    def singletons(cls, n: int) -> Clusters:
        """Make every one of n rows its own cluster."""
        if n < 3:
            raise must("the number of rows", "at least 3", n)
        return _from_codes(np.arange(n, dtype=np.int64))


def check_balanced(ids: ArrayLike, noun: str) -> None:
    """
    Check that no cluster holds half of the rows or more, before anything is computed.

    Parameters
    ----------
    ids : array_like, shape (n,)
    noun : str
        What a user calls a cluster, such as "sentence".
    """
    _, sizes = np.unique(ids, return_counts=True)
    # A single cluster for all rows is a different error, raised where clusters are read.
    if len(sizes) > 1 and 2 * sizes.max() >= sizes.sum():
        raise too_large(int(sizes.max()), int(sizes.sum()), noun)


def too_large(size: int, n: int, noun: str = "cluster", name: str = "one") -> InputError:
    """
    Build the error for a cluster that holds too many of the rows to be debiased.

    Examples
    --------
    >>> str(too_large(30, 56, "sentence"))
    'every sentence must hold fewer than half of the rows, but one holds 30 of 56: give more sentences.'
    """
    return InputError(
        f"every {noun} must hold fewer than half of the rows, but {name} holds {size:,} of {n:,}: give more "
        f"{noun}s."
    )


def _number(names: Iterable[Any]) -> NDArray[np.int64]:
    seen: dict[Any, int] = {}
    codes: list[int] = []
    for row, name in enumerate(names):
        # Tensors hash by identity: without this, each would be a cluster of its own.
        if hasattr(name, "item"):
            name = name.item()
        try:
            missing = name is None or bool(name != name)
            codes.append(seen.setdefault(name, len(seen)))
        except (TypeError, ValueError) as error:
            raise must("a cluster id", "a whole number, a string or another hashable", name) from error
        if missing:
            raise InputError(f"Every row must have a cluster id, but the id of row {row} is {name!r}.")
    return np.array(codes, dtype=np.int64)


def _from_codes(codes: NDArray[np.int64]) -> Clusters:
    sizes = np.bincount(codes).astype(np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)
    # A stable sort of codes in order of first appearance moves nothing when clusters are contiguous.
    order = np.argsort(codes, kind="stable").astype(np.int64)
    return Clusters(codes=codes.astype(np.int64), sizes=sizes, order=order, starts=starts)


def cluster_sums(values: ArrayLike, codes: ArrayLike) -> NDArray[np.float64]:
    """
    Sum the rows of each cluster.

    Parameters
    ----------
    values : array_like, shape (..., n)
    codes : array_like of int, shape (n,)

    Returns
    -------
    ndarray, shape (..., S)

    Examples
    --------
    >>> cluster_sums([[1, 2, 3], [4, 5, 6]], [0, 1, 0]).tolist()
    [[4.0, 2.0], [10.0, 5.0]]
    """
    values, codes = np.asarray(values, dtype=np.float64), np.asarray(codes)
    count = int(codes.max()) + 1
    flat = values.reshape(-1, values.shape[-1])
    sums = np.empty((len(flat), count))
    for line, total in zip(flat, sums, strict=True):
        total[:] = np.bincount(codes, weights=line, minlength=count)
    return sums.reshape(*values.shape[:-1], count)
