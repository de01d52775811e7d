"""Check of an exported model: loaded with transformers alone, and scored on unseen examples."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..encoders.library import quiet
from ..findings.words import at_most, number
from ..pruning.margin import Drop, judge_drop
from ..scores.table import find_score
from ..tasks.task import Split, Task

if TYPE_CHECKING:
    from ..training.evaluation import Evaluation

BATCH = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """
    The scores of an exported model, loaded with transformers alone.

    Parameters
    ----------
    name : str
        Of the encoder it came from.
    folder : Path
    kept, depth : int
        Blocks that it has, and those of the whole model.
    drop : Drop
        What it loses against the whole model on these examples.
    evaluation : Evaluation
        Its own scores.
    """

    name: str
    folder: Path
    kept: int
    depth: int
    drop: Drop
    evaluation: Evaluation = field(repr=False)

    def sentence(self) -> str:
        """One sentence: its score, and whether the margin holds."""
        drop = self.drop
        text = (
            f"{self.folder}: {self.name} with {self.kept} of {self.depth} blocks, loaded again with "
            f"transformers alone, has {drop.score} {number(drop.cut, 3)} on {drop.n:,} examples that nothing "
            f"was chosen by; the whole model has {number(drop.full, 3)}."
        )
        limit = f"{at_most(drop.upper)} at most" if drop.upper < float("inf") else "no limit can be given"
        sure = f"{limit}, {100 * drop.level:g} %, one-sided"
        lost = f"{number(drop.drop)} points were lost ({sure})"
        if drop.safe:
            return f"{text} The margin of {drop.max_drop:g} points is kept there: {lost}."
        if drop.drop > drop.max_drop:
            return f"{text} The margin of {drop.max_drop:g} points is not kept there: {lost}."
        return f"{text} That the margin of {drop.max_drop:g} points is kept is not shown there: {lost}."


def stock_answers(folder: Path, split: Split, task: Task, *, longest: int) -> list[int]:
    """
    Predict a split with the model that transformers loads from a folder, without this package.

    Parameters
    ----------
    folder : Path
    split : Split
    task : Task
        Its labels are looked for among the model's.
    longest : int
        Tokens of an example at most.

    Returns
    -------
    list of int
        Places of the labels.
    """
    import torch
    import transformers

    with quiet():  # no bars of its own
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(folder)
        net = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    places = [task.labels.index(net.config.id2label[k]) for k in range(len(task.labels))]
    texts = [item.texts[0] for item in split]
    answers: list[int] = []
    with torch.inference_mode():
        for start in range(0, len(texts), BATCH):
            part = texts[start : start + BATCH]
            inputs = tokenizer(part, return_tensors="pt", padding=True, truncation=True, max_length=longest)
            answers += [places[k] for k in net(**inputs).logits.argmax(-1).tolist()]
    return answers


def judge_unseen(
    name: str, folder: Path, full: Evaluation, task: Task, *, blocks: tuple[int, int], **values: Any
) -> Unseen:
    """
    Compare an exported model with the full one on examples that were used for nothing else.

    Parameters
    ----------
    name : str
    folder : Path
        Of the exported model.
    full : Evaluation
        Predictions of the whole model on these examples.
    task : Task
    blocks : tuple of int
        Those that are kept, and all.
    **values
        `longest`, `max_drop` and `level`, as they were promised.

    Returns
    -------
    Unseen
    """
    from ..training.evaluating import score_answers

    split = task.split(full.split)
    answers = stock_answers(folder, split, task, longest=values["longest"])
    evaluation = score_answers(task, split, answers, train=task.split(task.train))
    drop = judge_drop(
        find_score(task.main),
        full.answers(),
        evaluation.answers(),
        task.labels,
        max_drop=values["max_drop"],
        level=values["level"],
    )
    return Unseen(name=name, folder=folder, kept=blocks[0], depth=blocks[1], drop=drop, evaluation=evaluation)
