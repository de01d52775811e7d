"""Where are the layers of a model? A declaration a family of models, and how to follow it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal

from ..errors import InputError

if TYPE_CHECKING:
    import torch

NOTHING: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """
    Models that are built alike.

    Paths are those of submodules below the base model, dots between the names. Layer l is what block l + 1
    reads, and the last layer is what the last block gives: so layer 0 is the embedding output with
    whatever projects, norms or mixes it, and a convolution between two blocks belongs to the lower one.

    Parameters
    ----------
    name, title : str
        As users type it, and as they read it.
    model_types : tuple of str
        What the `config.json` of such a model calls itself; none where its files tell it.
    where : mapping of str to object
        What else `config.json` must say, where it sets models apart that call themselves alike.
    blocks : str
        The list of blocks.
    embeddings : tuple of str
        Modules that turn tokens into the first vectors.
    beside : tuple of str
        Modules of the encoder that belong to no single block and to no embedding, such as relative
        positions that all blocks share.
    final_norm : str, optional
        What norms the last block's output before anything else reads it.
    reads : {"first", "last", "none"}
        Which token stands for the whole input.
    causal : bool
        Whether a token sees only those before it.
    shared : bool
        Whether one block is run for every layer.
    time_major : bool
        Whether blocks pass states of shape (tokens, examples, features).
    arguments : mapping of str to object
        What every call is given beside the tokens.
    relative_segments : bool
        Whether it is told which of two texts a token is of without a table of vectors for them.
    unused_positions : int
        Entries of the position table that no token ever gets.
    after_padding : bool
        Whether positions are counted from the number of the padding token on, so that entries up to it are
        never given either.
    per_block : tuple of str
        Lists in the configuration with one entry a block, where it has them.
    first_fixed : bool
        Whether the first block is built in another way than the rest, so that it must stay the first.
    index_scaled : str, optional
        The switch in the configuration under which a block's number scales its attention.
    needs_block : bool
        Whether the library cannot run it, or not load it, without any block.
    outputs : tuple of str
        Submodules or tensors of a block, where it has them, that write into its residual path: with all of
        them at zero a block passes on what it reads, normed where the family norms.
    after_first : str, optional
        What runs after the first block that runs, on the embedding output and that block's.
    source : str
        Who described it.
    """

    name: str
    title: str
    model_types: tuple[str, ...]
    where: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    blocks: str
    embeddings: tuple[str, ...]
    beside: tuple[str, ...] = ()
    final_norm: str | None = None
    reads: Literal["first", "last", "none"] = "first"
    causal: bool = False
    shared: bool = False
    time_major: bool = False
    arguments: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    relative_segments: bool = False
    unused_positions: int = 0
    after_padding: bool = False
    per_block: tuple[str, ...] = ()
    first_fixed: bool = False
    index_scaled: str | None = None
    needs_block: bool = False
    outputs: tuple[str, ...] = ()
    after_first: str | None = None
    source: str

    def blocks_of(self, base: torch.nn.Module) -> list[torch.nn.Module]:
        """
        List the blocks of a base model in the order of depth, each once for every layer it makes.

        A block that all layers share stands in the list as often as it is run.
        """
        found = list(submodule(base, self.blocks).children())
        if self.shared:
            config: Any = base.config
            each = config.num_hidden_layers / config.num_hidden_groups
            return [found[int(step / each)] for step in range(config.num_hidden_layers)]
        return found


def submodule(base: torch.nn.Module, path: str) -> torch.nn.Module:
    """Find a submodule by its path, or say that the model is built in another way."""
    try:
        return base.get_submodule(path)
    except AttributeError as error:
        raise InputError(
            f"{type(base).__name__} must have the submodule {path!r} where its family has it, but it has not."
        ) from error
