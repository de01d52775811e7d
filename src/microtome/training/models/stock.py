"""The library's model classes for tasks, filled with an encoder's weights."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...checks import whole_number
from ...encoders.encoder import TransformerEncoder
from ...encoders.library import one_sentence
from ...encoders.locations import unpack
from ...errors import InputError, WorkError
from ...lazy import torch
from ...randomness import generator
from ...tasks.task import Kind, Task

_MASKS = ("[MASK]", "<mask>")
SEQUENCE = ("classification", "regression", "multiple_choice")

_MAPPINGS = {
    "classification": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",
    "regression": "MODEL_FOR_SEQUENCE_CLASSIFICATION_MAPPING",
    "multiple_choice": "MODEL_FOR_MULTIPLE_CHOICE_MAPPING",
    "span": "MODEL_FOR_QUESTION_ANSWERING_MAPPING",
    "tagging": "MODEL_FOR_TOKEN_CLASSIFICATION_MAPPING",
}


def stock_class(config: Any, kind: Kind, *, causal: bool) -> Any:
    """
    Find the library's class for a kind of task.

    Returns
    -------
    type or None
        None where the library has none. In families without a class for multiple choice, a classifier with
        one output scores the choices. Questions are answered by the simple head, not by one that needs a
        search.
    """
    from transformers.models.auto import modeling_auto

    if kind == "parsing":
        return None
    if kind == "language_modeling":
        name = "MODEL_FOR_CAUSAL_LM_MAPPING" if causal else "MODEL_FOR_MASKED_LM_MAPPING"
    else:
        name = _MAPPINGS[kind]
    model_class = getattr(modeling_auto, name).get(type(config), None)
    if model_class is None and kind == "multiple_choice":
        return stock_class(config, "classification", causal=causal)
    return model_class


def outputs_of(task: Task) -> int:
    """Number of outputs of the head of a task per row."""
    counts = {"regression": 1, "multiple_choice": 1, "span": 2, "language_modeling": 0}
    if task.kind in counts:
        return counts[task.kind]
    if not task.labels:
        raise InputError(f"{task.name} must have labels to be learned, but it names none.")
    return len(task.labels)


def configured(encoder: TransformerEncoder, task: Task) -> Any:
    """Copy the encoder's configuration and adapt it to the task."""
    config = copy.deepcopy(encoder.config)
    config.pad_token_id = pad_of(encoder)
    if task.kind == "language_modeling":
        return config
    if task.kind in ("classification", "tagging", "parsing"):
        outputs_of(task)
        config.id2label = dict(enumerate(task.labels))
        config.label2id = {label: number for number, label in enumerate(task.labels)}
    else:
        config.num_labels = outputs_of(task)
    problem = {"classification": "single_label_classification", "regression": "regression"}
    config.problem_type = problem.get(task.kind)
    return config


def pad_of(encoder: TransformerEncoder) -> int:
    """
    Find the padding token.

    Causal classifiers look for the last token that is not the padding token, whatever the mask: so it must
    be a token that no text ends with. Where the model names none it is the end of text, or else the last
    special token of the tokenizer.
    """
    entries = encoder.model.get_input_embeddings().num_embeddings  # pyright: ignore[reportCallIssue]
    added = json.loads(encoder.tokenizer.json).get("added_tokens") or ()
    special = [token["id"] for token in added if token.get("special")]
    for name in ("pad_token_id", "eos_token_id"):
        token_id = getattr(encoder.config, name, None)
        token_id = token_id[0] if isinstance(token_id, (list, tuple)) and token_id else token_id
        if (
            isinstance(token_id, int)
            and 0 <= token_id < entries
            and (name == "pad_token_id" or token_id in special)
        ):
            return token_id
    return max(special, default=encoder.tokenizer.pad)


@contextmanager
def drawing(seed: int, name: str) -> Iterator[None]:
    """Let the library initialize weights from a seed and a name alone, whatever the global random state."""
    whole_number("seed", seed, 0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(generator(seed, "weights", name).integers(2**62)))
        yield


