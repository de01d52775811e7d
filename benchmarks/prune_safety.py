"""How often does prune call a cut safe that is not? The whole procedure on synthetic answers.

Many cuts of a model answer the same examples; what each loses in truth is known. Half of the examples choose
a sequence with `fix_sequence`, the others certify it with `run_sequence` and `judge_drop`, as `prune` does.
Counted are runs whose certified cut loses the margin or more in truth (false "safe"), runs that certify a cut
that is safe (power), and what two habits do with all examples at once: to take the largest cut whose observed
loss is within the margin (by eye), and to test the best cut of each size on the examples that chose it.

    OMP_NUM_THREADS=1 python benchmarks/prune_safety.py --runs 1000 --json prune_safety.json

Cuts are of 11 sizes, as many of each. "at the margin": every cut loses exactly the margin, where a test is
wrong most often. "beyond": one and a half times the margin. "mixed": sizes 1 to 3 hold one cut that loses
nothing, all others lose the margin. "growing": the best cut of r blocks loses (r / 6)^2 margins, all others
0.7 more. "rare": at the margin, by answers that fail wholly on few examples. The script returns 1 where the
rate of false "safe" is above the level by more than three Monte Carlo errors.

    OMP_NUM_THREADS=1 python benchmarks/prune_safety.py --tries 5 --runs 2000 --examples 500 --cuts 66

With --tries the user does not give up: until a cut is called safe, the same examples are looked at again, so
many times at most. "other halves": the examples are split anew and the margin stays; every cut loses it.
"wider margin": the halves stay and the margin grows by a quarter each time; a cut of r blocks loses exactly
the margin of try r. "margin by the bound": the next margin is what the last test could not rule out. Counted
are users who are told "safe" falsely, with the level of each look corrected (`look_level`) and with the full
level at each.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from microtome.inference.answers import Answers
from microtome.inference.scoring import wilson
from microtome.pruning.certifying import Candidate, certified, fix_sequence, run_sequence
from microtome.pruning.looks import look_level
from microtome.pruning.margin import Drop, judge_drop
from microtome.randomness import generator

Array = NDArray[np.float64]

LEVEL, SIZES = 0.95, 11
RIGHT, GAINED = 0.9, 0.02  # of the full model; of its wrong answers that a cut gets right, as a share of all
FOLLOWS = 0.85  # correlation of the full model's numbers with the truth
# Margins in points that the number of examples can decide at all.
MARGINS = {"accuracy": {100: 10.0, 500: 3.0, 2000: 1.0}, "pearson": {100: 10.0, 500: 3.0, 2000: 1.0}}
TRUTHS = {
    "accuracy": ("at the margin", "beyond", "mixed", "growing"),
    "pearson": ("at the margin", "beyond", "mixed", "growing", "rare"),
}

HABITS = ("other halves", "wider margin", "margin by the bound")


@dataclass(frozen=True, slots=True, kw_only=True)
class Cell:
    """One row of the table."""

    score: str
    truth: str
    n: int
    cuts: int
    margin: float
    runs: int
    false: int
    power: float | None
    removed: float
    naive_runs: int
    eye: int
    tested: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.false / self.runs


@dataclass(frozen=True, slots=True, kw_only=True)
class Tries:
    """One row of the table of users who try again."""

    score: str
    habit: str
    n: int
    cuts: int
    tries: int
    runs: int
    false: int
    uncorrected: int
    safe: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.false / self.runs


def true_drops(truth: str, cuts: int, margin: float) -> tuple[NDArray[np.int64], Array]:
    """Removed blocks and true loss, in points, of each cut."""
    removed = 1 + np.arange(cuts) % SIZES
    drops = np.full(cuts, margin * (1.5 if truth == "beyond" else 1.0))
    if truth == "mixed":
        drops[:3] = 0.0
    if truth == "growing":
        drops = margin * ((removed / 6) ** 2 + 0.7)
        drops[:SIZES] = margin * (removed[:SIZES] / 6) ** 2
    return removed, drops


def draw(
    score: str, truth: str, drops: Array, n: int, rng: np.random.Generator
) -> tuple[Array, Array, Array]:
    """
    Draw answers whose scores lose exactly so much in the mean.

    Returns
    -------
    targets, full : ndarray of shape (n,)
    cut : ndarray of shape (cuts, n)
        Of every second cut the failures are those of the others: cuts of one model fail alike.
    """
    cuts = len(drops)
    if score == "accuracy":
        full = rng.random(n) < RIGHT
        draws = rng.random((cuts, n), dtype=np.float32)
        draws[::2] = draws[0]
        lost = ((drops / 100 + GAINED) / RIGHT).astype(np.float32)[:, None]
        gained = np.float32(GAINED / (1 - RIGHT))
        right = np.where(full, draws >= lost, draws < gained)
        return np.ones(n), full.astype(np.float64), right
    targets = rng.standard_normal(n)
    full = FOLLOWS * targets + math.sqrt(1 - FOLLOWS**2) * rng.standard_normal(n)
    noise = rng.standard_normal((cuts, n), dtype=np.float32)
    noise[::2] = noise[0]
    if truth == "rare":
        share = (drops / 100 / FOLLOWS)[:, None]
        return targets, full, np.where(rng.random((cuts, n), dtype=np.float32) < share, noise, full)
    spread = np.sqrt((FOLLOWS / (FOLLOWS - drops / 100)) ** 2 - 1)
    return targets, full, full + spread[:, None] * noise


def losses(score: str, targets: Array, full: Array, cut: Array) -> Array:
    """What each cut loses on these examples, in points."""
    if score == "accuracy":
        return 100 * (full.mean() - cut.mean(axis=1))
    t = targets - targets.mean()

    def follows(rows: Array) -> Array:
        centered = rows - rows.mean(axis=-1, keepdims=True)
        return centered @ t / (np.linalg.norm(centered, axis=-1) * np.linalg.norm(t))

    return 100 * (follows(full) - follows(cut))


def answers(score: str, targets: Array, predictions: Array) -> Answers:
    kind = np.int64 if score == "accuracy" else np.float64
    return Answers(
        ids=range(len(targets)),  # pyright: ignore[reportArgumentType] - any names will do
        targets=targets.astype(kind),
        predictions=[predictions.astype(kind)],
    )


def simulate(score: str, truth: str, n: int, cuts: int, margin: float, *, runs: int, seed: int = 0) -> Cell:
    """Run the procedure many times."""
    start = time.perf_counter()
    removed, drops = true_drops(truth, cuts, margin)
    false = safe = eye = tested = 0
    sizes = 0.0
    naive_runs = max(1, runs // 5)
    for run in range(runs):
        rng = generator(seed, "prune safety", score, truth, n, cuts, run)
        targets, full, cut = draw(score, truth, drops, n, rng)
        half = n // 2
        costs = losses(score, targets[:half], full[:half], cut[:, :half])

        def judge(what: int, since: int = half, drawn: tuple[Array, Array, Array] = (targets, full, cut)):
            t, f, c = drawn
            return judge_drop(
                score,
                answers(score, t[since:], f[since:]),
                answers(score, t[since:], c[what, since:]),
                ("wrong", "right") if score == "accuracy" else (),
                max_drop=margin,
                level=LEVEL,
                limit=False,
            )

        named = [Candidate(what=i, removed=int(removed[i]), cost=float(costs[i])) for i in range(len(costs))]
        found = certified(run_sequence(fix_sequence(named, margin), judge))
        if found is not None:
            wrong = drops[found.candidate.what] >= margin
            false, safe = false + int(wrong), safe + int(not wrong)
            sizes += 0 if wrong else found.candidate.removed
        if run < naive_runs:
            seen = losses(score, targets, full, cut)
            eye += _by_eye(seen, removed, drops, margin)
            tested += _tested(seen, removed, drops, margin, lambda what, judge=judge: judge(what, 0).safe)
    return Cell(
        score=score,
        truth=truth,
        n=n,
        cuts=cuts,
        margin=margin,
        runs=runs,
        false=false,
        power=safe / runs if truth in ("mixed", "growing") else None,
        removed=sizes / max(1, safe),
        naive_runs=naive_runs,
        eye=eye,
        tested=tested,
        seconds=time.perf_counter() - start,
    )


def simulate_tries(
    score: str, habit: str, n: int, cuts: int, margin: float, *, tries: int, runs: int, seed: int = 0
) -> Tries:
    """Let many users look at the same examples until a cut is called safe."""
    start = time.perf_counter()
    false = safe = uncorrected = 0
    for run in range(runs):
        rng = generator(seed, "prune tries", score, habit, n, cuts, run)
        removed, drops = true_drops("at the margin", cuts, margin)
        if habit == "wider margin":
            drops = margin * (1 + (removed - 1) / 4)
        drawn = draw(score, "at the margin", drops, n, rng)
        orders = [rng.permutation(n) if habit == "other halves" else np.arange(n) for _ in range(tries)]
        wrong = _try_again(score, habit, margin, removed, drops, drawn, orders, True)
        false, safe = false + (wrong is True), safe + (wrong is False)
        uncorrected += _try_again(score, habit, margin, removed, drops, drawn, orders, False) is True
    return Tries(
        score=score,
        habit=habit,
        n=n,
        cuts=cuts,
        tries=tries,
        runs=runs,
        false=false,
        uncorrected=uncorrected,
        safe=safe,
        seconds=time.perf_counter() - start,
    )


def _try_again(
    score: str,
    habit: str,
    margin: float,
    removed: NDArray[np.int64],
    drops: Array,
    drawn: tuple[Array, Array, Array],
    orders: Sequence[NDArray[np.int64]],
    corrected: bool,
) -> bool | None:
    """Look until a cut is called safe; whether that is false, None where none ever is."""
    half, number = len(orders[0]) // 2, 0
    for attempt, order in enumerate(orders):
        targets, full, cut = (part[..., order] for part in drawn)
        asked = margin * (1 + attempt / 4) if habit == "wider margin" else margin
        costs = losses(score, targets[:half], full[:half], cut[:, :half])
        named = [Candidate(what=i, removed=int(removed[i]), cost=float(costs[i])) for i in range(len(costs))]
        sequence = fix_sequence(named, asked)
        if not sequence:  # nothing is tested, and the examples that certify are not looked at
            continue
        number += 1

        def judge(
            what: int,
            asked: float = asked,
            level: float = look_level(LEVEL, number) if corrected else LEVEL,
            parts: tuple[Array, Array, Array] = (targets[half:], full[half:], cut[:, half:]),
        ) -> Drop:
            return judge_drop(
                score,
                answers(score, parts[0], parts[1]),
                answers(score, parts[0], parts[2][what]),
                ("wrong", "right") if score == "accuracy" else (),
                max_drop=asked,
                level=level,
                limit=habit == "margin by the bound",
            )

        steps = run_sequence(sequence, judge)
        found = certified(steps)
        if found is not None:
            return bool(drops[found.candidate.what] >= asked)
        if habit == "margin by the bound" and math.isfinite(steps[-1].found.upper):
            margin = steps[-1].found.upper
    return None


def _by_eye(seen: Array, removed: NDArray[np.int64], drops: Array, margin: float) -> int:
    """Whether the largest cut whose observed loss is within the margin loses it in truth."""
    within = np.flatnonzero(seen <= margin)
    if not len(within):
        return 0
    chosen = max(within, key=lambda i: (removed[i], -seen[i]))
    return int(drops[chosen] >= margin)


def _tested(seen: Array, removed: NDArray[np.int64], drops: Array, margin: float, safe: Any) -> int:
    """The same for the largest cut that passes a test on the examples that chose it."""
    for size in range(int(removed.max()), 0, -1):
        same = np.flatnonzero(removed == size)
        best = int(same[np.argmin(seen[same])])
        if seen[best] <= margin and safe(best):
            return int(drops[best] >= margin)
    return 0


def table(cells: Sequence[Cell]) -> str:
    """All cells as Markdown."""
    lines = [
        "| score | truth | examples | cuts | margin | false safe % [95 %] | power % | blocks "
        "| by eye: false safe % | tested on the choosing examples: false safe % |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for one in cells:
        low, high = wilson(one.rate, one.runs)
        power = "" if one.power is None else f"{100 * one.power:.0f}"
        blocks = "" if one.power is None else f"{one.removed:.1f}"
        lines.append(
            f"| {one.score} | {one.truth} | {one.n} | {one.cuts} | {one.margin:g} "
            f"| {100 * one.rate:.1f} [{100 * low:.1f}, {100 * high:.1f}] | {power} | {blocks} "
            f"| {100 * one.eye / one.naive_runs:.0f} | {100 * one.tested / one.naive_runs:.0f} |"
        )
    return "\n".join(lines)


def table_of_tries(cells: Sequence[Tries]) -> str:
    """All users who try again as Markdown."""
    lines = [
        "| score | habit | examples | cuts | looks at most | false safe % [95 %] | truly safe % "
        "| full level at each look: false safe % |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for one in cells:
        low, high = wilson(one.rate, one.runs)
        lines.append(
            f"| {one.score} | {one.habit} | {one.n} | {one.cuts} | {one.tries} "
            f"| {100 * one.rate:.1f} [{100 * low:.1f}, {100 * high:.1f}] | {100 * one.safe / one.runs:.0f} "
            f"| {100 * one.uncorrected / one.runs:.1f} |"
        )
    return "\n".join(lines)


def problems(cells: Sequence[Cell | Tries]) -> list[str]:
    """Cells whose rate of false "safe" is above the level by more than chance."""
    alpha = 1 - LEVEL
    return [
        f"{one.score}, {one.truth if isinstance(one, Cell) else one.habit}, {one.n} examples, {one.cuts} "
        f"cuts: {100 * one.rate:.1f} % false safe"
        for one in cells
        if one.rate > alpha + 3 * math.sqrt(alpha * (1 - alpha) / one.runs)
    ]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--examples", type=int, nargs="+", default=[100, 500, 2000])
    parser.add_argument("--cuts", type=int, nargs="+", default=[66, 500])
    parser.add_argument("--scores", nargs="+", choices=sorted(TRUTHS), default=["accuracy", "pearson"])
    parser.add_argument("--tries", type=int, default=1, help="looks at the same examples at most")
    parser.add_argument("--habits", nargs="+", choices=HABITS, default=list(HABITS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args(argv)
    cells: list[Cell | Tries] = []
    if asked.tries > 1:
        for score in asked.scores:
            for habit in asked.habits:
                for n in asked.examples:
                    for cuts in asked.cuts:
                        margin = MARGINS[score].get(n, 1.0)
                        how = {"tries": asked.tries, "runs": asked.runs, "seed": asked.seed}
                        cells.append(simulate_tries(score, habit, n, cuts, margin, **how))
        print(table_of_tries([one for one in cells if isinstance(one, Tries)]))
        return _finish(cells, asked.json)
    for score in asked.scores:
        for truth in TRUTHS[score]:
            for n in asked.examples:
                for cuts in asked.cuts:
                    # Large tables are drawn less often: they cost as many runs of small ones.
                    runs = max(20, asked.runs // (4 if n * cuts >= 250_000 else 1))
                    margin = MARGINS[score].get(n, 1.0)
                    cells.append(simulate(score, truth, n, cuts, margin, runs=runs, seed=asked.seed))
    print(table([one for one in cells if isinstance(one, Cell)]))
    return _finish(cells, asked.json)


def _finish(cells: Sequence[Cell | Tries], path: Path | None) -> int:
    print(f"\n{sum(one.seconds for one in cells):.0f} seconds.")
    if path is not None:
        path.write_text(json.dumps([asdict(one) for one in cells], indent=1))
    found = problems(cells)
    for sentence in found:
        print(f"PROBLEM {sentence}")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
