"""Documents as clusters of rows, where the corpus has enough of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

# With fewer documents an interval is of no use, and sentences are taken as independent instead.
DOCUMENTS = 10
# Debiasing leaves out the pairs within a document and needs more rows outside it than in it, also when
# another document is left out: this holds as long as no document has this share of the rows.
LARGEST = 1 / 3


def too_few(count: int, what: str = "read", noun: str = "sentence") -> str:
    """
    Describe why documents are too few to be independent units.

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
        The index of the example of each row.
    ids, groups : sequence of str
        The id and the group of every example. Where the group equals the id, the corpus names no document.
    noun : {"sentence", "example"}
        The independent unit without documents.
    what : {"read", "judged"}
        The verb for the documents in the note.

    Returns
    -------
    codes : ndarray of int of shape (rows,), or None
        Document numbers from 0, in the order of the rows; None where examples are taken as independent.
    few : str
        Why the documents of the corpus are not used as clusters; empty where they are, or it has none.

    Examples
    --------
    >>> ids = [str(k) for k in range(20)]
    >>> codes, few = document_codes(np.arange(20), ids, [f"text {k // 2}" for k in range(20)])
    >>> codes.tolist()[:6], few
    ([0, 0, 1, 1, 2, 2], '')
    """
    indices, owner = np.unique(examples, return_inverse=True)
    groups_and_ids = [(groups[int(k)], ids[int(k)]) for k in indices]
    numbers: dict[str, int] = {}
    codes = np.array([numbers.setdefault(group, len(numbers)) for group, _ in groups_and_ids], dtype=np.int64)
    if len(numbers) == len(indices):
        return None, ""
    documents = {group for group, id_ in groups_and_ids if group != id_}
    if len(documents) < DOCUMENTS:
        return None, too_few(len(documents), what, noun)
    row_codes = codes[owner]
    share = np.bincount(row_codes).max() / len(row_codes)
    if share >= LARGEST:
        return None, f"One document holds {share * 100:.0f} % of the rows, so {_instead(noun)}"
    return row_codes, ""


def _instead(noun: str) -> str:
    return f"{noun}s are taken as independent: intervals do not say what other documents would give."
