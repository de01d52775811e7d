"""How often does the block rule fire on stacks without a block, and on stacks with one?

Layers are Markov chains: from one layer to the next, CKA falls by the factor 1 - e. In the nulls the steps e
are equal, uneven, or change smoothly with depth; in the alternatives one step is larger (`jump`), or the
layers of each side share a component (`block`). Run it as

    OMP_NUM_THREADS=1 python benchmarks/blocks_simulation.py --stacks 100 --processes 8

It prints a table and returns 1 when a smooth null fires more often than 5 % (plus three Monte Carlo errors),
or a strong alternative less often than 90 %.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

import microtome as mt
from microtome.findings.blocks import BlockFinding
from microtome.randomness import generator

Array = NDArray[np.float64]

STEP = 0.05
GROUPS = 10
CORRELATION = 0.5  # of the rows of one sentence
LENGTHS = (2, 22)  # rows of a sentence: shortest and longest
VARIANTS = ("rows", "sentences")


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A way to draw stacks: the steps between layers, and what is laid over the chain."""

    name: str
    steps: Callable[[np.random.Generator, int, int], Array]  # (rng, layers, border) -> [layers - 1]
    shared: float = 0.0  # share of the component that the layers of a side have in common
    flattening: bool = False
    limit: float | None = None  # largest rate allowed (nulls), before Monte Carlo error
    floor: float | None = None  # smallest rate allowed (alternatives)
    planted: bool = False


def equal(rng: np.random.Generator, layers: int, border: int) -> Array:
    return np.full(layers - 1, STEP)


def lognormal(rng: np.random.Generator, layers: int, border: int, *, sd: float) -> Array:
    return STEP * np.exp(sd * rng.standard_normal(layers - 1))


def trend(rng: np.random.Generator, layers: int, border: int, *, ratio: float) -> Array:
    steps = np.geomspace(1, ratio, layers - 1)
    return STEP * (steps if rng.random() < 0.5 else steps[::-1]) / steps.mean()


def hump(rng: np.random.Generator, layers: int, border: int, *, ratio: float) -> Array:
    steps = 1 + (ratio - 1) * np.sin(np.linspace(0, np.pi, layers - 1)) ** 2
    return STEP * steps / steps.mean()


def jump(rng: np.random.Generator, layers: int, border: int, *, size: float) -> Array:
    return np.where(np.arange(layers - 1) == border - 1, size, STEP)


