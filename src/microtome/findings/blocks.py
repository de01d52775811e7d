"""Blocks of layers: runs more similar among themselves than to any layer outside (Phang et al. 2021)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..arguments import checked
from ..checks import check_level
from ..errors import must
from ..inference.estimate import Interval
from .squares import LEAST_LAYERS, layer_runs, read_numbers, run_pairs, usable_layers
from .words import between, capital, certainty, check_names, layer_list, listed, number

# Similarities that are closer than this are equal but for rounding.
ROUNDING = 1e-6

Array = NDArray[np.float64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """
    A run of layers and its margin over the layers around it.

    Parameters
    ----------
    first, last : int
        Its lowest and highest layer.
    inside : float
        Similarity of its least similar pair of layers.
    outside : float
        Largest similarity of a layer inside with a layer outside.
    margin : float
        Inside minus outside; the run is a block where this is positive.
    interval : Interval or None
        Of the margin, simultaneous over all runs of the stack; None without intervals of the map.
    certain : bool
        Whether the whole interval is positive.
    without : tuple of int
        Layers of the run that were left out as outlying, where that was allowed.
    cores : tuple of Block
        The largest blocks inside this one.
    """

    first: int
    last: int
    inside: float
    outside: float
    margin: float
    interval: Interval | None = None
    certain: bool = False
    without: tuple[int, ...] = ()
    cores: tuple[Block, ...] = ()

    @property
    def span(self) -> tuple[int, int, tuple[int, ...]]:
        """Its lowest and highest layer, and those left out between them."""
        return self.first, self.last, self.without

    def walk(self) -> Iterator[Block]:
        """Yield this block and all blocks inside it."""
        yield self
        for core in self.cores:
            yield from core.walk()

    def replaced(self, change: Callable[[Block], Block]) -> Block:
        """Change this block and all blocks inside it in the same way."""
        return replace(change(self), cores=tuple(core.replaced(change) for core in self.cores))


@dataclass(frozen=True, slots=True, kw_only=True)
class BlockFinding:
    """
    The blocks of one stack of layers, or of two stacks compared layer by layer.

    Parameters
    ----------
    layers : int
        Layers of the map; indices count from 0 in its order.
    used, left_out : tuple of int
        Layers that were tested, and those whose similarities are undefined.
    blocks : tuple of Block
        The largest blocks, from the lowest layer up; each holds the smaller ones inside it as `cores`.
    best : Block or None
        The run with the most evidence, whether it is a block or not: the largest lower end of its margin, or
        the largest margin where there are no intervals.
    runs : int
        How many runs were tested together.
    reason : str or None
        Why no run can be tested.
    """

    layers: int
    used: tuple[int, ...]
    left_out: tuple[int, ...]
    blocks: tuple[Block, ...] = ()
    best: Block | None = None
    runs: int = 0
    reason: str | None = None

    @property
    def certain(self) -> tuple[Block, ...]:
        """All blocks whose interval is positive, the smaller ones after those that hold them."""
        return tuple(block for top in self.blocks for block in top.walk() if block.certain)

    @property
    def outermost(self) -> list[Block]:
        """The blocks whose interval is positive and that no other one of these holds."""
        return _outermost(self.certain)

    def replaced(self, change: Callable[[Block], Block], **fields: Any) -> BlockFinding:
        """Change all blocks in the same way, and other fields."""
        best = None if self.best is None else self.best.replaced(change)
        return replace(
            self, blocks=tuple(block.replaced(change) for block in self.blocks), best=best, **fields
        )

    def headline(self, names: Sequence[str] | None = None) -> str:
        """State which layers form blocks, with layers labeled by `names` or by their indices."""
        check_names(names, self.layers)
        if self.reason is not None:
            return f"Blocks of layers are undefined: {self.reason}."
        if self.outermost:
            return f"{capital(form_blocks([block.span for block in self.outermost], names))}."
        if self.blocks:
            maybe = listed([layer_span(*block.span, names) for block in self.blocks])
            count = "one" if len(self.blocks) == 1 else "blocks"
            return f"No block of layers is certain; {maybe} may form {count}."
        return "The layers form no blocks."

    def outlines(self, names: Sequence[str] | None = None) -> str:
        """Label the certain blocks, for the legend of a map."""
        spans = [layer_span(*block.span, names) for block in self.certain]
        return listed(spans) if spans else "no certain block"

    def sentence(self, names: Sequence[str] | None = None) -> str:
        """State the headline, then the evidence."""
        return f"{self.headline(names)} {self.evidence(names)}".rstrip()

    def evidence(self, names: Sequence[str] | None = None) -> str:
        """State margin, interval and cores of each block."""
        parts = [_evidence(block, names) for block in self.outermost or self.blocks]
        doubtful = [
            block for block in self.blocks if self.certain and not any(b.certain for b in block.walk())
        ]
        if doubtful:
            parts.append(f"Not certain: {'; '.join(_measured(block, names) for block in doubtful)}.")
        if not self.blocks and self.best is not None:
            parts.append(
                f"The run that comes closest is {_measured(self.best, names)}; a block has a positive margin."
            )
        if self.left_out:
            parts.append(f"Left out as undefined: {layer_list(self.left_out, names)}.")
        return " ".join(parts)


@checked
def block_structure(
    values: ArrayLike,
    errors: ArrayLike | None = None,
    *,
    dof: float = np.inf,
    two_stacks: bool = False,
    tolerance: int = 0,
    level: float = 0.95,
    method: str = "",
    unit: str = "row",
    target: str = "population value",
) -> BlockFinding:
    """
    Find the runs of layers whose least similar pair is more similar than any pair across their border.

    A run of at least three consecutive layers that is not the whole stack is a block where this margin is
    positive. The definition has no tuning constant and does not change when a map is multiplied by a
    factor; two blocks are disjoint or one contains the other.

    Parameters
    ----------
    values : array of shape (layers, layers)
        Map of a stack with itself, whose diagonal is not read, or of two stacks of equal depth.
    errors : array of shape (units, layers, layers), optional
        Contribution of each independent unit to the error of each cell, scaled so that the sum of squares
        over units is the variance of the cell. Without it no block is certain.
    dof : float
        Degrees of freedom of these errors.
    two_stacks : bool
        Whether rows are layers of one stack and columns those of another: the same layer of both is then a
        pair like any other.
    tolerance : int
        How many outlying layers inside a run may be left out to make it a block.
    level : float
        Coverage of the intervals, simultaneous over all runs.
    method, unit, target : str
        As in `Interval`.

    Returns
    -------
    BlockFinding

    Notes
    -----
    The margin of a run is the least of all differences between a pair inside and a pair across its border.
    For its lower end no correction over these differences is needed, since the least lower end is at most
    that of the least difference; the level is divided by the number of runs. The upper end is divided by
    the number of differences too.

    Examples
    --------
    >>> import microtome as mt
    >>> import numpy as np
    >>> values = np.full((6, 6), 0.2)
    >>> values[3:, 3:] = 0.9
    >>> block = mt.analysis.block_structure(values).blocks[0]
    >>> block.first, block.last
    (3, 5)
    """
    check_level(level)
    if not 0 <= tolerance <= 3:
        raise must("tolerance", "a whole number from 0 to 3", tolerance)
    table = read_numbers("values", values)
    if table.ndim != 2 or table.shape[0] != table.shape[1]:
        raise must("the map", "of layers by as many layers", table.shape)
    deviations = None if errors is None else np.asarray(errors, dtype=np.float64)
    if deviations is not None and deviations.shape[1:] != table.shape:
        raise must("errors", f"of shape (units, {len(table)}, {len(table)})", deviations.shape)
    used, left_out = usable_layers(table, *(() if deviations is None else (deviations,)))
    if two_stacks:
        defined = np.isfinite(np.diagonal(table)[used])
        used, left_out = used[defined], tuple(sorted({*left_out, *used[~defined].tolist()}))
    fields = {"layers": len(table), "used": tuple(used.tolist()), "left_out": left_out}
    if len(used) <= LEAST_LAYERS:
        reason = f"they need at least {LEAST_LAYERS + 1} layers with defined similarities, not {len(used)}"
        return BlockFinding(reason=reason, **fields)
    cells = table[np.ix_(used, used)].ravel()
    spread = None if deviations is None else deviations[:, used][:, :, used].reshape(len(deviations), -1)
    covariance = None if spread is None else spread.T @ spread
    runs = list(layer_runs(len(used), tolerance))
    candidates: dict[tuple[int, int], Block] = {}
    for members, span in runs:
        inside, outside = run_pairs(len(used), members, span, two_stacks)
        block = Block(
            first=int(used[span[0]]),
            last=int(used[span[1]]),
            inside=float(cells[inside].min()),
            outside=float(cells[outside].max()),
            margin=float(cells[inside].min() - cells[outside].max()),
            without=tuple(int(used[k]) for k in range(span[0], span[1] + 1) if k not in members),
        )
        if covariance is not None:
            low, high = _ends(cells, covariance, inside, outside, len(runs), dof, 1 - level)
            interval = Interval(low=low, high=high, level=level, method=method, unit=unit, target=target)
            block = replace(block, interval=interval, certain=low > ROUNDING)
        best = candidates.get(span)
        # Layers are left out only where the complete run is not a block.
        if best is None or (best.margin <= ROUNDING and block.margin > best.margin):
            candidates[span] = block
    ordered = sorted(candidates.values(), key=lambda block: -block.margin)
    return BlockFinding(
        blocks=_nested(_laminar([block for block in ordered if block.margin > ROUNDING])),
        best=max(ordered, key=lambda block: block.margin if block.interval is None else block.interval.low),
        runs=len(runs),
        **fields,
    )


def _ends(
    cells: Array,
    covariance: Array,
    inside: NDArray[np.intp],
    outside: NDArray[np.intp],
    runs: int,
    dof: float,
    miss: float,
) -> tuple[float, float]:
    """Interval of the least difference of a cell inside and one outside, missed with this probability."""
    from scipy.special import ndtri, stdtrit

    variances = np.diagonal(covariance)
    joint = covariance[np.ix_(inside, outside)]
    variance = variances[inside][:, None] + variances[outside][None] - 2 * joint
    se = np.sqrt(np.maximum(variance, 0.0))
    difference = cells[inside][:, None] - cells[outside][None]
    tails = miss / 2 / runs, miss / 2 / (runs * difference.size)
    below, above = (float(-(ndtri(t) if np.isinf(dof) else stdtrit(dof, t))) for t in tails)
    return float((difference - below * se).min()), float((difference + above * se).min())


def _laminar(blocks: Sequence[Block]) -> list[Block]:
    """Keep the blocks that cross no block with a larger margin; without tolerance no two blocks cross."""
    accepted: list[Block] = []
    for block in blocks:
        if not any(
            a.first < b.first <= a.last < b.last
            for rival in accepted
            for a, b in ((block, rival), (rival, block))
        ):
            accepted.append(block)
    return accepted


def _nested(blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Nest every block in the smallest one that contains it, ordered from the lowest layer up."""
    return tuple(
        replace(top, cores=_nested([block for block in blocks if block is not top and _holds(top, block)]))
        for top in sorted(_outermost(blocks), key=lambda block: block.first)
    )


