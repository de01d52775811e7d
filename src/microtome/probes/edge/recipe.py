"""Hyperparameters of edge probes, in the three published sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from ...checks import whole_number
from ...errors import must
from ..training import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class EdgeRecipe:
    """
    Hyperparameters of an edge probe and of its training.

    Parameters
    ----------
    width : int
        Dimension of the projected rows.
    hidden : int
        Dimension of the hidden layer.
    dropout : float
        Dropout rate of the hidden layer.
    row_dropout : float
        Dropout rate of the input rows, after layers are mixed.
    rate : float
        Learning rate of Adam, in the AMSGrad variant.
    batch : int
        Sentences per update, with all their targets.
    clip : float
        Maximum norm of the gradient of one probe.
    every : int
        Updates between two validations.
    steps : int
        Maximum number of updates.
    slower_after, stop_after : int
        The learning rate is halved, or training stops, after more than this many validations without an
        improvement.
    gain : float
        Smallest increase of F1 that counts as an improvement for the learning rate.
    least_rate : float
        Learning rate below which training stops.
    validation_limit : int, optional
        Maximum number of validation sentences: the first ones are used.
    """

    width: int = 256
    hidden: int = 256
    dropout: float = 0.3
    row_dropout: float = 0.2
    rate: float = 1e-4
    batch: int = 32
    clip: float = 5.0
    every: int = 500
    steps: int = 50_000
    slower_after: int = 5
    stop_after: int = 20
    gain: float = 1e-4
    least_rate: float = 1e-6
    validation_limit: int | None = 5000

    def __post_init__(self) -> None:
        for name in ("width", "hidden", "batch", "every", "steps", "validation_limit"):
            if name != "validation_limit" or self.validation_limit is not None:
                whole_number(name, getattr(self, name), least=1)
        for name in ("slower_after", "stop_after"):
            whole_number(name, getattr(self, name), least=0)
        for name in ("dropout", "row_dropout"):
            if not 0 <= getattr(self, name) < 1:
                raise must(name, "at least 0 and below 1", getattr(self, name))
        for name in ("rate", "clip"):
            if not getattr(self, name) > 0:
                raise must(name, "above 0", getattr(self, name))

    @property
    def schedule(self) -> Schedule:
        """Learning rates and early stopping, by the negative F1 of validation sentences."""
        return Schedule(
            rate=self.rate,
            factor=0.5,
            patience=self.slower_after,
            threshold=self.gain,
            least_rate=self.least_rate,
            stop_after=self.stop_after,
            clip=self.clip,
            amsgrad=True,
        )


# Published: small for proto-roles and relations, large for tags, constituents and dependencies. The dropout
# of rows is the default of the published sentence encoder, which the probing configuration does not change.
EDGE_RECIPES: Mapping[str, EdgeRecipe] = MappingProxyType(
    {
        "small": EdgeRecipe(every=100, steps=10_000),
        "middle": EdgeRecipe(every=500, steps=50_000),
        "large": EdgeRecipe(every=1000, steps=250_000),
    }
)
