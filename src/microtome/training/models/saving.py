"""Checkpoint folders of task models; custom heads in the library's classes or in separate files."""

from __future__ import annotations

import copy
import json
import os
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from ...encoders.family import Family
from ...encoders.library import quiet
from ...encoders.tokens import Tokenizer
from ...errors import InputError
from ...lazy import torch
from ...store.files import as_written, read_record, writing_weights
from ...tasks.task import Task
from ..heads.head import Head
from .methods import merged
from .modeling import build, with_reader
from .stock import drawing, stock_class
from .taskmodel import TaskModel

HEAD_JSON, HEAD_WEIGHTS, CARD = "head.json", "head.safetensors", "README.md"

# Names of the special tokens in the vocabularies of the families.
_SPECIAL = {
    "unk_token": ("[UNK]", "<unk>"),
    "cls_token": ("[CLS]", "<cls>", "<s>"),
    "sep_token": ("[SEP]", "<sep>", "</s>"),
    "mask_token": ("[MASK]", "<mask>"),
    "bos_token": ("<s>", "<|begin_of_text|>", "<bos>"),
    "eos_token": ("</s>", "<|endoftext|>", "<|end_of_text|>", "<eos>"),
}
_UNLIMITED = int(1e30)
# Largest relative difference of outputs of the same function.
_CLOSE = 1e-4


def save(model: TaskModel, folder: str | os.PathLike[str], tokenizer: Tokenizer) -> Path:
    """
    Save a model with its tokenizer.

    A model of a class of the library is saved as that class, and loads with
    `AutoModelForSequenceClassification` and its siblings; so does a custom head that computes the same as
    that class. Any other head is saved beside the base model, which `AutoModel` loads: its weights in
    head.safetensors, its shape in head.json, and a note in the model card, since those siblings would
    initialize another head at random. Adapters are merged into the weights. Nothing is pickled.

    Parameters
    ----------
    model : TaskModel
    folder : str or path
        Created if it does not exist.
    tokenizer : Tokenizer
        Of the encoder that the model was built from.

    Returns
    -------
    Path
        The folder.
    """
    from safetensors.torch import save_file

    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    model = as_stock(merged(model))
    net: Any = model.net
    with quiet(), writing_weights(path):
        net.save_pretrained(path)
    for name in (HEAD_JSON, HEAD_WEIGHTS, CARD):
        (path / name).unlink(missing_ok=True)
    if model.reader is not None:
        weights = {n: t.detach().cpu().contiguous() for n, t in model.reader.state_dict().items()}
        with writing_weights(path):
            save_file(weights, path / HEAD_WEIGHTS)
        description = {
            "kind": model.kind,
            "labels": list(model.labels),
            "head": asdict(model.head),  # pyright: ignore[reportArgumentType] - a reader is one of a Head
            "seed": model.seed,
            "notes": list(model.notes),
        }
        _write(path / HEAD_JSON, description)
        (path / CARD).write_text(
            f"---\nlibrary_name: transformers\n---\n\n## The head\n\n{said_of_head(path)}\n",
            encoding="utf-8",
        )
    _save_tokenizer(model, path, tokenizer)
    return path


def said_of_head(folder: str | os.PathLike[str]) -> str | None:
    """
    Describe how to load the head of a saved model, where the library would initialize another one.

    Parameters
    ----------
    folder : str or path
        Written by `save`.

    Returns
    -------
    str or None
        None where a class of the library includes the head.
    """
    path = Path(folder)
    if not (path / HEAD_JSON).is_file():
        return None
    head = json.loads((path / HEAD_JSON).read_text(encoding="utf-8"))
    return (
        f"The head for {head['kind']} lies beside the model in {HEAD_WEIGHTS} ({HEAD_JSON} says its shape): "
        "no class of transformers computes what it does. AutoModelForSequenceClassification and its siblings "
        "do not read it and would draw another head at random; AutoModel reads the encoder. To use model and "
        "head: microtome evaluate FOLDER --task TASK, or microtome.evaluate(FOLDER, task) in Python."
    )


def _write(path: Path, content: Any) -> None:
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _save_tokenizer(model: TaskModel, folder: Path, tokenizer: Tokenizer) -> None:
    """Write the tokenizer exactly as it was used, not as the family's own class would build it."""
    content = json.loads(tokenizer.json)
    (folder / "tokenizer.json").write_text(tokenizer.json, encoding="utf-8")
    added = {token["content"]: token["id"] for token in content.get("added_tokens") or ()}
    names = {number: token for token, number in added.items()}
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": [
            "input_ids",
            *(["token_type_ids"] if tokenizer.typed else []),
            "attention_mask",
        ],
        "model_max_length": tokenizer.longest or _UNLIMITED,
        "padding_side": model.family.padding_side,
        "clean_up_tokenization_spaces": False,
    }
    for name, candidates in _SPECIAL.items():
        token = next((candidate for candidate in candidates if candidate in added), None)
        if token is not None:
            config[name] = token
    if model.pad in names:
        config["pad_token"] = names[model.pad]
    _write(folder / "tokenizer_config.json", config)


