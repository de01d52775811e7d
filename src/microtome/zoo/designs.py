"""Which small encoders are there to be made? A value each, and they differ in the objective alone."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Literal

from ..errors import must, unknown

Objective = Literal["masked", "every", "replaced", "causal"]
OBJECTIVES: tuple[Objective, ...] = ("masked", "every", "replaced", "causal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """
    How a small encoder is made.

    Every design has the same post-norm block, the same tokenizer, the same texts in the same order and the
    same number of updates.

    A deep post-norm model that guesses hidden tokens stays at word frequencies for thousands of updates
    before it finds out that neighbors matter. Three things shorten that to some hundred and let it bear a
    high rate: `waves`, `focus` and `kept`.

    Parameters
    ----------
    name, title : str
    objective : {"masked", "every", "replaced", "causal"}
        Guess hidden tokens; guess every token of the same input; tell replaced tokens from real ones; guess
        the next token.
    shared : bool
        Whether all layers share the weights of one block.
    differs : str
        What sets it apart from the masked one besides its objective.
    layers, width, heads, inner : int
        Shape of the encoder.
    vocabulary, length : int
        Entries of the tokenizer, and tokens of a sequence with its two ends.
    batch, steps : int
        Sequences an update, and updates.
    rate, warmup, decay, clip : float
        Peak rate, share of updates until it is reached, weight decay, largest norm of a gradient.
    betas : tuple of float
    eps : float
    spread : float
        Standard deviation of drawn weights.
    waves : bool
        Whether positions, which are learned, begin as waves of different lengths instead of being drawn: a
        neighbor is then the same turn away everywhere, and need not be learned for each place alone.
    focus : float
        How many times as large a spread queries and keys are drawn with: attention then differs between
        tokens from the beginning.
    hidden : float
        Share of tokens that are hidden or replaced.
    kept : float
        Share of the hidden tokens that are guessed though they stand in the input, so that what a token is
        is not lost on the way up; none where tokens are replaced.
    generator : tuple of int
        Layers and width of the model that replaces tokens; its embeddings are the encoder's.
    weight : float
        Of telling replaced tokens beside the generator's own loss.
    """

    name: str
    title: str
    objective: Objective
    shared: bool = False
    differs: str = ""
    layers: int = 12
    width: int = 128
    heads: int = 4
    inner: int = 512
    vocabulary: int = 8_000
    length: int = 128
    batch: int = 512
    steps: int = 4_500
    rate: float = 2e-3
    warmup: float = 0.06
    decay: float = 0.01
    clip: float = 1.0
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-6
    spread: float = 0.05
    waves: bool = True
    focus: float = 3.0
    hidden: float = 0.25
    kept: float = 0.15
    generator: tuple[int, int] = (4, 64)
    weight: float = 50.0

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise unknown("objective", self.objective, OBJECTIVES)
        for name in ("layers", "width", "heads", "inner", "batch", "steps"):
            if not isinstance(getattr(self, name), int) or getattr(self, name) < 1:
                raise must(name, "a whole number of at least 1", getattr(self, name))
        if self.width % self.heads:
            raise must("width", f"a multiple of the {self.heads} heads", self.width)
        if self.length < 8:
            raise must("length", "at least 8", self.length)
        if not self.spread > 0:
            raise must("spread", "above 0", self.spread)
        if not self.focus > 0:
            raise must("focus", "above 0", self.focus)
        if not 0 < self.hidden < 1:
            raise must("hidden", "a share between 0 and 1", self.hidden)
        if not 0 <= self.kept < 1:
            raise must("kept", "a share of at least 0 and below 1", self.kept)

    @property
    def guessed(self) -> int:
        """Tokens of a sequence that are hidden or replaced: always as many, so that shapes stay."""
        return max(1, round(self.hidden * (self.length - 2)))

    @property
    def shown(self) -> int:
        """Tokens of a sequence that are guessed though they stand in the input."""
        return round(self.kept * self.guessed)

    def specification(self) -> dict[str, Any]:
        """Everything that decides the weights, as plain data."""
        told = asdict(self)
        del told["title"], told["differs"]
        return {**told, "betas": list(self.betas), "generator": list(self.generator)}


_MASKED = Design(
    name="masked",
    title="Masked language model",
    objective="masked",
)
_ALL = (
    _MASKED,
    replace(
        _MASKED,
        name="shared",
        title="Masked language model whose layers share one block",
        shared=True,
        rate=1.5e-3,
        differs="all layers share one block (ALBERT's classes); a lower rate",
    ),
    replace(_MASKED, name="every", title="Masked language model scored on every token", objective="every"),
    replace(
        _MASKED,
        name="replaced",
        title="Replaced-token detection",
        objective="replaced",
        rate=7e-4,
        differs="a lower rate: at 1e-3 and above it learned later or not at all",
    ),
    replace(_MASKED, name="causal", title="Causal language model", objective="causal"),
)
DESIGNS: Mapping[str, Design] = MappingProxyType({one.name: one for one in _ALL})


def find_design(given: str | Design, **values: Any) -> Design:
    """
    Find a design by its name, with other values where they are given.

    Parameters
    ----------
    given : str or Design
    **values
        Such as steps=100, width=256.

    Returns
    -------
    Design
    """
    if isinstance(given, str):
        if given not in DESIGNS:
            raise unknown("design", given, DESIGNS)
        given = DESIGNS[given]
    known = [one.name for one in fields(Design)]
    for name in values:
        if name not in known:
            raise unknown("value of a design", name, known)
    return replace(given, **values)
