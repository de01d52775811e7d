"""Order of the training examples: the examples of each update, determined by the seed alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ...randomness import generator

# Number of updates whose examples are sorted by length together: enough for similar lengths, few enough to
# stay random.
BUCKET_UPDATES = 50


def updates(
    lengths: Sequence[int], *, batch: int, seed: int, bucket: bool = False, start: int = 0
) -> Iterator[np.ndarray]:
    """
    Yield the examples of each update, indefinitely.

    Parameters
    ----------
    lengths : sequence of int
        Number of tokens of each example.
    batch : int
        Number of examples per update; the last update of an epoch may have fewer.
    seed : int
    bucket : bool
        Whether examples of similar length share an update.
    start : int
        Number of updates to skip at the beginning, when a training is resumed.

    Yields
    ------
    ndarray of int of shape (examples,)
    """
    per_epoch = -(-len(lengths) // batch)
    epoch, skip = divmod(start, per_epoch)
    while True:
        yield from one_pass(lengths, batch=batch, seed=seed, epoch=epoch, bucket=bucket)[skip:]
        epoch, skip = epoch + 1, 0


def one_pass(
    lengths: Sequence[int], *, batch: int, seed: int, epoch: int, bucket: bool = False
) -> list[np.ndarray]:
    """
    Split one epoch over all examples into updates.

    Returns
    -------
    list of ndarray of int
    """
    rng = generator(seed, "order", epoch)
    shuffled = rng.permutation(len(lengths))
    if not bucket:
        return [shuffled[i : i + batch] for i in range(0, len(shuffled), batch)]
    token_counts = np.asarray(lengths)
    batches: list[np.ndarray] = []
    for begin in range(0, len(shuffled), BUCKET_UPDATES * batch):
        part = shuffled[begin : begin + BUCKET_UPDATES * batch]
        part = part[np.argsort(token_counts[part], kind="stable")]
        batches += [part[i : i + batch] for i in range(0, len(part), batch)]
    # The order of lengths is the same for all seeds: seeds trained as one model need no extra padding.
    return [batches[index] for index in generator(0, "lengths", epoch).permutation(len(batches))]
