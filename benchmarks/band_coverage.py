"""Do simultaneous bands hold all points of a curve as often as they promise?

Points are layers whose answers are drawn from a law with known scores. What makes an example hard is shared
by all layers; the rest is more alike the nearer two layers are. With several seeds, each seed moves the score
of every layer: nearby layers alike where one tuned model is cut in many places (`paired`), each on its own
where the points were trained apart (`apart`). Of two points, with 2, 3 and 5 seeds, seeds weigh more than the
examples, as much, or nothing, and one of the two may have a single seed (`one against several`). Run it as

    OMP_NUM_THREADS=1 python benchmarks/band_coverage.py --datasets 500

It prints a table in Markdown: how often the band holds all points, how often an interval holds its own, and
how wide both are, for scores and, of 2 and of 12 points, for differences from the last. It returns 1 where a
promised 95 % covers less than 92 %; with 500 data sets the Monte Carlo error of a coverage is 1 %.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from types import MappingProxyType

import numpy as np
from numpy.typing import NDArray

from microtome.inference.answers import Answers
from microtome.inference.bands import Bands, difference_bands, score_bands
from microtome.randomness import generator

Array = NDArray[np.float64]

FLOOR = 0.92
SHARED = 0.5  # share of an error that all layers have in common; nearby ones have what is not their own
OWN = 0.2  # share of an error that each seed of each layer has for itself
ALIKE = 0.9  # correlation of neighboring layers in what only nearby ones share
POSITIVE = 0.3  # share of the second class
SEED_SD = 0.1  # of what a seed adds to a layer: about 2 points of accuracy
DIFFERENCES = (2, 12)  # how many points are also compared with the last
# What a seed adds to a layer, and the share of an error that is its own, by what weighs most.
WEIGHTS: Mapping[str, tuple[float, float]] = MappingProxyType(
    {"seeds": (0.3, OWN), "both": (0.03, OWN), "answers of a seed": (0.0, OWN), "examples": (0.0, 0.01)}
)
SCORES = ("accuracy", "mcc", "pearson")
LABELS = ("no", "yes")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One row of the table: what was drawn."""

    score: str
    n: int
    points: int
    seeds: int
    paired: bool = True
    lone: bool = False  # whether what is subtracted has one seed
    weight: str = ""  # what weighs most; a key of WEIGHTS

    @property
    def seed_sd(self) -> float:
        return WEIGHTS[self.weight][0] if self.weight else SEED_SD

    @property
    def own(self) -> float:
        return WEIGHTS[self.weight][1] if self.weight else OWN


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """How often and how tightly the truth was held."""

    cell: Cell
    what: str  # score or difference
    together: float
    alone: float
    band: float  # mean width
    interval: float

    @property
    def kept(self) -> bool:
        return min(self.together, self.alone) >= FLOOR


def cells() -> list[Cell]:
    """Everything that is drawn."""
    every = [
        Cell(score=score, n=n, points=points, seeds=seeds)
        for score in SCORES
        for n in (200, 1000)
        for points in (6, 12, 78)
        for seeds in (1, 3)
    ]
    two = [
        Cell(score="accuracy", n=1000, points=2, seeds=seeds, paired=paired, lone=lone, weight=weight)
        for weight in WEIGHTS
        for paired, lone in ((True, False), (False, False), (False, True))
        for seeds in (2, 3, 5)
    ]
    seeds_alone = [
        Cell(score="accuracy", n=1000, points=12, seeds=seeds, paired=paired, weight="seeds")
        for paired in (True, False)
        for seeds in (2, 3, 5)
    ]
    return [
        *every,
        Cell(score="accuracy", n=1000, points=12, seeds=3, paired=False),
        *seeds_alone,
        *two,
    ]


def levels(cell: Cell) -> Array:
    """What each layer is able to do, on the scale of the law, growing with depth; two are equal."""
    if cell.points == 2:
        return np.full(2, 0.8)  # so that one with a single seed can take the spread of the other
    first, last = {"accuracy": (0.2, 1.4), "mcc": (0.5, 1.5), "pearson": (0.2, 1.2)}[cell.score]
    return np.linspace(first, last, cell.points)


def score_of(cell: Cell, level: Array) -> Array:
    """The score of a layer of this level, on all examples there could be."""
    from scipy.special import ndtr

    if cell.score == "pearson":
        return np.tanh(level)
    right = ndtr(level)
    if cell.score == "accuracy":
        return right
    said = POSITIVE * right + (1 - POSITIVE) * (1 - right)
    both = POSITIVE * right
    return (both - POSITIVE * said) / np.sqrt(POSITIVE * (1 - POSITIVE) * said * (1 - said))


def truth(cell: Cell) -> Array:
    """The mean score over all examples and, where there are several, over all seeds."""
    if cell.seeds == 1:
        return score_of(cell, levels(cell))
    nodes, weights = np.polynomial.hermite_e.hermegauss(31)
    each = score_of(cell, levels(cell)[:, None] + cell.seed_sd * nodes)
    return each @ weights / weights.sum()


