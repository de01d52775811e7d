"""Does a family describe its models rightly? A contract for an encoder of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ..encoders.family import submodule
from .measures import ContractError

if TYPE_CHECKING:
    import torch

    from ..encoders.encoder import TransformerEncoder
    from ..encoders.tokens import Tokens

Claims = Iterator[tuple[bool, str]]

SAME = 1e-5  # states that differ by rounding alone
SENTENCES = (
    ("A", "word", "."),
    ("The", "longest", "of", "these", "sentences", "has", "some", "more", "words", "than", "others", "do"),
    ("Two", "of", "them", "differ", "in", "length", "."),
)


def check_encoder(encoder: TransformerEncoder) -> None:
    """
    Hold an encoder against what its family declares, and raise one `ContractError` for all that is broken.

    Parameters
    ----------
    encoder : TransformerEncoder
        With weights that were drawn or trained, norms and biases included.
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
    """All layers of a batch, copied, each of shape (examples, tokens, features)."""
    found: dict[int, Any] = {}
    encoder.run(batch, lambda layer, seen: found.__setitem__(layer, seen.clone()))
    return found


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
    rest = [
        name
        for name, p in base.named_parameters()
        if id(p) not in inside | beside and "pooler" not in name and not name.startswith("mask_emb")
    ]
    yield not rest, f"every weight must be of a block, an embedding or beside them, but {rest[:3]} is not."


def _library(encoder: TransformerEncoder) -> Claims:
    import torch

    batch = encoder.words(SENTENCES)
    found = states(encoder, batch)
    yield sorted(found) == list(range(len(encoder.layers))), "every layer must be seen once."
    inputs = encoder.tokenizer.collate(batch, encoder.device)
    with torch.inference_mode():
        known = encoder.base(**inputs, **encoder.family.arguments, output_hidden_states=True).hidden_states
    for layer, expected in enumerate(known):
        last = layer == encoder.depth and encoder.family.final_norm is not None
        same = torch.equal(found[layer + last], expected)
        yield same, f"layer {layer} must be what the library gives, to the last bit."


def _padding(encoder: TransformerEncoder) -> Claims:
    batch = encoder.words(SENTENCES)
    together = states(encoder, batch)
    for k, tokens in enumerate(batch):
        alone = states(encoder, [tokens])
        for layer, expected in alone.items():
            gap = float((together[layer][k, : len(tokens)] - expected[0]).abs().max())
            yield gap <= SAME, f"layer {layer} must not depend on padding, but differs by {gap:.1g}."


def _attention(encoder: TransformerEncoder) -> Claims:
    batch = encoder.words(SENTENCES)
    before = getattr(encoder.config, "_attn_implementation", None)
    maps = encoder.attend(batch)
    yield len(maps) == encoder.depth, "every block must give its attention."
    for block, found in enumerate(maps, 1):
        heads = encoder.config.num_attention_heads
        yield found.shape[:2] == (len(batch), heads), f"block {block} must have {heads} heads."
        for k, tokens in enumerate(batch):
            own = found[k, :, : len(tokens), : len(tokens)].float()
            gap = float((own.sum(-1) - 1).abs().max())
            yield gap <= SAME, f"rows of block {block} must sum to 1 over real tokens, off by {gap:.1g}."
            if encoder.family.causal:
                above = float(own.triu(1).abs().max()) if len(tokens) > 1 else 0.0
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
