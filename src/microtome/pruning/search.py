"""Search for the cuts that cost least on the examples that choose, within a time that is told beforehand.

Where candidates are few they are scored on all examples. Otherwise all are scored on a small sample, and so
is what is left when one block more is taken out of the cheapest of each size (a beam). The cheaper half of
each size goes on to a sample twice as large, and so on (successive halving), until the last few are scored on
all examples. Only those can be certified. The examples that certify are never read here.

References
----------
Jamieson and Talwalkar (2016), Non-stochastic best arm identification and hyperparameter optimization,
AISTATS.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..context import SILENT
from ..errors import InputError
from ..findings.words import listed
from ..randomness import generator
from ..tasks.task import Item, Split
from ..training.cut_store import run_cuts
from ..training.cuts import Cut, every_truncation
from .candidates import ALL_SUBSETS, first_candidates, more_candidates

if TYPE_CHECKING:
    from .procedure import Procedure

# Examples of the first sample, which doubles from stage to stage.
FIRST = 128
# Cuts of a size out of which one block more is taken.
BEAM = 2
# Cuts of a size that always go on.
LEAST = 2
# Sizes in a row beyond the margin that end the search among smaller models.
MISSES = 2
# Standard errors by which the cheapest cut of a size must lie beyond the margin for the size to be given up.
CLEARLY = 2.0
# Passes of one example through the whole model after which answers are put into the store.
PIECE = {"cpu": 2_048, "cuda": 131_072}
# Examples on which the time of a pass is measured.
TIMED = {"cpu": 32, "cuda": 1_024}


@dataclass(frozen=True, slots=True, kw_only=True)
class Stage:
    """
    One sample of a search.

    Parameters
    ----------
    examples : int
        Those of earlier samples among them.
    cuts : int
        That were scored on all of these.
    """

    examples: int
    cuts: int


def count_passes(cuts: Sequence[Cut], depth: int) -> float:
    """
    Count the passes of one example that many cuts need together, each common prefix run once.

    Parameters
    ----------
    cuts : sequence of tuple of int
    depth : int
        The whole model always runs.

    Returns
    -------
    float
        In passes through the whole model.

    Examples
    --------
    >>> count_passes([(1,), (1, 2), (2,)], 2)
    1.5
    """
    prefixes = {cut[:size] for cut in (*cuts, tuple(range(1, depth + 1))) for size in range(1, len(cut) + 1)}
    return len(prefixes) / depth


def growing_samples(split: Split, seed: int) -> list[Split]:
    """
    Divide examples by chance into a first sample and what each later one adds, groups kept together.

    Parameters
    ----------
    split : Split
    seed : int

    Returns
    -------
    list of Split
        One where there are too few examples for a sample to save much.
    """
    ends = [FIRST << k for k in range(32) if FIRST << k <= len(split) / 2]
    groups = split.groups
    order = generator(seed, "prune", "samples").permutation(int(groups.max()) + 1)
    sizes = np.bincount(groups)[order]
    stages = np.empty(len(order), dtype=np.int64)
    stages[order] = np.searchsorted(ends, np.cumsum(sizes) - sizes, side="right")
    places = [np.flatnonzero(stages[groups] == number) for number in range(len(ends) + 1)]
    parts = [tuple(split.items[place] for place in part) for part in places]
    return [replace(split, items=part) for part in parts if part]


def _half(count: int) -> int:
    """How many cuts of a size go on."""
    return max(LEAST, -(-count // 2))


class Search:
    """
    A search for cuts on the examples that choose.

    Parameters
    ----------
    procedure : Procedure
    """

    def __init__(self, procedure: Procedure) -> None:
        self.procedure, model = procedure, procedure.model
        self.depth, self.full = model.depth, procedure.full
        self.candidates, self.description = first_candidates(model.task_model)
        if not self.candidates:
            raise InputError(f"{model.name} must have blocks that can be cut, but its family allows no cut.")
        few = self.depth <= ALL_SUBSETS or model.task_model.family.shared or procedure.options.exhaustive
        split = procedure.examples.choose
        self.samples = [split] if few else growing_samples(split, procedure.options.seed)
        self.beam = 1 if len(self.samples) == 1 else BEAM
        # Where all subsets are scored there are no more.
        self._extends = self.depth > ALL_SUBSETS and not model.task_model.family.shared
        # Of the examples that were read so far.
        self.items: list[Item] = []
        self.answers: dict[Cut, list[Any]] = {}
        # Of the cuts that are scored on all of them.
        self.costs: dict[Cut, float] = {}
        # For every cut the examples that it was scored on, and its cost on these.
        self.scored: dict[Cut, tuple[int, float]] = {}
        self.stages: list[Stage] = []
        self.done = self.expected = 0.0

    def run(self) -> dict[Cut, float]:
        """Score the candidates, sample after sample; return the costs of those scored on all examples."""
        cuts = self.candidates
        for number, sample in enumerate(self.samples):
            if number:
                cuts = self._cheaper_half()
                self.costs = {}
            self.expected = self.done + self._expect(number, cuts)
            self.items += sample.items
            self._score(sample, [self.full, *cuts])
            if number == 0 and self._extends:
                self._extend(sample)
            self.stages.append(Stage(examples=len(self.items), cuts=len(self.costs)))
        return self.costs

    def seconds(self) -> float:
        """How long the search takes, from the time of a few examples, where the store has nothing yet."""
        model, sample = self.procedure.model, self.samples[0]
        sample = replace(sample, items=sample.items[: TIMED[model.device]])
        # About as many answers for each pass as the search has.
        cuts = list(every_truncation(self.depth).values())
        start = 0.0
        for _ in range(2):  # the first run of a model takes longer
            start = time.perf_counter()
            run_cuts(model, self.procedure.task, sample, cuts, SILENT)
        return (time.perf_counter() - start) / len(sample) * self._expect(0, self.candidates)

    def _expect(self, number: int, cuts: Sequence[Cut]) -> float:
        """Passes from a stage on, if half of the sizes stay within the margin."""
        passes = 0.0
        sizes = range(1, self.depth // 2 + 1)
        for stage, sample in enumerate(self.samples[number:], number):
            if stage > number:
                of_size = ([cut for cut in cuts if len(cut) == self.depth - size] for size in sizes)
                cuts = [cut for part in of_size for cut in part[: _half(len(part))]]
            passes += len(sample) * count_passes(cuts, self.depth)
            if stage == 0 and self._extends:
                # The whole model runs, and without one block more of a cut half of it, for each block.
                left = [self.depth - size for size in sizes]
                passes += len(sample) * sum(1 + self.beam * size**2 / (2 * self.depth) for size in left)
        return passes

    @property
    def tried(self) -> str:
        """Which cuts were scored, in words."""
        tried, more = self.description, len(self.scored) - len(self.candidates)
        if more > 0:
            tried += f", and {more:,} with one block more taken out of the cheapest"
        counts = [f"{stage.cuts:,} on {stage.examples:,}" for stage in self.stages]
        if counts[1:]:
            tried += f"; {counts[0]} examples, and of these the cheapest {listed(counts[1:])}"
        return tried

    def _score(self, sample: Split, cuts: Sequence[Cut]) -> None:
        """Read what cuts answer to a sample, and score them on all examples that were read."""
        for cut, answers in self._read(sample, cuts).items():
            self.answers[cut] = [*self.answers.get(cut, ()), *answers]
        for cut in cuts:
            if cut != self.full:
                self.costs[cut] = self.procedure.cost(self.items, self.answers[self.full], self.answers[cut])
                self.scored[cut] = len(self.items), self.costs[cut]

    def _read(self, sample: Split, cuts: Sequence[Cut]) -> dict[Cut, list[Any]]:
        """What cuts answer, in pieces that the store keeps: an interruption loses one at most."""
        passes = count_passes(cuts, self.depth)
        size = max(1, int(PIECE[self.procedure.model.device] / passes))
        answers: dict[Cut, list[Any]] = {cut: [] for cut in cuts}
        for start in range(0, len(sample), size):
            piece = replace(sample, items=sample.items[start : start + size])
            context = self.procedure.context.reporting(partial(self._report, passes * len(piece)))
            for cut, found in replace(self.procedure, context=context).answers(piece, cuts).items():
                answers[cut] += found
            self.done += passes * len(piece)
        return answers

    def _report(self, passes: float, _: str, done: int, total: int) -> None:
        now = self.done + passes * done / total
        label = f"{self.procedure.task.name}: passes to score cuts"
        self.procedure.context.report(label, round(now), round(max(now, self.expected)))

    def _extend(self, sample: Split) -> None:
        """From each size on, take one block more out of the cheapest: cuts that no span or top cut is."""
        beyond = 0
        for removed in range(1, self.depth - 1):
            beyond = beyond + 1 if self._hopeless(removed) else 0
            if beyond == MISSES:
                break
            best = self._ranked(removed)[: self.beam]
            if more := more_candidates(self.procedure.model.task_model, best, self.costs):
                self._score(sample, more)

    def _cheaper_half(self) -> list[Cut]:
        """The cheaper half of each size that may still lie within the margin, and the cheapest of all."""
        cuts = [min(self.costs, key=self.costs.__getitem__)]
        for removed in range(1, self.depth):
            # A cut that is fine-tuned afterwards may come back from any loss.
            if self.procedure.options.recover or not self._hopeless(removed):
                ranked = self._ranked(removed)
                cuts += ranked[: _half(len(ranked))]
        return list(dict.fromkeys(cuts))

    def _ranked(self, removed: int) -> list[Cut]:
        size = self.depth - removed
        return sorted((cut for cut in self.costs if len(cut) == size), key=self.costs.__getitem__)

    def _hopeless(self, removed: int) -> bool:
        """Whether the cheapest cut of a size lies beyond the margin, and not by the chance of a sample."""
        cheapest = next(iter(self._ranked(removed)), None)
        if cheapest is None or math.isinf(self.costs[cheapest]):
            return True
        room = self.procedure.options.max_drop
        if len(self.samples) > 1 and self.costs[cheapest] > room:
            full, cut = self.answers[self.full], self.answers[cheapest]
            room += CLEARLY * self.procedure.judged(self.items, full, cut, limit=False).se
        return self.costs[cheapest] > room
