"""Re-initialization experiment (Tamkin et al. 2020): fine-tune with the weights of blocks re-initialized."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...checks import several
from ...errors import InputError, must
from ...findings.claims.claim import Claim
from ...findings.results import Result
from ...interventions.blocks import Truncate
from ...interventions.reinit import SCHEMES, Reinit
from ...reading import read_names
from ...training.recipe import Recipe
from ..base import as_function, option
from ..grid import RECIPE_HELP, Grid, GridRuns
from ..runs import Run
from .claims import comparison_claims, extent_claims, extreme_claims
from .result import ArmSummary, grid_result, summarize_arm

PLANS = ("progressive", "blocks", "inverse", "single")
AXES = {
    "progressive": "blocks kept",
    "truncated": "blocks kept",
    "blocks": "first block re-initialized",
    "inverse": "first block kept",
    "single": "block re-initialized",
}
BIASES = ("keep", "zero")
FULL, SCRATCH, TRUNCATED = "full", "scratch", "truncated"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReinitArm:
    """
    One curve of the experiment.

    Parameters
    ----------
    plan : str
        Which blocks are re-initialized: one of `PLANS`, "truncated", "full" or "scratch".
    scheme, bias, layernorm
        How; see `Reinit`. None where nothing is re-initialized.
    size, updates : int, optional
        Number of training examples, and of updates where it is fixed.

    Examples
    --------
    >>> ReinitArm(plan="single", scheme="library", size=500).name
    'single, library, 500 examples'
    """

    plan: str
    scheme: str | None = None
    bias: str | None = None
    layernorm: str | None = None
    size: int | None = None
    updates: int | None = None

    @property
    def name(self) -> str:
        """Name of the curve."""
        parts = [self.plan, *([self.scheme] if self.scheme else [])]
        parts += [f"biases {self.bias}"] if self.bias else []
        parts += ["norms kept"] if self.layernorm == "keep" else []
        parts += [] if self.size is None else [f"{self.size:,} examples"]
        parts += [] if self.updates is None else [f"{self.updates:,} updates"]
        return ", ".join(parts)

    @property
    def has_full(self) -> bool:
        """Whether the full model is one of its own points."""
        return self.plan in ("progressive", TRUNCATED, FULL)

    @property
    def options(self) -> dict[str, Any]:
        """Of `finetune`."""
        sized = {} if self.size is None else {"train_size": self.size}
        # Without epochs only the number of updates counts, whatever the recipe has.
        return sized if self.updates is None else {**sized, "steps": self.updates, "epochs": None}

    def like(self, plan: str, *, same_scheme: bool = False) -> ReinitArm:
        """The arm of another plan on the same examples, optionally with the same scheme, bias and norms."""
        how = {"scheme": self.scheme, "bias": self.bias, "layernorm": self.layernorm} if same_scheme else {}
        return ReinitArm(plan=plan, size=self.size, updates=self.updates, **how)

    def points(self, depth: int, width: int, seed: int) -> Iterator[tuple[int, tuple[Any, ...]]]:
        """
        List the points of the arm with the interventions at each.

        Parameters
        ----------
        depth : int
            Blocks of the encoder.
        width : int
            Blocks per window in the plans "blocks" and "inverse".
        seed : int
            Of the new weights.
        """

        def reinit(**which: Any) -> tuple[Any, ...]:
            bias: Any = self.bias
            norms: Any = self.layernorm
            return (Reinit(seed=seed, scheme=self.scheme or "library", bias=bias, layernorm=norms, **which),)

        blocks = tuple(range(1, depth + 1))
        if self.plan == "progressive":
            for k in range(depth, -1, -1):
                yield k, reinit(past=k) if k < depth else ()
        elif self.plan == TRUNCATED:
            for k in range(depth, 0, -1):
                yield k, (Truncate(keep=k),) if k < depth else ()
        elif self.plan == FULL:
            yield depth, ()
        elif self.plan == SCRATCH:
            yield 0, reinit(blocks=blocks)
        elif self.plan == "single":
            for block in blocks:
                yield block, reinit(blocks=(block,))
        else:
            for first in range(1, depth - width + 2):
                window = tuple(range(first, first + width))
                outside = tuple(block for block in blocks if block not in window)
                if self.plan == "blocks" or outside:
                    yield first, reinit(blocks=window if self.plan == "blocks" else outside)


def read_sizes(typed: str) -> tuple[int | None, ...]:
    """
    Read numbers of examples; "all" is the complete training split.

    Examples
    --------
    >>> read_sizes("500,all")
    (500, None)
    """
    sizes: list[int | None] = []
    for part in (part.strip() for part in typed.split(",") if part.strip()):
        if part != "all" and not (part.isdecimal() and int(part)):
            raise must("--sizes", "numbers above 0 or all, with commas between them", typed)
        sizes.append(None if part == "all" else int(part))
    return tuple(sizes)


@dataclass(frozen=True, kw_only=True)
class Reinitialization(Grid):
    """
    Fine-tune with the weights of some blocks re-initialized, to see which pretrained weights matter.

    The plan progressive re-initializes all blocks above the first k, for every k; blocks, every window of
    `width` blocks; inverse, all blocks outside such a window; single, every single block. The result has one
    curve for each plan, scheme and number of examples, and one of its differences from the full model on as
    many examples (Tamkin et al. 2020). Models truncated to the same depth are a control: where re-initialized
    blocks do no better, depth explains the score (Merchant et al. 2020).

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> result = mt.reinit(base, task, epochs=1, seeds=[1], plans=["single"])
    >>> [curve.name for curve in result.curves]
    ['single, library', 'difference single, library']
    """

    name = "reinitialization"

    plans: Sequence[str] = option(
        "Which blocks are re-initialized: all above block k for every k (progressive), every window "
        "(blocks), all outside of it (inverse), or every block alone (single).",
        ("progressive",),
        choices=PLANS,
    )
    width: int = option("Blocks per window of --plans blocks and inverse.", 3, least=1)
    schemes: Sequence[str] = option("Distributions of the new weights.", ("library",), choices=tuple(SCHEMES))
    bias: Sequence[str | None] | None = option(
        "Whether biases of these blocks keep their values or become zero; as in the scheme when absent.",
        None,
        choices=BIASES,
        read=lambda typed: read_names("--bias", typed, BIASES),
    )
    layernorm: Sequence[str] = option(
        "Whether LayerNorms of these blocks are reset or keep their values.",
        ("reset",),
        choices=("reset", "keep"),
    )
    sizes: Sequence[int | None] | None = option(
        "Numbers of training examples, as 500,5000,all.",
        None,
        least=1,
        read=read_sizes,
        python="None stands for all.",
        metavar="N,...",
    )
    truncation_control: bool = option(
        "Also fine-tune the model without the blocks that --plans progressive re-initializes.", True
    )
    fixed_updates: int | None = option(
        "Also fine-tune every model with N updates, since fewer examples mean fewer updates per epoch.",
        None,
        least=1,
        metavar="N",
    )
    reinit_seed: int | None = option(
        "Seed of the new weights; that of the training when absent.", None, least=0
    )
    recipe: str | Recipe = option(RECIPE_HELP, "tamkin2020")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sizes is None:
            return
        if self.train_size is not None:
            raise must("train_size", "left out where sizes are given", self.train_size)
        if not self.sizes or len(set(self.sizes)) != len(self.sizes):
            raise must("sizes", "one number or more, each once", list(self.sizes))

    def arms(self) -> list[ReinitArm]:
        """List the curves: those with re-initialized blocks, then their references."""
        sizes = (self.train_size,) if self.sizes is None else self.sizes
        updates = (None,) if self.fixed_updates is None else (None, self.fixed_updates)
        arms: list[ReinitArm] = []
        for size, fixed in product(sizes, updates):
            shared: dict[str, Any] = {"size": size, "updates": fixed}
            variants = product(self.plans, self.schemes, several(self.bias), self.layernorm)
            changed = [ReinitArm(plan=p, scheme=s, bias=b, layernorm=n, **shared) for p, s, b, n in variants]
            arms += changed
            if self.truncation_control and "progressive" in self.plans:
                arms.append(ReinitArm(plan=TRUNCATED, **shared))
            if set(self.plans) - {"progressive"}:
                arms.append(ReinitArm(plan=FULL, **shared))
                arms += list(dict.fromkeys(arm.like(SCRATCH, same_scheme=True) for arm in changed))
        return arms

    def grid(self, encoder: Any) -> list[Run]:
        """List the fine-tunings: every point of every arm with every seed."""
        if encoder.family.shared:
            raise InputError(
                "blocks must have weights of their own to be re-initialized one by one, but layers of "
                f"{encoder.family.title} share them."
            )
        if {"blocks", "inverse"} & set(self.plans) and self.width > encoder.depth:
            raise must("width", f"a number of blocks between 1 and {encoder.depth}", self.width)
        runs: list[Run] = []
        for arm in self.arms():
            by_point: dict[int, list[Run]] = {}
            for seed in self.seeds:
                weights = seed if self.reinit_seed is None else self.reinit_seed
                for x, interventions in arm.points(encoder.depth, self.width, weights):
                    run = Run(arm=arm.name, x=x, seed=seed, interventions=interventions, options=arm.options)
                    by_point.setdefault(x, []).append(run)
            runs += [run for at_point in by_point.values() for run in at_point]
        return runs

    def summarize(self, runs: GridRuns) -> Result:
        """Curves of scores and costs for each arm."""
        depth, points = runs.encoder.depth, {arm: runs.points(arm.name) for arm in self.arms()}
        several_arms = sum(arm.plan in PLANS for arm in points) > 1
        arms: list[ArmSummary] = []
        claims: list[Claim] = []
        lines: dict[str, float] = {}
        for arm, runs_of_arm in points.items():
            # The reference is the arm's own full model, so that its difference from itself is zero.
            full = points[arm if arm.has_full else arm.like(FULL)].at(depth)
            names: dict[str, Any] = {"axis": AXES.get(arm.plan, "blocks kept"), "against": "the full model"}
            subject = arm.name if several_arms else ""
            summary = summarize_arm(
                self.name, runs, runs_of_arm, full, model="the full model", subject=subject, **names
            )
            if arm.plan in (FULL, SCRATCH):
                lines[arm.name] = float(summary.curves[0].values[0])
                continue
            arms.append(summary)
            if summary.costs is None or arm.plan == TRUNCATED:
                continue
            fields: dict[str, Any] = {"subject": subject, "depth": depth}
            if arm.plan != "progressive":
                windows = _windows(runs_of_arm.x, 1 if arm.plan == "single" else self.width)
                kind = "window kept" if arm.plan == "inverse" else "window"
                claims += extreme_claims(summary.costs, kind, windows, **fields)
                continue
            order = sorted(range(len(runs_of_arm.x)), key=lambda place: -int(runs_of_arm.x[place]))
            tops = {k: tuple(range(int(runs_of_arm.x[k]) + 1, depth + 1)) for k in order}
            extents = {place: blocks for place, blocks in tops.items() if blocks}
            claims += extent_claims(summary.costs, "re-initialized", extents, **fields)
            control = points.get(arm.like(TRUNCATED))
            if control is not None:
                depths = [k for k in runs_of_arm.x if k in control.x and k != depth]
                kind = "re-initialized or removed"
                claims += comparison_claims(kind, runs, runs_of_arm, control, depths, **fields)
        return grid_result(
            self.name,
            runs,
            arms,
            claims,
            how=self._methods(runs.encoder),
            references=("tamkin2020", *(("merchant2020",) if self.truncation_control else ())),
            lines={name: value for name, value in lines.items() if math.isfinite(value)},
            more={"width": self.width, "plans": list(self.plans), "schemes": list(self.schemes)},
        )

    def _methods(self, encoder: Any) -> str:
        descriptions = {
            "progressive": "all blocks above the first k were re-initialized, for every k",
            "blocks": f"each window of {self.width} consecutive blocks was re-initialized",
            "inverse": f"all blocks outside each window of {self.width} were re-initialized",
            "single": "each single block was re-initialized",
        }
        control = " Models without their upper blocks were a control." if self.truncation_control else ""
        return (
            f"In {encoder.name}, of {encoder.depth} blocks, before fine-tuning: "
            f"{'; '.join(descriptions[plan] for plan in self.plans)}. Initialization schemes: "
            f"{', '.join(self.schemes)}; embeddings were not changed.{control}"
        )


reinit = as_function(Reinitialization, "reinit")


def _windows(firsts: Sequence[Any], size: int) -> dict[int, tuple[int, ...]]:
    """The blocks of each window, by its place."""
    return {place: tuple(range(first, first + size)) for place, first in enumerate(firsts)}
