"""Construction of the small encoders from standard classes of transformers."""

from __future__ import annotations

from typing import Any

from ..encoders.load_errors import quiet
from ..lazy import torch
from ..randomness import generator
from .designs import Design
from .wordpiece import CLS, MASK, PAD, SEP


def build(design: Design, entries: int, *, seed: int) -> torch.nn.Module:
    """
    Build the model of a design with random weights.

    Parameters
    ----------
    design : Design
    entries : int
        Entries of the tokenizer.
    seed : int
        The weights depend only on it and on the shape: equal parts of two designs are initialized alike.

    Returns
    -------
    torch.nn.Module
        RoBERTa's classes for masked and causal models, ALBERT's where layers share a block, ELECTRA's
        discriminator for replaced tokens.
    """
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(int(generator(seed, "zoo", "encoder").integers(2**62)))
        model = _drawn(design, _shape(design, entries))
    _focus(model, design.focus)
    if design.waves:
        _wave(model.base_model.embeddings.position_embeddings.weight, design.spread)
    return model


def _drawn(design: Design, shape: dict[str, Any]) -> Any:
    import transformers

    if design.objective == "replaced":
        config = transformers.ElectraConfig(**shape, embedding_size=design.width)
        return transformers.ElectraForPreTraining(config)
    if design.shared:
        config = transformers.AlbertConfig(**shape, embedding_size=design.width, num_hidden_groups=1)
        return transformers.AlbertForMaskedLM(config)
    if design.objective == "causal":
        config = transformers.RobertaConfig(**shape, is_decoder=True)
        return transformers.RobertaForCausalLM(config)
    return transformers.RobertaForMaskedLM(transformers.RobertaConfig(**shape))


def _focus(net: Any, times: float) -> None:
    """Scale up the initial queries and keys."""
    with torch.no_grad():
        for name, weight in net.named_parameters():
            if name.endswith((".query.weight", ".key.weight")):
                weight.mul_(times)


def _wave(weight: torch.Tensor, spread: float) -> None:
    """Fill position embeddings with sinusoids of the standard deviation of random ones."""
    positions, width = weight.shape
    lengths = 10_000.0 ** (torch.arange(0, width, 2) / width)
    angles = torch.arange(positions)[:, None] / lengths
    waves = torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)[:, :width]
    with torch.no_grad():
        weight.copy_(waves * spread * 2**0.5)


def build_generator(design: Design, encoder: Any, *, seed: int) -> torch.nn.Module:
    """
    Build the small masked model that replaces tokens.

    Parameters
    ----------
    design : Design
    encoder : torch.nn.Module
        The discriminator, whose embeddings the generator shares.
    seed : int

    Returns
    -------
    torch.nn.Module
    """
    import transformers

    layers, width = design.generator
    shape = _shape(design, encoder.config.vocab_size)
    shape |= {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": max(1, width // 32),
        "intermediate_size": 4 * width,
    }
    with torch.random.fork_rng(devices=[]), quiet():
        torch.manual_seed(int(generator(seed, "zoo", "generator").integers(2**62)))
        model = transformers.ElectraForMaskedLM(
            transformers.ElectraConfig(**shape, embedding_size=design.width)
        )
    _focus(model, design.focus)
    model.electra.embeddings = encoder.electra.embeddings
    model.generator_lm_head.weight = encoder.electra.embeddings.word_embeddings.weight
    return model


def _shape(design: Design, entries: int) -> dict[str, Any]:
    """
    Return the configuration shared by all classes: one segment type, the same activation, no dropout.

    There is none in fine-tuning either: a small model pretrained without dropout hardly learns with it.
    """
    return {
        "vocab_size": entries,
        "hidden_size": design.width,
        "num_hidden_layers": design.layers,
        "num_attention_heads": design.heads,
        "intermediate_size": design.inner,
        "hidden_act": "gelu",
        "hidden_dropout_prob": 0.0,
        "attention_probs_dropout_prob": 0.0,
        # RoBERTa counts positions from the id of the padding token on.
        "max_position_embeddings": design.length + PAD + 1,
        "type_vocab_size": 1,
        "initializer_range": design.spread,
        "layer_norm_eps": 1e-12,
        "pad_token_id": PAD,
        "bos_token_id": CLS,
        "eos_token_id": SEP,
        "mask_token_id": MASK,
    }
