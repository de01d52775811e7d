"""Folders of small results, written by the types that write them for users."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np

import microtome as mt
from figures.resulting import make_curve, make_result, make_spans
from microtome.experiments.surgery.claims import cut_claim
from microtome.experiments.surgery.skipping import span_claims
from microtome.findings.claims.render import render
from microtome.findings.claims.tuning import failure_claim, score_claim
from microtome.findings.record import Maps
from microtome.findings.results import Result
from microtome.findings.results import plain as plain_data
from microtome.findings.stackblocks import StackBlocks
from microtome.inference.estimate import Estimate, Interval
from microtome.pruning.certifying import Candidate, PruningClaims, Step
from microtome.pruning.margin import Drop
from microtome.pruning.pruning import Pruned
from microtome.scores.table import SCORES
from microtome.training.evaluating import score_answers
from microtome.training.evaluation import plain

LAYERS, ROWS, FEATURES = 9, 240, 12


def stacks(seed: int = 0) -> dict[str, list[np.ndarray]]:
    """Two stacks of layers 0 to 8 on the same rows: a walk with a step after layer 4, and it changed."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(ROWS, FEATURES))
    base, tuned = [], []
    for layer in range(LAYERS):
        x = x + (2.0 if layer == 5 else 0.15) * rng.normal(size=x.shape)
        base.append(x.copy())
        tuned.append(x + 0.1 * layer * rng.normal(size=x.shape))
    return {"base": base, "tuned": tuned}


def comparison(*, certainty: bool = True, told: bool = True, seed: int = 0) -> Maps:
    """What `compare` gives for two models, one fine-tuned from the other."""
    found = stacks(seed)
    names = [f"{model}/{k}" for model in found for k in range(LAYERS)]
    maps = mt.similarity_matrix(
        [layer for layers in found.values() for layer in layers],
        measures=["debiased_cka", "svcca", "neuron_correlation"],
        names=names,
        certainty=certainty,
        halves=4,
        spectra=True,
    )
    models: list[dict[str, Any]] = [
        {"name": "base", "changes": [], "tuned": None},
        {"name": "tuned", "changes": [], "tuned": {"model": "base", "task": "rte", "seed": 1}},
    ]
    facts = {"models": models} if told else {}
    every = [
        replace(one, unit="sentence", provenance=MappingProxyType({**one.provenance, **facts}))
        for one in maps.values()
    ]
    blocks = [
        StackBlocks(
            stack=model,
            measure="debiased_cka",
            names=tuple(f"{model}/{k}" for k in range(LAYERS)),
            finding=mt.analysis.find_blocks(layers),
        )
        for model, layers in found.items()
        if certainty
    ]
    return Maps(every, ["A sentence about the rows."], blocks)


def truncation(**more: Any) -> Result:
    """Cuts of a model of four layers, of which the top one can be removed."""
    costs = make_curve("costs", [-0.386, -0.286, -0.002, 0.0], band_low=[-0.4, -0.3, -0.0079, 0.0])
    given: dict[str, Any] = {
        "curves": (
            make_curve("UNTUNED", [0.5, 0.6, 0.884, 0.886]),
            make_curve("TUNED", [0.6, 0.7, 0.885, 0.886]),
            make_curve("difference TUNED", [0.1, 0.1, 0.001, 0.0]),
        ),
        "lines": {"majority baseline": 0.51},
        "claims": (cut_claim(costs, SCORES["accuracy"]),),
        "more": {"depth": 4},
        "provenance": {
            "command": "microtome truncate bert --task rte",
            "microtome": "0.1.0",
            "seeds": [1, 2],
        },
    }
    return make_result(**{**given, **more})


def skipping(**more: Any) -> Result:
    """Costs of spans of four blocks."""
    spans = (make_spans(4), make_spans(4, name="cost of skipping, seed 1"))
    claims = tuple(span_claims(spans[0], SCORES["accuracy"], spans[1:]))
    return make_result(**{"experiment": "skipping", "spans": spans, "claims": claims, **more})


def freezing(**more: Any) -> Result:
    """What freezing costs, from both ends."""
    x = (0, 1, 2)
    curves = tuple(
        make_curve(f"{kind}{part}", values, x=x, axis="blocks frozen")
        for part in ("bottom", "top")
        for kind, values in (("", [0.8, 0.8, 0.7]), ("difference ", [0.0, 0.0, -0.1]))
    )
    cost = [{"case": "none", "backward_ratio": 1.0, "update_ratio": 1.0, "memory_ratio": 1.0}]
    return make_result(**{"experiment": "freezing", "curves": curves, "more": {"cost": cost}, **more})


def estimate(value: float, low: float | None, high: float | None, *, unit: str, n: int) -> Estimate:
    """A score with its interval."""
    known = low is not None and high is not None
    interval = None
    if known:
        interval = Interval(
            low=low or 0.0, high=high or 0.0, level=0.95, method="t over seeds", unit=unit, target="mean"
        )
    return Estimate(value=value, measure="accuracy", estimator="accuracy", n=n, interval=interval)


