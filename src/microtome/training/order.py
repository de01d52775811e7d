"""Which examples make up which update? Decided by the seed alone, before anything is trained."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..randomness import generator

# Updates whose examples are sorted by length together: enough for like lengths, few enough to stay random.
BUCKET_UPDATES = 50


def updates(
    lengths: Sequence[int], *, batch: int, seed: int, bucket: bool = False, start: int = 0
) -> Iterator[np.ndarray]:
    """
    Give the examples of each update, without end.

    Parameters
    ----------
    lengths : sequence of int
        Tokens of each example.
    batch : int
        Examples of an update; the last one of a pass has fewer where they do not divide.
    seed : int
    bucket : bool
        Whether examples of like length share an update.
    start : int
        Updates to leave out at the beginning, as after a resumption.

    Yields
    ------
    ndarray of int of shape (examples,)
    """
    each = -(-len(lengths) // batch)
    epoch, skip = divmod(start, each)
    while True:
        yield from one_pass(lengths, batch=batch, seed=seed, epoch=epoch, bucket=bucket)[skip:]
        epoch, skip = epoch + 1, 0


def one_pass(
    lengths: Sequence[int], *, batch: int, seed: int, epoch: int, bucket: bool = False
) -> list[np.ndarray]:
    """
    Cut one pass over all examples into updates.

    Returns
    -------
    list of ndarray of int
    """
    rng = generator(seed, "order", epoch)
    drawn = rng.permutation(len(lengths))
    if not bucket:
        return [drawn[i : i + batch] for i in range(0, len(drawn), batch)]
    known = np.asarray(lengths)
    found: list[np.ndarray] = []
    for begin in range(0, len(drawn), BUCKET_UPDATES * batch):
        part = drawn[begin : begin + BUCKET_UPDATES * batch]
        part = part[np.argsort(known[part], kind="stable")]
        found += [part[i : i + batch] for i in range(0, len(part), batch)]
    # Which lengths come when is the same for all seeds, so that those abreast need no filling up.
    return [found[place] for place in generator(0, "lengths", epoch).permutation(len(found))]
