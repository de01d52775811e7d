"""What do models answer when they are cut after each layer? One pass, then heads; for zoo_job.py."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zoo_maps import LEVEL


def read_layers(model: Any, features: Any, judged: Any, task: Any, kinds: Sequence[str]) -> dict[str, Any]:
    """
    Read everything of every layer in one pass: what the head answers, what it reads, and rows to compare.

    Returns
    -------
    dict
        `answers`: one list a layer; `vectors`: what the head reads, Tensor of shape (layers, examples,
        width); `rows`: by kind, float32 of the same shape. "cls" is the first token, the last one of a causal
        model.
    """
    import torch

    from microtome.training.cuts import depth_of, every_truncation, outputs_of_cuts
    from microtome.training.heads.decoding import answers, decode
    from microtome.training.heads.head_inputs import read_vectors
    from microtome.training.heads.reading import vector

    depth, count = depth_of(model), len(features)
    shape = (depth, count, int(model.config.hidden_size))
    rows = {kind: torch.empty(shape, device=model.device) for kind in ("read", *kinds)}
    said: list[list[Any]] = [[None] * count for _ in range(depth)]
    place_of = "last" if model.family.causal else "first"

    def read(states: torch.Tensor, batch: dict[str, torch.Tensor]) -> tuple[torch.Tensor, dict[str, Any]]:
        found = {"read": read_vectors(model, states, batch)}
        for kind in kinds:
            found[kind] = vector(states, batch["attention_mask"], batch["special"], kind, place_of)
        return model.read(states, batch), found

    def use(layer: int, found: Any, batch: dict[str, torch.Tensor], places: Sequence[int]) -> None:
        outputs, vectors = found
        where = torch.tensor(places, device=model.device)
        for kind, each in vectors.items():
            rows[kind][layer, where] = each.float()
        told = answers(model, outputs, batch, [features[place] for place in places])
        for place, one in zip(places, told, strict=True):
            said[layer][place] = one

    outputs_of_cuts(model, features, list(every_truncation(depth).values()), use, read=read)
    return {
        "answers": [decode(each, features, judged.items, task) for each in said],
        "vectors": rows.pop("read"),
        "rows": {kind: each.cpu().numpy() for kind, each in rows.items()},
    }


def truncations(
    before: Any,
    runs: Sequence[Any],
    read: Sequence[Mapping[str, Any]],
    task: Any,
    train: Any,
    judged: Any,
    features: Sequence[Any],
    options: Mapping[str, Any],
) -> dict[str, Any]:
    """Cut after every layer: with the tuned head as it is, tuned further, and with converged readouts."""
    from microtome.context import Context
    from microtome.experiments.layer_heads import Arm
    from microtome.experiments.truncation_curves import HeadAnswers, curve_of, cut_costs
    from microtome.findings.results import plain
    from microtome.training.heads.head_inputs import head_rows
    from microtome.training.heads.layer_heads import apply_heads, failures, train_heads
    from microtome.training.recipe import find_recipe

    recipe = find_recipe(runs[0].recipe, epochs=options["head_epochs"], steps=None)
    arms: dict[str, list[Arm]] = {}

    def arm(name: str, answers: list[Any], failed: tuple[Any, ...] = (), **told: Any) -> None:
        one = Arm(runs=("only",), answers=[answers], failed=failed, details=told)
        arms.setdefault(name, []).append(one)

    for model, found in zip((before, *(run.model for run in runs)), read, strict=True):
        learned = head_rows(model, features[0])
        answered = ready_rows(model, found["vectors"], features[1])
        name = "TUNEDORIG converged" if model is before else "TUNED converged"
        outputs, told = converged(learned, answered, task, train)
        arm(name, decoded(outputs, features[1], judged, task), **told)
        if model is before:
            continue
        arm("UNTUNED", found["answers"])
        heads = train_heads(model, learned, recipe, seeds=(0,))
        failed = tuple((layer + 1, "only", why) for layer, _, why in failures(heads))
        arm("TUNED", decoded(apply_heads(model, heads[0], answered), features[1], judged, task), failed)
    seeds = tuple(run.seeds.init for run in runs)
    sound = [place for place, run in enumerate(runs) if run.failure is None]
    out: dict[str, Any] = {"x": list(range(1, len(read[0]["answers"]) + 1)), "scores": {}, "curves": {}}
    for name, some in arms.items():
        whole = HeadAnswers(
            name=name, split=judged, arms=tuple(some), seeds=seeds if len(some) == len(runs) else (0,)
        )
        by_seed: dict[str, list[Any]] = {}
        for row in whole.rows(task):
            by_seed.setdefault(str(row["seed"]), []).append(row["score"])
        out["scores"][name] = by_seed
        kept = sound if len(some) == len(runs) else [0]
        if not kept:
            continue
        said = HeadAnswers(
            name=name,
            split=judged,
            arms=tuple(some[p] for p in kept),
            seeds=tuple(whole.seeds[p] for p in kept),
        )
        out["curves"][name] = ends(curve_of(said, task, Context(level=LEVEL)))
        if name == "UNTUNED":
            out["curves"]["cost"] = ends(cut_costs(said, task, Context(level=LEVEL)))
    out["readouts"] = {
        name: plain([dict(one.details) for one in some]) for name, some in arms.items() if some[0].details
    }
    return out


def ends(curve: Any) -> dict[str, Any]:
    """A curve as plain data."""
    return {name: getattr(curve, name) for name in ("values", "low", "high", "band_low", "band_high", "unit")}


def ready_rows(model: Any, vectors: Any, features: Sequence[Any]) -> Any:
    """What heads answer, from vectors that a pass has left already."""
    import numpy as np

    from microtome.training.heads.head_inputs import HeadRows

    return HeadRows(
        kind=model.kind,
        vectors=vectors,
        counts=np.ones(len(features), dtype=np.int64),
        targets=None,
        lengths=np.array([len(each) for each in features]),
        token=0 if model.pad != 0 else 1,
    )


def converged(learned: Any, answered: Any, task: Any, train: Any) -> tuple[list[Any], dict[str, Any]]:
    """Fit a linear readout of every layer until nothing is left to gain, and apply it."""
    import numpy as np

    from microtome.experiments.layer_heads import FOLD_SEED, FOLDS
    from microtome.probes.linear import fit_logistic, fit_ridge

    right, more = learned.targets.cpu().numpy(), {"folds": FOLDS, "groups": train.groups, "seed": FOLD_SEED}
    if task.kind == "regression":
        fit = fit_ridge(learned.vectors, right, **more)
    else:
        fit = fit_logistic(learned.vectors, right, len(task.labels), device=learned.vectors.device, **more)
    said = fit.decision(answered.vectors)
    outputs = [answered.apart(each, np.arange(len(answered.counts))) for each in said]
    return outputs, {"penalty": fit.penalty, "converged": fit.converged}


def decoded(outputs: Sequence[Any], features: Sequence[Any], judged: Any, task: Any) -> list[list[Any]]:
    """Turn the outputs of every layer into answers."""
    from microtome.training.heads.decoding import decode

    return [decode(each, features, judged.items, task) for each in outputs]
