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
from ..scores.table import find_score
from ..tasks.baselines import baseline
from ..tasks.items import Split
from ..tasks.task import Task
from ..training.cut_store import as_answers, cut_answers
from ..training.cuts import Cut
from ..training.evaluating import guessed_from
from ..training.opening import Model
from ..training.recipe import find_recipe
from .candidates import ALL_SPANS, first_candidates, more_candidates, similar_layers
from .certifying import Candidate, Step, fix_sequence, run_sequence
from .examples import Examples
from .looks import Look, find_lineage, take_look
from .margin import Drop, judge_drop
from .recovering import recover_cut

MISSES = 2  # recovered models in a row beyond the margin that end the search


@dataclass(frozen=True, kw_only=True)
class Procedure:
    """
    One pruning, with all it needs.

    Parameters
    ----------
    model : Model
    task : Task
    examples : Examples
    options : Pruning
        The experiment, whose options these are.
    context : Context
    """

    model: Model
    task: Task
    examples: Examples
    options: Any
    context: Context

    @cached_property
    def score(self) -> Score:
        """The score of the task."""
        return find_score(self.task.main)

    @property
    def unit(self) -> str:
        """Of losses."""
        return "points" if self.score.points == 100 else "of perplexity"

    @property
    def full(self) -> Cut:
        """All blocks."""
        return tuple(range(1, self.model.depth + 1))

    @cached_property
    def lineage(self) -> str:
        """What the looks of this model have in common."""
        return find_lineage(self.model.folder, self.model.digest)

    @cached_property
    def look(self) -> Look:
        """The look at the examples that certify, which is entered before they are answered."""
        return self.look_at(self.examples.certify, beside=(self.examples.choose,))

    def look_at(self, split: Split, beside: Sequence[Split] = ()) -> Look:
        """Enter a look at some examples; all that was asked for tells one request from another."""
        options = self.options
        request = {
            "beam": options.beam,
            "recover": options.recover,
            "max_drop": float(options.max_drop),
            "level": self.context.level,
            "score": self.score.name,
            "choose": self.examples.choose.digest,
            "examples": split.digest,
        }
        if options.recover:
            recipe = find_recipe(
                options.recipe, **{"steps": options.recover, "epochs": None, **options.changes}
            )
            training = {"recipe": recipe.specification(), "seed": options.seed, "precision": options.dtype}
            request |= training
        return take_look(split, model=self.lineage, request=request, beside=beside, context=self.context)

    def answers(self, split: Split, cuts: Sequence[Cut], model: Model | None = None) -> dict[Cut, Any]:
        """What cuts answer, kept in the store."""
        if not cuts:
            return {}
        answers = cut_answers(model or self.model, self.task, split, cuts, context=self.context)
        return dict(zip(cuts, answers, strict=True))

    def full_answers(self, split: Split, small: Model | None = None) -> Any:
        """What the whole model answers, or what became of a cut."""
        full = self.full if small is None else tuple(range(1, small.depth + 1))
        return self.answers(split, [full], small)[full]

    def standing(self, split: Split) -> Standing | None:
        """The whole model beside the majority baseline (of the training split); None without one."""
        train = guessed_from(self.task) or self.examples.choose
        learned, targets = ([item.target for item in part] for part in (train, split))
        majority = baseline(self.task.kind, learned, targets, self.task.labels)
        if majority is None:
            return None
        answers = as_answers(split, [self.full_answers(split)])
        value = float(self.score.compute(majority, targets, self.task.labels))
        return against_baseline(self.score, answers, value, self.task.labels, level=self.context.level)

    def choose(self) -> tuple[dict[Cut, float], str]:
        """Score candidates on the examples that choose: what each costs, in points."""
        model, split = self.model, self.examples.choose
        net, depth, alike = model.task_model, model.depth, None
        if depth > ALL_SPANS and not net.family.shared:
            alike = similar_layers(net, split, self.task, model.tokenizer, longest=model.longest)
        cuts, tried = first_candidates(net, alike=alike, beam=self.options.beam)
        if not cuts:
            raise InputError(f"{model.name} must have blocks that can be cut, but its family allows no cut.")
        answers = self.answers(split, [self.full, *cuts])
        full = answers[self.full]
        costs = {cut: self._cost(split, full, answers[cut]) for cut in cuts}
        beyond = 0
        # From each size on, one block more out of the best: cuts that no span or top cut is.
        for removed in range(1, depth - 1):
            best = min((costs[cut] for cut in costs if len(cut) == depth - removed), default=math.inf)
            beyond = beyond + 1 if best > self.options.max_drop else 0
            if beyond >= MISSES:
                break
            for cut, predictions in self.answers(split, more_candidates(net, costs, removed)).items():
                costs[cut] = self._cost(split, full, predictions)
        if len(costs) > len(cuts):
            tried += f", and {len(costs) - len(cuts)} with one block more taken out of the cheapest"
        return costs, tried

    def _cost(self, split: Split, full: Any, predictions: Any) -> float:
        """What is lost by other predictions than those of the full model, in points."""
        sign = 1 if self.score.higher_is_better else -1
        targets = [item.target for item in split]
        before, after = (
            sign * self.score.points * float(self.score.compute(answers, targets, self.task.labels))
            for answers in (full, predictions)
        )
        return before - after if math.isfinite(before - after) else math.inf

    def drop(self, split: Split, cut: Cut, small: Model | None = None, *, level: float) -> Drop:
        """Judge a cut, or what became of it, on some examples."""
        if small is not None:
            return self._judged(split, self.full_answers(split), self.full_answers(split, small), level)
        answers = self.answers(split, [self.full, cut])
        return self._judged(split, answers[self.full], answers[cut], level)

    def _judged(self, split: Split, full: Any, cut: Any, level: float) -> Drop:
        before, after = (as_answers(split, [answers]) for answers in (full, cut))
        max_drop = float(self.options.max_drop)
        return judge_drop(self.score, before, after, self.task.labels, max_drop=max_drop, level=level)

    def certify(self, costs: Mapping[Cut, float]) -> tuple[list[Step], dict[Cut, Model]]:
        """Test the fixed sequence on the examples that certify; models that were tuned come along."""
        candidates = [
            Candidate(what=cut, removed=self.model.depth - len(cut), cost=cost) for cut, cost in costs.items()
        ]
        if self.options.recover:
            return self._certify_recovered(candidates)
        sequence = fix_sequence(candidates, self.options.max_drop)
        if not sequence:
            return [], {}
        split, level = self.examples.certify, self.look.level
        # All in one pass; whether an answer is looked at is decided by the tests before it.
        answers = self.answers(split, [self.full, *(candidate.what for candidate in sequence)])

        def judge(cut: Cut) -> Drop:
            return self._judged(split, answers[self.full], answers[cut], level)

        return run_sequence(sequence, judge), {}

    def _certify_recovered(self, candidates: Sequence[Candidate]) -> tuple[list[Step], dict[Cut, Model]]:
        """
        Do the same with models that are fine-tuned after the cut.

        Which come into the sequence is decided by the examples that choose, before and after the tuning;
        tuning stops where the sequence does.
        """
        choose, certify = self.examples.choose, self.examples.certify
        full = self.full_answers(choose)
        best: dict[int, Candidate] = {}
        for candidate in candidates:
            if candidate.removed not in best or candidate.cost < best[candidate.removed].cost:
                best[candidate.removed] = candidate
        steps: list[Step] = []
        models: dict[Cut, Model] = {}
        misses = 0
        for removed, candidate in sorted(best.items()):
            cut = candidate.what
            small = recover_cut(self.model, self.task, cut, self.options, self.context)
            cost = self._cost(choose, full, self.full_answers(choose, small))
            if cost > self.options.max_drop:
                misses += 1
                if misses == MISSES:
                    break
                continue
            misses, models[cut] = 0, small
            drop = self.drop(certify, cut, small, level=self.look.level)
            steps.append(Step(candidate=Candidate(what=cut, removed=removed, cost=cost), found=drop))
            if not drop.safe:
                break
        return steps, models