def finetuning(
    scores: Sequence[Estimate],
    mean: Estimate,
    *,
    guess: float | None = 0.51,
    failures: Sequence[str | None] = (),
    model: str = "base",
) -> dict[str, Any]:
    """What `finetune` writes of some seeds."""
    runs = [
        {
            "seed": seed,
            "address": f"{seed:064x}",
            "model": model,
            "task": "rte",
            "recipe": "devlin2019",
            "train": {"examples": 64, "notes": []},
            "course": {"updates": 2, "seconds": 1.25, "losses": [[1, 0.7], [2, None if failed else 0.5]]},
            "failure": failed,
            "evaluation": {
                "task": "rte",
                "split": "validation",
                "n": 277,
                "main": ["accuracy"],
                "score": plain(score),
                "scores": {"accuracy": plain(score)},
                "baseline": {"accuracy": guess},
            },
            "microtome": "0.1.0",
        }
        for seed, (score, failed) in enumerate(
            zip(scores, failures or [None] * len(scores), strict=True), start=1
        )
    ]
    sound = [score for score, run in zip(scores, runs, strict=True) if run["failure"] is None]
    claims = failure_claim({run["seed"]: run["failure"] for run in runs if run["failure"]}, len(runs))
    if sound:
        claims += score_claim(
            mean if len(sound) > 1 else sound[0],
            split="validation",
            examples=277,
            baseline=math.nan if guess is None else guess,
            seeds=len(sound),
            trained=True,
        )
    return {
        "format": "microtome/finetune/1",
        "runs": runs,
        "mean": plain(mean),
        "claims": [plain_data(claim.document()) for claim in claims],
        "findings": [render(claim) for claim in claims],
    }


def drop(*, value: float = 0.3, upper: float = 0.68, p: float = 0.001, max_drop: float = 1.0) -> Drop:
    """What a cut loses on some examples."""
    return Drop(
        score="accuracy",
        full=0.9,
        cut=0.9 - value / 100,
        drop=value,
        upper=upper,
        se=0.2,
        p=p,
        max_drop=max_drop,
        level=0.95,
        method="exact",
        unit="example",
        n=5000,
        units=5000,
    )


def pruned(tested: Sequence[Drop], *, confirmed: Drop | None = None, standing: Any = None) -> Pruned:
    """What `prune` finds when so many cuts of a model of six blocks are tested, one block more each."""
    steps = tuple(
        Step(candidate=Candidate(what=tuple(range(1, 6 - k)), cost=0.1 * k, removed=k + 1), found=found)
        for k, found in enumerate(tested)
    )
    safe = [step for step in steps if step.found.safe]
    passed = steps[: len(safe)][-1] if safe else None
    whole: Any = None
    about = PruningClaims(depth=6, standing=standing)
    cheapest = None if steps else ((1, 2, 3, 4, 5), drop(value=4.2, upper=6.0, p=1.0))
    claims = about.of(steps, cheapest)
    if confirmed is not None and passed is not None:
        claims += (about.claim("confirmation", passed.candidate.what, confirmed, split="more"),)
    return Pruned(
        name="tuned",
        task="rte",
        score="accuracy",
        unit="points",
        depth=6,
        kept=(1, 2, 3, 4, 5, 6) if passed is None else passed.candidate.what,
        max_drop=1.0,
        level=0.95,
        candidates=(),
        tried="every subset of the blocks",
        steps=steps,
        comparison=None if passed is None else passed.found,
        confirmed=confirmed,
        chosen_on="Chosen on 5,000 examples",
        certified_on="Certified on 5,000 others",
        claims=claims,
        whole=whole,
        provenance={"command": "microtome prune tuned --task rte"},
    )


def write_json(document: Any, folder: Path) -> None:
    """Write a document as the result of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "result.json").write_text(json.dumps(document))


def study(folder: Path) -> Path:
    """A folder with one result of every kind."""
    comparison().save(folder / "maps")
    truncation().save(folder / "cuts" / "layers")
    skipping().save(folder / "cuts" / "spans")
    freezing().save(folder / "freeze")
    one = estimate(0.8, 0.75, 0.84, unit="example", n=277)
    mean = estimate(0.8, 0.76, 0.84, unit="seed", n=2)
    write_json(finetuning([one, one], mean), folder / "runs")
    write_json(pruned([drop(), drop(upper=2.4, p=0.2)]).document(), folder / "small")
    task = mt.task("polarity", sizes={"train": 20, "test": 40})
    answers = [item.target for item in task.split("test")]
    scored = score_answers(task, task.split("test"), answers, train=task.split("train"))
    replace(scored, model="base").save(folder / "scores")
    return folder
