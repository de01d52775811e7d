"""How small can a model get without losing more than a margin? Cut, certify on unseen examples, hand over."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from ..arguments import checked
from ..encoders.versions import provenance
from ..errors import InputError, must
from ..scores.table import find_score
from ..store.address import address
from ..tasks.items import Split
from ..tasks.task import Task
from ..training.recipe import find_recipe
from .candidates import BEAM
from .certifying import certified
from .examples import find_examples
from .opening import open_subject
from .procedure import Procedure
from .pruned import Pruned
from .recovering import recovering
from .saying import said_of, said_of_confirmation
from .speed import cut_model, measure_speed

Progress = Callable[[str, int, int], None]


@checked
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
        One-sided: "safe" is said falsely in at most 1 - level of cases, over all looks of this model at the
        same examples together; see `looks`.
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
    check_request(max_drop, level, recover, values, recipe)
    start = time.perf_counter()
    subject = open_subject(tuned, task, device=device)
    roles: dict[str, Any] = {"on": on, "certify_on": certify_on, "confirm_on": confirm_on}
    examples = find_examples(task, subject, **roles, share=share, seed=seed, learns=recover > 0)
    how: dict[str, Any] = {"beam": beam, "recover": recover}
    if recover:
        learned = find_recipe(recipe, **{"steps": recover, "epochs": None, **values})
        how |= {"recipe": learned.specification(), "seed": seed, "precision": precision}
    run = Procedure(
        subject=subject,
        task=task,
        score=find_score(task.main),
        examples=examples,
        max_drop=float(max_drop),
        level=level,
        how=how,
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
    standing = run.standing(examples.certify if steps else examples.choose)
    passed = certified(steps)
    higher, unit = run.score.higher_is_better, "points" if run.score.points == 100 else "of perplexity"
    cheapest = None
    if not steps:
        cut = min(costs, key=lambda one: costs[one])
        cheapest = (cut, run.on_choosing(cut))
    said = list(
        said_of(
            steps,
            subject.depth,
            unit,
            cheapest=cheapest,
            share=examples.share,
            chose=_units(examples.choose),
            higher=higher,
            standing=standing,
        )
    )
    look = run.look if steps else None
    if look is not None:
        said.append(look.sentence())
    if task.card.get("note"):
        said.append(f"{task.name}: {task.card['note']}.")
    kept = run.full if passed is None else passed.candidate.what
    model, confirmed, timed = None, None, None
    if passed is not None:
        small = found.get(kept)
        model = cut_model(subject.model, kept) if small is None else small.model
        if examples.confirm is not None:
            confirmed = run.drop(examples.confirm, kept, small, level=run.look_at(examples.confirm).level)
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
        look=look,
        chosen_on=chosen_on,
        certified_on=certified_on,
        guess=math.nan if standing is None else standing.baseline,
        sentences=tuple(said),
        recover=recover,
        speed=timed,
        model=model,
        subject=subject,
        provenance=_provenance(run, seed, share, command, time.perf_counter() - start),
    )


def check_request(
    max_drop: Any, level: float, recover: Any, values: Mapping[str, Any], recipe: Any = "devlin2019"
) -> None:
    """Refuse what cannot be asked for, before a model is opened; see `prune`."""
    if not isinstance(max_drop, int | float) or isinstance(max_drop, bool) or not 0 < max_drop < math.inf:
        raise must("max_drop", "a number above 0", max_drop)
    if not 0.5 < level < 1:
        raise must("level", "between 0.5 and 1", level)
    if isinstance(recover, bool) or not isinstance(recover, int) or recover < 0:
        raise must("recover", "a number of updates, at least 0", recover)
    find_recipe(recipe)
    if values and not recover:
        raise InputError(f"values of a recipe must come with recover, but got {', '.join(values)} alone.")


def _units(split: Split) -> int:
    """How many of some examples are independent, as tests count them."""
    groups = len(np.unique(split.groups))
    return groups if groups > 1 else len(split)


def _provenance(run: Procedure, seed: int, share: float, command: str, seconds: float) -> Mapping[str, Any]:
    examples = run.examples
    return MappingProxyType(
        provenance(
            {
                "command": command,
                "seed": seed,
                "share": share if examples.share is not None else None,
                "model": run.subject.encoder.source.given,
                "models": [run.subject.encoder.digest],
                "choose_digest": address({"choose": examples.choose.digest}),
                "lineage": run.lineage,
                "certify_digest": address({"certify": examples.certify.digest}),
                "device": str(run.subject.model.device),
                "precision": run.subject.precision,
                "seconds": round(seconds, 3),
            }
        )
    )
