"""Whose rows err together? Those of one document, where a corpus tells of enough of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# Of fewer documents an interval is of no use, and sentences are taken as independent instead.
DOCUMENTS = 10
# Debiasing leaves out the pairs within a document, and needs more rows outside of it than in it, also when
# another document is left out: that is sure as long as none has this share of the rows.
LARGEST = 1 / 3


def too_few(count: int, what: str = "read", noun: str = "sentence") -> str:
    """
    Say that documents are too few to be independent units.

    Examples
    --------
    >>> too_few(2)[:70]
    'Only 2 documents are read, so sentences are taken as independent: inte'
    """
    return f"Only {count} document{' is' if count == 1 else 's are'} {what}, so {_instead(noun)}"


def document_codes(
    examples: np.ndarray,
    ids: Sequence[str],
    groups: Sequence[str],
    noun: str = "sentence",
    what: str = "read",
) -> tuple[np.ndarray | None, str]:
    """
    Number the document of each row.

    Parameters
    ----------
    examples : ndarray of int of shape (rows,)
        The example of each row, by its place.
    ids, groups : sequence of str
        Of all examples, by their place: its id, and what clusters it. Where that is its own id, the corpus
        tells of no document.
    noun : {"sentence", "example"}
        What is independent without documents.
    what : {"read", "judged"}
        What is done with them.

    Returns
    -------
    codes : ndarray of int of shape (rows,), or None
        From 0 on, in the order of the rows; None where examples are to be taken as independent.
    few : str
        Why documents that there are were not taken; empty where there is nothing to say.

    Examples
    --------
    >>> ids = [str(k) for k in range(20)]
    >>> codes, few = document_codes(np.arange(20), ids, [f"text {k // 2}" for k in range(20)])
    >>> codes.tolist()[:6], few
    ([0, 0, 1, 1, 2, 2], '')
    """
    places, owner = np.unique(examples, return_inverse=True)
    own = [(groups[int(k)], ids[int(k)]) for k in places]
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(group, len(numbers)) for group, _ in own], dtype=np.int64)
    if len(numbers) == len(places):
        return None, ""
    named = {group for group, id_ in own if group != id_}
    if len(named) < DOCUMENTS:
        return None, too_few(len(named), what, noun)
    found = codes[owner]
    share = np.bincount(found).max() / len(found)
    if share >= LARGEST:
        return None, f"One document holds {share:.0%} of the rows, so {_instead(noun)}"
    return found, ""


def _instead(noun: str) -> str:
    return f"{noun}s are taken as independent: intervals do not say what other documents would give."
