"""How often blocks are found on simulated stacks of layers, with and without blocks, and by other methods.

Layers are Markov chains: from one layer to the next, CKA falls by the factor 1 - e, so the population map is
known. In the smooth stacks the steps e are equal or change smoothly with depth; `exchangeable` layers are all
equally similar, so that every run has a margin of exactly 0; in `uneven` stacks some runs may be blocks in
the population. In `planted` stacks a run of 3, 5 or 8 layers shares a component. Run it as

    OMP_NUM_THREADS=1 python benchmarks/blocks_simulation.py --stacks 200 --processes 8 --json FILE

It prints tables and returns 1 when more than 2 % (plus three Monte Carlo errors) of the stacks have a certain
block that is none in the population, or when a strong block is found in fewer than 90 %.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import microtome as mt
from microtome.findings.blocks import block_structure
from microtome.randomness import generator

Array = NDArray[np.float64]

STEP = 0.05
CORRELATION = 0.5  # of the rows of one sentence
LENGTHS = (2, 22)  # rows of a sentence: shortest and longest
LIMIT = 0.02  # of stacks without a block that may have a certain one
# Numbers of independent rows by variant; three times as many where rows come in sentences.
ROWS: dict[str, tuple[int, ...]] = {"rows": (100, 200, 800), "sentences": (400,), "two models": (200,)}
SHARED = 0.5  # what two models share of every layer
PERMUTATIONS = 39


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A way to draw stacks: the steps between layers, and what is laid over the chain."""

    name: str
    steps: Callable[[np.random.Generator, int], Array]  # (rng, layers) -> [layers - 1]
    exchangeable: bool = False
    planted: int = 0  # layers of the planted block
    shared: float = 0.0  # share of the component that they have in common
    floor: float | None = None  # least share of stacks in which it must be found


def equal(rng: np.random.Generator, layers: int) -> Array:
    return np.full(layers - 1, STEP)


def lognormal(rng: np.random.Generator, layers: int, *, sd: float) -> Array:
    return STEP * np.exp(sd * rng.standard_normal(layers - 1))


def trend(rng: np.random.Generator, layers: int, *, ratio: float) -> Array:
    steps = np.geomspace(1, ratio, layers - 1)
    return STEP * (steps if rng.random() < 0.5 else steps[::-1]) / steps.mean()


def wave(rng: np.random.Generator, layers: int, *, ratio: float) -> Array:
    steps = 1 + (ratio - 1) * np.sin(np.linspace(0, np.pi, layers - 1)) ** 2
    return STEP * steps / steps.mean()


