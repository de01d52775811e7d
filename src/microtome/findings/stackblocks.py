"""Block structure of a named stack of layers, and its JSON form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from ..errors import must
from ..inference.estimate import Interval
from .blocks import Block, BlockFinding
from .claims.claim import read_number


@dataclass(frozen=True, slots=True, kw_only=True)
class StackBlocks:
    """
    The blocks of one stack of layers.

    Parameters
    ----------
    stack : str
        Such as the name of a model.
    measure : str
        Of the map that was tested.
    names : tuple of str
        Of the layers, in the order of the indices of the finding.
    finding : BlockFinding
    """

    stack: str
    measure: str
    names: tuple[str, ...]
    finding: BlockFinding

    def __post_init__(self) -> None:
        if len(self.names) != self.finding.layers:
            raise must("names of blocks", f"one for each of {self.finding.layers} layers", list(self.names))

    @property
    def numbers(self) -> list[str]:
        """Names of the layers within their stack."""
        return [name.rpartition("/")[2] for name in self.names]


def blocks_document(blocks: StackBlocks) -> dict[str, Any]:
    """
    Convert the blocks of a stack to plain data.

    Parameters
    ----------
    blocks : StackBlocks

    Returns
    -------
    dict
        Numbers are unchanged; the writer replaces NaN.
    """
    return {
        "stack": blocks.stack,
        "measure": blocks.measure,
        "names": list(blocks.names),
        "finding": asdict(blocks.finding),
    }


def read_blocks(document: Mapping[str, Any]) -> StackBlocks:
    """
    Build the blocks of a stack from the output of `blocks_document`, read from JSON.

    Parameters
    ----------
    document : mapping

    Returns
    -------
    StackBlocks
    """
    fields = document["finding"]
    best = fields.get("best")
    finding = BlockFinding(
        layers=int(fields["layers"]),
        used=tuple(fields["used"]),
        left_out=tuple(fields["left_out"]),
        blocks=tuple(map(_block, fields["blocks"])),
        best=None if best is None else _block(best),
        runs=int(fields["runs"]),
        reason=fields.get("reason"),
    )
    names = tuple(document["names"])
    return StackBlocks(
        stack=str(document["stack"]), measure=str(document["measure"]), names=names, finding=finding
    )


def _block(record: Mapping[str, Any]) -> Block:
    interval = record.get("interval")
    if interval is not None:
        interval = Interval(**{**interval, **{end: read_number(interval[end]) for end in ("low", "high")}})
    return Block(
        first=int(record["first"]),
        last=int(record["last"]),
        **{name: read_number(record[name]) for name in ("inside", "outside", "margin")},
        interval=interval,
        certain=bool(record["certain"]),
        without=tuple(record["without"]),
        cores=tuple(map(_block, record["cores"])),
    )
