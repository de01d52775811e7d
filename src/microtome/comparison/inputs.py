"""Are the two sides comparable, which rows and features take part, and on which device?"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError, must
from ..extraction.rowtable import Grouping, read_grouping
from ..inference.clusters import Clusters
from ..moments.spread import column_spread
from ..moments.stack import Stack, make_stack
from ..randomness import generator
from ..store.manifest import is_stack, read_manifest
from ..store.shards import ShardedLayer

if TYPE_CHECKING:
    import torch


def gather(
    left: Any, right: Any, names: Sequence[str] | None, right_names: Sequence[str] | None
) -> tuple[Stack, Stack | None]:
    """Read both sides and check that their rows can be the same."""
    one = make_stack(left, "left", names)
    if right is None:
        return one, None
    two = make_stack(right, "right", right_names)
    if one.rows != two.rows:
        raise InputError(
            f"both sides must have the same rows, but the left has {one.rows} and the right has {two.rows}."
        )
    told = [_told_rows(stack) for stack in (one, two)]
    if all(told) and told[0] != told[1]:
        raise InputError(
            "both sides must have the same rows, but they were recorded on others: their digests are "
            f"{min(told[0])} and {min(told[1])}."
        )
    return one, two


def _told_rows(stack: Stack) -> set[str]:
    """Digests of the rows of recorded layers, which say what each row is."""
    folders = {layer.path.parent for layer in stack.layers if isinstance(layer, ShardedLayer)}
    rows = [read_manifest(folder).extra.get("rows") for folder in folders]
    return {str(one["digest"]) for one in rows if isinstance(one, Mapping) and "digest" in one}


def recorded_grouping(*sources: Any) -> Grouping | None:
    """
    Find whose rows err together, where a user hands over folders of recorded layers.

    Parameters
    ----------
    *sources : array, path or sequence of them
        Both sides of a comparison.

    Returns
    -------
    Grouping or None
        None where no folder says what its rows are.
    """
    for source in sources:
        for one in source if isinstance(source, (list, tuple)) else [source]:
            if isinstance(one, (str, os.PathLike)) and Path(one).is_dir() and is_stack(Path(one)):
                found = read_grouping(Path(one))
                if found is not None:
                    return found
    return None


def find_device(name: Any) -> torch.device:
    """Find a torch device, or say that it is not there."""
    import torch

    try:
        device = torch.device(name)
    except (RuntimeError, TypeError) as error:
        raise must("device", "a torch device such as 'cpu' or 'cuda'", name) from error
    if device.type == "cuda" and not torch.cuda.is_available():
        raise InputError(
            f"device must be one that this machine has, but got {name!r} and no CUDA device is here."
        )
    if device.type not in ("cpu", "cuda"):
        raise must("device", "'cpu' or 'cuda'", name)
    return device


@contextlib.contextmanager
def using_threads(threads: int | None) -> Iterator[None]:
    """Let torch and the libraries under NumPy use so many threads, and put them back afterwards."""
    import torch

    if threads is None:
        yield
        return
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise must("threads", "a whole number above 0", threads)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with _numpy_threads(threads):
            yield
    finally:
        torch.set_num_threads(before)


def _numpy_threads(threads: int) -> contextlib.AbstractContextManager[Any]:
    try:
        from threadpoolctl import threadpool_limits
    except ImportError:  # fine-tuning must run without it, and needs torch's threads alone
        return contextlib.nullcontext()
    return threadpool_limits(limits=threads, user_api="blas")


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
        found = clusters
    else:
        if isinstance(clusters, (str, os.PathLike)):
            try:
                clusters = np.load(clusters, allow_pickle=False)
            except (OSError, ValueError, EOFError) as error:
                raise InputError(
                    f"clusters must be a readable .npy file, but got {clusters!s}: {error}."
                ) from error
        elif type(clusters).__module__.split(".")[0] == "torch":
            clusters = clusters.cpu().numpy()
        found = Clusters.from_ids(clusters, n, balanced=balanced, noun=noun)
    return None if found.single else found


def choose_rows(
    n: int, clusters: Clusters | None, *, rows: int | None, leave_out: Any, seed: int
) -> np.ndarray | None:
    """
    Decide which rows take part.

    Parameters
    ----------
    n : int
    clusters : Clusters or None
    rows : int, optional
        How many to draw, as whole clusters where given; all when absent.
    leave_out : array of bool of shape (n,), optional
        Rows to leave out, such as the first position of a causal model.
    seed : int

    Returns
    -------
    ndarray of int, or None for all
    """
    chosen = np.arange(n)
    if leave_out is not None:
        mask = np.asarray(leave_out)
        if mask.shape != (n,) or mask.dtype != bool:
            raise must("leave_out", f"a boolean array of length {n}", f"{mask.dtype} of shape {mask.shape}")
        chosen = chosen[~mask]
        if not len(chosen):
            raise InputError("leave_out must keep some rows, but it leaves out all of them.")
    if rows is not None:
        if not isinstance(rows, int) or isinstance(rows, bool) or rows < 4:
            raise must("rows", "a whole number of at least 4", rows)
        if rows < len(chosen):
            rng = generator(seed, "rows")
            if clusters is None:
                chosen = np.sort(rng.permutation(chosen)[:rows])
            else:
                codes = clusters.codes[chosen]
                order = rng.permutation(np.unique(codes))
                sizes = np.bincount(codes, minlength=len(clusters))[order]
                keep = order[: max(2, int(np.searchsorted(np.cumsum(sizes), rows, side="right")))]
                chosen = chosen[np.isin(codes, keep)]
    return None if len(chosen) == n else chosen


def controlled(stack: Stack, *, zscore: bool, remove_top: int, device: torch.device) -> Stack:
    """
    Standardize neurons, or take out those of largest variance, as a control for outlier dimensions.

    Parameters
    ----------
    stack : Stack
    zscore : bool
        Divide each neuron by its standard deviation.
    remove_top : int
        How many neurons of largest variance to leave out of each layer.
    device : torch.device

    Returns
    -------
    Stack
    """
    if not isinstance(remove_top, int) or isinstance(remove_top, bool) or remove_top < 0:
        raise must("remove_top", "a whole number of at least 0", remove_top)
    if not zscore and not remove_top:
        return stack
    narrow = min(stack.widths)
    if remove_top >= narrow:
        raise must("remove_top", f"below the narrowest layer's {narrow} features", remove_top)
    columns, scales = [], []
    for neurons in column_spread(stack, device):
        spread = neurons.cpu().numpy()
        keep = np.arange(len(spread))
        if remove_top:
            keep = np.sort(np.argsort(-spread, kind="stable")[remove_top:])
        if zscore and (spread[keep] > 0).any():
            # What a constant neuron has is rounding, which standardizing would blow up.
            keep = keep[spread[keep] > 0]
        sd = np.sqrt(spread[keep] / (stack.rows - 1))
        columns.append(keep)
        scales.append(np.where(sd > 0, 1 / np.where(sd > 0, sd, 1.0), 1.0) if zscore else None)
    return replace(stack, columns=tuple(columns), scales=tuple(scales))


def row_digest(n: int, index: np.ndarray | None, clusters: Clusters | None) -> str:
    """A short digest of which rows took part, and in which clusters."""
    digest = hashlib.blake2b(str(n).encode(), digest_size=8)
    if index is not None:
        digest.update(index.tobytes())
    if clusters is not None:
        digest.update(clusters.codes.tobytes())
    return digest.hexdigest()
