"""Encoders: a model as a stack of layers, with its tokenizer and its origin."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Any, Protocol

from ..errors import InputError
from ..lazy import torch
from ..randomness import generator
from ..runtime import beside
from .family import Family, submodule
from .tokens import Tokenizer, Tokens

Visit = Callable[[int, "torch.Tensor"], None]

# Keys of a configuration that do not bear on the computation: its origin, the name of the class, and what a
# call returns. The format of the weights is hashed with the weights.
_BESIDE = frozenset(
    {
        "_name_or_path",
        "architectures",
        "dtype",
        "output_attentions",
        "output_hidden_states",
        "return_dict",
        "torch_dtype",
        "transformers_version",
        "use_cache",
    }
)


# The fact that holds the maximal number of tokens of the inputs that a model was fine-tuned on.
TRAINED = "trained_longest"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """
    The origin of an encoder.

    Parameters
    ----------
    given : str
        The folder or hub id.
    revision : str, optional
        The requested revision.
    changes : tuple of str
        Changes to the weights since, in order, such as "all weights re-initialized (seed 3)".
    facts : mapping of str to object
        Further facts from the folder, such as the pooling of a sentence encoder.
    """

    given: str
    revision: str | None = None
    changes: tuple[str, ...] = ()
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadOptions:
    """The options of `microtome.load` by which a loader opens a model."""

    revision: str | None = None
    name: str | None = None
    tokenizer: Any = None
    dtype: str = "float32"
    autocast: str | None = None
    trust_remote_code: bool = False


class Encoder(Protocol):
    """A model in layers: the interface that extraction needs, and what all encoders have in common."""

    name: str
    family: Family
    model: Any
    source: Source

    def __repr__(self) -> str:
        return f"<Encoder {self.name}: {self.family.title}, {self.depth} blocks of width {self.width}>"

    @property
    def depth(self) -> int:
        """Number of blocks."""
        ...

    @property
    def width(self) -> int:
        """Features of a layer."""
        ...

    @property
    def device(self) -> Any:
        """Device of the weights."""
        return next(self.model.parameters()).device

    @property
    def layers(self) -> tuple[str, ...]:
        """Names of the layers: "0", "1", ..., and "norm" where there is a final norm."""
        norm = () if self.family.final_norm is None else ("norm",)
        return (*(str(layer) for layer in range(self.depth + 1)), *norm)

    @property
    def widths(self) -> tuple[int, ...]:
        """Features of each layer."""
        return (self.width,) * len(self.layers)

    @property
    def digest(self) -> str:
        """Hash of everything that determines the states: weights, configuration and tokenizer."""
        ...

    @property
    def cuts(self) -> str:
        """Hash of the tokenization."""
        ...

    @property
    def tokenization(self) -> str:
        """Encoders for which it is equal make the same tokens of a text."""
        return str(id(self))

    def words(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        second: Sequence[int | None] | None = None,
        special: bool = True,
        longest: int | None = None,
    ) -> list[Tokens]:
        """Tokenize sentences that are split into words; see `Tokenizer.words`."""
        ...

    def texts(self, texts: Sequence[tuple[str, str | None]], **options: Any) -> list[Tokens]:
        """Tokenize texts or pairs of texts; see `Tokenizer.texts`."""
        ...

    def run(self, batch: Sequence[Tokens], visit: Visit) -> None:
        """Run examples, and call `visit(layer, states)` with states of shape (examples, tokens, features)."""
        ...

    def initialize(self, seed: int, *, keep_embeddings: bool) -> None:
        """Re-initialize all weights, or all but those of the embeddings."""
        ...

    @property
    def maps_per_pair(self) -> int:
        """Number of heads over all blocks: attention weights per pair of tokens."""
        ...

    def attend(self, batch: Sequence[Tokens]) -> list[torch.Tensor]:
        """Attention of each block, shape (examples, heads, tokens, tokens)."""
        ...


class TransformerEncoder(Encoder):
    """
    A model of one of the families, in evaluation mode.

    Parameters
    ----------
    name : str
        The prefix of the names of its layers: layer 3 is `name/3`.
    family : Family
    model : torch.nn.Module
        With its task head, where it has one.
    tokenizer : Tokenizer
    source : Source
    autocast : {"float16", "bfloat16"}, optional
        The dtype of matrix products in mixed precision.
    """

    def __init__(
        self,
        *,
        name: str,
        family: Family,
        model: torch.nn.Module,
        tokenizer: Tokenizer,
        source: Source,
        autocast: str | None = None,
    ) -> None:
        self.name, self.family, self.model = name, family, model
        self.tokenizer, self.source, self.autocast = tokenizer, source, autocast

    @property
    def base(self) -> torch.nn.Module:
        """The model without its head."""
        return self.model.base_model  # pyright: ignore[reportReturnType]

    @property
    def config(self) -> Any:
        """The configuration of the model."""
        return self.model.config

    @cached_property
    def blocks(self) -> list[torch.nn.Module]:
        """The blocks in order of depth."""
        return self.family.blocks_of(self.base)

    @property
    def depth(self) -> int:
        """Number of blocks."""
        return len(self.blocks)

    @property
    def width(self) -> int:
        """Features of a layer."""
        return int(self.config.hidden_size)

    @property
    def digest(self) -> str:
        """Hash of the present weights, configuration and tokenizer, and of the precision of products."""
        mixed = "" if self.autocast is None else f"|{self.autocast}"
        # Weights do not determine the number of heads, the activation, or how often a shared block runs.
        settings = json.dumps(_telling(self.config.to_dict()), sort_keys=True, default=str)
        return hashlib.blake2b(
            f"{digest_weights(self.model)}|{self.tokenizer.digest}|{settings}{mixed}".encode(), digest_size=16
        ).hexdigest()

    @property
    def cuts(self) -> str:
        """Hash of the tokenization."""
        return self.tokenizer.cuts

    @property
    def tokenization(self) -> str:
        """Hash of the tokenizer and its maximal length."""
        return self.tokenizer.digest

    def words(self, sentences: Sequence[Sequence[str]], **options: Any) -> list[Tokens]:
        """Tokenize sentences that are split into words."""
        return self.tokenizer.words(sentences, **options)

    def texts(self, texts: Sequence[tuple[str, str | None]], **options: Any) -> list[Tokens]:
        """Tokenize texts or pairs of texts."""
        return self.tokenizer.texts(texts, **options)

    def run(self, batch: Sequence[Tokens], visit: Visit) -> None:
        """
        Run examples through the model and visit every layer.

        Parameters
        ----------
        batch : sequence of Tokens
        visit : callable
            Called with the number of a layer and its states, shape (examples, tokens, features). The states
            are not copies: copy what must outlive the call, since later operations may overwrite them.
        """
        inputs = self.tokenizer.collate(batch, self.device)
        with torch.inference_mode(), self._mixed(), _watching(self, visit):
            output = self.base(**inputs, **self.family.arguments)
            if not self.blocks and self.family.final_norm is None:
                visit(0, output.last_hidden_state)

    def initialize(self, seed: int, *, keep_embeddings: bool) -> None:
        """Re-initialize all weights as the library initializes a new model."""
        embeddings: dict[str, torch.Tensor] = {}
        for path in self.family.embeddings if keep_embeddings else ():
            if path in dict(self.base.named_modules()):
                tensors = submodule(self.base, path).state_dict()
                embeddings |= {f"{path}.{name}": tensor.clone() for name, tensor in tensors.items()}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(int(generator(seed, "twin").integers(2**62)))
            fresh = type(self.model)(copy.deepcopy(self.config))
        self.model.load_state_dict(fresh.state_dict())
        self.base.load_state_dict(embeddings, strict=False)

    def _mixed(self) -> Any:
        if self.autocast is None:
            return contextlib.nullcontext()
        return torch.autocast(self.device.type, dtype=getattr(torch, self.autocast))

    @property
    def maps_per_pair(self) -> int:
        """Number of heads over all blocks."""
        return self.depth * int(self.config.num_attention_heads)

    def attend(self, batch: Sequence[Tokens]) -> list[torch.Tensor]:
        """
        Compute the attention weights of each block.

        Returns
        -------
        list of Tensor of shape (examples, heads, tokens, tokens)
            A row holds one token's attention weights; padding tokens are included.
        """
        inputs = self.tokenizer.collate(batch, self.device)
        with torch.inference_mode(), self._mixed(), _explicit_attention(self.base):
            attentions = self.base(**inputs, **self.family.arguments, output_attentions=True).attentions
        if len(attentions or ()) != self.depth:
            raise InputError(
                f"{self.name} must give the attention of its {self.depth} blocks, but it gave "
                f"{len(attentions or ())}."
            )
        return list(attentions)


@contextlib.contextmanager
def _watching(encoder: TransformerEncoder, visit: Visit) -> Iterator[None]:
    """
    Visit the layers of a run by forward hooks on the blocks of an encoder.

    A layer is the input of the next block; the last one is the output of the last block. Blocks are counted
    as they run, so that a shared block is visited each time it runs.
    """
    depth, family, seen = encoder.depth, encoder.family, 0

    def show(layer: int, value: Any) -> None:
        states = value[0] if isinstance(value, (tuple, list)) else value
        visit(layer, states.transpose(0, 1) if family.time_major else states)

    def before(_: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        nonlocal seen
        show(seen, inputs)
        seen += 1

    def after(_: torch.nn.Module, __: Any, result: Any) -> None:
        if seen == depth:
            show(depth, result)

    # A handle of a hook removes it on exit.
    with contextlib.ExitStack() as hooks:
        for block in dict.fromkeys(encoder.blocks):
            hooks.enter_context(block.register_forward_pre_hook(before))
            hooks.enter_context(block.register_forward_hook(after))
        if family.final_norm is not None:
            norm = submodule(encoder.base, family.final_norm)
            hooks.enter_context(norm.register_forward_hook(lambda _, __, result: show(depth + 1, result)))
            if not encoder.blocks:
                hooks.enter_context(norm.register_forward_pre_hook(lambda _, inputs: show(0, inputs)))
        yield
    if seen != depth:
        raise InputError(f"{encoder.name} must run its {depth} blocks once each, but it ran {seen}.")


@contextlib.contextmanager
def _explicit_attention(base: Any) -> Iterator[None]:
    """Use eager attention: fused kernels do not return the attention weights."""
    before = getattr(base.config, "_attn_implementation", None)
    if before in (None, "eager"):
        yield
        return
    base.set_attn_implementation("eager")
    try:
        yield
    finally:
        base.set_attn_implementation(before)


def _telling(config: Any) -> Any:
    """Keep the part of a configuration, nested ones included, that bears on what a model computes."""
    if not isinstance(config, dict):
        return config
    return {str(name): _telling(value) for name, value in config.items() if name not in _BESIDE}


def digest_weights(model: torch.nn.Module) -> str:
    """Hash every tensor of a model, by name, shape and bits."""
    digest, weights = hashlib.blake2b(digest_size=16), sorted(model.state_dict().items())
    with beside(weights[0][1].device) if weights else contextlib.nullcontext():
        for name, tensor in weights:
            digest.update(f"{name}|{tensor.dtype}|{tuple(tensor.shape)}|".encode())
            flat = tensor.detach().cpu().contiguous().reshape(-1)
            digest.update(flat.view(torch.uint8).numpy().data if flat.numel() else b"")
    return digest.hexdigest()
