"""Tiny models of which some blocks do nothing, and tasks of made-up texts."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import torch

import tiny
from microtome.tasks.task import Item, Kind, Split, Task
from microtome.training.inputs import collate, encode
from microtome.training.models.modeling import build

WORDS = " ".join(tiny.TEXT).split()
# What writes into the residual path of a block; at zero the block passes on what it reads.
OUTPUTS = ("attention.output.dense", "output.dense", "c_proj", "o_proj", "down_proj")


def still(model: Any, family: Any, blocks: tuple[int, ...]) -> None:
    """Make blocks do nothing."""
    for number, block in enumerate(family.blocks_of(model.base_model), 1):
        for name, part in block.named_modules():
            if number in blocks and name.endswith(OUTPUTS):
                for tensor in part.parameters():
                    tensor.data.zero_()
            if "LayerNorm" in name:  # after the sum, as in BERT: norming twice is norming once
                part.weight.data.fill_(1.0)
                part.bias.data.zero_()


def texts(count: int, seed: int = 0) -> list[str]:
    drawn = torch.Generator().manual_seed(seed)
    out = []
    for _ in range(count):
        length = int(torch.randint(3, 9, (1,), generator=drawn))
        places = torch.randint(len(WORDS), (length,), generator=drawn).tolist()
        out.append(" ".join(WORDS[place] for place in places))
    return out


def task_with(kind: Kind, splits: dict[str, tuple[Item, ...]], labels: tuple[str, ...] = ()) -> Task:
    scores = {"classification": ("accuracy",), "regression": ("pearson",)}.get(kind, ("perplexity",))
    made = {name: Split(name=name, items=items) for name, items in splits.items()}
    return Task(
        name="mine",
        title="Mine",
        kind=kind,
        labels=labels,
        scores=scores,
        main=scores,
        readers=MappingProxyType({name: (lambda part=part: part) for name, part in made.items()}),
        source="tests",
    )


def balance(encoder: Any, task: Task, split: str) -> None:
    """Shift the bias of a drawn head, which else gives one answer to nearly everything."""
    model = build(encoder, task, "own")
    features = encode(task.split(split).items, task, encoder.tokenizer, longest=32)
    with torch.inference_mode():
        logits = model(collate(features))
    encoder.model.classifier.bias.data -= logits.median(dim=0).values