def read_head(encoder: Any, task: Task, folder: Path | None = None) -> TaskModel:
    """
    Put the head of a checkpoint on a copy of its encoder: one written by `save`, or the checkpoint's own.

    Parameters
    ----------
    encoder : TransformerEncoder
        Loaded from the folder.
    task : Task
        Its labels are matched with those of the model by name.
    folder : Path, optional
        Absent for an encoder that is open already, whose weights are not checked.

    Returns
    -------
    TaskModel
        In evaluation mode.
    """
    if folder is not None and not read_record(folder / "run.json").get("failure"):
        check_weights(encoder)  # a training that diverged is expected to have others
    if folder is None or not (folder / HEAD_JSON).is_file():
        return build(encoder, task, "own")
    with as_written(folder / HEAD_JSON):
        return _with_head(folder, encoder, task)


def check_weights(encoder: Any) -> None:
    """Raise an error for non-finite weights: such a model predicts the same for every example."""
    for name, weight in encoder.model.named_parameters():
        if not bool(weight.isfinite().all()):
            raise InputError(
                f"weights of {encoder.name} must be finite numbers, but {name} has NaN or infinite ones."
            )


def _with_head(folder: Path, encoder: Any, task: Task) -> TaskModel:
    from safetensors import safe_open

    description = read_record(folder / HEAD_JSON)
    if description["kind"] != task.kind:
        raise InputError(
            f"{folder} must be a model for {task.kind}, but it is one for {description['kind']}."
        )
    if tuple(description["labels"]) != task.labels:
        raise InputError(
            f"{folder} must have the labels of {task.name} ({', '.join(task.labels)}), but it has "
            f"{', '.join(description['labels'])}."
        )
    model = with_reader(
        encoder, task, Head(**description["head"]), seed=description["seed"], keep_pooler=True
    )
    with safe_open(folder / HEAD_WEIGHTS, "pt") as weights:
        state = {key: weights.get_tensor(key) for key in weights.keys()}  # noqa: SIM118 - no iterator
    assert model.reader is not None
    model.reader.load_state_dict(state)
    model.notes = tuple(description["notes"])
    return model


def as_stock(model: TaskModel) -> TaskModel:
    """
    Convert a model with a custom head into the library's class, where that computes the same function.

    Parameters
    ----------
    model : TaskModel
        Left unchanged.

    Returns
    -------
    TaskModel
        The same function as a class of the library; the model itself where there is no such class, or where
        the two give different outputs on a trial batch.
    """
    head = model.head
    if (
        model.reader is None
        or not isinstance(head, Head)
        or model.kind not in ("classification", "regression")
    ):
        return model
    kind = stock_class(model.config, model.kind, causal=model.family.causal)
    if kind is None or not _same_stages(head, model.family):
        return model
    net = _filled(model, kind)
    if net is None:
        return model
    form = replace(model.form, head="own", notes=model.notes)
    stock_model = TaskModel(net, None, form).eval()
    return stock_model if _same(model, stock_model) else model


def _same_stages(head: Head, family: Family) -> bool:
    """Whether the library's classifier of a family computes what a head does, up to dropout."""
    classifier = family.classifier
    if head.reads == "pooler":
        return bool(family.pooler) and head.dense == 0
    return head.reads == classifier.reads and head.dense == 1 and head.activation in classifier.activations


def _filled(model: TaskModel, kind: Any) -> Any:
    """Make the library's class with all weights of a model; None where shapes differ."""
    config = copy.deepcopy(model.config)
    config.architectures = [kind.__name__]
    head: Any = model.head
    if hasattr(config, "pooler_hidden_act"):
        config.pooler_hidden_act = head.activation
    if head.dropout is not None and hasattr(config, "classifier_dropout"):
        config.classifier_dropout = head.dropout
    with drawing(0, "head"):
        net = kind(config)
    first = next(model.net.parameters())
    net.to(device=first.device, dtype=first.dtype)
    missing, _ = net.base_model.load_state_dict(model.net.state_dict(), strict=False)
    layers, paths = _linear(model), model.family.classifier.layers
    if missing or len(layers) != len(paths):
        return None
    for path, layer in zip(paths, layers, strict=True):
        target = net.get_submodule(path)
        if target.weight.shape != layer.weight.shape or target.bias is None:
            return None
        target.load_state_dict(layer.state_dict())
    return net.eval()


def _linear(model: TaskModel) -> list[Any]:
    """List the linear layers of a head in order, the pooler's first where it is the class's dense stage."""
    from torch import nn

    assert model.reader is not None
    layers: list[Any] = [module for module in model.reader.modules() if isinstance(module, nn.Linear)]
    head: Any = model.head
    if head.reads == "pooler" and model.family.classifier.reads != "pooler":
        return [model.base.pooler.dense, *layers]
    return layers


def _same(model: TaskModel, stock_model: TaskModel) -> bool:
    """Whether two models give the same outputs on texts of random tokens, one of them padded."""
    with drawing(0, "trial"):
        tokens = torch.randint(0, int(model.config.vocab_size), (2, 8))
    mask = torch.ones_like(tokens)
    mask[1, 5:] = 0
    batch = {
        "input_ids": tokens.to(model.device),
        "attention_mask": mask.to(model.device),
        "special": torch.zeros_like(mask, dtype=torch.bool).to(model.device),
    }
    was_training = model.training
    model.eval()
    try:
        with torch.inference_mode():
            ours, theirs = model(batch), stock_model(batch)
    finally:
        model.train(was_training)
    return _near(ours, theirs)


def _near(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    scale = max(1.0, float(ours.abs().max()))
    return ours.shape == theirs.shape and float((ours - theirs).abs().max()) <= _CLOSE * scale
