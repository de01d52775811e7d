"""Input checks: stacks, clusters, row selection, neuron controls, threads and device."""

from __future__ import annotations

import hashlib
import os
import tokenize
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import InputError, check_plain, must
from ..extraction.rowtable import Grouping, read_grouping
from ..inference.clusters import Clusters
from ..moments.stack import Stack, make_stack
from ..randomness import generator
from ..store.manifest import is_stack, read_manifest
from ..store.shards import ShardedLayer

_UNREADABLE = (
    *(OSError, ValueError, EOFError, MemoryError, OverflowError),
    *(SyntaxError, tokenize.TokenError),
)


def gather(
    left: Any, right: Any, names: Sequence[str] | None, right_names: Sequence[str] | None
) -> tuple[Stack, Stack | None]:
    """Read both sides and check that they have the same rows."""
    left_stack = make_stack(left, "left", names)
    if right is None:
        return left_stack, None
    right_stack = make_stack(right, "right", right_names)
    if left_stack.rows != right_stack.rows:
        raise InputError(
            f"both sides must have the same rows, but the left has {left_stack.rows} and the right has "
            f"{right_stack.rows}."
        )
    digests = [_told_rows(stack) for stack in (left_stack, right_stack)]
    if all(digests) and digests[0] != digests[1]:
        raise InputError(
            "both sides must have the same rows, but they were recorded on others: their digests are "
            f"{min(digests[0])} and {min(digests[1])}."
        )
    return left_stack, right_stack


def _told_rows(stack: Stack) -> set[str]:
    """Row digests of recorded layers, which identify what each row is."""
    folders = {layer.path.parent for layer in stack.layers if isinstance(layer, ShardedLayer)}
    rows = [read_manifest(folder).extra.get("rows") for folder in folders]
    return {str(entry["digest"]) for entry in rows if isinstance(entry, Mapping) and "digest" in entry}


def recorded_grouping(*sources: Any) -> Grouping | None:
    """
    Find the clusters of correlated rows that folders of recorded layers name.

    Parameters
    ----------
    *sources : array, path or sequence of them
        Both sides of a comparison.

    Returns
    -------
    Grouping or None
        None where no folder describes its rows.
    """
    for source in sources:
        for candidate in source if isinstance(source, (list, tuple)) else [source]:
            if (
                isinstance(candidate, (str, os.PathLike))
                and Path(candidate).is_dir()
                and is_stack(Path(candidate))
            ):
                grouping = read_grouping(Path(candidate))
                if grouping is not None:
                    return grouping
    return None


def read_clusters(clusters: Any, n: int, *, balanced: bool = True, noun: str = "cluster") -> Clusters | None:
    """
    Read cluster ids: an array or list, or the path of a .npy file.

    Parameters
    ----------
    clusters : array_like, path, Clusters or None
    n : int
        Rows.
    balanced : bool
        Whether to refuse a cluster of half of the rows or more, which cannot be debiased.
    noun : str
        What a user calls a cluster.

    Returns
    -------
    Clusters or None
        None also if every row is its own cluster.
    """
    if clusters is None:
        return None
    if isinstance(clusters, Clusters):
        row_clusters = clusters
    else:
        if isinstance(clusters, (str, os.PathLike)):
            clusters = _load(clusters, "clusters")
        elif type(clusters).__module__.split(".")[0] == "torch":
            clusters = clusters.cpu().numpy()
        row_clusters = Clusters.from_ids(clusters, n, balanced=balanced, noun=noun)
    return None if row_clusters.single else row_clusters


def choose_rows(
    n: int, clusters: Clusters | None, *, sample: int | None, leave_out: Any, seed: int
) -> np.ndarray | None:
    """
    Decide which rows take part.

    Parameters
    ----------
    n : int
    clusters : Clusters or None
    sample : int, optional
        Size of a random sample, of whole clusters where given; all rows when absent.
    leave_out : array of bool of shape (n,), or path, optional
        Rows to leave out, such as the first position of a causal model.
    seed : int

    Returns
    -------
    ndarray of int, or None for all
    """
    indices = np.arange(n)
    if leave_out is not None:
        path = isinstance(leave_out, (str, os.PathLike))
        mask = _load(leave_out, "leave_out") if path else np.asarray(leave_out)
        if mask.shape != (n,) or mask.dtype != bool:
            raise must("leave_out", f"a boolean array of length {n}", f"{mask.dtype} of shape {mask.shape}")
        indices = indices[~mask]
        if not len(indices):
            raise InputError("leave_out must keep some rows, but it leaves out all of them.")
    if sample is not None:
        if not isinstance(sample, int) or isinstance(sample, bool) or sample < 4:
            raise must("sample", "a whole number of at least 4", sample)
        if sample < len(indices):
            rng = generator(seed, "rows")
            if clusters is None:
                indices = np.sort(rng.permutation(indices)[:sample])
            else:
                codes = clusters.codes[indices]
                order = rng.permutation(np.unique(codes))
                sizes = np.bincount(codes, minlength=len(clusters))[order]
                keep = order[: max(2, int(np.searchsorted(np.cumsum(sizes), sample, side="right")))]
                indices = indices[np.isin(codes, keep)]
    return None if len(indices) == n else indices


def _load(path: str | os.PathLike[str], name: str) -> np.ndarray:
    check_plain(path)
    try:
        return np.load(path, allow_pickle=False)
    except _UNREADABLE as error:
        raise InputError(f"{name} must be a readable .npy file, but got {path!s}: {error}.") from error


def check_remove_top(remove_top: int, widths: Sequence[int]) -> None:
    """Check that the number of neurons to remove is below the width of every layer."""
    if not isinstance(remove_top, int) or isinstance(remove_top, bool) or remove_top < 0:
        raise must("remove_top", "a whole number of at least 0", remove_top)
    if remove_top >= min(widths):
        raise must("remove_top", f"below the narrowest layer's {min(widths)} features", remove_top)


def row_digest(n: int, index: np.ndarray | None, clusters: Clusters | None) -> str:
    """Short digest of the selected rows and their clusters."""
    digest = hashlib.blake2b(str(n).encode(), digest_size=8)
    if index is not None:
        digest.update(index.tobytes())
    if clusters is not None:
        digest.update(clusters.codes.tobytes())
    return digest.hexdigest()
