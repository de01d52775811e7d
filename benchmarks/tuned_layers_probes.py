"""Linear probes of the same words before and after tuning, for tuned_layers.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from tuned_layers_change import plain_curve
from zoo_job import once

from microtome.context import Context
from microtome.experiments.probing.curves import layer_differences
from microtome.experiments.probing.inputs import RANDOM_BASELINE
from microtome.inference.answers import Answers
from microtome.inference.estimate import Confidence
from microtome.inference.scoring import ScoredExamples, example_groups, freedom
from microtome.inference.simultaneous import spread
from microtome.probes.dataset import Asked, Probed
from microtome.probes.table import PROBES

TARGETS = ("upos", "deprel")
TREES = "dep-distance"
BASE = "base"
LEVEL = 0.95


def annotated(target: str, options: Mapping[str, Any]) -> Any:
    """Read the treebank once for each target."""
    from microtome.probes.targets import read_target

    place = options["treebank"]
    return once(("target", target, place), lambda: read_target(place, target))


def drawn(found: Any, split: str, size: int) -> np.ndarray:
    """Sentences of a split, so many at most."""
    from microtome.randomness import generator

    some = found.of(split)
    if size >= len(some):
        return some
    return np.sort(generator(0, "tuned layers", split).choice(some, size, replace=False))


def record_all(
    models: Mapping[str, Any], target: str, options: Mapping[str, Any], aside: Path
) -> tuple[Asked, dict[str, np.ndarray]]:
    """Run models over the words that are learned from and judged on."""
    from microtome.context import Context
    from microtome.extraction.recording import record
    from microtome.extraction.texts import make_texts
    from microtome.rows.planning import plan_rows
    from microtome.rows.selecting import row_options

    found, trees = annotated(target, options), target == TREES
    train, judged = drawn(found, "train", options["train"]), drawn(found, "test", options["judged"])
    # Only what is trained in passes needs sentences to stop by.
    held = drawn(found, "validation", options["judged"]) if trees else judged[:0]
    needed = np.unique(np.concatenate([train, held, judged]))
    texts = make_texts([found.sentences[place] for place in needed])
    rows = plan_rows(
        texts.examples, list(models.values()), row_options("word", subword="mean" if trees else "last")
    )
    context, stacks = Context(store=aside), {}
    for name, model in models.items():
        read = record(model, texts, rows, context=context)
        stacks[name] = np.stack([np.asarray(layer, dtype=np.float32) for layer in read.layers])
    return Asked(
        annotated=found,
        examples=needed[np.asarray(rows.examples)],
        units=np.asarray(rows.units),
        train=train,
        held=held,
        judged=judged,
        split="test",
        device=options["device"],
    ), stacks


def as_one(probed: Sequence[Probed], seeds: Sequence[int]) -> Probed:
    """Put models that differ in their seed together: what one model answers, with several seeds."""
    answers = [
        replace(layer[0], predictions=[each.predictions[0] for each in layer], seeds=tuple(seeds))
        for layer in zip(*(one.answers for one in probed), strict=True)
    ]
    return replace(probed[0], answers=tuple(answers))


def mean_difference(one: Probed, other: Probed, layers: Sequence[int] | None = None) -> dict[str, float]:
    """
    The mean over layers of what one model reads better than another, on other documents and with other seeds.

    Parameters
    ----------
    one, other : Probed
        With as many layers and seeds, which are pairs.
    layers : sequence of int, optional
        Which of them; all when absent.

    Returns
    -------
    dict
        `value`, `low`, `high`.
    """
    chosen = range(len(one.answers)) if layers is None else layers
    first = one.answers[0]
    clusters = example_groups(first.groups, len(first.ids))

    def sides(side: Probed) -> tuple[np.ndarray, np.ndarray]:
        values, psi = [], []
        for layer in chosen:
            each: Answers = side.answers[layer]
            examples = ScoredExamples(
                score=side.score, labels=side.labels, n=len(first.ids), clusters=clusters
            )
            values.append(examples.values_of(each))
            psi.append(examples.influences_of(each))
        return np.mean(values, axis=0), np.mean(psi, axis=0)

    (values, psi), (others, other_psi) = sides(one), sides(other)
    dof = freedom(clusters, len(first.ids))
    value = float((values - others).mean())
    reach = spread([psi - other_psi], [values - others], dof).arm(Confidence(level=LEVEL).reach)
    return {"value": value, "low": value - reach, "high": value + reach}


def scores_of(one: Probed) -> list[list[float]]:
    """Scores, shape (seeds, layers)."""
    each = [[one.score.compute(p, a.targets, one.labels) for p in a.predictions] for a in one.answers]
    return np.array(each, dtype=float).T.tolist()


def sizes_of(asked: Asked, one: Probed) -> dict[str, Any]:
    """How much was learned from and judged on, and what needs no layer."""
    return {
        "score": one.score.name,
        "points": one.score.points,
        "train": len(asked.train),
        "judged": len(asked.judged),
        "n": len(one.answers[0].ids),
        "unit": asked.unit,
        "lines": dict(one.lines),
        "note": one.note,
    }


def base_readouts(
    encoder: Any, options: Mapping[str, Any], aside: Path, *, trees: bool = False
) -> dict[str, Any]:
    """Probes of the model before tuning, of its random baseline, and of a control task."""
    from microtome.experiments.layer_similarity import called, random_copy

    models = {BASE: called(encoder, BASE), RANDOM_BASELINE: random_copy(encoder, 0, RANDOM_BASELINE)}
    out: dict[str, Any] = {}
    for target in (TREES,) if trees else TARGETS:
        asked, stacks = record_all(models, target, options, aside)
        run = PROBES["structural" if trees else "linear"].function()
        found = {name: run(asked, X) for name, X in stacks.items()}
        base, twin = found[BASE], found[RANDOM_BASELINE]
        against = layer_differences(base, twin, Context(level=LEVEL), name="base from twin")
        told = {
            **sizes_of(asked, base),
            "base": scores_of(base)[0],
            "twin": scores_of(twin)[0],
            "difference": plain_curve(against),
        }
        if not trees:
            aside_from = run(replace(asked, control=0), stacks[BASE])
            told["control"] = scores_of(aside_from)[0]
        out[target] = told
    return out


def tuned_readouts(
    encoder: Any, runs: Sequence[Any], options: Mapping[str, Any], aside: Path, *, trees: bool = False
) -> dict[str, Any]:
    """
    What layers read after tuning, subtracted from what they read before it, word by word.

    Parameters
    ----------
    encoder : Encoder
        Before tuning.
    runs : sequence of Tuned
        Of several seeds.
    options : mapping
        As in `tuned_layers_job.do`.
    aside : Path
        Where rows lie for a while.
    trees : bool
        Whether trees are read by structural probes, instead of labels of words by linear ones.

    Returns
    -------
    dict
        By target.
    """
    from microtome.experiments.layer_similarity import called

    seeds = [run.seeds.init for run in runs]
    models = {BASE: called(encoder, BASE)}
    models |= {str(seed): called(run.encoder, str(seed)) for seed, run in zip(seeds, runs, strict=True)}
    out: dict[str, Any] = {}
    for target in (TREES,) if trees else TARGETS:
        asked, stacks = record_all(models, target, options, aside)
        run = PROBES["structural" if trees else "linear"].function()
        found = {name: run(asked, X) for name, X in stacks.items()}
        # A linear probe has no seed of its own: that of the base is the same for every seed.
        base = as_one([found[BASE]] * len(seeds), seeds)
        tuned = as_one([found[str(seed)] for seed in seeds], seeds)
        last = len(base.answers) - 1
        top = range(last - max(1, last // 3) + 1, last + 1)
        out[target] = {
            **sizes_of(asked, base),
            "base": scores_of(base)[0],
            "tuned": scores_of(tuned),
            "difference": plain_curve(
                layer_differences(tuned, base, Context(level=LEVEL), name="tuned from base")
            ),
            "mean": mean_difference(tuned, base),
            "top": mean_difference(tuned, base, top),
            "last": mean_difference(tuned, base, [last]),
        }
    return out