def neighborly(rng: np.random.Generator, points: int, *others: int) -> Array:
    """Normal numbers of shape (points, ...), alike for neighboring points."""
    drawn = rng.standard_normal((points, *others))
    for k in range(1, points):
        drawn[k] = ALIKE * drawn[k - 1] + math.sqrt(1 - ALIKE**2) * drawn[k]
    return drawn


def draw(cell: Cell, rng: np.random.Generator) -> list[Answers]:
    """Answers at each point."""
    points, seeds, n = cell.points, cell.seeds, cell.n
    moved = np.zeros((points, seeds))
    if seeds > 1:
        moved = neighborly(rng, points, seeds) if cell.paired else rng.standard_normal((points, seeds))
    level = (levels(cell)[:, None] + cell.seed_sd * moved)[:, :, None]
    error = math.sqrt(SHARED) * rng.standard_normal(n)
    error = error + math.sqrt(1 - SHARED - cell.own) * neighborly(rng, points, 1, n)
    error = error + math.sqrt(cell.own) * rng.standard_normal((points, seeds, n))
    if cell.score == "pearson":
        targets = rng.standard_normal(n)
        r = np.tanh(level)
        said = r * targets + np.sqrt(1 - r**2) * error
    else:
        targets = (rng.random(n) < POSITIVE).astype(np.int64)
        said = np.where(error < level, targets, 1 - targets)
    ids = [str(i) for i in range(n)]
    names = list(range(seeds))
    return [Answers(ids=ids, targets=targets, predictions=list(each), seeds=names) for each in said]


def simulate(cell: Cell, *, datasets: int, seed: int) -> list[Row]:
    """Count how often scores, and differences from the last point, are held."""
    true = truth(cell)
    labels = () if cell.score == "pearson" else LABELS
    found: dict[str, list[tuple[bool, float, float, float]]] = {"score": []}
    for number in range(datasets):
        answers = draw(cell, generator(seed, "bands", str(cell), number))
        told = {"labels": labels, "pair_seeds": cell.paired}
        held(found["score"], score_bands(cell.score, answers, **told), true)
        if cell.points in DIFFERENCES:
            last = answers[-1]
            if cell.lone:
                last = replace(last, predictions=last.predictions[:1], seeds=last.seeds[:1])
            other = difference_bands(cell.score, answers[:-1], last, **told)
            held(found.setdefault("difference", []), other, true[:-1] - true[-1])
    return [
        Row(cell=cell, what=what, together=a, alone=b, band=c, interval=d)
        for what, seen in found.items()
        for a, b, c, d in [np.mean(seen, axis=0).tolist()]
    ]


def held(seen: list[tuple[bool, float, float, float]], bands: Bands, true: Array) -> None:
    alone = (bands.low <= true) & (true <= bands.high)
    together = (bands.band_low <= true) & (true <= bands.band_high)
    width, interval = (bands.band_high - bands.band_low).mean(), (bands.high - bands.low).mean()
    seen.append((bool(together.all()), float(alone.mean()), float(width), float(interval)))


def line(row: Row) -> str:
    cell = row.cell
    kind = "against one" if cell.lone else "paired" if cell.paired else "apart"
    seeds = "1" if cell.seeds == 1 else f"{cell.seeds} {kind}"
    seeds += f", {cell.weight} weigh most" if cell.weight and cell.weight != "both" else ""
    mark = "" if row.kept else " **!**"
    return (
        f"| {cell.score} | {row.what} | {cell.n} | {cell.points} | {seeds} | {100 * row.together:.1f}{mark} "
        f"| {100 * row.alone:.1f} | {row.band:.3f} | {row.interval:.3f} |"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Coverage of simultaneous bands, by simulation.")
    parser.add_argument("--datasets", type=int, default=500, help="data sets a cell")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--points", default="", help="such as 6,12")
    parser.add_argument("--scores", default="", help="such as mcc")
    parser.add_argument("--seeds", default="", help="such as 2,3")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args(arguments)
    wanted = [
        cell
        for cell in cells()
        if (not chosen.points or str(cell.points) in chosen.points.split(","))
        and (not chosen.scores or cell.score in chosen.scores.split(","))
        and (not chosen.seeds or str(cell.seeds) in chosen.seeds.split(","))
    ]
    if chosen.datasets < 2 or not wanted:
        parser.error("--datasets must be at least 2, and what is named must be drawn.")
    work = partial(simulate, datasets=chosen.datasets, seed=chosen.seed)
    began = time.perf_counter()
    print("| score | what | n | points | seeds | all at once % | one alone % | band | interval |")
    print("|---|---|---|---|---|---|---|---|---|")
    rows: list[Row] = []
    with ProcessPoolExecutor(chosen.processes, mp_context=get_context("spawn")) as pool:
        for table in map(work, wanted) if chosen.processes == 1 else pool.map(work, wanted):
            rows += table
            print("\n".join(map(line, table)), flush=True)
    failed = [row for row in rows if not row.kept]
    verdict = (
        f"{len(failed)} of {len(rows)} below {100 * FLOOR:g} %." if failed else "All promises were kept."
    )
    print(f"\n{verdict} {chosen.datasets} data sets a row, {time.perf_counter() - began:.0f} s.")
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
