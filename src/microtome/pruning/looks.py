"""Repeated looks at the same examples: each is entered in the store before it is taken.

Whoever tries again on the same examples until a test passes is wrong more often than one test is. All looks
of one model at shared examples therefore have one promise between them: with alpha what may be wrong, the
first look is tested at 4/5 alpha and the k-th at alpha / (5 k (k - 1)). This adds up to alpha over any number
of looks, so "safe" is said falsely in at most alpha of cases in all of them together, and nobody has to know
beforehand how many there will be. The same request is the same look, however often it is made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..context import Context
from ..errors import must
from ..store.address import address, canonical
from ..store.entry import StoreEntry
from ..store.shelf import Shelf
from ..tasks.task import Item, Split
from .exporting import RECORD

KIND, EXAMPLES = "look", "examples.npy"
FIRST = 0.8  # share of what may be wrong that the first look has
SHARED = 0.01  # examples are fresh to a look that had at most this share of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """
    One look at examples.

    Parameters
    ----------
    number : int
        1 where no earlier look had these examples.
    level : float
        One-sided, of this look.
    promised : float
        Of all looks together.
    earlier : tuple of float
        Margins of the earlier looks.
    """

    number: int
    level: float
    promised: float
    earlier: tuple[float, ...] = ()

    def sentence(self) -> str:
        """Say how many looks there were, and what that does to the level."""
        promise = f"so that all looks at these examples together keep {100 * self.promised:g} %"
        if self.number == 1:
            return f"first look at the examples that certify: tested at {100 * self.level:g} %, {promise}."
        return (
            f"look {self.number} at the examples that certify, after {_counted(self.earlier)}: tested at "
            f"{100 * self.level:g} %, {promise}; examples that no look has had would be tested at "
            f"{100 * look_level(self.promised, 1):g} %."
        )

    def declared(self) -> str:
        """Say when the margin was declared."""
        if self.number == 1:
            return "declared before any score of the examples that certify was seen"
        return f"declared after {_counted(self.earlier)} at the examples that certify"


def look_level(level: float, number: int) -> float:
    """
    Find the level of a look, so that any number of looks together keep a promise.

    Parameters
    ----------
    level : float
        Of all looks together.
    number : int
        1 for the first.

    Returns
    -------
    float

    Examples
    --------
    >>> [round(look_level(0.95, number), 5) for number in (1, 2, 3, 10)]
    [0.96, 0.995, 0.99833, 0.99989]
    """
    if number < 1:
        raise must("the number of a look", "at least 1", number)
    share = FIRST if number == 1 else (1 - FIRST) / (number * (number - 1))
    return 1 - (1 - level) * share


def take_look(
    split: Split,
    *,
    model: str,
    request: Mapping[str, Any],
    beside: Sequence[Split] = (),
    context: Context,
) -> Look:
    """
    Enter a look at examples in the store, before they are looked at.

    Parameters
    ----------
    split : Split
        The examples that are to be looked at.
    model : str
        What the looks of one model have in common; see `find_lineage`.
    request : mapping
        All that was asked for, `max_drop` among it. The same request is the same look.
    beside : sequence of Split
        Other examples that the request uses, which are not fresh to later looks either.
    context : Context
        Its level is that of all looks together.

    Returns
    -------
    Look
    """
    shelf = Shelf(context.store, context.command)
    plain_request = json.loads(canonical(dict(request), "request"))
    marks = _marks(split)
    with shelf.alone(address({"looks": model})):
        entries: list[StoreEntry] = []
        while (entry := shelf.get(address(_slot(model, len(entries) + 1)))) is not None:
            entries.append(entry)
        same = next((entry for entry in entries if entry.provenance["request"] == plain_request), None)
        used = np.unique(np.concatenate([marks, *map(_marks, beside)]))
        while same is None:
            margins = [
                entry.provenance["request"]["max_drop"]
                for entry in entries
                if np.isin(marks, _read(entry)).mean() > SHARED
            ]
            entry = shelf.put(
                lambda folder: np.save(folder / EXAMPLES, used, allow_pickle=False),
                kind=KIND,
                specification=_slot(model, len(entries) + 1),
                provenance={"request": plain_request, "earlier": margins},
            )
            # A process that had lost its claim without noticing may have entered another look.
            entries.append(entry)
            same = entry if entry.provenance["request"] == plain_request else None
    earlier = tuple(same.provenance["earlier"])
    number = len(earlier) + 1
    level = look_level(context.level, number)
    return Look(number=number, level=level, promised=context.level, earlier=earlier)


def find_lineage(folder: Path | None, digest: str) -> str:
    """
    Find what the looks of one model have in common.

    Parameters
    ----------
    folder : Path, optional
        Of the model. What `prune` cut out of a model counts as that model.
    digest : str
        Of the model's weights, head and tokens.

    Returns
    -------
    str
    """
    if folder is None or not (folder / RECORD).is_file():
        return digest
    record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
    return str(record.get("provenance", {}).get("lineage") or digest)


def _slot(model: str, number: int) -> dict[str, Any]:
    return {"version": 1, "looks": model, "number": number}


def _marks(split: Split) -> NDArray[np.uint64]:
    """A number for the text of each example: a table may be renamed or its rows moved, and is still seen."""
    return np.unique(np.array([_mark(item) for item in split], dtype=np.uint64))


def _mark(item: Item) -> int:
    text = json.dumps([item.texts, item.choices, item.words])
    return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


def _read(entry: StoreEntry) -> NDArray[np.uint64]:
    return np.load(entry.path(EXAMPLES), allow_pickle=False)


def _counted(margins: Sequence[float]) -> str:
    looks = "1 earlier look" if len(margins) == 1 else f"{len(margins)} earlier looks"
    return f"{looks} (margin {', '.join(f'{margin:g}' for margin in margins)})"
