"""What does it save to record updates of a small model on a GPU? The same training, played and made in turn.

    python benchmarks/replay.py --models zoo:masked,zoo:replaced --data DIR --task stsb --updates 150

Both ways must give the same weights to the bit, else it says so and fails.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Sequence
from typing import Any


def tuned(source: str, task: Any, updates: int, played: bool, store: str) -> tuple[str, float]:
    """Fine-tune once; the digest of the weights, and milliseconds an update."""
    import microtome as mt
    from microtome.encoders.encoder import digest_weights
    from microtome.training import loop, replay

    loop.can_replay = replay.can_replay if played else lambda *_: False
    run = mt.finetune(mt.load(source), task, "devlin2019", device="cuda", store=store, steps=updates)
    return digest_weights(run.model), 1e3 * run.course["seconds"] / run.course["updates"]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Updates that are played beside updates that are made.")
    parser.add_argument("--models", default="zoo:masked")
    parser.add_argument("--task", default="stsb")
    parser.add_argument("--data")
    parser.add_argument("--updates", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=3)
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
        digests = set()
        for turn in range(chosen.rounds):
            for played in (True, False) if turn % 2 else (False, True):
                with tempfile.TemporaryDirectory() as store:
                    digest, each = tuned(source, task, chosen.updates, played, store)
                digests.add(digest)
                times[played].append(each)
        made, played = statistics.median(times[False]), statistics.median(times[True])
        same = "same bits" if len(digests) == 1 else f"{len(digests)} DIFFERENT results"
        bad += len(digests) > 1
        print(f"{source}: made {made:.1f} ms, played {played:.1f} ms, {made / played:.1f} times; {same}")
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, {chosen.rounds} rounds, medians")
    return int(bad > 0)


if __name__ == "__main__":
    raise SystemExit(main())
