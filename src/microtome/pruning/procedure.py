"""Procedure of pruning: examples that choose cuts, and others that certify the chosen sequence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ..context import Context
from ..errors import InputError
from ..inference.baselines import Standing, against_baseline
from ..scores.declare import Score
from ..tasks.baselines import baseline
from ..tasks.items import Split
from ..tasks.task import Task
from ..training.cut_store import as_answers, cut_answers
from ..training.cuts import Cut
from ..training.opening import Model
from .candidates import ALL_SPANS, first_candidates, more_candidates, similar_layers
from .certifying import Candidate, Step, fix_sequence, run_sequence
from .examples import Examples
from .looks import Look, find_lineage, take_look
from .margin import Drop, judge_drop
from .recovering import Recover

MISSES = 2  # recovered models in a row beyond the margin that end the search


@dataclass(frozen=True, kw_only=True)
class Procedure:
    """
    One pruning, with all it needs.

    Parameters
    ----------
    model : Model
    task : Task
    score : Score
    examples : Examples
    max_drop, level : float
    how : mapping
        What else was asked for, which tells one request from another.
    context : Context
    """

    model: Model
    task: Task
    score: Score
    examples: Examples
    max_drop: float
    level: float
    how: Mapping[str, Any]
    context: Context

    @property
    def full(self) -> Cut:
        """All blocks."""
        return tuple(range(1, self.model.depth + 1))

    @cached_property
    def lineage(self) -> str:
        """What the looks of this model have in common."""
        model = self.model
        return find_lineage(model.folder, model.digest)

    @cached_property
    def look(self) -> Look:
        """The look at the examples that certify, which is entered before they are answered."""
        return self.look_at(self.examples.certify, beside=(self.examples.choose,))

    def look_at(self, split: Split, **more: Any) -> Look:
        """Enter a look at some examples."""
        request = {
            **self.how,
            "max_drop": self.max_drop,
            "level": self.level,
            "score": self.score.name,
            "choose": self.examples.choose.digest,
            "examples": split.digest,
        }
        return take_look(
            split, model=self.lineage, request=request, level=self.level, context=self.context, **more
        )

    def answers(self, split: Split, cuts: Sequence[Cut], model: Model | None = None) -> dict[Cut, Any]:
        """What cuts answer, kept in the store."""
        if not cuts:
            return {}
        answers = cut_answers(model or self.model, self.task, split, cuts, context=self.context)
        return dict(zip(cuts, answers, strict=True))

    def value(self, split: Split, predictions: Any) -> float:
        """Score in points, higher is better."""
        sign = 1 if self.score.higher_is_better else -1
        targets = [item.target for item in split]
        return sign * self.score.points * float(self.score.compute(predictions, targets, self.task.labels))

    def standing(self, split: Split) -> Standing | None:
        """The whole model beside the majority answer of the examples that choose; None without one."""
        learned, targets = ([item.target for item in part] for part in (self.examples.choose, split))
        majority = baseline(self.task.kind, learned, targets, self.task.labels)
        if majority is None:
            return None
        answers = as_answers(split, [self.answers(split, [self.full])[self.full]])
        level = float(self.score.compute(majority, targets, self.task.labels))
        return against_baseline(self.score, answers, level, self.task.labels, level=self.level)

    def choose(self, beam: int) -> tuple[dict[Cut, float], str]:
        """Score candidates on the examples that choose: what each costs, in points."""
        model, split = self.model, self.examples.choose
        alike = None
        if model.depth > ALL_SPANS and not model.task_model.family.shared:
            alike = similar_layers(model.task_model, split, self.task, model.tokenizer, longest=model.longest)
        cuts, tried = first_candidates(model.task_model, alike=alike, beam=beam)
        if not cuts:
            raise InputError(f"{model.name} must have blocks that can be cut, but its family allows no cut.")
        answers = self.answers(split, [self.full, *cuts])
        full = self.value(split, answers[self.full])
        costs = {cut: self._cost(split, full, answers[cut]) for cut in cuts}
        beyond = 0
        # From each size on, one block more out of the best: cuts that no span or top cut is.
        for removed in range(1, model.depth - 1):
            best = min((costs[cut] for cut in costs if len(cut) == model.depth - removed), default=math.inf)
            beyond = beyond + 1 if best > self.max_drop else 0
            if beyond >= MISSES:
                break
            further = more_candidates(model.task_model, costs, removed)
            for cut, predictions in self.answers(split, further).items():
                costs[cut] = self._cost(split, full, predictions)
        if len(costs) > len(cuts):
            tried += f", and {len(costs) - len(cuts)} with one block more taken out of the cheapest"
        return costs, tried

    def _cost(self, split: Split, full: float, predictions: Any) -> float:
        cost = full - self.value(split, predictions)
        return cost if math.isfinite(cost) else math.inf

    def drop(self, split: Split, cut: Cut, small: Model | None = None, *, level: float) -> Drop:
        """Judge a cut, or what became of it, on some examples."""
        if small is None:
            answers = self.answers(split, [self.full, cut])
            return self._judged(split, answers[self.full], answers[cut], level)
        theirs = tuple(range(1, small.depth + 1))
        full = self.answers(split, [self.full])[self.full]
        return self._judged(split, full, self.answers(split, [theirs], small)[theirs], level)

    def _judged(self, split: Split, full: Any, cut: Any, level: float) -> Drop:
        return judge_drop(
            self.score,
            as_answers(split, [full]),
            as_answers(split, [cut]),
            self.task.labels,
            max_drop=self.max_drop,
            level=level,
        )

    def on_choosing(self, cut: Cut) -> Drop:
        """What a cut costs on the examples that choose."""
        return self.drop(self.examples.choose, cut, level=self.level)

    def candidates(self, costs: Mapping[Cut, float]) -> list[Candidate[Cut]]:
        """Cuts with what they save and cost."""
        depth = self.model.depth
        return [Candidate(what=cut, removed=depth - len(cut), cost=cost) for cut, cost in costs.items()]

    def certify(self, costs: Mapping[Cut, float]) -> tuple[list[Step[Cut]], dict[Cut, Model]]:
        """Test the fixed sequence on the examples that certify."""
        sequence = fix_sequence(self.candidates(costs), self.max_drop)
        if not sequence:
            return [], {}
        split, level = self.examples.certify, self.look.level
        # All in one pass; whether an answer is looked at is decided by the tests before it.
        answers = self.answers(split, [self.full, *(candidate.what for candidate in sequence)])

        def judge(cut: Cut) -> Drop:
            return self._judged(split, answers[self.full], answers[cut], level)

        return run_sequence(sequence, judge), {}

    def certify_recovered(
        self, costs: Mapping[Cut, float], recover: Recover
    ) -> tuple[list[Step[Cut]], dict[Cut, Model]]:
        """
        Do the same with models that were fine-tuned after the cut.

        Which come into the sequence is decided by the examples that choose, before and after the tuning;
        tuning stops where the sequence does.
        """
        choose, certify = self.examples.choose, self.examples.certify
        full = self.value(choose, self.answers(choose, [self.full])[self.full])
        best: dict[int, Candidate[Cut]] = {}
        for candidate in self.candidates(costs):
            if candidate.removed not in best or candidate.cost < best[candidate.removed].cost:
                best[candidate.removed] = candidate
        steps: list[Step[Cut]] = []
        models: dict[Cut, Model] = {}
        misses = 0
        for removed in sorted(best):
            small = recover(best[removed].what)
            theirs = tuple(range(1, small.depth + 1))
            cost = self._cost(choose, full, self.answers(choose, [theirs], small)[theirs])
            if cost > self.max_drop:
                misses += 1
                if misses == MISSES:
                    break
                continue
            misses, cut = 0, best[removed].what
            models[cut] = small
            drop = self.drop(certify, cut, small, level=self.look.level)
            steps.append(Step(candidate=Candidate(what=cut, removed=removed, cost=cost), found=drop))
            if not drop.safe:
                break
        return steps, models
