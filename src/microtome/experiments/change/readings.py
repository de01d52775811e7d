"""What is read at one checkpoint of a training: blocks of layers, and scores on a task."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from ...comparison.similarity import similarity_matrix
from ...comparison.structure import map_blocks
from ...context import Context
from ...errors import InputError, SmallSampleWarning, must
from ...findings.blocks import Block, BlockFinding
from ...findings.paired import cell_errors
from ...findings.squares import margin_errors
from ...inference.answers import Answers
from ...inference.clusters import check_balanced
from ...tasks.baselines import baseline
from ...tasks.subset import subset
from ...tasks.task import Split, Task
from ...training.cut_store import as_answers, cut_answers
from ...training.cuts import every_truncation
from ...training.opening import Model, open_model
from ..layer_heads import Vectors, converged_arm, converged_refusal, fitting_sample
from ..layer_similarity import Recorded
from .checkpoints import Checkpoint

MEASURE = "debiased_cka"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class CheckpointBlocks:
    """
    The blocks of one checkpoint.

    Parameters
    ----------
    map : ndarray of shape (layers, layers)
    finding : BlockFinding
        Its layers are numbered as in the model.
    errors : ndarray of shape (units,)
        What each sentence or document adds to the error of the margin of the best run; units are the same
        for all checkpoints on the same rows.
    """

    map: np.ndarray
    finding: BlockFinding
    errors: np.ndarray

    @property
    def margin(self) -> float:
        """Margin of the run with the most evidence of being a block; NaN where nothing can be tested."""
        return math.nan if self.finding.best is None else self.finding.best.margin

    @property
    def evidence(self) -> float:
        """Lower end of that margin: positive where a block is certain."""
        best = self.finding.best
        return math.nan if best is None or best.interval is None else best.interval.low


def find_checkpoint_blocks(recorded: Recorded, model: str, **options: Any) -> CheckpointBlocks:
    """
    Find the blocks of one model as `find_blocks` does, and keep what each unit adds to the error.

    Parameters
    ----------
    recorded : Recorded
    model : str
    **options
        seed, level, device, threads, precision, memory, as in `find_blocks`.

    Returns
    -------
    CheckpointBlocks
    """
    if recorded.clusters is not None:
        check_balanced(recorded.clusters, recorded.unit)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        maps = similarity_matrix(
            recorded.stack(model), measures=MEASURE, clusters=recorded.clusters, certainty=True, **options
        )
    layer_map = replace(next(iter(maps.values())), unit=recorded.unit)
    finding = map_blocks(layer_map)
    assert layer_map.resamples is not None
    errors, _ = cell_errors(layer_map.resamples, layer_map.values)
    count, layers = len(errors), recorded.layers
    shares = np.zeros(count)
    if finding.best is not None:
        # As influence shares: their variance is scaled where they are drawn from.
        shares = margin_errors(layer_map.values, errors, finding.best) * np.sqrt((count - 1) / count)

    def numbered(places: tuple[int, ...]) -> tuple[int, ...]:
        """Number layers as the model does, also where rows of layer 0 are left out."""
        return tuple(layers[place] for place in places)

    def renumbered(block: Block) -> Block:
        without = numbered(block.without)
        return replace(block, first=layers[block.first], last=layers[block.last], without=without)

    used, left_out = numbered(finding.used), numbered(finding.left_out)
    finding = finding.replaced(renumbered, layers=layers[-1] + 1, used=used, left_out=left_out)
    return CheckpointBlocks(map=layer_map.values, finding=finding, errors=shares)


Scorer = Literal["own head", "majority baseline", "linear probe"]
SAMPLE_SEED = 0  # of the examples that linear probes learn from, where not all are


@dataclass(frozen=True, slots=True, kw_only=True)
class Scoring:
    """
    What is scored at the checkpoints of a training.

    Parameters
    ----------
    task : Task
    split : Split
        To answer.
    heads : bool
        Whether checkpoints have heads of their own.
    linear_probes : bool
        Whether linear probes are fitted.
    train_size : int, optional
        Training examples of the linear probes; all that fit into memory when absent.
    longest : int, optional
        Maximum number of tokens per example, for checkpoints that do not say so.
    """

    task: Task
    split: Split
    heads: bool
    linear_probes: bool
    train_size: int | None = None
    longest: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """
    What one checkpoint answers.

    Parameters
    ----------
    step : int
    answers : Answers or None
        By which it is scored: those of its own head, or of the linear probe of the layer that predicts
        held-out training examples best.
    by : {"own head", "majority baseline", "linear probe"}
        Whose answers these are.
    layer : int, optional
        Of that linear probe.
    heads, probes : tuple of Answers, or None
        Of its own head and of linear probes, at the layers from 1 on.
    converged : bool
        Whether the solvers of all linear probes did.
    learned : Split, optional
        What linear probes were fitted on.
    notes : tuple of str
        What a reader must know of that.
    """

    step: int
    answers: Answers | None
    by: Scorer
    layer: int | None = None
    heads: tuple[Answers, ...] | None = None
    probes: tuple[Answers, ...] | None = None
    converged: bool = True
    learned: Split | None = None
    notes: tuple[str, ...] = ()


def plan_scoring(
    checkpoints: Sequence[Checkpoint],
    task: Task,
    *,
    split: str | None = None,
    linear_probes: bool = True,
    train_size: int | None = None,
    longest: int | None = None,
) -> Scoring:
    """
    Refuse what cannot be scored before any model runs.

    Parameters
    ----------
    checkpoints : sequence of Checkpoint
    task : Task
    split : str, optional
        To answer; the task's validation split when absent.
    linear_probes : bool
        Whether linear probes are fitted also where checkpoints have heads of their own.
    train_size, longest
        As in `Scoring`.

    Returns
    -------
    Scoring
    """
    labeled = task.split(split or task.validation, labeled=True)
    heads = any(checkpoint.tuned for checkpoint in checkpoints)
    refusal = converged_refusal(task.kind)
    if refusal is not None and not heads:
        raise InputError(refusal)
    fitted = refusal is None and (linear_probes or not heads)
    if fitted and train_size is not None:
        most = len(task.split(task.train, labeled=True))
        if not 1 <= train_size <= most:
            limits = f"a whole number between 1 and {most:,}, the size of {task.name}/{task.train}"
            raise must("train_size", limits, train_size)
    return Scoring(
        task=task, split=labeled, heads=heads, linear_probes=fitted, train_size=train_size, longest=longest
    )


def score_checkpoint(scoring: Scoring, checkpoint: Checkpoint, encoder: Any, context: Context) -> Reading:
    """
    Answer a task at one checkpoint.

    Parameters
    ----------
    scoring : Scoring
    checkpoint : Checkpoint
    encoder : Encoder
        Of the checkpoint.
    context : Context

    Returns
    -------
    Reading
    """
    task, split = scoring.task, scoring.split
    model = _open(scoring, checkpoint, encoder, context)
    facts: dict[str, Any] = {"step": checkpoint.step}
    if scoring.linear_probes:
        train, notes = _train(scoring, model)
        arm = converged_arm(Vectors(source=model, task=task, train=train, split=split, context=context))
        probes = tuple(as_answers(split, [layer_answers]) for layer_answers in arm.answers[0])
        # By held-out training examples: the split that is scored chooses nothing.
        layer = int(np.argmin(np.nanmin(np.array(arm.details["held_out_loss"], dtype=float), axis=1))) + 1
        facts |= {"probes": probes, "layer": layer, "converged": bool(np.all(arm.details["converged"]))}
        facts |= {"learned": train, "notes": tuple(notes), "by": "linear probe", "answers": probes[layer - 1]}
    if checkpoint.tuned:
        truncations = list(every_truncation(model.depth).values())
        answers = cut_answers(model, task, split, truncations, context=context)
        heads = tuple(as_answers(split, [layer_answers]) for layer_answers in answers)
        facts |= {"heads": heads, "by": "own head", "answers": heads[-1]}
    elif scoring.heads:
        # Before the first update the head is as it was initialized: it does no better than this.
        facts |= {"by": "majority baseline", "answers": _majority(task, split)}
    return Reading(**facts)


def _majority(task: Task, split: Split) -> Answers | None:
    train = [item.target for item in task.split(task.train, labeled=True)]
    answers = baseline(task.kind, train, [item.target for item in split], task.labels)
    return None if answers is None else as_answers(split, [answers])


def _open(scoring: Scoring, checkpoint: Checkpoint, encoder: Any, context: Context) -> Model:
    """The model of a checkpoint: with its own head, or with one that nobody reads."""
    from ...training.models.modeling import build

    if checkpoint.tuned:
        return open_model(checkpoint.folder, scoring.task, context=context)
    model = build(encoder, scoring.task, "stock", seed=0)
    lengths = [length for length in (scoring.longest, encoder.tokenizer.longest) if length is not None]
    return Model(
        name=checkpoint.name,
        task_model=model,
        longest=min(lengths) if lengths else None,
        digest=f"{encoder.digest}|readout",
        encoder=encoder,
    )


def _train(scoring: Scoring, model: Model) -> tuple[Split, list[str]]:
    """What linear probes are fitted on: `train_size` examples, or as many as fit into memory."""
    train = scoring.task.split(scoring.task.train, labeled=True)
    if scoring.train_size is not None:
        return subset(train, scoring.train_size, seed=SAMPLE_SEED), []
    return fitting_sample(train, [model], SAMPLE_SEED, "Linear probes were fitted")
