"""Construction of task models: a copy of the encoder with a new head, or with the checkpoint's own."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from typing import Any

from ...encoders.encoder import TransformerEncoder
from ...errors import InputError, must
from ...tasks.task import Task
from ..heads.head import Head, describe, equals_stock, resolve
from ..heads.reading import row_head, sequence_head
from .stock import (
    SEQUENCE,
    configured,
    drawing,
    fill_pooler,
    has_pooler,
    language_model,
    made,
    mask_of,
    outputs_of,
    stock_class,
    trained_pooler,
)
from .taskmodel import TaskForm
from .taskmodel import TaskModel as TaskModel


def build(encoder: TransformerEncoder, task: Task, head: Head | str = "stock", *, seed: int = 0) -> TaskModel:
    """
    Put a head on a copy of an encoder.

    Parameters
    ----------
    encoder : TransformerEncoder
        Left unchanged.
    task : Task
    head : Head or str
        Head for one prediction per input; see `HEADS`. Other kinds of tasks have a single head: "stock".
        With "own" the head that the checkpoint was trained with is kept, its outputs matched to the
        labels by name.
    seed : int
        Seed of the new weights.

    Returns
    -------
    TaskModel
        In evaluation mode, on the encoder's device.
    """
    if not hasattr(encoder, "family"):
        raise must("a model", "an encoder of mt.load or a folder", encoder)
    if not hasattr(encoder, "base"):
        raise InputError(
            f"{encoder.name} must be a model of transformers to be fine-tuned, but it is an ELMo."
        )
    resolved = resolve(head, encoder.family)
    if isinstance(head, str) and isinstance(resolved, Head) and task.kind not in SEQUENCE:
        # A name refers to a classification head; heads for words and spans are the same under all names.
        resolved = "stock"
    if isinstance(resolved, Head) and task.kind not in SEQUENCE:
        raise InputError(
            f"a head with stages must be for one of {', '.join(SEQUENCE)}, but {task.name} is {task.kind}; "
            "use head='stock'."
        )
    if resolved == "own":
        return _kept(encoder, task)
    if head == "jiant" and isinstance(resolved, Head):
        # jiant used the dropout of the hidden states, which may differ from that of the classifier.
        resolved = replace(resolved, dropout=getattr(encoder.config, "hidden_dropout_prob", None))
    kind = stock_class(encoder.config, task.kind, causal=encoder.family.causal)
    if isinstance(resolved, Head) and resolved.pooler == "pretrained" and trained_pooler(encoder) is None:
        if head != "jiant":
            raise InputError(
                f"a pretrained pooler must be in the checkpoint, but {encoder.name} has none; use "
                "pooler='fresh'."
            )
        # In the paper such a pooler was randomly initialized when the model was loaded.
        resolved = replace(resolved, pooler="fresh")
    if isinstance(resolved, Head) and not (
        equals_stock(resolved, encoder.family) and task.kind != "multiple_choice"
    ):
        return with_reader(encoder, task, resolved, seed=seed)
    if kind is None:
        return with_reader(encoder, task, Head(reads="last", dense=0), seed=seed)
    return _stock(encoder, task, resolved, kind, seed=seed)


def _stock(encoder: TransformerEncoder, task: Task, head: Head | str, kind: Any, *, seed: int) -> TaskModel:
    if task.kind == "language_modeling":
        net, note = language_model(encoder, kind, configured(encoder, task), seed=seed)
    else:
        net, note = made(kind, configured(encoder, task), encoder, seed=seed), f"{kind.__name__}, head drawn"
    notes = [f"{note} (seed {seed})"]
    if has_pooler(net.base_model):
        notes.append(_fill(net.base_model, encoder, seed))
    if task.kind == "multiple_choice":
        notes.append("each choice scored alone")
    elif task.kind in SEQUENCE:
        notes.append(describe(head, encoder.family))
    return _model(net, None, encoder, task, head, tuple(notes), seed)


def with_reader(
    encoder: TransformerEncoder, task: Task, head: Head, *, seed: int, keep_pooler: bool = False
) -> TaskModel:
    """
    Put a custom head on a copy of the bare encoder.

    Parameters
    ----------
    encoder, task, seed
        As in `build`.
    head : Head
        Ignored for kinds of tasks that have a single head.
    keep_pooler : bool
        Whether the encoder's own pooler is kept, even for a head that was built with a fresh one.
    """
    from transformers.models.auto.modeling_auto import MODEL_MAPPING

    if task.kind == "language_modeling":
        raise InputError(
            "a language model must read from left to right or fill masked words, but "
            f"{encoder.family.title} does neither in the library."
        )
    config = configured(encoder, task)
    base: Any = made(MODEL_MAPPING[type(config)], config, encoder, seed=seed)
    first = next(base.parameters())
    notes = []
    if has_pooler(base) and keep_pooler:
        fill_pooler(base, encoder.base.pooler.state_dict())  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]
    elif has_pooler(base):
        fresh = head.pooler == "fresh"
        notes.append(f"pooler drawn (seed {seed})" if fresh else _fill(base, encoder, seed))
    with drawing(seed, "reader"):
        if task.kind in SEQUENCE:
            new_pooler = head.reads == "pooler" and not has_pooler(base)
            reader = sequence_head(head, config, outputs_of(task), pooler=new_pooler)
            note = f"head: {describe(head, encoder.family)}"
        else:
            reader = row_head(task.kind, config, outputs_of(task))
            note = "biaffine parser" if task.kind == "parsing" else "linear layer"
    notes.append(f"{note}, drawn (seed {seed})")
    reader.to(device=first.device, dtype=first.dtype)
    return _model(base, reader, encoder, task, head, tuple(notes), seed)


def _fill(base: Any, encoder: TransformerEncoder, seed: int) -> str:
    state = trained_pooler(encoder)
    if state is None:
        return f"pooler drawn (seed {seed}): the checkpoint has none"
    fill_pooler(base, state)
    return "pooler of the checkpoint"


def _kept(encoder: TransformerEncoder, task: Task) -> TaskModel:
    """Make a model with the head of the checkpoint."""
    kind = stock_class(encoder.config, task.kind, causal=encoder.family.causal)
    if kind is None or type(encoder.model) is not kind:
        needed = "a head for it" if kind is None else kind.__name__
        raise InputError(
            f"{encoder.name} must be fine-tuned for {task.kind} ({needed}), but it is a "
            f"{type(encoder.model).__name__}; fine-tune it first, with finetune (truncate and skip do so "
            "themselves when seeds are given)."
        )
    if task.kind in SEQUENCE and resolve("stock", encoder.family) != "stock":
        raise InputError(
            f"{encoder.name} must read a token that sees the others to keep its own head, but that head "
            "reads the first one, which sees only itself: give another head."
        )
    order, note = None, f"own head of {encoder.name}"
    if task.kind in ("classification", "tagging"):
        order, note = label_order(encoder.config, task, encoder.name)
    elif outputs_of(task) == 1 and "Sequence" in kind.__name__ and encoder.config.num_labels != 1:
        raise InputError(
            f"the head of {encoder.name} must have 1 output for {task.name}, but it has "
            f"{encoder.config.num_labels}."
        )
    net = copy.deepcopy(encoder.model).eval()
    config: Any = net.config
    if config.pad_token_id is None:
        config.pad_token_id = configured(encoder, task).pad_token_id
    return _model(net, None, encoder, task, "own", (note,), 0, order=order)


def _model(
    net: Any,
    reader: Any,
    encoder: TransformerEncoder,
    task: Task,
    head: Head | str,
    notes: tuple[str, ...],
    seed: int,
    order: tuple[int, ...] | None = None,
) -> TaskModel:
    form = TaskForm(
        kind=task.kind,
        labels=task.labels,
        family=encoder.family,
        head=head,
        pad=int(net.config.pad_token_id),
        order=order,
        notes=notes,
        seed=seed,
        mask=mask_of(encoder),
    )
    return TaskModel(net, reader, form).eval()


def label_order(config: Any, task: Task, name: str) -> tuple[tuple[int, ...], str]:
    """
    Find the output of each label of a task.

    Names are compared without regard to case, hyphens, underscores and spaces. Outputs that are only
    numbered (LABEL_0, LABEL_1, ...) are taken in the order of the task.

    Parameters
    ----------
    config : transformers.PretrainedConfig
        Of the checkpoint.
    task : Task
    name : str
        Name of the checkpoint in error messages.

    Returns
    -------
    order : tuple of int
        Output of each label.
    note : str
        Description of the matching.
    """
    model_labels = {int(number): str(label) for number, label in (config.id2label or {}).items()}
    count = len(task.labels)
    if len(model_labels) != count:
        raise InputError(
            f"the head of {name} must have {count} outputs for {task.name}, but it has {len(model_labels)}."
        )
    if all(re.fullmatch(r"LABEL_\d+", label) for label in model_labels.values()):
        return tuple(range(count)), f"outputs of {name} have no names: taken in the order of {task.name}"
    outputs = {_plain_label(label): number for number, label in model_labels.items()}
    task_labels = [_plain_label(label) for label in task.labels]
    if len(outputs) != count or set(outputs) != set(task_labels):
        raise InputError(
            f"the labels of {name} must be those of {task.name} ({', '.join(task.labels)}), but they are "
            f"{', '.join(model_labels[number] for number in sorted(model_labels))}."
        )
    order = tuple(outputs[label] for label in task_labels)
    if order == tuple(range(count)):
        return order, f"outputs of {name} are in the order of {task.name}, by name"
    return order, f"outputs of {name} reordered to the labels of {task.name}, by name: {list(order)}"


def _plain_label(label: str) -> str:
    return re.sub(r"[\s_-]+", "", label.casefold())
