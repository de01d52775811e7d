"""Preparation of a comparison: stacks, clusters, rows and precision, checked before any row is read."""

from __future__ import annotations

import hashlib
import os
import tokenize
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..checks import whole_number
from ..errors import InputError, check_plain, must
from ..extraction.recording import Grouping, read_grouping
from ..inference.clusters import Clusters
from ..lazy import torch
from ..measures.table import chosen_all
from ..moments.stack import Stack, make_stack
from ..moments.tiles import controlled
from ..randomness import generator
from ..runtime import find_device
from ..store.shards import ShardedLayer, is_stack, read_manifest
from .request import Request, SimilarityOptions, read_bytes

# Rounding averages out over the neurons of a wide layer; up to this width there are too few of them.
NARROW = 64
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
    digests = [_row_digests(stack) for stack in (left_stack, right_stack)]
    if all(digests) and digests[0] != digests[1]:
        raise InputError(
            "both sides must have the same rows, but they were recorded on others: their digests are "
            f"{min(digests[0])} and {min(digests[1])}."
        )
    return left_stack, right_stack


def _row_digests(stack: Stack) -> set[str]:
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
            if isinstance(candidate, (str, os.PathLike)) and is_stack(Path(candidate)):
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
        whole_number("sample", sample, 4)
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
    whole_number("remove_top", remove_top, 0)
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
