"""Task heads: the state that they read, and the stages that follow."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from numbers import Real
from types import MappingProxyType
from typing import Any, Literal

from ...checks import whole_number
from ...encoders.family import Family
from ...encoders.table import FAMILIES
from ...errors import InputError, must, unknown
from ...reading import read_values

READS = ("cls", "pooler", "last", "mean")
POOLERS = ("pretrained", "fresh", "none")
ACTIVATIONS = ("tanh", "gelu", "relu")

Named = Literal["stock", "own"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """
    A head for one prediction per input: one vector, then stages of dense layer and activation.

    Dropout is applied before the first stage and after each one; a linear layer comes last.

    Parameters
    ----------
    reads : {"cls", "pooler", "last", "mean"}
        The token that represents the input (the first or the last one, depending on the family); that token
        after a pooler; the last token that is not padding; the mean over all tokens that are neither
        padding nor special.
    dense : int
        Number of stages of dense layer and activation, not counting the pooler.
    pooler : {"pretrained", "fresh", "none"}
        Origin of the pooler: from the checkpoint, or randomly initialized (dense layer and tanh).
    dropout : float, optional
        The model's own when absent.
    activation : {"tanh", "gelu", "relu"}
        Of the dense stages.
    """

    reads: Literal["cls", "pooler", "last", "mean"] = "cls"
    dense: int = 1
    pooler: Literal["pretrained", "fresh", "none"] = "none"
    dropout: float | None = None
    activation: Literal["tanh", "gelu", "relu"] = "tanh"

    def __post_init__(self) -> None:
        if self.reads not in READS:
            raise unknown("what a head reads", self.reads, READS)
        if self.pooler not in POOLERS:
            raise unknown("pooler", self.pooler, POOLERS)
        if self.activation not in ACTIVATIONS:
            raise unknown("activation", self.activation, ACTIVATIONS)
        whole_number("dense", self.dense, 0)
        number = isinstance(self.dropout, Real) and 0 <= self.dropout < 1
        if self.dropout is not None and not number:
            raise must("dropout", "a number of at least 0 and below 1", self.dropout)
        if self.reads == "pooler" and self.pooler == "none":
            raise InputError("a head that reads the pooler must say pooler='pretrained' or 'fresh'.")
        if self.reads != "pooler" and self.pooler != "none":
            raise InputError(f"a head that reads {self.reads} must have pooler='none', not {self.pooler!r}.")


_BLIND = "state of the last token (the first, which the library's own head reads, sees only itself)"


def _stock(family: Family) -> Head | Named:
    return Head(reads="last", dense=1) if family.classifier.blind else "stock"


def _jiant(family: Family) -> Head:
    # jiant passed the pooler's vector to its own dense stage where the library has a pooler, and the raw
    # state where it has none (Phang et al. 2021).
    if family.jiant_pooler:
        return Head(reads="pooler", dense=1, pooler="pretrained")
    return Head(reads="cls", dense=1)


HEADS: Mapping[str, Callable[[Family], Head | Named]] = MappingProxyType(
    {"stock": _stock, "own": lambda family: "own", "jiant": _jiant}
)


def resolve(head: Head | str, family: Family) -> Head | Named:
    """
    Resolve a head for a family; raise an error if the family does not support it.

    Parameters
    ----------
    head : Head or str
        A name in `HEADS`: "stock" is the library's head for the family, or its stages on the last token
        where the library would read a first token that attends only to itself; "own" is the head that the
        checkpoint was trained with; "jiant" is that of Phang et al. 2021.
    family : Family

    Returns
    -------
    Head, "stock" or "own"
    """
    if isinstance(head, str):
        if head not in HEADS:
            raise unknown("head", head, HEADS)
        return HEADS[head](family)
    if not isinstance(head, Head):
        raise must("head", f"a Head or one of {', '.join(HEADS)}", head)
    if head.reads == "pooler" and family.classifier.blind:
        raise InputError(
            f"a head on {family.title} must read the last token or the mean, but its pooler reads the first "
            "token, which sees only itself."
        )
    if head.pooler == "pretrained" and not family.pooler:
        pooled = ", ".join(sorted(other.name for other in FAMILIES.values() if other.pooler))
        raise InputError(
            f"a head that reads a pretrained pooler must be on a family that has a pooler ({pooled}), but "
            f"{family.title} has none; pooler='fresh' makes one."
        )
    return head


def equals_stock(head: Head, family: Family) -> bool:
    """Whether a head is the same as the library's classifier of the family."""
    classifier = family.classifier
    if not classifier.exact:
        return False
    if classifier.reads == "pooler":
        return head == Head(reads="pooler", dense=0, pooler="pretrained")
    return head == Head(reads="cls", dense=1, activation=classifier.activations[0])


def describe(head: Head | str, family: Family) -> str:
    """
    Describe the stages of a head in a family.

    Examples
    --------
    >>> from microtome.encoders.families.electra import ELECTRA
    >>> describe("jiant", ELECTRA)
    'state of the first token -> dropout -> dense -> tanh -> dropout -> linear'
    """
    resolved = resolve(head, family)
    if resolved == "own":
        return "as the checkpoint has it"
    if isinstance(resolved, str):
        return family.classifier.stages
    position = "last" if family.reads == "last" else "first"
    last = _BLIND if family.classifier.blind else "state of the last token"
    source = {
        "cls": last if position == "last" else "state of the first token",
        "last": last,
        "mean": "mean of the states of tokens that are not special",
        "pooler": f"{resolved.pooler} pooler ({position} token, dense, tanh)",
    }[resolved.reads]
    stages = f" -> dense -> {resolved.activation} -> dropout" * resolved.dense
    return f"{source} -> dropout{stages} -> linear"


def read_head(text: str) -> str | Head:
    """
    Read a head as it is typed: a name, or its parts.

    Examples
    --------
    >>> read_head("jiant"), read_head("reads=mean,dense=0").reads
    ('jiant', 'mean')
    """
    if "=" not in text:
        return text
    values = read_values(text.split(","), "--head", "reads=cls,dense=1")
    names = [part.name for part in fields(Head)]
    for name in values:
        if name not in names:
            raise unknown("part of a head", name, names)
    # "none" is a word here: a head without a pooler.
    parts: Any = {name: "none" if value is None else value for name, value in values.items()}
    return Head(**parts)