SCENARIOS = (
    Scenario(name="equal", steps=equal, limit=0.05),
    Scenario(name="lognormal .3", steps=partial(lognormal, sd=0.3), limit=0.05),
    Scenario(name="lognormal .6", steps=partial(lognormal, sd=0.6)),
    Scenario(name="trend 3", steps=partial(trend, ratio=3), limit=0.05),
    Scenario(name="trend 10", steps=partial(trend, ratio=10), limit=0.05),
    Scenario(name="hump 2", steps=partial(hump, ratio=2), limit=0.05),
    Scenario(name="hump 4", steps=partial(hump, ratio=4), limit=0.05),
    Scenario(name="flattening", steps=equal, flattening=True, limit=0.05),
    Scenario(name="jump .15", steps=partial(jump, size=0.15), planted=True),
    Scenario(name="jump .3", steps=partial(jump, size=0.3), planted=True, floor=0.9),
    Scenario(name="jump .5", steps=partial(jump, size=0.5), planted=True, floor=0.9),
    Scenario(name="block .15", steps=equal, shared=0.15, planted=True),
    Scenario(name="block .3", steps=equal, shared=0.3, planted=True, floor=0.9),
    Scenario(name="block .5", steps=equal, shared=0.5, planted=True, floor=0.9),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What one scenario gave."""

    variant: str
    scenario: str
    stacks: int
    fired: float  # share of stacks on which a step stands out
    two_blocks: float  # share that is called two blocks
    error: float  # Monte Carlo error of `fired`
    near: float  # share whose border is within one layer of the planted one (NaN for nulls)
    agree: float  # share whose halves choose the same border
    contrast: float  # median contrast, in adjacent gaps
    passed: bool


def draw_stack(
    scenario: Scenario, rng: np.random.Generator, *, layers: int, features: int, clusters: NDArray[np.intp]
) -> tuple[Array, int]:
    """
    Draw one stack and the number of layers below its planted border.

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
    border : int
    """
    rows, sentences = len(clusters), int(clusters.max()) + 1
    alone = sentences == rows

    def noise() -> Array:
        fresh = rng.standard_normal((rows, features))
        if alone:
            return fresh
        common = rng.standard_normal((sentences, features))[clusters]
        return math.sqrt(CORRELATION) * common + math.sqrt(1 - CORRELATION) * fresh

    border = int(rng.integers(3, layers - 2))
    stack = np.empty((layers, rows, features))
    stack[0] = noise()
    for layer, step in enumerate(np.clip(scenario.steps(rng, layers, border), 0, 0.9), start=1):
        stack[layer] = math.sqrt(1 - step) * stack[layer - 1] + math.sqrt(step) * noise()
    if scenario.shared:
        own, both = math.sqrt(1 - scenario.shared), math.sqrt(scenario.shared)
        stack[:border] = own * stack[:border] + both * noise()
        stack[border:] = own * stack[border:] + both * noise()
    if scenario.flattening:
        # A power-law spectrum whose exponent falls to nothing with depth.
        exponent = np.linspace(0.5, 0, layers)[:, None, None]
        stack *= np.arange(1, features + 1) ** -exponent
    return stack, border


def judge(stack: Array, clusters: NDArray[np.intp], seed: int) -> BlockFinding:
    """Ask the package, as a user would."""
    ids = None if len(np.unique(clusters)) == len(clusters) else clusters
    return mt.find_blocks(list(stack), clusters=ids, seed=seed, groups=GROUPS, threads=1)


def draw_clusters(variant: str, rows: int, rng: np.random.Generator) -> NDArray[np.intp]:
    """Give each row its own cluster, or draw sentences of unequal length until there are enough rows."""
    if variant == "rows":
        return np.arange(rows)
    lengths = rng.integers(LENGTHS[0], LENGTHS[1] + 1, size=rows)
    count = int(np.searchsorted(np.cumsum(lengths), rows)) + 1
    return np.repeat(np.arange(count), lengths[:count])


def simulate(
    job: tuple[str, int, int], *, seed: int, layers: int, rows: int, sentence_rows: int, features: int
) -> tuple[str, int, BlockFinding]:
    """Draw and judge one stack: a job is the variant, the scenario's place, and the stack's number."""
    variant, place, number = job
    scenario = SCENARIOS[place]
    rng = generator(seed, "blocks", variant, scenario.name, number)
    clusters = draw_clusters(variant, rows if variant == "rows" else sentence_rows, rng)
    stack, border = draw_stack(scenario, rng, layers=layers, features=features, clusters=clusters)
    return scenario.name, border, judge(stack, clusters, number)


def summarize(variant: str, scenario: Scenario, outcomes: Sequence[tuple[str, int, BlockFinding]]) -> Row:
    """Turn the findings of one scenario into rates."""
    count = len(outcomes)
    findings = [finding for _, _, finding in outcomes]
    fired = sum(finding.verdict in ("step", "two blocks") for finding in findings) / count
    # `border` is the index of the last layer below, so the number of layers below is one more.
    hits = [abs((found.border or 0) + 1 - border) <= 1 for _, border, found in outcomes]
    too_often = scenario.limit is not None and fired > scenario.limit + 3 * math.sqrt(
        scenario.limit * (1 - scenario.limit) / count
    )
    too_rarely = scenario.floor is not None and fired < scenario.floor
    return Row(
        variant=variant,
        scenario=scenario.name,
        stacks=count,
        fired=fired,
        two_blocks=sum(finding.verdict == "two blocks" for finding in findings) / count,
        error=math.sqrt(fired * (1 - fired) / count),
        near=sum(hits) / count if scenario.planted else float("nan"),
        agree=sum(finding.agree for finding in findings) / count,
        contrast=float(np.median([finding.contrast for finding in findings])),
        passed=not (too_often or too_rarely),
    )


def run(
    *,
    stacks: int = 100,
    processes: int = 1,
    seed: int = 0,
    layers: int = 13,
    rows: int = 400,
    sentence_rows: int = 1200,
    features: int = 32,
    variants: Sequence[str] = VARIANTS,
    scenarios: Iterable[str] | None = None,
) -> list[Row]:
    """
    Simulate every scenario of every variant.

    Parameters
    ----------
    stacks : int
        Stacks drawn a scenario.
    processes : int
        Worker processes; 1 works in this one. The numbers do not depend on it.
    seed : int
    layers, rows, features : int
        Size of a stack in the variant with independent rows.
    sentence_rows : int
        Rows, about, in the variant with rows in sentences.
    variants : sequence of {"rows", "sentences"}
    scenarios : iterable of str, optional
        Names of the scenarios; all without it.
    """
    wanted = set(scenarios) if scenarios is not None else {scenario.name for scenario in SCENARIOS}
    places = [place for place, scenario in enumerate(SCENARIOS) if scenario.name in wanted]
    jobs = list(itertools.product(variants, places, range(stacks)))
    work = partial(
        simulate, seed=seed, layers=layers, rows=rows, sentence_rows=sentence_rows, features=features
    )
    if processes == 1:
        outcomes = [work(job) for job in jobs]
    else:
        with ProcessPoolExecutor(processes) as pool:
            outcomes = list(pool.map(work, jobs, chunksize=max(1, len(jobs) // (8 * processes))))
    table = itertools.product(variants, places)
    return [
        summarize(variant, SCENARIOS[place], outcomes[start : start + stacks])
        for start, (variant, place) in zip(range(0, len(jobs), stacks), table, strict=True)
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Rates of the block rule on simulated stacks.")
    parser.add_argument("--stacks", type=int, default=100, help="stacks drawn a scenario")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--layers", type=int, default=13)
    parser.add_argument("--rows", type=int, default=400, help="rows of the variant with independent rows")
    parser.add_argument("--sentence-rows", type=int, default=1200, help="rows of the variant with sentences")
    parser.add_argument("--features", type=int, default=32)
    parser.add_argument("--variants", nargs="+", choices=VARIANTS, default=VARIANTS)
    chosen = vars(parser.parse_args(arguments))
    rows = run(**chosen)
    print(
        "| variant | scenario | fires % | two blocks % | border +-1 % | halves agree % | median contrast | |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for row in rows:
        near = "" if math.isnan(row.near) else f"{100 * row.near:.0f}"
        print(
            f"| {row.variant} | {row.scenario} | {100 * row.fired:.0f} ± {100 * row.error:.0f} "
            f"| {100 * row.two_blocks:.0f} | {near} | {100 * row.agree:.0f} | {row.contrast:.2f} "
            f"| {'' if row.passed else 'outside the limits'} |"
        )
    print(f"\n{chosen['stacks']} stacks a row; ± is one Monte Carlo error.")
    return 0 if all(row.passed for row in rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
