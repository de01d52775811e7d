"""Conversion of custom heads into the library's classes, where those compute the same function."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

from ...encoders.family import Family
from ...lazy import torch
from ..heads.head import Head
from .stock import drawing, stock_class
from .taskmodel import TaskModel

# Largest relative difference of outputs of the same function.
_CLOSE = 1e-4


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
