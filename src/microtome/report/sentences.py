"""Statements and their words: bounds are rounded outward, and every interval names its unit."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Statement:
    """
    One sentence, and how it is to be read.

    Parameters
    ----------
    text : str
    sure : bool, optional
        Whether it was shown; a sentence that says that nothing is shown is not sure either way, and of None
        it is not known here.
    layers : tuple of str
        Names of the layers it speaks of, as a map calls them.
    headline : bool
        Whether it stands among the findings at the top, too.
    evidence : str
        The numbers behind it, in smaller type.
    about : str
        Model and task, written before it among the findings of all results.
    """

    text: str
    sure: bool | None = False
    layers: tuple[str, ...] = ()
    headline: bool = False
    evidence: str = ""
    about: str = ""

    @property
    def full(self) -> str:
        """The sentence with its evidence."""
        return f"{self.text} {self.evidence}".rstrip()


def percent(level: float) -> str:
    """
    Write a level of confidence.

    Examples
    --------
    >>> percent(0.95), percent(0.995)
    ('95 %', '99.5 %')
    """
    return f"{round(level * 100, 6):g} %"


def doubt(level: float, what: str, unit: str) -> str:
    """
    Say what an interval promises, and what it takes as independent.

    Examples
    --------
    >>> doubt(0.95, "for all cuts at once", "example")
    '(95 %, for all cuts at once, unit: example)'
    """
    return f"({', '.join(part for part in (percent(level), what, f'unit: {unit}') if part)})"
