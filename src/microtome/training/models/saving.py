"""Saving and loading of task models as checkpoint folders, with custom heads in separate files."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from ...encoders.load_errors import quiet
from ...encoders.tokens import Tokenizer
from ...errors import InputError
from ...store.files import writing_weights
from ...store.reading import as_written, read_record
from ...tasks.task import Task
from ..heads.head import Head
from .converting import as_stock
from .methods import merged
from .modeling import TaskModel, build, with_reader

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
        _write(path / HEAD_JSON, _told(model))
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


def _told(model: TaskModel) -> dict[str, Any]:
    return {
        "kind": model.kind,
        "labels": list(model.labels),
        "head": asdict(model.head),  # pyright: ignore[reportArgumentType] - a reader is one of a Head
        "seed": model.seed,
        "notes": list(model.notes),
    }


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
        _check_weights(encoder)  # a training that diverged is expected to have others
    if folder is None or not (folder / HEAD_JSON).is_file():
        return build(encoder, task, "own")
    with as_written(folder / HEAD_JSON):
        return _with_head(folder, encoder, task)


def _check_weights(encoder: Any) -> None:
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
