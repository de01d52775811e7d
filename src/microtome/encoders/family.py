"""Declaration of a model family: the paths of its embeddings, blocks and final norm, and its classifier."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from ..errors import InputError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class Classifier:
    """
    The classification head that the library puts on models of a family.

    Parameters
    ----------
    stages : str
        What it computes, in words.
    reads : {"cls", "pooler"}
        Input of its linear layers: the state of the token that represents the input, or the pooler's vector.
    activations : tuple of str
        Activation of its dense stage; several where the configuration names it; none without such a stage.
    layers : tuple of str
        Paths of its linear layers, the last one at the end. Empty where no head of the package computes the
        same.
    exact : bool
        Whether a head of the package is the same including its dropout.
    blind : bool
        Whether it reads the first token although that attends only to itself.
    """

    stages: str = "as the library has it"
    reads: Literal["cls", "pooler"] = "cls"
    activations: tuple[Literal["tanh", "gelu", "relu"], ...] = ()
    layers: tuple[str, ...] = ()
    exact: bool = False
    blind: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """
    Models of the same architecture; the defaults are those of BERT.

    Paths are dotted paths of submodules of the base model. Layer l is the input of block l + 1, and the last
    layer is the output of the last block: layer 0 is thus the embedding output after any projection, norm
    or mixing, and a convolution between two blocks belongs to the lower one.

    Parameters
    ----------
    name, title : str
        The identifier, and the name for display.
    model_types : tuple of str
        Values of `model_type` in `config.json`; none where the family is recognized by its files.
    where : mapping of str to object
        Further values in `config.json`, which distinguish families of the same `model_type`.
    blocks : str
        Path of the list of blocks.
    embeddings : tuple of str
        Paths of the embedding modules.
    beside : tuple of str
        Modules of the encoder that belong to no single block and to no embedding, such as relative
        positions that all blocks share.
    final_norm : str, optional
        Path of the norm after the last block.
    reads : {"first", "last", "none"}
        Which token represents the whole input.
    causal : bool
        Whether a token attends only to itself and those before it.
    shared : bool
        Whether several layers share one block.
    time_major : bool
        Whether blocks pass states of shape (tokens, examples, features).
    arguments : mapping of str to object
        Keyword arguments of every call beside the tokens.
    relative_segments : bool
        Whether the segments of a text pair are encoded without a table of segment embeddings.
    unused_positions : int
        Entries of the position table that no token uses.
    after_padding : bool
        Whether positions are counted from the id of the padding token on, so that entries up to it are
        unused too.
    per_block : tuple of str
        Lists in the configuration with one entry per block, where it has them.
    first_fixed : bool
        Whether the first block differs from the others in structure, so that it must stay the first.
    index_scaled : str, optional
        The switch in the configuration under which a block's number scales its attention.
    needs_block : bool
        Whether the library cannot load or run a model without any block.
    outputs : tuple of str
        Submodules or tensors of a block, where it has them, that write into the residual stream: with all
        of them at zero a block is the identity, up to the norms of the family.
    after_first : str, optional
        Path of the module that runs after the first block, on the embedding output and that block's output.
    classifier : Classifier
    pooler : str
        How the pooler of the base model was pre-trained; empty where it has none.
    jiant_pooler : bool
        Whether the heads of jiant (Phang et al. 2021) read the pooler.
    idle : tuple of str
        Parameters of the base model that only pre-training uses.
    padding_side : {"left", "right"}
        Side of the padding on which the library's heads read the right token.
    cuda_graphs : bool
        Whether the forward and backward passes never synchronize with the device, as CUDA graphs require,
        once the results of `by_shape` are known.
    bfloat16 : bool
        Whether the library's model runs in bfloat16 on a GPU; if not, it trains in float32 by default.
    by_shape : tuple of str
        Paths of methods of the base model whose results depend only on the shapes of tensors, such as the
        buckets of relative positions.
    source : str
        The citation.
    """

    name: str
    title: str
    model_types: tuple[str, ...]
    where: Mapping[str, Any] = field(default_factory=dict)
    blocks: str = "encoder.layer"
    embeddings: tuple[str, ...] = ("embeddings",)
    beside: tuple[str, ...] = ()
    final_norm: str | None = None
    reads: Literal["first", "last", "none"] = "first"
    causal: bool = False
    shared: bool = False
    time_major: bool = False
    arguments: Mapping[str, Any] = field(default_factory=dict)
    relative_segments: bool = False
    unused_positions: int = 0
    after_padding: bool = False
    per_block: tuple[str, ...] = ()
    first_fixed: bool = False
    index_scaled: str | None = None
    needs_block: bool = False
    outputs: tuple[str, ...] = ("attention.output.dense", "output.dense")
    after_first: str | None = None
    classifier: Classifier = Classifier()
    pooler: str = ""
    jiant_pooler: bool = False
    idle: tuple[str, ...] = ()
    padding_side: Literal["left", "right"] = "right"
    cuda_graphs: bool = False
    bfloat16: bool = True
    by_shape: tuple[str, ...] = ()
    source: str

    def blocks_of(self, base: torch.nn.Module) -> list[torch.nn.Module]:
        """
        List the blocks of a base model in order of depth.

        A shared block is listed as often as it runs.
        """
        blocks = list(submodule(base, self.blocks).children())
        if self.shared:
            config: Any = base.config
            steps_per_group = config.num_hidden_layers / config.num_hidden_groups
            return [blocks[int(step / steps_per_group)] for step in range(config.num_hidden_layers)]
        return blocks


def submodule(base: torch.nn.Module, path: str) -> torch.nn.Module:
    """Find a submodule by its path; raise if the model has none there."""
    try:
        return base.get_submodule(path)
    except AttributeError as error:
        raise InputError(
            f"{type(base).__name__} must have the submodule {path!r} where its family has it, but it has not."
        ) from error
