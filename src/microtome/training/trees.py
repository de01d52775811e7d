"""Which tree do scores of arcs add up to most in? Chu and Liu's, and Edmonds's, with one word at the root."""

from __future__ import annotations

import numpy as np

from ..errors import must


def best_tree(scores: np.ndarray) -> np.ndarray:
    """
    Find the tree with the largest sum of scores in which exactly one word hangs on the root.

    Parameters
    ----------
    scores : ndarray of float of shape (words, words + 1)
        Of each word for each head: place 0 the root, then the words.

    Returns
    -------
    ndarray of int of shape (words,)
        Heads: 0 for the root, else words counted from 1.

    Examples
    --------
    >>> best_tree(np.array([[1.0, 0.0, 9.0], [2.0, 9.0, 0.0]])).tolist()
    [2, 0]
    """
    given = np.nan_to_num(np.asarray(scores, dtype=np.float64))
    count = len(given)
    if given.ndim != 2 or given.shape[1] != count + 1:
        raise must("scores of arcs", "of shape (words, words + 1)", np.shape(scores))
    if not count:
        return np.zeros(0, dtype=np.int64)
    table = np.full((count + 1, count + 1), -np.inf)
    table[1:] = given - given.max(axis=1, keepdims=True)
    # A tree has at least one word at the root: at this price, which all other arcs together cannot
    # outweigh, it has no second one.
    table[1:, 0] -= 1 + (given.max() - given.min()) * (count + 1)
    np.fill_diagonal(table, -np.inf)
    return _edmonds(table)[1:]


def _edmonds(table: np.ndarray) -> np.ndarray:
    """Best heads of all nodes but node 0, whose entry means nothing."""
    heads = table.argmax(axis=1)
    heads[0] = -1
    cycle = _cycle(heads)
    if cycle is None:
        return heads
    rest = np.setdiff1d(np.arange(len(heads)), cycle)
    # The cycle becomes one node. To enter it at a word costs the arc that the word gives up.
    entering = table[np.ix_(cycle, rest)] - table[cycle, heads[cycle]][:, None]
    leaving = table[np.ix_(rest, cycle)]
    small = np.full((len(rest) + 1, len(rest) + 1), -np.inf)
    small[:-1, :-1] = table[np.ix_(rest, rest)]
    small[:-1, -1], small[-1, :-1] = leaving.max(axis=1), entering.max(axis=0)
    small[0] = -np.inf
    found = _edmonds(small)
    out = heads.copy()
    for place, node in enumerate(rest[1:], start=1):
        inside = found[place] == len(rest)
        out[node] = cycle[leaving[place].argmax()] if inside else rest[found[place]]
    entry = found[-1]
    broken = entering[:, entry].argmax()
    out[cycle[broken]] = rest[entry]
    return out


def _cycle(heads: np.ndarray) -> np.ndarray | None:
    """Nodes of a cycle, if there is one."""
    state = np.zeros(len(heads), dtype=np.int64)
    state[0] = -1
    for start in range(1, len(heads)):
        node, path = start, []
        while state[node] == 0:
            state[node] = start
            path.append(node)
            node = heads[node]
        if state[node] == start:
            return np.sort(np.array(path[path.index(node) :]))
    return None
