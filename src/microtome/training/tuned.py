"""Fine-tuned models: weights, predictions and the record of the training."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, cast

from ..encoders.encoder import TransformerEncoder
from ..errors import must
from ..inference.estimate import Estimate
from .evaluating import Evaluation
from .recipe import Recipe

if TYPE_CHECKING:
    from .models.modeling import TaskModel

RUN, ANSWERS = "run.json", "predictions.parquet"
FailureKind = Literal["diverged", "collapsed"]


class Failure(str):
    """
    How a training failed.

    Parameters
    ----------
    kind : {"diverged", "collapsed"}
        The loss became non-finite, or all predictions are the same.
    detail : str

    Examples
    --------
    >>> Failure("diverged", "the loss was inf at update 3"), Failure("collapsed: one answer").kind
    ('diverged: the loss was inf at update 3', 'collapsed')
    """

    __slots__ = ()

    def __new__(cls, kind: str, detail: str = "") -> Self:
        """Join both parts; a failure that is written already has them."""
        return super().__new__(cls, f"{kind}: {detail}" if detail else kind)

    @property
    def kind(self) -> FailureKind:
        """Whether training diverged or collapsed."""
        return cast("FailureKind", self.partition(": ")[0])


def read_failure(record: Mapping[str, Any]) -> Failure | None:
    """Read the failure of a run from its record."""
    return Failure(record["failure"]) if record.get("failure") else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Seeds:
    """
    Seeds of the random parts of a fine-tuning.

    Parameters
    ----------
    init : int
        Initialization of new weights: the head, a fresh pooler.
    order : int
        Order of the examples, and dropout.
    subset : int
        Choice of the training examples, where not all are used.
    """

    init: int
    order: int
    subset: int

    def __post_init__(self) -> None:
        for name in ("init", "order", "subset"):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool) or value < 0:
                raise must(f"seed of {name}", "a whole number of at least 0", value)


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """
    A fine-tuned model, with the record of its training.

    Parameters
    ----------
    encoder : Encoder
        The tuned model as an encoder, with its head.
    model : TaskModel
        The same model with the outputs of the task.
    task : str
    recipe : Recipe
    seeds : Seeds
    train_size : int
        Number of training examples.
    longest : int
        Maximum number of tokens per example.
    evaluation : Evaluation
        On the validation split.
    course : mapping
        Updates, losses and seconds.
    failure : Failure, optional
        Why the run must not be averaged with others: it diverged, or predicts the same for all examples.
    folder : Path
        The checkpoint, as `from_pretrained` reads it.
    address : str
        In the store.
    checkpoints : tuple of Path
        Intermediate checkpoints, in order.
    """

    encoder: TransformerEncoder = field(repr=False)
    model: TaskModel = field(repr=False)
    task: str
    recipe: Recipe = field(repr=False)
    seeds: Seeds
    train_size: int
    longest: int
    evaluation: Evaluation = field(repr=False)
    course: Mapping[str, Any] = field(repr=False)
    failure: Failure | None = None
    folder: Path
    address: str
    checkpoints: tuple[Path, ...] = ()

    @property
    def scores(self) -> Mapping[str, Estimate]:
        """Every score of the task on its validation split."""
        return self.evaluation.scores

    @property
    def score(self) -> Estimate:
        """The score of the task."""
        return self.evaluation.score

    @property
    def predictions(self) -> tuple[Any, ...]:
        """Predictions on the validation split, in its order."""
        return self.evaluation.predictions
