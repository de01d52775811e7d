"""Tiny encoders of which it is known beforehand what changed, and texts to see it on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

import cats
import tiny
from microtome.context import Context
from microtome.encoders.loading import load
from microtome.experiments.layer_similarity import Recorded, plan_text, record_models
from microtome.extraction.texts import make_texts
from microtome.randomness import generator
from microtome.rows.selecting import row_options

WORDS = (*cats.KNOWN, "cat", "tea", "sit", "on", "it", "who", "likes", "a")


def sentences(count: int, *, seed: int = 0, words: tuple[str, ...] = WORDS, longest: int = 9) -> list[str]:
    """Sentences of three words or more, drawn from some."""
    rng = generator(seed, "sentences")
    return [
        " ".join(words[i] for i in rng.integers(len(words), size=int(rng.integers(3, longest))))
        for _ in range(count)
    ]


def saved(folder: Path, *, depth: int = 3, ends: tuple[str, str] = ("##s", "##r")) -> Path:
    """The base: a tiny BERT whose tokens have the same numbers whenever it is made."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors

    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS, *ends]
    place = tiny.save_checkpoint(folder, "bert", num_hidden_layers=depth, vocab_size=len(names))
    made = Tokenizer(models.WordPiece({name: k for k, name in enumerate(names)}, unk_token="[UNK]"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    made.save(str(place / "tokenizer.json"))
    return place


def moved(folder: Path, *blocks: int, seed: int = 1, by: float = 0.3) -> Any:
    """The base with noise on the weights of some blocks, counted from 1: layers below stay as they are."""
    found: Any = load(folder)
    draw = torch.Generator().manual_seed(seed)
    for block in blocks:
        for parameter in found.blocks[block - 1].parameters():
            spread = float(parameter.data.std())
            parameter.data += by * spread * torch.randn(parameter.shape, generator=draw)
    return found


def parted(folder: Path, size: float, *, block: int = 5, alike: bool = False) -> Any:
    """
    The base with blocks that are all the same, but for one that does more: a border below its layer.

    With `alike` it cannot tell cats from tea.
    """
    found: Any = load(folder)
    first = {name: parameter.data.clone() for name, parameter in found.blocks[0].named_parameters()}
    for number, each in enumerate(found.blocks, start=1):
        for name, parameter in each.named_parameters():
            parameter.data[:] = first[name] if "LayerNorm" in name else 0.3 * first[name]
            if number == block and name.endswith("output.dense.weight"):
                parameter.data *= size
    if alike:
        table = found.base.embeddings.word_embeddings.weight.data
        cat, tea = (found.tokenizer.words([[word]], special=False)[0].ids for word in ("cat", "tea"))
        for one in (*cat, *tea):
            table[one] = 0.0
    return found


def collapsed(folder: Path) -> Any:
    """The base with norms that give every token the same state, in every layer."""
    found: Any = load(folder)
    for each in found.base.modules():
        if isinstance(each, torch.nn.LayerNorm):
            each.weight.data.zero_()
    return found


def recorded_on(models: dict[str, Any], text: Any, store: Path, **rows: Any) -> Recorded:
    """Rows of models, of which the first is open; tokens unless others are named."""
    texts, opened = make_texts(text), {k: v for k, v in models.items() if hasattr(v, "source")}
    planned = plan_text(opened, texts, row_options(rows.pop("rows", "token"), **rows))
    return record_models(models, texts, planned, context=Context(store=store, device="cpu"))
