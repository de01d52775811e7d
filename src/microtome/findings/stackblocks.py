"""Of which stack is a finding about blocks, and how is it kept beside the maps?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any

from ..errors import must
from ..inference.estimate import Interval
from .blocks import BlockFinding

_NUMBERS = ("contrast", "standard_error", "z", "gap", "gap_ratio", "plain_contrast", "plain_sharpness")
_TUPLES = ("used", "left_out", "borders", "contrasts")


@dataclass(frozen=True, slots=True, kw_only=True)
class StackBlocks:
    """
    Whether the layers of one stack fall into blocks.

    Parameters
    ----------
    stack : str
        Such as the name of a model.
    measure : str
        Of the map that was tested.
    names : tuple of str
        Of the layers that the finding counts from 0.
    finding : BlockFinding
    """

    stack: str
    measure: str
    names: tuple[str, ...]
    finding: BlockFinding

    def __post_init__(self) -> None:
        if len(self.names) != self.finding.layers:
            raise must("names of blocks", f"one for each of {self.finding.layers} layers", list(self.names))


def blocks_document(one: StackBlocks) -> dict[str, Any]:
    """
    Turn a finding about blocks into plain data.

    Parameters
    ----------
    one : StackBlocks

    Returns
    -------
    dict
        With the numbers as they are; NaN is for the writer to replace.
    """
    return {
        "stack": one.stack,
        "measure": one.measure,
        "names": list(one.names),
        "finding": asdict(one.finding),
    }


def read_blocks(read: Mapping[str, Any]) -> StackBlocks:
    """
    Make a finding of what `blocks_document` gave, after JSON.

    Parameters
    ----------
    read : mapping

    Returns
    -------
    StackBlocks
    """
    known = {field.name for field in fields(BlockFinding)}
    told: dict[str, Any] = {name: value for name, value in read["finding"].items() if name in known}
    for name in _NUMBERS:
        # Infinities are written as words, which float reads.
        told[name] = float("nan") if told.get(name) is None else float(told[name])
    for name in _TUPLES:
        told[name] = tuple(_number(value) for value in told[name])
    if told.get("interval") is not None:
        ends = {end: _number(told["interval"][end]) for end in ("low", "high")}
        told["interval"] = Interval(**{**told["interval"], **ends})
    return StackBlocks(
        stack=str(read["stack"]),
        measure=str(read["measure"]),
        names=tuple(read["names"]),
        finding=BlockFinding(**told),
    )


def _number(value: Any) -> Any:
    return float("nan") if value is None else float(value) if isinstance(value, str) else value
