"""How is a model kept so that others can load it? As a plain folder; a head of our own beside it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..encoders.loading import load
from ..encoders.telling import quiet
from ..errors import InputError
from ..tasks.task import Task
from .converting import as_stock
from .heads import Head
from .methods import merged
from .modeling import TaskModel, build, with_reader

if TYPE_CHECKING:
    from ..encoders.tokens import Tokenizer

HEAD_JSON, HEAD_WEIGHTS, CARD = "head.json", "head.safetensors", "README.md"

# Names that special tokens have in the vocabularies of the families.
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

    What a class of the library can hold is saved as that class, and loads with
    `AutoModelForSequenceClassification` and its siblings; so is a head of our own that computes the same as
    that class. Any other head lies beside the base model, which `AutoModel` loads: its weights in
    head.safetensors, its shape in head.json, and a card says so, since those siblings would draw another
    head at random. Adapters are merged into the weights. Nothing is pickled.

    Parameters
    ----------
    model : TaskModel
    folder : str or path
        Made where it is not there.
    tokenizer : Tokenizer
        Of the encoder that the model was built from.

    Returns
    -------
    Path
        The folder.
    """
    from safetensors.torch import save_file

    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    model = as_stock(merged(model))
    net: Any = model.net
    with quiet():
        net.save_pretrained(place)
    for name in (HEAD_JSON, HEAD_WEIGHTS, CARD):
        (place / name).unlink(missing_ok=True)
    if model.reader is not None:
        weights = {n: t.detach().cpu().contiguous() for n, t in model.reader.state_dict().items()}
        save_file(weights, place / HEAD_WEIGHTS)
        _write(place / HEAD_JSON, _told(model))
        (place / CARD).write_text(
            f"---\nlibrary_name: transformers\n---\n\n## The head\n\n{said_of_head(place)}\n",
            encoding="utf-8",
        )
    _save_tokenizer(model, place, tokenizer)
    return place


def said_of_head(folder: str | os.PathLike[str]) -> str | None:
    """
    Say how the head of a saved model is to be read, where the library would draw another one.

    Parameters
    ----------
    folder : str or path
        Of `save`.

    Returns
    -------
    str or None
        None where a class of the library holds the head.
    """
    place = Path(folder)
    if not (place / HEAD_JSON).is_file():
        return None
    told = json.loads((place / HEAD_JSON).read_text(encoding="utf-8"))
    return (
        f"The head for {told['kind']} lies beside the model in {HEAD_WEIGHTS} ({HEAD_JSON} says its shape): "
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
    """Write the tokenizer just as it was used, not as the family's own class would build it."""
    content = json.loads(tokenizer.json)
    (folder / "tokenizer.json").write_text(tokenizer.json, encoding="utf-8")
    added = {each["content"]: each["id"] for each in content.get("added_tokens") or ()}
    names = {number: token for token, number in added.items()}
    config: dict[str, Any] = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": [
            "input_ids",
            *(["token_type_ids"] if tokenizer.typed else []),
            "attention_mask",
        ],
        "model_max_length": tokenizer.longest or _UNLIMITED,
        "padding_side": "left" if model.family.name == "xlnet" else "right",
        "clean_up_tokenization_spaces": False,
    }
    for name, known in _SPECIAL.items():
        token = next((each for each in known if each in added), None)
        if token is not None:
            config[name] = token
    if model.pad in names:
        config["pad_token"] = names[model.pad]
    _write(folder / "tokenizer_config.json", config)


def load_task_model(
    folder: str | os.PathLike[str], task: Task, *, device: Any = "cpu", name: str | None = None
) -> TaskModel:
    """
    Load a model that `save` wrote, or any checkpoint of the library that was trained for the kind of task.

    Parameters
    ----------
    folder : str or path
        Or a hub id.
    task : Task
        Its labels are matched with those of the model by name.
    device : str
    name : str, optional
        How errors call it.

    Returns
    -------
    TaskModel
        In evaluation mode.
    """
    from safetensors import safe_open

    encoder: Any = load(folder, device=device, name=name)
    place = Path(folder)
    if not (place / HEAD_JSON).is_file():
        return build(encoder, task, "own")
    told = json.loads((place / HEAD_JSON).read_text(encoding="utf-8"))
    if told["kind"] != task.kind:
        raise InputError(f"{place} must be a model for {task.kind}, but it is one for {told['kind']}.")
    if tuple(told["labels"]) != task.labels:
        raise InputError(
            f"{place} must have the labels of {task.name} ({', '.join(task.labels)}), but it has "
            f"{', '.join(told['labels'])}."
        )
    model = with_reader(encoder, task, Head(**told["head"]), seed=told["seed"], keep_pooler=True)
    with safe_open(place / HEAD_WEIGHTS, "pt") as weights:
        state = {key: weights.get_tensor(key) for key in weights.keys()}  # noqa: SIM118 - no iterator
    assert model.reader is not None
    model.reader.load_state_dict(state)
    model.notes = tuple(told["notes"])
    return model
