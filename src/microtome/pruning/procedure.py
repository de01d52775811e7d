"""Procedure of pruning: examples that choose cuts, fine-tuning of cuts, and other examples that certify."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from ..context import Context
from ..errors import InputError
from ..inference.seeds import Standing, against_baseline
from ..interventions.applying import apply
from ..interventions.blocks import Skip
from ..scores.declare import Score
from ..scores.table import find_score
from ..tasks.baselines import baseline
from ..tasks.task import Item, Split, Task
from ..training.cut_store import as_answers, cut_answers, digest_model
from ..training.cuts import Cut
from ..training.evaluating import guessed_from
from ..training.opening import Model
from ..training.precision import choose_dtype
from ..training.recipe import find_recipe
from .certifying import Candidate, Step, fix_sequence, run_sequence
from .examples import Examples, trained_part
from .looks import Look, find_lineage, take_look
from .margin import Drop, judge_drop
from .search import MISSES


def check_recoverable(model: Model) -> None:
    """Refuse a model whose head no class of the library has."""
    if model.pooling is not None or model.task_model.reader is not None:
        problem = "a sentence encoder" if model.pooling is not None else "a head of its own beside the model"
        raise InputError(
            f"a model to be recovered must have a head of the library, but {model.name} has {problem}."
        )


def recover_cut(model: Model, task: Task, cut: Cut, options: Any, context: Context) -> Model:
    """
    Fine-tune a cut of a model.

    Parameters
    ----------
    model : Model
    task : Task
    cut : tuple of int
        The blocks that stay.
    options : Pruning
        The number of updates, recipe, seed and precision of the fine-tuning.
    context : Context

    Returns
    -------
    Model
        An entry of the store.
    """
    from ..training.finetuning import finetune

    out = tuple(block for block in range(1, model.depth + 1) if block not in cut)
    tuned = finetune(
        apply(model.encoder, Skip(blocks=out)),
        trained_part(task, model),
        options.recipe,
        seed=options.seed,
        head="own",
        context=context,
        dtype=options.dtype,
        **{"steps": options.recover, "epochs": None, **options.changes},
    )
    return replace(
        model,
        task_model=tuned.model,
        encoder=tuned.encoder,
        digest=digest_model(tuned.model, tuned.encoder.tokenizer),
        precision=choose_dtype(context.device, options.dtype, model.encoder.family),
    )


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
            "exhaustive": options.exhaustive,
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
            request |= {
                "recipe": recipe.specification(),
                "seed": options.seed,
                "precision": choose_dtype(self.context.device, options.dtype, self.model.encoder.family),
            }
        return take_look(split, model=self.lineage, request=request, beside=beside, context=self.context)

    def answers(self, split: Split, cuts: Sequence[Cut], model: Model | None = None) -> dict[Cut, Any]:
        """What cuts answer, kept in the store."""
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

    def cost(self, items: Iterable[Item], full: Any, predictions: Any) -> float:
        """What is lost by other predictions than those of the full model, in points."""
        sign = 1 if self.score.higher_is_better else -1
        targets = [item.target for item in items]
        before, after = (
            sign * self.score.points * float(self.score.compute(answers, targets, self.task.labels))
            for answers in (full, predictions)
        )
        return before - after if math.isfinite(before - after) else math.inf

    def drop(self, split: Split, cut: Cut, small: Model | None = None, *, level: float) -> Drop:
        """Judge a cut, or what became of it, on some examples."""
        if small is not None:
            return self.judged(split, self.full_answers(split), self.full_answers(split, small), level=level)
        answers = self.answers(split, [self.full, cut])
        return self.judged(split, answers[self.full], answers[cut], level=level)

    def judged(self, items: Iterable[Item], full: Any, cut: Any, **options: Any) -> Drop:
        """Judge what a cut answers beside what the whole model answers."""
        before, after = (as_answers(items, [answers]) for answers in (full, cut))
        options["max_drop"] = float(self.options.max_drop)
        return judge_drop(self.score, before, after, self.task.labels, **options)

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
            return self.judged(split, answers[self.full], answers[cut], level=level)

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
            cost = self.cost(choose, full, self.full_answers(choose, small))
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
