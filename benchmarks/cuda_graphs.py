"""Time of CUDA graphs and of training batched over seeds (vmap), for small models on a GPU.

    python benchmarks/cuda_graphs.py --models zoo:masked,zoo:replaced --data DIR --updates 150 --vectorized 6

The same training is made, played and, with other seeds beside it, vectorized, in turn. Made and played
must give the same weights to the bit, else it says so and fails; vectorized, the losses differ by rounding.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from typing import Any


def tuned(source: str, task: Any, updates: int, played: bool, store: str) -> tuple[str, float, float]:
    """Fine-tune once; the digest of the weights, milliseconds an update, and the last loss."""
    import microtome as mt
    from microtome.encoders.encoder import digest_weights
    from microtome.training.optimization.cuda_graphs import TrainingStep

    room = TrainingStep._room
    TrainingStep._room = room if played else lambda self: False
    try:
        run = mt.finetune(mt.load(source), task, "devlin2019", device="cuda", store=store, steps=updates)
    finally:
        TrainingStep._room = room
    spent = 1e3 * run.course["seconds"] / run.course["updates"]
    return digest_weights(run.model), spent, run.course["losses"][-1][1]


def vectorized(source: str, task: Any, updates: int, count: int, store: str) -> tuple[float, float]:
    """Fine-tune several seeds as one model (vmap); milliseconds per update of one, and the last loss."""
    import microtome as mt
    from microtome.training.multi_seed import finetune_vectorized

    runs = finetune_vectorized(
        [mt.load(source)], task, "devlin2019", seeds=range(count), device="cuda", store=store, steps=updates
    )
    course = runs[0].course
    return 1e3 * course["seconds"] / course["updates"] / count, course["losses"][-1][1]


def heads(source: str, task: Any, played: bool) -> tuple[str, float]:
    """Train the heads of all layers on 2,000 examples; the digest of their weights, and seconds."""
    import hashlib
    import time

    import torch

    import microtome as mt
    from microtome.tasks.subset import subset
    from microtome.training.heads import layer_heads as manyheads
    from microtome.training.heads.head_inputs import head_rows
    from microtome.training.inputs import encode
    from microtome.training.models.modeling import build
    from microtome.training.recipe import find_recipe

    step = manyheads.TrainingStep
    encoder: Any = mt.load(source)
    manyheads.TrainingStep = lambda *given, capture, **more: step(*given, capture=capture and played, **more)
    try:
        train = subset(task.split(task.train), 2_000, seed=0)
        model = build(encoder, task, mt.Head(), seed=0).to(torch.device("cuda"))
        rows = head_rows(model, encode(train.items, task, encoder.tokenizer, longest=128))
        start = time.monotonic()
        (found,) = manyheads.train_heads(model, rows, find_recipe("devlin2019"), seeds=[0])
    finally:
        manyheads.TrainingStep = step
    told = hashlib.sha256()
    for name in sorted(found.weights):
        told.update(found.weights[name].cpu().numpy().tobytes())
    return told.hexdigest(), time.monotonic() - start


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Updates that are played beside updates that are made.")
    parser.add_argument("--models", default="zoo:masked")
    parser.add_argument("--task", default="stsb")
    parser.add_argument("--data")
    parser.add_argument("--updates", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--vectorized", type=int, default=6, help="how many seeds; 0 leaves this out")
    chosen = parser.parse_args(arguments)
    import torch

    import microtome as mt

    if not torch.cuda.is_available():
        print("there is no CUDA device, so nothing can be recorded")
        return 1
    task = mt.task(chosen.task, data=chosen.data)
    bad = 0
    for source in chosen.models.split(","):
        times: dict[bool, list[float]] = {True: [], False: []}
        digests, beside, losses = set(), [], {}
        for turn in range(chosen.rounds):
            for played in (True, False) if turn % 2 else (False, True):
                with tempfile.TemporaryDirectory() as store:
                    digest, each, losses["alone"] = tuned(source, task, chosen.updates, played, store)
                digests.add(digest)
                times[played].append(each)
            if chosen.vectorized:
                with tempfile.TemporaryDirectory() as store:
                    each, losses["vectorized"] = vectorized(
                        source, task, chosen.updates, chosen.vectorized, store
                    )
                beside.append(each)
        made, played = statistics.median(times[False]), statistics.median(times[True])
        same = "same bits" if len(digests) == 1 else f"{len(digests)} DIFFERENT results"
        bad += len(digests) > 1
        print(f"{source}: made {made:.1f} ms, played {played:.1f} ms, {made / played:.1f} times; {same}")
        if beside:
            each = statistics.median(beside)
            print(
                f"{source}: {chosen.vectorized} vectorized {each:.2f} ms an update of one, "
                f"{played / each:.1f} times; last loss {losses['vectorized']:.5f}, "
                f"alone {losses['alone']:.5f}"
            )
        ways = {played: heads(source, task, played) for played in (False, True)}
        same = "same bits" if ways[False][0] == ways[True][0] else "DIFFERENT results"
        bad += ways[False][0] != ways[True][0]
        print(
            f"{source}: heads of all layers made {ways[False][1]:.1f} s, played {ways[True][1]:.1f} s; {same}"
        )
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {chosen.rounds} rounds, medians")
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
