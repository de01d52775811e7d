"""What can be read at each checkpoint? The answers of its own head at every layer, and of linear readouts."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...errors import InputError, must
from ...inference.answers import Answers
from ...tasks.baselines import baseline
from ...tasks.items import Split
from ...tasks.subset import subset
from ...tasks.task import Task
from ...training.cuts import depth_of, every_truncation
from ..layer_heads import Arm, Vectors, converged_arm, fitting_size, readout_refusal
from ..models import Opened, as_answers, cut_answers, opened
from .checkpoints import Checkpoint

Progress = Callable[[str, int, int], None]
GUESS = "the most frequent answer"
DRAWN = 0  # the seed of the examples that readouts learn from, where not all are


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """
    What one checkpoint answers.

    Parameters
    ----------
    step : int
    answers : Answers or None
        By which it is scored: those of its own head, or of the readout of the layer that foretells held-out
        training examples best.
    by : str
        Whose answers these are, in words.
    layer : int, optional
        That was read, where it was chosen.
    heads, readouts : tuple of Answers, or None
        Of the layers from 1 on.
    converged : bool
        Whether the solvers of all readouts were.
    learned : Split, optional
        What readouts were fitted on.
    notes : tuple of str
        What a reader must know of that.
    """

    step: int
    answers: Answers | None
    by: str
    layer: int | None = None
    heads: tuple[Answers, ...] | None = None
    readouts: tuple[Answers, ...] | None = None
    converged: bool = True
    learned: Split | None = None
    notes: tuple[str, ...] = ()


def check_reading(
    checkpoints: Sequence[Checkpoint],
    task: Task,
    *,
    split: str | None = None,
    readouts: bool = True,
    train_size: int | None = None,
) -> tuple[Split, bool]:
    """
    Refuse what cannot be read before any model runs.

    Parameters
    ----------
    checkpoints, task, split, readouts, train_size
        As in `read_steps`.

    Returns
    -------
    split : Split
        To answer.
    fitted : bool
        Whether readouts are fitted.
    """
    judged = task.split(split or task.validation, labeled=True)
    heads = any(one.tuned for one in checkpoints)
    refused = readout_refusal(task.kind)
    if refused is not None and not heads:
        raise InputError(refused)
    fitted = refused is None and (readouts or not heads)
    if fitted and train_size is not None:
        most = len(task.split(task.train, labeled=True))
        if not isinstance(train_size, int) or not 1 <= train_size <= most:
            said = f"a whole number between 1 and {most:,}, the size of {task.name}/{task.train}"
            raise must("train_size", said, train_size)
    return judged, fitted


def read_steps(
    checkpoints: Sequence[Checkpoint],
    task: Task,
    *,
    split: str | None = None,
    readouts: bool = True,
    train_size: int | None = None,
    longest: int | None = None,
    store: str | os.PathLike[str] | None = None,
    device: str = "cpu",
    progress: Progress | None = None,
    command: str = "",
) -> tuple[Split, tuple[Reading, ...]]:
    """
    Answer a task at every checkpoint.

    Parameters
    ----------
    checkpoints : sequence of Checkpoint
    task : Task
    split : str, optional
        To answer; the task's validation split when absent.
    readouts : bool
        Whether linear readouts are fitted also where checkpoints have heads of their own.
    train_size : int, optional
        Training examples that readouts are fitted on; all that fit into memory when absent.
    longest : int, optional
        Tokens of an example at most, for checkpoints that do not say so.
    store, device, progress, command
        As in `finetune`.

    Returns
    -------
    split : Split
    readings : tuple of Reading
        One a checkpoint.
    """
    judged, fitted = check_reading(checkpoints, task, split=split, readouts=readouts, train_size=train_size)
    heads = any(one.tuned for one in checkpoints)
    out = []
    keeping: dict[str, Any] = {"store": store, "command": command}
    for place, one in enumerate(checkpoints):
        seen = _open(one, task, longest, device)
        cuts = None
        if one.tuned:
            every = list(every_truncation(depth_of(seen.model)).values())
            found = cut_answers(seen, task, judged, every, progress=progress, **keeping)
            cuts = tuple(as_answers(judged, [each]) for each in found)
        arm, learned = None, {}
        if fitted:
            train, notes = _train(task, seen, train_size)
            arm = converged_arm(Vectors(seen, task, train, judged, progress=progress), **keeping)
            learned = {"learned": train, "notes": notes}
        out.append(replace(_reading(one, task, judged, cuts, arm, heads), **learned))
        if progress is not None:
            progress("checkpoints read", place + 1, len(checkpoints))
    return judged, tuple(out)


def _reading(
    one: Checkpoint,
    task: Task,
    split: Split,
    cuts: tuple[Answers, ...] | None,
    arm: Arm | None,
    heads: bool,
) -> Reading:
    told: dict[str, Any] = {"step": one.step, "heads": cuts}
    layer = None
    if arm is not None:
        read = tuple(as_answers(split, [each]) for each in arm.answers[0])
        # By held-out training examples: the split that is scored chooses nothing.
        layer = int(np.argmin(np.nanmin(np.array(arm.told["held_out_loss"], dtype=float), axis=1))) + 1
        told |= {"readouts": read, "layer": layer, "converged": bool(np.all(arm.told["converged"]))}
    if cuts is not None:
        return Reading(answers=cuts[-1], by="its own head", **told)
    if heads:
        # Before the first update the head is as it was drawn: it knows nothing but guesses.
        return Reading(answers=_guessed(task, split), by=GUESS, **told)
    assert layer is not None
    return Reading(answers=told["readouts"][layer - 1], by=f"a linear readout of layer {layer}", **told)


def _guessed(task: Task, split: Split) -> Answers | None:
    train = [item.target for item in task.split(task.train, labeled=True)]
    found = baseline(task.kind, train, [item.target for item in split], task.labels)
    return None if found is None else as_answers(split, [found])


def _open(one: Checkpoint, task: Task, longest: int | None, device: str) -> Opened:
    """The model of a checkpoint: with its own head, or with one that nobody reads."""
    from ...training.modeling import build

    if one.tuned:
        return opened(one.folder, task, device=device)[0]
    encoder = one.load()
    model = build(encoder, task, "stock", seed=0)
    known = encoder.tokenizer.longest
    limits = [each for each in (longest, known) if each is not None]
    return Opened(
        name=one.name,
        model=model,
        tokenizer=encoder.tokenizer,
        longest=min(limits) if limits else None,
        digest=f"{encoder.digest}|readout",
        encoder=encoder,
    )


def _train(task: Task, seen: Opened, size: int | None) -> tuple[Split, tuple[str, ...]]:
    """What readouts are fitted on: as many examples as were asked for, or as fit into memory."""
    train = task.split(task.train, labeled=True)
    if size is not None:
        return subset(train, size, seed=DRAWN), ()
    fits = fitting_size(seen, train)
    if fits is None:
        return train, ()
    part = subset(train, fits, seed=DRAWN)
    return part, (
        f"Heads were trained on {len(part):,} of {len(train):,} examples, drawn with seed {DRAWN}: the "
        "vectors of more would not fit into memory.",
    )