def made(kind: Any, config: Any, encoder: TransformerEncoder, *, seed: int) -> torch.nn.Module:
    """
    Make a model of a library class: the encoder's weights in its base, all others randomly initialized.

    The encoder is left unchanged. A pooler is not filled: see `fill_pooler`.
    """
    config.architectures = [kind.__name__]
    with drawing(seed, "head"):
        net = kind(config)
    first = next(encoder.model.parameters())
    net.to(device=first.device, dtype=first.dtype)
    state = {name: tensor for name, tensor in encoder.base.state_dict().items() if not _pooling(name)}
    missing, unexpected = net.base_model.load_state_dict(state, strict=False)
    mismatched = [name for name in (*missing, *unexpected) if not _pooling(name)]
    if mismatched:
        raise WorkError(
            f"{kind.__name__} must have the weights of {encoder.name}, but {mismatched[0]} differs."
        )
    return net.eval()


def _pooling(name: str) -> bool:
    return name.split(".")[0] == "pooler"


def has_pooler(base: Any) -> bool:
    """Whether a base model has a pooler of its own."""
    return getattr(base, "pooler", None) is not None


def trained_pooler(encoder: TransformerEncoder) -> dict[str, torch.Tensor] | None:
    """
    Find the pooler of the checkpoint.

    A model that was loaded with another head, such as that for masked words, leaves the pooler in its file; a
    model whose file has none gets a randomly initialized one, which is not pretrained.

    Returns
    -------
    dict of str to Tensor or None
        Its weights by their names relative to the pooler.
    """
    import transformers

    if not encoder.family.pooler:
        return None
    pooler = encoder.base.pooler.state_dict() if has_pooler(encoder.base) else None  # pyright: ignore[reportCallIssue, reportAttributeAccessIssue]
    base, missing = _from_file(encoder, transformers.AutoModel)
    if any(map(_pooling, missing)):
        return None
    return pooler if pooler is not None or base is None else base.pooler.state_dict()


def fill_pooler(base: Any, state: dict[str, torch.Tensor]) -> None:
    """Put pretrained weights into the pooler of a base model."""
    base.pooler.load_state_dict(state)


def pool(base: Any, states: torch.Tensor) -> torch.Tensor:
    """
    Apply the pooler of a base model.

    Parameters
    ----------
    base : torch.nn.Module
    states : Tensor of shape (examples, tokens, features)

    Returns
    -------
    Tensor of shape (examples, features)
    """
    if hasattr(base, "pooler_activation"):  # dense layer and activation are apart
        return base.pooler_activation(base.pooler(states[:, 0]))
    return base.pooler(states)


def language_model(
    encoder: TransformerEncoder, kind: Any, config: Any, *, seed: int
) -> tuple[torch.nn.Module, str]:
    """
    Make a model that predicts tokens.

    Parameters
    ----------
    encoder : TransformerEncoder
    kind : type
        The library's class.
    config : transformers.PretrainedConfig
    seed : int
        For weights that the checkpoint does not have.

    Returns
    -------
    net : torch.nn.Module
    note : str
        Origin of its head.
    """
    net: Any = made(kind, config, encoder, seed=seed)
    base = f"{net.base_model_prefix}."
    tied = set(net.all_tied_weights_keys)
    names = {n for n, _ in net.named_parameters(remove_duplicate=False) if not n.startswith(base)} - tied
    state = {n: t for n, t in encoder.model.state_dict().items() if n in names}
    if names - set(state):
        saved, absent = _from_file(encoder, kind)
        tensors = saved.state_dict() if saved is not None else {}
        state = {n: t for n, t in tensors.items() if n in names and n not in absent} or state
    net.load_state_dict(state, strict=False)
    missing = names - set(state)
    if not missing:
        return net, f"{kind.__name__} with the head of the checkpoint; nothing drawn"
    return net, f"{kind.__name__}, {len(missing)} tensors of its head drawn: the checkpoint has none"


def _from_file(encoder: TransformerEncoder, kind: Any) -> tuple[Any, frozenset[str]]:
    """Read a model from the checkpoint of an encoder, None without one, and the names of missing weights."""
    if any("all weights re-initialized" in change for change in encoder.source.changes):
        return None, frozenset()
    path = unpack(encoder.source.given).model
    try:
        with one_sentence(path):
            net, report = kind.from_pretrained(
                path, revision=encoder.source.revision, output_loading_info=True
            )
    except InputError:
        # An encoder that was never saved has no file to read.
        return None, frozenset()
    return net, frozenset(map(str, report.get("missing_keys", ())))


def mask_of(encoder: TransformerEncoder) -> int | None:
    """Find the mask token; None in causal models, and where the tokenizer has none."""
    if encoder.family.causal:
        return None
    added = json.loads(encoder.tokenizer.json).get("added_tokens") or ()
    return next((token["id"] for token in added if token["content"] in _MASKS), None)
