"""The plan of the demonstration: which encoders, on how many examples, for how many updates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from ..errors import must

# Learning rates of encoders, found by trying 1e-4 to 3e-4 with three seeds each; the usual one for others.
RATES: Mapping[str, float] = MappingProxyType({"masked": 2e-4, "replaced": 1.5e-4, "every": 3e-4})
USUAL = 1.5e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoPlan:
    """
    What is run, and how much of it.

    Parameters
    ----------
    encoders : tuple of str
        Of the package. The random baseline of the first one is the floor for all.
    task : str
        A generated one, so that nothing must be fetched and there are always unseen examples.
    seeds : tuple of int
        Of fine-tuning.
    random_seed : int
        Seed of the random baseline's weights; it is fine-tuned with the first of the seeds.
    train, rest, validation, test : int
        Examples: to train on; of the same split to certify cuts on; to look at layers and to choose cuts;
        and to look at once, at the end.
    head_examples : int
        Examples that heads at single layers learn from.
    steps, batch : int
        Updates of a fine-tuning, and examples of each.
    rate : float, optional
        The largest learning rate; when absent that of `RATES`, at which an encoder learns in few updates.
    longest : int
        Tokens of an example at most.
    max_drop : float
        What pruning may lose, in points of 100.
    """

    encoders: tuple[str, ...] = ("masked", "replaced", "every")
    task: str = "polarity"
    seeds: tuple[int, ...] = (1, 2)
    random_seed: int = 0
    train: int = 2_000
    rest: int = 400
    validation: int = 200
    test: int = 300
    head_examples: int = 200
    steps: int = 180
    batch: int = 8
    rate: float | None = None
    longest: int = 40
    max_drop: float = 5.0

    def __post_init__(self) -> None:
        if not self.encoders or len(set(self.encoders)) < len(self.encoders):
            raise must("encoders", "one or more, each once", self.encoders)
        if not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise must("seeds", "one or more, each once", self.seeds)
        for name in ("train", "rest", "validation", "test", "head_examples", "steps", "batch"):
            if getattr(self, name) < 1:
                raise must(name, "at least 1", getattr(self, name))
        if self.head_examples > self.train:
            raise must("head_examples", f"at most the {self.train:,} examples of train", self.head_examples)

    @property
    def sizes(self) -> Mapping[str, int]:
        """How many examples each split of the task is given."""
        return MappingProxyType(
            {"train": self.train + self.rest, "validation": self.validation, "test": self.test}
        )

    def training(self, name: str) -> Mapping[str, Any]:
        """
        Options of `finetune` beside the encoder, the task and the seed.

        Parameters
        ----------
        name : str
            Of the encoder, or of its random baseline.
        """
        usual = next((rate for encoder, rate in RATES.items() if name.startswith(encoder)), USUAL)
        return MappingProxyType(
            {
                "recipe": "devlin2019",
                "train_size": self.train,
                "steps": self.steps,
                "batch": self.batch,
                "rate": usual if self.rate is None else self.rate,
                "longest": self.longest,
                # So few updates leave no time for averages to warm up, nor for padding.
                "bias_correction": True,
                "bucket": True,
            }
        )


WHOLE = DemoPlan()
# To see that everything works: too few examples and updates to conclude much.
QUICK = DemoPlan(train=256, rest=120, validation=120, test=120, head_examples=128, steps=30)
