"""Contract tests for model families."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..encoders.family import submodule
from ..lazy import torch
from .measures import ContractError

if TYPE_CHECKING:
    from ..encoders.encoder import TransformerEncoder
    from ..encoders.tokens import Tokens

Claims = Iterator[tuple[bool, str]]

SAME = 1e-5  # tolerance for rounding of states
SENTENCES = (
    ("A", "word", "."),
    ("The", "longest", "of", "these", "sentences", "has", "some", "more", "words", "than", "others", "do"),
    ("Two", "of", "them", "differ", "in", "length", "."),
)


def check_encoder(encoder: TransformerEncoder) -> None:
    """
    Check an encoder against the declarations of its family; raise one `ContractError` for all violations.

    Parameters
    ----------
    encoder : TransformerEncoder
        An encoder with random or trained weights, norms and biases included.
    """
    broken = [
        f"{encoder.name}, {name}: {sentence}"
        for name, clause in CLAUSES.items()
        for holds, sentence in clause(encoder)
        if not holds
    ]
    if broken:
        raise ContractError("\n".join(broken))


def states(encoder: TransformerEncoder, batch: list[Tokens]) -> dict[int, torch.Tensor]:
    """Return copies of all layers of a batch, each of shape (examples, tokens, features)."""
    layers: dict[int, Any] = {}
    encoder.run(batch, lambda layer, output: layers.__setitem__(layer, output.clone()))
    return layers


def _parts(encoder: TransformerEncoder) -> Claims:
    base, family = encoder.base, encoder.family
    yield encoder.depth == encoder.config.num_hidden_layers, f"it must have {encoder.depth} blocks."
    present = {name for name, _ in base.named_modules()}
    yield family.embeddings[0] in present, f"its embeddings must be in {family.embeddings[0]}."
    if family.final_norm is not None:
        submodule(base, family.final_norm)
    inside = {id(p) for block in encoder.blocks for p in block.parameters()}
    beside = {
        id(p)
        for path in (*family.embeddings, *family.beside, family.final_norm)
        if path in present
        for p in submodule(base, str(path)).parameters()
    }
    unassigned = [
        name
        for name, p in base.named_parameters()
        if id(p) not in inside | beside and "pooler" not in name and not name.startswith("mask_emb")
    ]
    yield (
        not unassigned,
        f"every weight must be of a block, an embedding or beside them, but {unassigned[:3]} is not.",
    )


def _library(encoder: TransformerEncoder) -> Claims:
    batch = encoder.words(SENTENCES)
    layers = states(encoder, batch)
    yield sorted(layers) == list(range(len(encoder.layers))), "every layer must be seen once."
    inputs = encoder.tokenizer.collate(batch, encoder.device)
    with torch.inference_mode():
        hidden_states = encoder.base(
            **inputs, **encoder.family.arguments, output_hidden_states=True
        ).hidden_states
    for layer, expected in enumerate(hidden_states):
        last = layer == encoder.depth and encoder.family.final_norm is not None
        same = torch.equal(layers[layer + last], expected)
        yield same, f"layer {layer} must be what the library gives, to the last bit."


def _padding(encoder: TransformerEncoder) -> Claims:
    batch = encoder.words(SENTENCES)
    together = states(encoder, batch)
    for k, tokens in enumerate(batch):
        single = states(encoder, [tokens])
        for layer, expected in single.items():
            gap = float((together[layer][k, : len(tokens)] - expected[0]).abs().max())
            yield gap <= SAME, f"layer {layer} must not depend on padding, but differs by {gap:.1g}."


def _attention(encoder: TransformerEncoder) -> Claims:
    batch = encoder.words(SENTENCES)
    before = getattr(encoder.config, "_attn_implementation", None)
    maps = encoder.attend(batch)
    yield len(maps) == encoder.depth, "every block must give its attention."
    for block, attention in enumerate(maps, 1):
        heads = encoder.config.num_attention_heads
        yield attention.shape[:2] == (len(batch), heads), f"block {block} must have {heads} heads."
        for k, tokens in enumerate(batch):
            weights = attention[k, :, : len(tokens), : len(tokens)].float()
            gap = float((weights.sum(-1) - 1).abs().max())
            yield gap <= SAME, f"rows of block {block} must sum to 1 over real tokens, off by {gap:.1g}."
            if encoder.family.causal:
                above = float(weights.triu(1).abs().max()) if len(tokens) > 1 else 0.0
                yield above == 0, f"block {block} must not look ahead."
    after = getattr(encoder.config, "_attn_implementation", None)
    yield after == before, "looking at attention must leave the model as it was."


def _whole(encoder: TransformerEncoder) -> Claims:
    (tokens,) = encoder.words(SENTENCES[1:2])
    if encoder.family.reads == "first":
        yield bool(tokens.special[0]), "the first token must be the one for the whole input."
    elif not encoder.family.causal:
        yield bool(tokens.special[-1]), "the last token must be the one for the whole input."


CLAUSES: Mapping[str, Callable[[Any], Claims]] = MappingProxyType(
    {"parts": _parts, "library": _library, "padding": _padding, "attention": _attention, "whole": _whole}
)
