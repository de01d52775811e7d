"""How small can a model get without losing more than a margin? Cut, certify on unseen examples, hand over."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import InputError, must
from ..store.address import address
from ..tasks.baselines import baseline
from ..tasks.items import Split
from ..tasks.scores import find_score
from ..tasks.scores_declare import Score
from ..tasks.task import Task
from ..training.cuts import Cut
from ..version import VERSION
from .candidates import ALL_SPANS, BEAM, first_candidates, more_candidates, similar_layers
from .certifying import Candidate, Step, certified, fix_sequence, run_sequence
from .examples import Examples, find_examples
from .margin import Drop, judge_drop
from .opening import Subject, as_answers, kept_answers, open_subject
from .pruned import Pruned
from .recovering import Recover, recovering
from .saying import said_of, said_of_confirmation
from .speed import cut_model, measure_speed

Progress = Callable[[str, int, int], None]
MISSES = 2  # recovered models in a row beyond the margin that end the search


def prune(
    tuned: Any,
    task: Task,
    max_drop: float = 1.0,
    *,
    on: str | None = None,
    certify_on: str | None = None,
    confirm_on: str | None = None,
    share: float = 0.5,
    level: float = 0.95,
    seed: int = 0,
    beam: int = BEAM,
    recover: int = 0,
    recipe: Any = "devlin2019",
    precision: str = "float32",
    speed: bool = True,
    device: str = "cpu",
    store: str | os.PathLike[str] | None = None,
    progress: Progress | None = None,
    command: str = "",
    **values: Any,
) -> Pruned:
    """
    Find the smallest cut of a model that surely loses less than a margin.

    Parameters
    ----------
    tuned : Tuned, Encoder or path
        A model with a head for the task: a classifier, a causal or masked language model; or a sentence
        encoder, which is judged by the cosines of its embeddings.
    task : Task
    max_drop : float
        What may be lost, in points of 100; of perplexity in its own units.
    on, certify_on, confirm_on, share
        See `find_examples`.
    level : float
        One-sided: "safe" is said falsely in at most 1 - level of cases.
    seed : int
        Of the draw of the examples, and of recovery.
    beam : int
        Spans of each length that are tried in models of more than 16 blocks.
    recover : int
        Updates that each cut of the sequence is tuned for before it is judged; 0 cuts only.
    recipe : str or Recipe
        Of recovery.
    precision : str
        Of recovery.
    speed : bool
        Whether both models are timed.
    device : str
    store : path, optional
        Where answers and recovered models are kept, so that asking again is cheap.
    progress : callable, optional
    command : str
        What a user types to do it again.
    **values
        Other values of the recipe.

    Returns
    -------
    Pruned
        Which says so and why where nothing can be cut safely.
    """
    check_request(max_drop, level, recover, values)
    start = time.perf_counter()
    subject = open_subject(tuned, task, device=device)
    roles: dict[str, Any] = {"on": on, "certify_on": certify_on, "confirm_on": confirm_on}
    examples = find_examples(task, subject, **roles, share=share, seed=seed, learns=recover > 0)
    run = _Run(
        subject=subject,
        task=task,
        score=find_score(task.main),
        examples=examples,
        max_drop=float(max_drop),
        level=level,
        keeping={"store": store, "progress": progress, "command": command},
    )
    again = None
    if recover:
        again = recovering(
            subject,
            task,
            recover,
            recipe=recipe,
            seed=seed,
            device=device,
            precision=precision,
            **run.keeping,
            **values,
        )
    costs, tried = run.choose(beam)
    steps, found = run.certify(costs) if again is None else run.certify_recovered(costs, again)
    passed = certified(steps)
    higher, unit = run.score.higher_is_better, "points" if run.score.points == 100 else "of perplexity"
    cheapest = None
    if not steps:
        cut = min(costs, key=lambda one: costs[one])
        cheapest = (cut, run.on_choosing(cut))
    guess = run.guess(examples.certify if steps else examples.choose)
    said = list(
        said_of(
            steps,
            subject.depth,
            unit,
            cheapest=cheapest,
            share=examples.share,
            chose=_units(examples.choose),
            higher=higher,
            guess=guess,
        )
    )
    kept = run.full if passed is None else passed.candidate.what
    model, confirmed, timed = None, None, None
    if passed is not None:
        small = found.get(kept)
        model = cut_model(subject.model, kept) if small is None else small.model
        if examples.confirm is not None:
            confirmed = run.drop(examples.confirm, kept, small)
            said.append(said_of_confirmation(confirmed, examples.confirm.name, unit, higher=higher))
        if speed:
            timed = measure_speed(
                subject.model,
                model,
                examples.certify,
                task,
                subject.encoder.tokenizer,
                longest=subject.longest,
                stride=subject.stride,
                single=subject.pooling is not None,
            )
    chosen_on, certified_on = examples.said()
    return Pruned(
        name=subject.name,
        task=task.name,
        score=run.score.name,
        unit=unit,
        depth=subject.depth,
        kept=kept,
        max_drop=run.max_drop,
        level=level,
        candidates=tuple(
            MappingProxyType({"kept": cut, "removed": subject.depth - len(cut), "cost": cost})
            for cut, cost in costs.items()
        ),
        tried=tried,
        steps=tuple(steps),
        comparison=None if passed is None else passed.found,
        confirmed=confirmed,
        chosen_on=chosen_on,
        certified_on=certified_on,
        guess=guess,
        sentences=tuple(said),
        recover=recover,
        speed=timed,
        model=model,
        subject=subject,
        provenance=_provenance(run, seed, share, command, time.perf_counter() - start),
    )


def check_request(max_drop: Any, level: float, recover: Any, values: Mapping[str, Any]) -> None:
    """Refuse what cannot be asked for, before a model is opened; see `prune`."""
    if not isinstance(max_drop, int | float) or isinstance(max_drop, bool) or not 0 < max_drop < math.inf:
        raise must("max_drop", "a number above 0", max_drop)
    if not 0.5 < level < 1:
        raise must("level", "between 0.5 and 1", level)
    if isinstance(recover, bool) or not isinstance(recover, int) or recover < 0:
        raise must("recover", "a number of updates, at least 0", recover)
    if values and not recover:
        raise InputError(f"values of a recipe must come with recover, but got {', '.join(values)} alone.")


@dataclass(frozen=True, kw_only=True)
class _Run:
    """One pruning, with all it needs."""

    subject: Subject
    task: Task
    score: Score
    examples: Examples
    max_drop: float
    level: float
    keeping: Mapping[str, Any]

    @property
    def full(self) -> Cut:
        """All blocks."""
        return tuple(range(1, self.subject.depth + 1))

    def answers(self, split: Split, cuts: Sequence[Cut], subject: Subject | None = None) -> dict[Cut, Any]:
        return kept_answers(subject or self.subject, self.task, split, cuts, **self.keeping)

    def value(self, split: Split, predictions: Any) -> float:
        """Score in points, higher is better."""
        sign = 1 if self.score.higher_is_better else -1
        targets = [item.target for item in split]
        return sign * self.score.points * float(self.score.compute(predictions, targets, self.task.labels))

    def guess(self, split: Split) -> float:
        """Score the most frequent answer of the examples that choose; NaN where there is no such thing."""
        learned, targets = ([item.target for item in part] for part in (self.examples.choose, split))
        answers = baseline(self.task.kind, learned, targets, self.task.labels)
        if answers is None:
            return math.nan
        return float(self.score.compute(answers, targets, self.task.labels))

    def choose(self, beam: int) -> tuple[dict[Cut, float], str]:
        """Score candidates on the examples that choose: what each costs, in points."""
        subject, split = self.subject, self.examples.choose
        alike = None
        if subject.depth > ALL_SPANS and not subject.model.family.shared:
            alike = similar_layers(
                subject.model, split, self.task, subject.encoder.tokenizer, longest=subject.longest
            )
        cuts, tried = first_candidates(subject.model, alike=alike, beam=beam)
        if not cuts:
            raise InputError(
                f"{subject.name} must have blocks that can be cut, but its family allows no cut."
            )
        answers = self.answers(split, [self.full, *cuts])
        whole = self.value(split, answers[self.full])
        costs = {cut: self._cost(split, whole, answers[cut]) for cut in cuts}
        beyond = 0
        # From each size on, one block more out of the best: cuts that no span or top cut is.
        for removed in range(1, subject.depth - 1):
            best = min((costs[cut] for cut in costs if len(cut) == subject.depth - removed), default=math.inf)
            beyond = beyond + 1 if best > self.max_drop else 0
            if beyond >= MISSES:
                break
            more = more_candidates(subject.model, costs, removed)
            for cut, said in self.answers(split, more).items():
                costs[cut] = self._cost(split, whole, said)
        if len(costs) > len(cuts):
            tried += f", and {len(costs) - len(cuts)} with one block more taken out of the cheapest"
        return costs, tried

    def _cost(self, split: Split, whole: float, predictions: Any) -> float:
        cost = whole - self.value(split, predictions)
        return cost if math.isfinite(cost) else math.inf

    def drop(self, split: Split, cut: Cut, small: Subject | None = None) -> Drop:
        """Judge a cut, or what became of it, on some examples."""
        if small is None:
            answers = self.answers(split, [self.full, cut])
            return self._judged(split, answers[self.full], answers[cut])
        theirs = tuple(range(1, small.depth + 1))
        return self._judged(
            split, self.answers(split, [self.full])[self.full], self.answers(split, [theirs], small)[theirs]
        )

    def _judged(self, split: Split, full: Any, cut: Any) -> Drop:
        return judge_drop(
            self.score,
            as_answers(split, full),
            as_answers(split, cut),
            self.task.labels,
            max_drop=self.max_drop,
            level=self.level,
        )

    def on_choosing(self, cut: Cut) -> Drop:
        """What a cut costs on the examples that choose."""
        return self.drop(self.examples.choose, cut)

    def candidates(self, costs: Mapping[Cut, float]) -> list[Candidate[Cut]]:
        depth = self.subject.depth
        return [Candidate(what=cut, removed=depth - len(cut), cost=cost) for cut, cost in costs.items()]

    def certify(self, costs: Mapping[Cut, float]) -> tuple[list[Step[Cut]], dict[Cut, Subject]]:
        """Test the fixed sequence on the examples that certify."""
        sequence = fix_sequence(self.candidates(costs), self.max_drop)
        if not sequence:
            return [], {}
        split = self.examples.certify
        # All in one pass; whether an answer is looked at is decided by the tests before it.
        answers = self.answers(split, [self.full, *(one.what for one in sequence)])
        return run_sequence(sequence, lambda cut: self._judged(split, answers[self.full], answers[cut])), {}

    def certify_recovered(
        self, costs: Mapping[Cut, float], recover: Recover
    ) -> tuple[list[Step[Cut]], dict[Cut, Subject]]:
        """
        Do the same with models that were tuned anew.

        Which come into the sequence is decided by the examples that choose, before and after the tuning;
        tuning stops where the sequence does.
        """
        choose, certify = self.examples.choose, self.examples.certify
        whole = self.value(choose, self.answers(choose, [self.full])[self.full])
        best: dict[int, Candidate[Cut]] = {}
        for one in self.candidates(costs):
            if one.removed not in best or one.cost < best[one.removed].cost:
                best[one.removed] = one
        steps: list[Step[Cut]] = []
        models: dict[Cut, Subject] = {}
        misses = 0
        for removed in sorted(best):
            small = recover(best[removed].what)
            theirs = tuple(range(1, small.depth + 1))
            cost = self._cost(choose, whole, self.answers(choose, [theirs], small)[theirs])
            if cost > self.max_drop:
                misses += 1
                if misses == MISSES:
                    break
                continue
            misses, cut = 0, best[removed].what
            models[cut] = small
            found = self.drop(certify, cut, small)
            steps.append(Step(candidate=Candidate(what=cut, removed=removed, cost=cost), found=found))
            if not found.safe:
                break
        return steps, models


def _units(split: Split) -> int:
    """How many of some examples are independent, as tests count them."""
    groups = len(np.unique(split.groups))
    return groups if groups > 1 else len(split)


def _provenance(run: _Run, seed: int, share: float, command: str, seconds: float) -> Mapping[str, Any]:
    import numpy
    import torch
    import transformers

    versions = {
        "microtome": VERSION,
        "python": ".".join(map(str, sys.version_info[:3])),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "numpy": numpy.__version__,
    }
    examples = run.examples
    return MappingProxyType(
        {
            "command": command,
            "versions": versions,
            "seed": seed,
            "share": share if examples.share is not None else None,
            "model": run.subject.encoder.source.given,
            "model_digest": run.subject.encoder.digest,
            "choose_digest": address({"choose": examples.choose.digest}),
            "certify_digest": address({"certify": examples.certify.digest}),
            "device": str(run.subject.model.device),
            "seconds": round(seconds, 3),
        }
    )
