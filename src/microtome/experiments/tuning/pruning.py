"""Pruning of blocks within a margin, as an experiment; the procedure is in `microtome.pruning`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from ...context import Context
from ...errors import InputError, must
from ...pruning.examples import find_examples
from ...pruning.exporting import KIND, check_folder
from ...pruning.procedure import Procedure, check_recoverable
from ...pruning.pruning import Pruned, run_pruning
from ...pruning.search import Search
from ...runtime import duration
from ...training.opening import open_model, open_task
from ..base import Experiment, Plan, as_function, option
from ..grid import RecipeOptions
from ..inputs import TASK_HELP, TaskOptions, task_notes


@dataclass(frozen=True, kw_only=True)
class Pruning(RecipeOptions, TaskOptions, Experiment):
    """
    Cut blocks out of a model as long as its loss stays within a margin, tested on unseen examples.

    The test is one-sided, and its level holds over all looks at the same examples.

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 40})
    >>> tuned = mt.finetune(base, task, epochs=1)
    >>> mt.prune(tuned, task, max_drop=50).depth
    2
    """

    name = KIND
    returns = "Pruned"

    model: Any = option(
        "Folder of a fine-tuned model, a language model or a sentence encoder.",
        argument=True,
        panel="Input",
        metavar="CKPT",
    )
    task: Any = option(TASK_HELP, panel="Input", metavar="TASK")
    max_drop: float = option(
        "Largest acceptable drop of the score, in points of 100, or in units of perplexity.",
        1.0,
        positional=True,
        panel="Statistics",
    )
    split: str | None = option(
        "Split on which cuts are chosen and certified; rest: training examples that were not trained on. "
        "When absent, validation; of a single table, all rows that the model was not trained on.",
        None,
        panel="Input",
    )
    certify_on: str | None = option(
        "Another split to certify on; a part of --split when absent.", None, panel="Input"
    )
    confirm_on: str | None = option(
        "Split on which the smaller model is scored once more, when it is certified.", None, panel="Input"
    )
    share: float = option(
        "Share of the examples that choose the cut; the others certify it.", 0.5, panel="Statistics"
    )
    seed: int = option("Seed of the split of the examples, and of recovery.", 0, panel="Statistics", least=0)
    exhaustive: bool = option(
        "Score every candidate on all examples that choose. When absent, models of more than 6 blocks are "
        "searched on growing samples of these, which takes less time.",
        False,
    )
    recover: int = option("Fine-tune each cut for N updates before it is tested.", 0, least=0)
    speed: bool = option("Measure the time and memory of both models.", True)

    def check_out(self, folder: Path) -> None:
        """Refuse a folder with files of others that the smaller model would replace."""
        check_folder(folder)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.max_drop < math.inf:
            raise must("max_drop", "a number above 0", self.max_drop)
        if self.changes and not self.recover:
            names = ", ".join(self.changes)
            raise InputError(f"values of a recipe must come with recover, but got {names} alone.")
        self.chosen_recipe()

    def plan(self, context: Context) -> Plan:
        """Open the model, choose the examples of each role, and count the cuts."""
        if not 0.5 < context.level < 1:
            raise must("level", "between 0.5 and 1", context.level)
        task = open_task(self.task_reference(self.task))
        model = open_model(self.model, task, context=context, pooled=True)
        if self.recover:
            check_recoverable(model)
        roles = ("split", "certify_on", "confirm_on", "share", "seed")
        examples = find_examples(
            task, model, learns=self.recover > 0, **{name: getattr(self, name) for name in roles}
        )
        procedure = Procedure(model=model, task=task, examples=examples, options=self, context=context)
        search = Search(procedure)
        seconds, cuts = search.seconds(), len(search.candidates)
        first = f" on a first sample of {len(search.samples[0]):,} examples" if search.samples[1:] else ""
        sentence = (
            f"{model.name} has {model.depth} blocks; {cuts:,} cuts would be scored first "
            f"({search.tried}){first}. To choose takes about {duration(seconds)}, by the time of a few "
            "examples"
        )
        chosen_on, certified_on = examples.said()
        return Plan(
            name=task.name,
            summary={
                "depth": model.depth,
                "cuts": cuts,
                "seconds": round(seconds, 1),
                "choose": len(examples.choose),
                "certify": len(examples.certify),
                "confirm": None if examples.confirm is None else len(examples.confirm),
            },
            sentence=f"{sentence}. {chosen_on}. {certified_on}.",
            inputs=procedure,
            notes=task_notes([task]),
        )

    def run(self, plan: Plan, context: Context) -> Pruned:
        """Choose a cut, certify it, and measure what it saves."""
        return run_pruning(replace(plan.inputs, context=context))


prune = as_function(Pruning, "prune")
