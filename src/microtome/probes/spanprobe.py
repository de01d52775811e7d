"""Edge probing of every layer, scored on test sentences."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

import numpy as np

from .dataset import Asked, Probed
from .edge.batches import find_edges
from .edge.counts import EDGE_F1, majority
from .edge.probe import apply_edges, fit_edges
from .edge.recipe import EDGE_RECIPES


def probe_spans(asked: Asked, X: np.ndarray) -> Probed:
    """
    Probe every layer, or mixes of layers, for labels of spans, with the published recipe.

    Parameters
    ----------
    asked : Asked
        A word is a span of length 1.
    X : ndarray of shape (layers, rows, features)

    Returns
    -------
    Probed
        Micro-averaged F1 of the labels.
    """
    annotated = asked.annotated
    if asked.control is not None:
        from .control import control_spans

        annotated = replace(annotated, right=control_spans(annotated, seed=asked.control))
    edges = find_edges(annotated, asked.examples, asked.units)
    device = asked.device or "cpu"
    recipe = EDGE_RECIPES[annotated.target.recipe]
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
    # Sentences outside the splits have no rows either and do not count as lost.
    used_sentences = np.concatenate([asked.train, asked.held, asked.judged])
    lost = int(np.isin(annotated.owner, used_sentences).sum() - np.isin(edges.owner, used_sentences).sum())
    mixed = any(probe_input.mixed for probe_input in probes.inputs)
    groups = asked.groups(range(len(annotated.ids)))
    baseline = majority(edges, asked.train, asked.judged)
    return Probed(
        answers=tuple(counts.answers(layer, annotated.ids, groups) for layer in range(len(probes.inputs))),
        places=tuple(probe_input.layers[-1] for probe_input in probes.inputs),
        shares=tuple(tuple(map(float, layer_shares)) for layer_shares in probes.shares.mean(0))
        if mixed
        else (),
        score=EDGE_F1,
        lines=MappingProxyType({"most frequent labels": float(baseline.f1[0, 0])}),
        note=f"{lost:,} targets have words without rows and are left out." if lost else "",
        rows=tuple(
            {"updates": tuple(map(int, updates)), "stopped": tuple(map(bool, stopped))}
            for updates, stopped in zip(
                np.asarray(probes.updates).T, np.asarray(probes.stopped).T, strict=True
            )
        ),
    )