def _outermost(blocks: Sequence[Block]) -> list[Block]:
    return [
        block for block in blocks if not any(outer is not block and _holds(outer, block) for outer in blocks)
    ]


def _holds(outer: Block, inner: Block) -> bool:
    return outer.first <= inner.first and inner.last <= outer.last


def layer_span(first: int, last: int, without: Sequence[int] = (), names: Sequence[str] | None = None) -> str:
    """
    Name the layers of a run.

    Examples
    --------
    >>> layer_span(4, 8, (6,)), layer_span(4, 8, names=[f"m/{k}" for k in range(12)])
    ('layers 4-8 without 6', 'layers m/4 to m/8')
    """
    ends = [str(k) if names is None else names[k] for k in (first, last)]
    joined = ("-" if all(end.isdecimal() for end in ends) else " to ").join(ends)
    omitted = ", ".join(str(k) if names is None else names[k] for k in without)
    return f"layers {joined}{f' without {omitted}' if omitted else ''}"


def form_blocks(spans: Sequence[Sequence[Any]], names: Sequence[str] | None = None) -> str:
    """
    State that runs of layers form blocks, as a sentence without its end.

    Examples
    --------
    >>> form_blocks([(4, 8, ())]), form_blocks([(1, 3), (4, 8)])
    ('layers 4-8 form a block', 'layers 1-3 and layers 4-8 each form a block')
    """
    each = "" if len(spans) == 1 else "each "
    return f"{listed([layer_span(*span, names=names) for span in spans])} {each}form a block"


def _measured(block: Block, names: Sequence[str] | None) -> str:
    ends = "" if block.interval is None else f" {between(block.interval.low, block.interval.high)}"
    return f"{layer_span(*block.span, names)} (margin {number(block.margin)}{ends})"


def _evidence(block: Block, names: Sequence[str] | None) -> str:
    """State what makes a run a block, with the interval of its margin and its certain cores."""
    interval = block.interval
    text = (
        f"{capital(layer_span(*block.span, names))}: least similarity inside {number(block.inside)}, largest "
        f"with a layer outside {number(block.outside)}; margin {number(block.margin)}"
    )
    if interval is not None:
        ends = between(interval.low, interval.high)
        text += f" {ends} {certainty(interval.level, 'simultaneous', interval.unit)}"
    cores = [core for core in block.walk() if core is not block and core.certain] if block.certain else []
    inner = [layer_span(*core.span, names) for core in _outermost(cores)]
    if inner:
        text += f"; core{'' if len(inner) == 1 else 's'}: {listed(inner)}"
    return f"{text}."
