"""Trainable parameters: all of them, the head, the biases (BitFit), or low-rank adapters (LoRA)."""

from __future__ import annotations

import copy
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, Literal

from ...errors import InputError, MissingExtraError, unknown
from ...lazy import torch
from ..heads.head import Head
from .stock import SEQUENCE, drawing
from .taskmodel import TaskModel

METHODS = ("full", "head", "bitfit", "lora")
Method = Literal["full", "head", "bitfit", "lora"]

# Projections of queries and values, or their equivalents, by their names in the families.
_TARGETS = (
    ("query", "value"),
    ("query_proj", "value_proj"),
    ("q_proj", "v_proj"),
    ("q_lin", "v_lin"),
    ("qkv_proj",),
    ("in_proj",),
    ("Wqkv",),
    ("c_attn",),
    ("q", "v"),
    # Where the projections are bare tensors, to which no adapter can be added.
    ("layer_1", "layer_2"),
)
_RANK, _ALPHA, _DROPOUT = 8, 16, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Trainable:
    """
    Trainable parameters of a model.

    Parameters
    ----------
    learning, all : int
        Number of trainable parameters, and of all parameters.
    said : str
        The same in words.
    """

    learning: int
    all: int
    said: str


def trainable(model: TaskModel, method: Method = "full", *, frozen: Collection[str] = ()) -> Trainable:
    """
    Choose the parameters to train, and freeze the others.

    The head is everything between the last states and the output, so a pooler is part of it where it is
    read. Parameters that do not affect the output, such as an unread pooler, are never trained.

    Parameters
    ----------
    model : TaskModel
        Changed in place.
    method : {"full", "head", "bitfit", "lora"}
        All parameters; the head; the biases and the head; the head and low-rank matrices beside the
        projections of queries and values, which are merged when the model is saved.
    frozen : collection of str
        Names of parameters, relative to the base model, that stay frozen whatever the method: also where a
        head shares them, and together with the adapters beside them.

    Returns
    -------
    Trainable
    """
    if method not in METHODS:
        raise unknown("method", method, METHODS)
    if adapted(model) and method != "lora":
        raise InputError(f"a model with adapters must learn with method='lora', but got {method!r}.")
    # By identity: adapters rename the weights beside them, and a head may share some.
    frozen_names = set(frozen)
    frozen_ids = {id(parameter) for name, parameter in model.base.named_parameters() if name in frozen_names}
    if method == "lora" and not adapted(model):
        _adapt(model)
    head, idle = head_names(model), idle_names(model)
    biases = {name for name, _ in model.named_parameters() if name.endswith("bias")}
    if method == "bitfit" and not biases - head - idle:
        raise InputError(f"bitfit must find biases, but {model.family.title} of this shape has none.")
    idle |= _beside_still(model, frozen_ids)
    learning = total = frozen_count = 0
    for name, parameter in model.named_parameters():
        selected = name in head or method == "full" or (method == "bitfit" and name in biases)
        parameter.requires_grad_(
            (selected or "lora_" in name) and name not in idle and id(parameter) not in frozen_ids
        )
        total += parameter.numel()
        learning += parameter.numel() if parameter.requires_grad else 0
        frozen_count += parameter.numel() if id(parameter) in frozen_ids else 0
    if not learning:
        raise InputError("some weights must be left to learn, but all that an answer depends on are frozen.")
    summary = f"{method}: {learning:,} of {total:,} numbers learn" + (
        f", {frozen_count:,} are frozen" if frozen_count else ""
    )
    return Trainable(learning=learning, all=total, said=summary)


def _beside_still(model: TaskModel, frozen_ids: set[int]) -> set[str]:
    """Names of the parameters of adapters beside frozen weights: merging them would change those weights."""
    parameters = dict(model.named_parameters())
    held = {
        name.removesuffix(".base_layer.weight")
        for name, parameter in parameters.items()
        if id(parameter) in frozen_ids
    }
    return {name for name in parameters if "lora_" in name and name.partition(".lora_")[0] in held}


def head_names(model: TaskModel) -> set[str]:
    """Names of the parameters between the last states and the output."""
    inside = {id(parameter) for parameter in model.base.parameters()}
    pooling = (
        {id(p) for n, p in model.base.named_parameters() if n.startswith("pooler.")}
        if _pools(model)
        else set()
    )
    return {n for n, p in model.named_parameters() if id(p) not in inside or id(p) in pooling}


def idle_names(model: TaskModel) -> set[str]:
    """Names of the parameters that do not affect the output."""
    unread = {
        id(parameter)
        for name, parameter in model.base.named_parameters()
        if name in model.family.idle or (name.startswith("pooler.") and not _pools(model))
    }
    return {name for name, parameter in model.named_parameters() if id(parameter) in unread}


def _pools(model: TaskModel) -> bool:
    if model.kind not in SEQUENCE:
        return False
    return model.stock or (isinstance(model.head, Head) and model.head.reads == "pooler")


def _peft() -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError("method='lora' must find peft; try `pip install microtome[lora]`.") from error
    return peft


def _adapt(model: TaskModel) -> None:
    peft = _peft()
    modules = dict(model.base.named_modules())
    leaves = {name.split(".")[-1] for name in modules}
    targets = next((names for names in _TARGETS if set(names) <= leaves), None)
    if targets is None:
        raise InputError(f"lora must find projections to stand beside, but {model.family.title} has none.")
    conv = any(type(modules[n]).__name__ == "Conv1D" for n in modules if n.split(".")[-1] in targets)
    config = peft.LoraConfig(
        r=_RANK, lora_alpha=_ALPHA, lora_dropout=_DROPOUT, target_modules=list(targets), fan_in_fan_out=conv
    )
    with drawing(model.seed, "lora"):
        peft.inject_adapter_in_model(config, model.base)
    # New modules would apply dropout even in a model that is in evaluation mode.
    model.train(model.training)


def adapted(model: torch.nn.Module) -> bool:
    """Whether a model has adapters."""
    return any("lora_" in name for name, _ in model.named_parameters())


def merged(model: TaskModel) -> TaskModel:
    """Copy a model with its adapters merged into the weights; the model itself where it has none."""
    if not adapted(model):
        return model
    from peft.tuners.tuners_utils import BaseTunerLayer

    merged_model = copy.deepcopy(model)
    layers = [(n, m) for n, m in merged_model.named_modules() if isinstance(m, BaseTunerLayer)]
    for name, layer in layers:
        layer.merge()
        above, _, last = name.rpartition(".")
        setattr(merged_model.get_submodule(above), last, layer.get_base_layer())
    return merged_model


def set_head_dropout(model: TaskModel, share: float) -> None:
    """Set the dropout of all modules between the last states and the output."""
    inside = {id(module) for module in model.base.modules()}
    for module in model.modules():
        if isinstance(module, torch.nn.Dropout) and id(module) not in inside:
            module.p = share
