"""Designs of the small encoders, and the models built from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Literal

from ..arguments import check_value
from ..checks import real_number, whole_number
from ..encoders.library import quiet
from ..errors import must, unknown
from ..lazy import torch
from ..randomness import generator
from .text import CLS, MASK, PAD, SEP

Objective = Literal["masked", "every", "replaced", "causal"]
MOST = 10_000_000  # updates or sizes
OBJECTIVES: tuple[Objective, ...] = ("masked", "every", "replaced", "causal")


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """
    The architecture, objective and hyperparameters of a small encoder.

    Every design has the same post-norm block, the same tokenizer, the same texts in the same order and the
    same number of updates.

    A deep post-norm masked language model stays on the plateau of unigram frequencies for thousands of
    updates before it uses context. Three options shorten this to some hundred updates and allow a high
    learning rate: `waves`, `focus` and `kept`.

    Parameters
    ----------
    name, title : str
    objective : {"masked", "every", "replaced", "causal"}
        Predict masked tokens; predict every token of the same input; detect replaced tokens; predict the next
        token.
    shared : bool
        Whether all layers share the weights of one block.
    differs : str
        Differences from the masked design besides the objective.
    layers, width, heads, inner : int
        Shape of the encoder.
    vocabulary, length : int
        Entries of the tokenizer, and tokens of a sequence including [CLS] and [SEP].
    batch, steps : int
        Sequences per update, and updates.
    rate, warmup, decay, clip : float
        Peak learning rate, share of warmup updates, weight decay, largest norm of a gradient.
    betas : tuple of float
    eps : float
    spread : float
        Standard deviation of the initial weights.
    waves : bool
        Whether the learned position embeddings are initialized as sinusoids instead of at random: relative
        positions are then the same rotation everywhere, and need not be learned for each position.
    focus : float
        Factor of the initial standard deviation of queries and keys: attention then differs between tokens
        from the start.
    hidden : float
        Share of tokens that are masked or replaced.
    kept : float
        Share of the predicted tokens that stay visible in the input, so that the identity of a token is not
        lost in higher layers; none where tokens are replaced.
    generator : tuple of int
        Layers and width of the model that replaces tokens; its embeddings are the encoder's.
    weight : float
        The weight of the detection loss relative to the generator's loss.
    """

    name: str
    title: str
    objective: Objective
    shared: bool = False
    differs: str = ""
    layers: int = 12
    width: int = 128
    heads: int = 4
    inner: int = 512
    vocabulary: int = 8_000
    length: int = 128
    batch: int = 512
    steps: int = 4_500
    rate: float = 2e-3
    warmup: float = 0.06
    decay: float = 0.01
    clip: float = 1.0
    betas: tuple[float, float] = (0.9, 0.98)
    eps: float = 1e-6
    spread: float = 0.05
    waves: bool = True
    focus: float = 3.0
    hidden: float = 0.25
    kept: float = 0.15
    generator: tuple[int, int] = (4, 64)
    weight: float = 50.0

    def __post_init__(self) -> None:
        if self.objective not in OBJECTIVES:
            raise unknown("objective", self.objective, OBJECTIVES)
        for entry in fields(self):
            kind, value = str(entry.type), getattr(self, entry.name)
            if kind == "int":
                whole_number(entry.name, value, 1, MOST)
            elif kind == "float":
                real_number(entry.name, value, 0)
            elif kind == "bool":
                check_value(entry.name, kind, value)
            elif kind.startswith("tuple") and (not isinstance(value, tuple) or len(value) != 2):
                raise must(entry.name, "two numbers", value)
        for beta in self.betas:
            if not real_number("betas", beta, 0) < 1:
                raise must("betas", "below 1", self.betas)
        for size in self.generator:
            whole_number("generator", size, 1, MOST)
        if self.width % self.heads:
            raise must("width", f"a multiple of the {self.heads} heads", self.width)
        if self.length < 8:
            raise must("length", "at least 8", self.length)
        if not self.spread > 0:
            raise must("spread", "above 0", self.spread)
        if not self.focus > 0:
            raise must("focus", "above 0", self.focus)
        if not 0 < self.hidden < 1:
            raise must("hidden", "a share between 0 and 1", self.hidden)
        if not 0 <= self.kept < 1:
            raise must("kept", "a share of at least 0 and below 1", self.kept)

    @property
    def guessed(self) -> int:
        """Number of predicted or replaced tokens per sequence: constant, so that shapes are fixed."""
        return max(1, round(self.hidden * (self.length - 2)))

    @property
    def shown(self) -> int:
        """Number of predicted tokens per sequence that stay visible in the input."""
        return round(self.kept * self.guessed)

    def specification(self) -> dict[str, Any]:
        """Return everything that determines the weights, as plain data."""
        values = asdict(self)
        del values["title"], values["differs"]
        return {**values, "betas": list(self.betas), "generator": list(self.generator)}


_MASKED = Design(
    name="masked",
    title="Masked language model",
    objective="masked",
)
_ALL = (
    _MASKED,
    replace(
        _MASKED,
        name="shared",
        title="Masked language model whose layers share one block",
        shared=True,
        rate=1.5e-3,
        differs="all layers share one block (ALBERT's classes); a lower rate",
    ),
    replace(_MASKED, name="every", title="Masked language model scored on every token", objective="every"),
    replace(
        _MASKED,
        name="replaced",
        title="Replaced-token detection",
        objective="replaced",
        rate=7e-4,
        differs="a lower rate: at 1e-3 and above it learned later or not at all",
    ),
    replace(_MASKED, name="causal", title="Causal language model", objective="causal"),
)
DESIGNS: Mapping[str, Design] = MappingProxyType({design.name: design for design in _ALL})


def find_design(given: str | Design, **values: Any) -> Design:
    """
    Find a design by its name, with some values replaced.

    Parameters
    ----------
    given : str or Design
    **values
        Such as steps=100, width=256.

    Returns
    -------
    Design
    """
    if isinstance(given, str):
        if given not in DESIGNS:
            raise unknown("design", given, DESIGNS)
        given = DESIGNS[given]
    names = [field.name for field in fields(Design)]
    for name in values:
        if name not in names:
            raise unknown("value of a design", name, names)
    return replace(given, **values)


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
