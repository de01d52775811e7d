"""Which labels have spans of words? The edge probe of every layer, judged on sentences it has not seen."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np

from .asking import Asked, Probed
from .edge import apply_edges, fit_edges
from .edgebatch import find_edges
from .edgecounts import EDGE_F1, majority
from .edgerecipe import EDGE_RECIPES


def probe_spans(asked: Asked, X: np.ndarray) -> Probed:
    """
    Read the labels of spans out of every layer, or out of mixes of them, with the published recipe.

    Parameters
    ----------
    asked : Asked
        A word is a span of its own.
    X : ndarray of shape (layers, rows, features)

    Returns
    -------
    Probed
        Micro-averaged F1 of the labels of a sentence.
    """
    found = asked.annotated
    if asked.control is not None:
        from .control import control_spans

        found = replace(found, right=control_spans(found, seed=asked.control))
    edges = find_edges(found, asked.examples, asked.units)
    device = asked.device or "cpu"
    recipe = EDGE_RECIPES[found.target.recipe]
    if asked.steps is not None:
        recipe = replace(recipe, steps=asked.steps, every=min(recipe.every, asked.steps))
    probes = fit_edges(
        X,
        edges,
        train=asked.train,
        validation=asked.held,
        seeds=asked.seeds,
        inputs=asked.inputs,
        recipe=recipe,
        device=device,
        progress=asked.progress,
    )
    counts = apply_edges(probes, X, edges, asked.judged, device=device)
    # Sentences that nobody asked for have no rows either, and nothing is lost with them.
    asked_for = np.concatenate([asked.train, asked.held, asked.judged])
    lost = int(np.isin(found.owner, asked_for).sum() - np.isin(edges.owner, asked_for).sum())
    mixed = any(one.mixed for one in probes.inputs)
    groups = asked.groups(range(len(found.ids)))
    usual = majority(edges, asked.train, asked.judged)
    return Probed(
        answers=tuple(counts.answers(layer, found.ids, groups) for layer in range(len(probes.inputs))),
        places=tuple(one.layers[-1] for one in probes.inputs),
        shares=tuple(tuple(map(float, each)) for each in probes.shares.mean(0)) if mixed else (),
        score=EDGE_F1,
        lines=MappingProxyType({"most frequent labels": float(usual.f1[0, 0])}),
        note=f"{lost:,} targets have words without rows and are left out." if lost else "",
        rows=tuple(
            {"updates": tuple(map(int, each)), "stopped": tuple(map(bool, ended))}
            for each, ended in zip(np.asarray(probes.updates).T, np.asarray(probes.stopped).T, strict=True)
        ),
    )
