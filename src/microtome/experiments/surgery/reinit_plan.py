"""Which blocks are redrawn, how, and on how many examples? Every curve of the experiment, and its runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...checks import check_seeds, several, whole_number
from ...errors import InputError, must, unknown
from ...interventions.reinit import Reinit
from ...interventions.truncate import Truncate
from ..runs import Run

PLANS = ("progressive", "blocks", "inverse", "single")
AXES = {
    "progressive": "blocks kept",
    "truncated": "blocks kept",
    "blocks": "first block redrawn",
    "inverse": "first block kept",
    "single": "block redrawn",
}
FULL, SCRATCH, TRUNCATED = "full", "scratch", "truncated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Arm:
    """
    One curve of the experiment.

    Parameters
    ----------
    plan : str
        Which blocks are redrawn: one of `PLANS`, "truncated", "full" or "scratch".
    scheme, bias, layernorm
        How; see `Reinit`. None where nothing is redrawn.
    size, updates : int, optional
        Examples that are trained on, and updates where their number is fixed.
    """

    plan: str
    scheme: str | None = None
    bias: str | None = None
    layernorm: str | None = None
    size: int | None = None
    updates: int | None = None

    @property
    def name(self) -> str:
        """What the curve is called."""
        parts = [self.plan, *([self.scheme] if self.scheme else [])]
        parts += [f"biases {self.bias}"] if self.bias else []
        parts += ["norms kept"] if self.layernorm == "keep" else []
        parts += [] if self.size is None else [f"{self.size:,} examples"]
        parts += [] if self.updates is None else [f"{self.updates:,} updates"]
        return ", ".join(parts)

    @property
    def options(self) -> dict[str, Any]:
        """Of `finetune`."""
        sized = {} if self.size is None else {"train_size": self.size}
        # Updates alone decide, whatever the recipe says of passes.
        return sized if self.updates is None else {**sized, "steps": self.updates, "epochs": None}

    def like(self, plan: str, *, drawn: bool = False) -> Arm:
        """The arm of another plan on the same examples, with nothing redrawn or drawn alike."""
        how = {"scheme": self.scheme, "bias": self.bias, "layernorm": self.layernorm} if drawn else {}
        return Arm(plan=plan, size=self.size, updates=self.updates, **how)


def arms(
    *,
    plan: str | Sequence[str] = "progressive",
    schemes: str | Sequence[str] = ("library",),
    bias: Any = None,
    layernorm: str | Sequence[str] = "reset",
    sizes: int | Sequence[int | None] | None = (None,),
    control: bool = True,
    fixed_updates: int | None = None,
) -> list[Arm]:
    """
    List the curves of the experiment.

    Parameters
    ----------
    plan, schemes, bias, layernorm, sizes, control, fixed_updates
        As in `reinitialization`.

    Returns
    -------
    list of Arm
        Those with something redrawn, then those they are held against.
    """
    plans = several(plan)
    for one in plans:
        if one not in PLANS:
            raise unknown("plan", one, PLANS)
    updates = (None,) if fixed_updates is None else (None, fixed_updates)
    settings = list(product(several(sizes), updates))
    found = []
    for size, fixed in settings:
        shared: dict[str, Any] = {"size": size, "updates": fixed}
        ways = product(plans, several(schemes), several(bias), several(layernorm))
        drawn = [Arm(plan=p, scheme=s, bias=b, layernorm=n, **shared) for p, s, b, n in ways]
        found += drawn
        if control and "progressive" in plans:
            found.append(Arm(plan=TRUNCATED, **shared))
        if set(plans) - {"progressive"}:
            found.append(Arm(plan=FULL, **shared))
            found += list(dict.fromkeys(one.like(SCRATCH, drawn=True) for one in drawn))
    return found


def _points(arm: Arm, depth: int, width: int, seed: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
    """The points of an arm, and what is done to the encoder at each."""

    def redrawn(**which: Any) -> tuple[Any, ...]:
        bias: Any = arm.bias
        norms: Any = arm.layernorm
        return (Reinit(seed=seed, scheme=arm.scheme or "library", bias=bias, layernorm=norms, **which),)

    every = tuple(range(1, depth + 1))
    if arm.plan == "progressive":
        for k in range(depth, -1, -1):
            yield k, redrawn(past=k) if k < depth else ()
    elif arm.plan == TRUNCATED:
        for k in range(depth, 0, -1):
            yield k, (Truncate(keep=k),) if k < depth else ()
    elif arm.plan == FULL:
        yield depth, ()
    elif arm.plan == SCRATCH:
        yield 0, redrawn(blocks=every)
    elif arm.plan == "single":
        for block in every:
            yield block, redrawn(blocks=(block,))
    else:
        for first in range(1, depth - width + 2):
            window = tuple(range(first, first + width))
            rest = tuple(block for block in every if block not in window)
            if arm.plan == "blocks" or rest:
                yield first, redrawn(blocks=window if arm.plan == "blocks" else rest)


def planned(
    encoder: Any,
    *,
    width: int = 3,
    seeds: int | Sequence[int] = (1, 2, 3),
    reinit_seed: int | None = None,
    **which: Any,
) -> list[Run]:
    """
    List the fine-tunings that `reinitialization` needs.

    Parameters
    ----------
    encoder : TransformerEncoder
    width, seeds, reinit_seed
        As in `reinitialization`.
    **which
        Of `arms`.

    Returns
    -------
    list of Run
    """
    depth = encoder.depth
    if encoder.family.shared:
        raise InputError(
            f"blocks must have weights of their own to be redrawn one by one, but layers of "
            f"{encoder.family.title} share them."
        )
    named = {"blocks", "inverse"} & {arm.plan for arm in arms(**which)}
    width = whole_number("width", width)
    if named and not 1 <= width <= depth:
        raise must("width", f"a number of blocks between 1 and {depth}", width)
    runs: list[Run] = []
    for arm in arms(**which):
        by_point: dict[int, list[Run]] = {}
        for seed in check_seeds(seeds):
            drawn = seed if reinit_seed is None else reinit_seed
            for x, done in _points(arm, depth, width, drawn):
                run = Run(arm=arm.name, x=x, seed=seed, interventions=done, options=arm.options)
                by_point.setdefault(x, []).append(run)
        runs += [run for some in by_point.values() for run in some]
    return runs
