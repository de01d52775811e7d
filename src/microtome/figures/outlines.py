"""Outlines of blocks of layers in a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..findings.blocks import Block
from ..findings.maps import Map
from ..findings.stackblocks import StackBlocks

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def outline_blocks(
    axes: Axes, blocks: Sequence[Block], rows: Sequence[int], columns: Sequence[int] | None = None
) -> int:
    """
    Draw a square around each certain block.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
        Cells are centered on integers.
    blocks : sequence of Block
        Those that are not certain are not drawn.
    rows, columns : sequence of int
        Position of each layer index of a block on the two axes; columns as rows when absent.

    Returns
    -------
    int
        Number of blocks drawn.
    """
    from matplotlib.patches import Rectangle

    certain = [block for block in blocks if block.certain]
    for block in certain:
        (first_row, last_row), (first_column, last_column) = (
            (positions[block.first], positions[block.last]) for positions in (rows, columns or rows)
        )
        corner, size = (
            (first_column - 0.5, first_row - 0.5),
            (last_column - first_column + 1, last_row - first_row + 1),
        )
        for color, width in (("#15171a", 2.2), ("white", 1.1)):
            axes.add_patch(Rectangle(corner, *size, fill=False, edgecolor=color, linewidth=width, zorder=3))
    return len(certain)


def outline_stacks(axes: Axes, similarity_map: Map, stacks: Sequence[StackBlocks]) -> str:
    """
    Outline the certain blocks of every model of a map.

    Parameters
    ----------
    axes : matplotlib.axes.Axes
    similarity_map : Map
    stacks : sequence of StackBlocks
        Those of another measure, or with layers that the map does not have on both axes, are left out.

    Returns
    -------
    str
        Text about them for the caption.
    """
    count = 0
    for stack in stacks:
        if stack.measure == similarity_map.measure and set(stack.names) <= {*similarity_map.left} & {
            *similarity_map.right
        }:
            positions = (
                [side.index(name) for name in stack.names]
                for side in (similarity_map.left, similarity_map.right)
            )
            count += outline_blocks(axes, stack.finding.certain, *positions)
    return f"; outlined: {count} certain block{'s' if count > 1 else ''} of layers" if count else ""
