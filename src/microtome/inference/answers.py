"""Predictions of models, and their alignment by example and by seed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InputError, must


@dataclass(frozen=True, slots=True, kw_only=True)
class Answers:
    """
    Predictions of one model, trained with one seed or with several.

    Parameters
    ----------
    ids : sequence of str
        Of the examples.
    targets : sequence
        Gold answers.
    predictions : sequence of sequences
        For each seed, one prediction per example.
    groups : sequence, optional
        The group of each example, where several share a text.
    seeds : sequence, optional
        Names of the seeds, which are needed to pair them.
    """

    ids: Sequence[str]
    targets: Any
    predictions: Sequence[Any]
    groups: Any = None
    seeds: Sequence[int | str] = ()

    def __post_init__(self) -> None:
        n = len(self.ids)
        if len(set(self.ids)) != n:
            raise InputError("ids of examples must be unique, but some stand twice.")
        if not len(self.predictions):
            raise must("predictions", "of at least one seed", 0)
        if len(self.targets) != n or any(len(predictions) != n for predictions in self.predictions):
            counts = (
                f"{len(self.targets)} targets and "
                f"{[len(predictions) for predictions in self.predictions]} predictions"
            )
            raise must("answers", f"one target and one prediction per seed for each of the {n} ids", counts)
        if len(self.seeds) and len(self.seeds) != len(self.predictions):
            raise must("seeds", f"one name for each of {len(self.predictions)}", list(self.seeds))
        if len(set(self.seeds)) != len(self.seeds):
            raise must("seeds", "each there once", list(self.seeds))

    def take(self, runs: Sequence[int]) -> Answers:
        """The predictions of some of the seeds, by their indices and in this order."""
        if list(runs) == list(range(len(self.predictions))):
            return self
        return replace(
            self,
            predictions=[self.predictions[run] for run in runs],
            seeds=[self.seeds[run] for run in runs] if len(self.seeds) else (),
        )


def aligned(first: Answers, second: Answers) -> Answers:
    """Reorder the second answers like the first, after checking that the examples are the same."""
    positions = {name: index for index, name in enumerate(second.ids)}
    missing = [name for name in first.ids if name not in positions]
    extra = set(second.ids) - set(first.ids)
    if missing or extra:
        named = missing[0] if missing else min(extra)
        which = "first" if missing else "second"
        raise InputError(
            "two models must be compared on the same examples, but "
            f"{len(missing) + len(extra)} have one only, such as {named!r} (the {which})."
        )
    order = [positions[name] for name in first.ids]
    targets = [second.targets[index] for index in order]
    for name, ours, theirs in zip(first.ids, first.targets, targets, strict=True):
        if _plain(ours) != _plain(theirs):
            raise InputError(
                f"two models must be compared on the same examples, but {name!r} has the target {ours!r} for "
                f"the first and {theirs!r} for the second."
            )
    return Answers(
        ids=first.ids,
        targets=first.targets,
        predictions=[[predictions[index] for index in order] for predictions in second.predictions],
        groups=first.groups,
        seeds=second.seeds,
    )


def seeds_aligned(first: Answers, second: Answers) -> Answers:
    """Reorder the seeds of the second answers like those of the first."""
    if not len(first.seeds) or set(first.seeds) != set(second.seeds):
        raise must(
            "seeds to pair", "named alike on both sides", f"{list(first.seeds)} and {list(second.seeds)}"
        )
    return second.take([list(second.seeds).index(seed) for seed in first.seeds])


def _plain(target: Any) -> Any:
    if hasattr(target, "tolist"):
        return target.tolist()
    return [_plain(part) for part in target] if isinstance(target, tuple | list) else target
