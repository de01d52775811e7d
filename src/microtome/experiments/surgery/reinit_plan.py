"""Arms of the re-initialization experiment: which blocks, how, and on how many examples."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ...interventions.reinit import Reinit
from ...interventions.truncate import Truncate

PLANS = ("progressive", "blocks", "inverse", "single")
AXES = {
    "progressive": "blocks kept",
    "truncated": "blocks kept",
    "blocks": "first block re-initialized",
    "inverse": "first block kept",
    "single": "block re-initialized",
}
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
