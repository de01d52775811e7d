"""A task that tiny models learn in a few updates: whether a text speaks of cats or of tea."""

from __future__ import annotations

from functools import partial

from microtome.randomness import generator
from microtome.tasks.task import Item, Split, Task

KNOWN = ("mat", "reader", "long", "books", "knows", "short", "one", "sleeps", "every", "the")
# Enough for a tiny model to tell cats from tea, most of the time.
QUICK = {"steps": 40, "batch": 16, "rate": 3e-3, "longest": 16}


def cats_task(train: int = 128, validation: int = 60, *, name: str = "cats", seed: int = 0) -> Task:
    """Make the task; other seeds are other texts."""
    rng = generator(seed, "cats_task")

    def made(split: str, size: int) -> Split:
        items = []
        for place in range(size):
            words = [KNOWN[i] for i in rng.integers(len(KNOWN), size=6)]
            label = int(rng.integers(2))
            words[int(rng.integers(6))] = "cat" if label else "tea"
            items.append(Item(id=f"{split}-{place}", texts=(" ".join(words),), target=label))
        return Split(name=split, items=tuple(items))

    splits = {split: made(split, size) for split, size in (("train", train), ("validation", validation))}
    return Task(
        name=name,
        title=name.title(),
        kind="classification",
        labels=("tea", "cat"),
        scores=("accuracy", "mcc"),
        main=("accuracy",),
        readers={split: partial(splits.__getitem__, split) for split in splits},
        source="memory",
    )
