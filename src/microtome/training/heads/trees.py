"""Maximum spanning tree of arc scores with a single root word (Chu-Liu/Edmonds)."""

from __future__ import annotations

import numpy as np

from ...errors import must


def best_tree(scores: np.ndarray) -> np.ndarray:
    """
    Find the tree with the largest sum of scores in which exactly one word is attached to the root.

    Parameters
    ----------
    scores : ndarray of float of shape (words, words + 1)
        Of each word for each head: index 0 is the root, then the words.

    Returns
    -------
    ndarray of int of shape (words,)
        Heads: 0 for the root, else words counted from 1.

    Examples
    --------
    >>> best_tree(np.array([[1.0, 0.0, 9.0], [2.0, 9.0, 0.0]])).tolist()
    [2, 0]
    """
    arc_scores = np.nan_to_num(np.asarray(scores, dtype=np.float64))
    count = len(arc_scores)
    if arc_scores.ndim != 2 or arc_scores.shape[1] != count + 1:
        raise must("scores of arcs", "of shape (words, words + 1)", np.shape(scores))
    if not count:
        return np.zeros(0, dtype=np.int64)
    table = np.full((count + 1, count + 1), -np.inf)
    table[1:] = arc_scores - arc_scores.max(axis=1, keepdims=True)
    # A tree has at least one word at the root: with this penalty, which all other arcs together cannot
    # outweigh, it has no second one.
    table[1:, 0] -= 1 + (arc_scores.max() - arc_scores.min()) * (count + 1)
    np.fill_diagonal(table, -np.inf)
    return _edmonds(table)[1:]


def _edmonds(table: np.ndarray) -> np.ndarray:
    """Best heads of all nodes but node 0, whose entry is meaningless."""
    heads = table.argmax(axis=1)
    heads[0] = -1
    cycle = _cycle(heads)
    if cycle is None:
        return heads
    outside = np.setdiff1d(np.arange(len(heads)), cycle)
    # The cycle is contracted into one node. Entering it at a word costs the arc that the word gives up.
    entering = table[np.ix_(cycle, outside)] - table[cycle, heads[cycle]][:, None]
    leaving = table[np.ix_(outside, cycle)]
    contracted = np.full((len(outside) + 1, len(outside) + 1), -np.inf)
    contracted[:-1, :-1] = table[np.ix_(outside, outside)]
    contracted[:-1, -1], contracted[-1, :-1] = leaving.max(axis=1), entering.max(axis=0)
    contracted[0] = -np.inf
    contracted_heads = _edmonds(contracted)
    out = heads.copy()
    for index, node in enumerate(outside[1:], start=1):
        inside = contracted_heads[index] == len(outside)
        out[node] = cycle[leaving[index].argmax()] if inside else outside[contracted_heads[index]]
    entry = contracted_heads[-1]
    broken = entering[:, entry].argmax()
    out[cycle[broken]] = outside[entry]
    return out


def _cycle(heads: np.ndarray) -> np.ndarray | None:
    """Nodes of a cycle; None if there is none."""
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