SMOOTH = (
    Scenario(name="smooth: equal steps", steps=equal),
    Scenario(name="smooth: trend 3", steps=partial(trend, ratio=3)),
    Scenario(name="smooth: wave 2", steps=partial(wave, ratio=2)),
    Scenario(name="smooth: wave 4", steps=partial(wave, ratio=4)),
    Scenario(name="exchangeable", steps=equal, exchangeable=True),
)
UNEVEN = (
    Scenario(name="uneven: trend 10", steps=partial(trend, ratio=10)),
    Scenario(name="uneven: lognormal .3", steps=partial(lognormal, sd=0.3)),
    Scenario(name="uneven: lognormal .6", steps=partial(lognormal, sd=0.6)),
)
PLANTED = tuple(
    Scenario(
        name=f"planted: {size} layers, share {share:g}",
        steps=equal,
        planted=size,
        shared=share,
        floor=0.9 if share >= 0.3 else None,
    )
    for size in (3, 5, 8)
    for share in (0.1, 0.15, 0.2, 0.3)
)
SCENARIOS = (*SMOOTH, *UNEVEN, *PLANTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one scenario gave, as shares of its stacks."""

    variant: str
    rows: int
    scenario: str
    stacks: int
    margin: float  # of the planted run in the population, mean over stacks; NaN where nothing is planted
    certain: float  # with a certain block
    false: float  # with a certain block whose margin in the population is not positive
    estimated: float  # with a block by point estimates
    found: float  # in which the planted run is among the certain blocks
    covered: float  # whose interval of the best run covers its margin in the population
    clustering: float  # hierarchical clustering against permuted cells finds clusters
    clustering_found: float  # and the planted run is one of them
    changepoint: float  # an adjacent gap is an outlier
    changepoint_found: float  # and these gaps are the borders of the planted run
    passed: bool


def draw_stack(
    scenario: Scenario, rng: np.random.Generator, *, layers: int, features: int, clusters: NDArray[np.intp]
) -> tuple[Array, Array, tuple[int, int] | None]:
    """
    Draw one stack, its map in the population, and the ends of the planted run.

    Parameters
    ----------
    scenario : Scenario
    rng : numpy.random.Generator
    layers, features : int
    clusters : array of int of shape (rows,)
        Sentence of each row; rows of one sentence have correlation `CORRELATION`.

    Returns
    -------
    stack : array of shape (layers, rows, features)
    population : array of shape (layers, layers)
    run : tuple of int, or None
    """
    noise = partial(_noise, rng, clusters, features)
    steps = np.clip(scenario.steps(rng, layers), 0, 0.9)
    if scenario.exchangeable:
        common = noise()
        stack = np.stack([(common + noise()) / math.sqrt(2) for _ in range(layers)])
        return stack, np.where(np.eye(layers, dtype=bool), 1.0, 0.25), None
    stack = np.empty((layers, len(clusters), features))
    stack[0] = noise()
    for layer, step in enumerate(steps, start=1):
        stack[layer] = math.sqrt(1 - step) * stack[layer - 1] + math.sqrt(step) * noise()
    kept = np.concatenate([[0.0], np.cumsum(np.log1p(-steps))])
    correlation = np.exp(-np.abs(kept[:, None] - kept[None]) / 2)
    run = None
    if scenario.planted:
        first = int(rng.integers(0, layers - scenario.planted + 1))
        run = first, first + scenario.planted - 1
        member = np.zeros(layers, dtype=bool)
        member[run[0] : run[1] + 1] = True
        own, both = math.sqrt(1 - scenario.shared), math.sqrt(scenario.shared)
        stack[member] = own * stack[member] + both * noise()
        weight = np.where(member, own, 1.0)
        correlation = correlation * weight[:, None] * weight[None]
        correlation += scenario.shared * (member[:, None] & member[None])
    return stack, correlation**2, run


def _noise(rng: np.random.Generator, clusters: NDArray[np.intp], features: int) -> Array:
    sentences = int(clusters.max()) + 1
    fresh = rng.standard_normal((len(clusters), features))
    if sentences == len(clusters):
        return fresh
    common = rng.standard_normal((sentences, features))[clusters]
    return math.sqrt(CORRELATION) * common + math.sqrt(1 - CORRELATION) * fresh


def draw_clusters(variant: str, rows: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Give each row its own cluster, or draw sentences of unequal length until there are enough rows."""
    if variant != "sentences":
        return np.arange(rows)
    lengths = rng.integers(LENGTHS[0], LENGTHS[1] + 1, size=3 * rows)
    count = int(np.searchsorted(np.cumsum(lengths), 3 * rows)) + 1
    return np.repeat(np.arange(count), lengths[:count])


def clustering(similarity: Array, rng: np.random.Generator) -> list[frozenset[int]] | None:
    """Average-linkage clusters of the best silhouette, or None where permuted cells have one as good."""
    best, clusters = _silhouette(similarity)
    upper = np.triu_indices(len(similarity), 1)
    reached = 0
    for _ in range(PERMUTATIONS):
        shuffled = np.eye(len(similarity))
        shuffled[upper] = rng.permutation(similarity[upper])
        reached += _silhouette(np.maximum(shuffled, shuffled.T))[0] >= best
    return clusters if (1 + reached) / (1 + PERMUTATIONS) < 0.05 else None


def _silhouette(similarity: Array) -> tuple[float, list[frozenset[int]]]:
    from scipy.cluster.hierarchy import fcluster, linkage
    from scipy.spatial.distance import squareform

    far = np.maximum(1 - similarity, 0.0)
    np.fill_diagonal(far, 0.0)
    tree = linkage(squareform(far, checks=False), "average")
    best: tuple[float, list[frozenset[int]]] = (-1.0, [])
    for count in (2, 3, 4):
        labels = fcluster(tree, count, "maxclust")
        names = np.unique(labels)
        if len(names) < 2:
            continue
        mean = np.stack([far[:, labels == name].sum(axis=1) for name in names], axis=1)
        sizes = np.array([(labels == name).sum() for name in names])
        own = np.searchsorted(names, labels)
        inner = mean[np.arange(len(far)), own] / np.maximum(sizes[own] - 1, 1)
        outer = np.where(np.arange(len(names)) == own[:, None], np.inf, mean / sizes).min(axis=1)
        score = np.where(sizes[own] > 1, (outer - inner) / np.maximum(np.maximum(inner, outer), 1e-12), 0.0)
        if score.mean() > best[0]:
            best = float(score.mean()), [frozenset(np.flatnonzero(labels == name).tolist()) for name in names]
    return best


def changepoints(similarity: Array) -> set[int]:
    """Adjacent gaps that are outliers by the median absolute deviation; the layer below each."""
    gaps = 1 - np.diagonal(similarity, 1)
    center = np.median(gaps)
    scale = 1.4826 * np.median(np.abs(gaps - center))
    return set(np.flatnonzero(gaps > center + 3 * scale).tolist())


def simulate(job: tuple[str, int, int, int], *, seed: int, layers: int, features: int) -> tuple[float, ...]:
    """Draw and judge one stack: a job is the variant, the rows, the scenario's place, the stack's number."""
    variant, rows, place, number = job
    scenario = SCENARIOS[place]
    rng = generator(seed, "blocks", variant, rows, scenario.name, number)
    clusters = draw_clusters(variant, rows, rng)
    stack, population, run = draw_stack(scenario, rng, layers=layers, features=features, clusters=clusters)
    ids = clusters if variant == "sentences" else None
    other, two = None, variant == "two models"
    if two:
        own, both = math.sqrt(1 - SHARED), math.sqrt(SHARED)
        other = [both * one + own * rng.standard_normal(one.shape) for one in stack]
        population = SHARED * population
    finding = mt.analysis.find_blocks(list(stack), other, clusters=ids, threads=1)
    truth = block_structure(population, two_stacks=two)
    blocks = {(block.first, block.last) for top in truth.blocks for block in top.walk()}
    certain = {(block.first, block.last) for block in finding.certain}
    best = finding.best
    assert best is not None
    assert best.interval is not None
    margin = _margin(population, (best.first, best.last), two)
    values = mt.similarity_matrix(list(stack), measures="debiased_cka", clusters=ids, threads=1)
    similarity = values["debiased_cka"].values
    groups, gaps = clustering(similarity, rng), changepoints(similarity)
    borders = set() if run is None else {run[0] - 1, run[1]} & set(range(layers - 1))
    return (
        math.nan if run is None else _margin(population, run, two),
        bool(certain),
        bool(certain - blocks),
        bool(finding.blocks),
        run in certain,
        best.interval.low <= margin <= best.interval.high,
        groups is not None,
        run is not None and groups is not None and frozenset(range(run[0], run[1] + 1)) in groups,
        bool(gaps),
        run is not None and gaps == borders,
    )


def _margin(population: Array, run: tuple[int, int], two: bool) -> float:
    member = np.zeros(len(population), dtype=bool)
    member[run[0] : run[1] + 1] = True
    inside = population[np.ix_(member, member)]
    outside = population[np.ix_(member, ~member)]
    return float((inside if two else inside[~np.eye(len(inside), dtype=bool)]).min() - outside.max())


def summarize(variant: str, rows: int, scenario: Scenario, outcomes: Sequence[tuple[float, ...]]) -> Row:
    """Turn the outcomes of one scenario into rates."""
    count = len(outcomes)
    margin, certain, false, *rest = np.array(outcomes, dtype=float).mean(axis=0)
    limit = LIMIT + 3 * math.sqrt(LIMIT * (1 - LIMIT) / count)
    weak = scenario.floor is not None and rows >= 400 and rest[1] < scenario.floor
    names = (
        "estimated",
        "found",
        "covered",
        "clustering",
        "clustering_found",
        "changepoint",
        "changepoint_found",
    )
    return Row(
        variant=variant,
        rows=rows,
        scenario=scenario.name,
        stacks=count,
        margin=float(margin),
        certain=float(certain),
        false=float(false),
        passed=bool(false <= limit and not weak),
        **{name: float(value) for name, value in zip(names, rest, strict=True)},
    )


def run(
    *,
    stacks: int = 100,
    processes: int = 1,
    seed: int = 0,
    layers: int = 12,
    rows: Sequence[int] | None = None,
    features: int = 32,
    variants: Sequence[str] = tuple(ROWS),
    scenarios: Sequence[str] | None = None,
) -> list[Row]:
    """
    Simulate every scenario of every variant.

    Parameters
    ----------
    stacks : int
        Stacks drawn per scenario.
    processes : int
        Worker processes; 1 works in this one. The numbers do not depend on it.
    seed : int
    layers, features : int
        Size of a stack.
    rows : sequence of int, optional
        Numbers of independent rows; those of `ROWS` without it.
    variants : sequence of {"rows", "sentences", "two models"}
    scenarios : sequence of str, optional
        Names of the scenarios; all without it.
    """
    places = [k for k, one in enumerate(SCENARIOS) if scenarios is None or one.name in scenarios]
    cells = [
        (variant, count, place)
        for variant in variants
        for count, place in itertools.product(rows or ROWS[variant], places)
    ]
    jobs = [(*cell, number) for cell in cells for number in range(stacks)]
    work = partial(simulate, seed=seed, layers=layers, features=features)
    if processes == 1:
        outcomes = [work(job) for job in jobs]
    else:
        with ProcessPoolExecutor(processes) as pool:
            outcomes = list(pool.map(work, jobs, chunksize=max(1, len(jobs) // (16 * processes))))
    return [
        summarize(variant, count, SCENARIOS[place], outcomes[k * stacks : (k + 1) * stacks])
        for k, (variant, count, place) in enumerate(cells)
    ]


def table(found: Sequence[Row]) -> str:
    """The rates as Markdown."""

    def percent(value: float) -> str:
        return f"{100 * value:.0f}"

    lines = [
        "| rows | n | stacks | margin | certain block % | of it none % | by estimate % | planted found % | "
        "clustering % (found) | change point % (found) | |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in found:
        planted = not math.isnan(one.margin)
        cells = [
            one.variant,
            f"{one.rows:,}",
            one.scenario,
            f"{one.margin:.2f}" if planted else "",
            percent(one.certain),
            f"{100 * one.false:.1f}",
            percent(one.estimated),
            percent(one.found) if planted else "",
            f"{percent(one.clustering)}{f' ({percent(one.clustering_found)})' if planted else ''}",
            f"{percent(one.changepoint)}{f' ({percent(one.changepoint_found)})' if planted else ''}",
            "" if one.passed else "outside the limits",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Rates of blocks on simulated stacks.")
    parser.add_argument("--stacks", type=int, default=100, help="stacks drawn per scenario")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--rows", type=int, nargs="+")
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--variants", nargs="+", choices=ROWS, default=tuple(ROWS))
    parser.add_argument("--scenarios", nargs="+", choices=[one.name for one in SCENARIOS])
    parser.add_argument("--json", type=Path, help="write the rates to this file too")
    chosen = vars(parser.parse_args(arguments))
    target = chosen.pop("json")
    found = run(**chosen)
    print(table(found))
    covered = float(np.mean([one.covered for one in found]))
    print(f"\n{chosen['stacks']} stacks a line; intervals of the best run cover {100 * covered:.1f} %.")
    if target is not None:
        target.write_text(json.dumps([asdict(one) for one in found], indent=1) + "\n", encoding="utf-8")
    return 0 if all(one.passed for one in found) else 1


if __name__ == "__main__":
    raise SystemExit(main())
