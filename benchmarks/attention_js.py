"""How fast are Jensen-Shannon divergences of all pairs of heads, against the obvious ways to write them?

Two models of 12 layers with 12 heads each. Variants take turns within each repeat, on one thread; the median
is reported. The slow ones run on the first sentences only, and their times are scaled to all of them by the
number of positions; "ran on" says which. "Faster" is against the faster of the two baselines, in CPU time.
Run with `python benchmarks/attention_js.py`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np
import torch
from scipy.special import rel_entr

from microtome.measures.attention_js import Kernel, divergence_sums, numba_importable
from microtome.randomness import generator

HEADS = 144
WORDS = (15, 36)  # lengths of sentences, 25 on average
CHECKED = 6  # heads of each side whose divergences are checked in float64

Sentence = tuple[np.ndarray, np.ndarray]


def sentences_of(number: int, seed: int) -> list[Sentence]:
    """Attention of two models, arrays of shape (heads, words, words): sharp heads and flat ones."""
    rng = generator(seed, "attention")
    found = []
    for _ in range(number):
        words = int(rng.integers(*WORDS))
        sharpness = rng.uniform(0.5, 4.0, size=(2, HEADS, 1, 1))
        scores = np.exp(sharpness * rng.standard_normal((2, HEADS, words, words)))
        maps = (scores / scores.sum(axis=-1, keepdims=True)).astype(np.float32)
        found.append((maps[0], maps[1]))
    return found


def ours(sentence: Sentence, kernel: Kernel) -> np.ndarray:
    left, right = (maps.reshape(len(maps), -1) for maps in sentence)
    return divergence_sums(left, right, kernel=kernel) * np.log(2)


def two_divergences(left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Kullback-Leibler divergences of both to the middle, with the logarithms of the heads taken once."""
    tiny = torch.finfo(torch.float32).tiny
    middle = ((left + right) / 2).clamp_min(tiny).log()
    one = (left * (left.clamp_min(tiny).log() - middle)).sum(dim=(-1, -2))
    other = (right * (right.clamp_min(tiny).log() - middle)).sum(dim=(-1, -2))
    return (one + other) / 2


def broadcast(sentence: Sentence) -> np.ndarray:
    left, right = (torch.from_numpy(maps) for maps in sentence)
    return two_divergences(left[:, None], right[None, :]).double().numpy()


def head_by_head(sentence: Sentence) -> np.ndarray:
    left, right = (torch.from_numpy(maps) for maps in sentence)
    return torch.stack([two_divergences(head, right) for head in left]).double().numpy()


def exact(sentence: Sentence) -> np.ndarray:
    left, right = (maps[:CHECKED].astype(np.float64) for maps in sentence)
    left, right = (maps / maps.sum(axis=-1, keepdims=True) for maps in (left, right))
    p, q = left[:, None], right[None, :]
    middle = (p + q) / 2
    return (rel_entr(p, middle) + rel_entr(q, middle)).sum(axis=(-1, -2)) / 2


def run(*, sentences: int = 200, few: int = 5, repeats: int = 3, seed: int = 0) -> list[dict[str, Any]]:
    """
    Time all variants.

    Parameters
    ----------
    sentences : int
        How many our kernels read.
    few : int
        How many the torch kernel and the baselines read.
    repeats : int
        At least 3.
    seed : int

    Returns
    -------
    list of dict
        One a variant: times in seconds for all sentences, nanoseconds an element (a position of a pair of
        heads), how many times faster than the faster baseline in CPU time, largest error of a mean divergence
        in nats.
    """
    data = sentences_of(sentences, seed)
    few = min(few, sentences)
    variants: dict[str, tuple[Callable[[Sentence], np.ndarray], int]] = {
        "microtome, numba": (lambda s: ours(s, "numba"), sentences),
        "microtome, torch": (lambda s: ours(s, "torch"), few),
        "two divergences, torch, head by head": (head_by_head, few),
        "two divergences, torch, broadcast": (broadcast, few),
    }
    if not numba_importable():
        del variants["microtome, numba"]
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    times: dict[str, list[tuple[float, float]]] = {name: [] for name in variants}
    errors: dict[str, float] = {}
    try:
        for name, (compute, number) in variants.items():  # compiles, and warms the caches
            wanted = sum(exact(s) for s in data[:number])
            values = sum(compute(s)[:CHECKED, :CHECKED] for s in data[:number])
            words = sum(s[0].shape[1] for s in data[:number])
            errors[name] = float(np.max(np.abs(values - wanted))) / words
        for _ in range(max(repeats, 3)):
            for name, (compute, number) in variants.items():
                wall, cpu = time.perf_counter(), time.process_time()
                for sentence in data[:number]:
                    compute(sentence)
                times[name].append((time.perf_counter() - wall, time.process_time() - cpu))
    finally:
        torch.set_num_threads(threads)
    positions = np.cumsum([s[0].shape[1] ** 2 for s in data])
    rows: list[dict[str, Any]] = []
    for name, (_, number) in variants.items():
        scale = positions[-1] / positions[number - 1]
        wall, cpu = (scale * median(times_of) for times_of in zip(*times[name], strict=True))
        rows.append(
            {
                "variant": name,
                "sentences_run": number,
                "wall_s": float(wall),
                "cpu_s": float(cpu),
                "ns_per_element": float(cpu * 1e9 / (positions[-1] * HEADS**2)),
                "max_error": errors[name],
            }
        )
    baseline = min(row["cpu_s"] for row in rows if row["variant"].startswith("two"))
    return [{**row, "times_faster": baseline / row["cpu_s"]} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sentences", type=int, default=200)
    parser.add_argument("--few", type=int, default=5, help="sentences of the slow variants, scaled to all")
    parser.add_argument("--repeats", type=int, default=3)
    given = parser.parse_args()
    rows = run(sentences=given.sentences, few=given.few, repeats=given.repeats)
    print(f"{HEADS} x {HEADS} heads, {given.sentences} sentences, {WORDS[0]} to {WORDS[1] - 1} words")
    print(f"{'':38}{'ran on':>8}{'wall s':>9}{'CPU s':>9}{'ns/elem':>9}{'faster':>9}{'error':>10}")
    for row in rows:
        print(
            f"{row['variant']:38}{row['sentences_run']:8d}{row['wall_s']:9.2f}{row['cpu_s']:9.2f}"
            f"{row['ns_per_element']:9.3f}{row['times_faster']:8.1f}x{row['max_error']:10.1e}"
        )


if __name__ == "__main__":
    main()
