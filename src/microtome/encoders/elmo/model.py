"""The ELMo model as a torch module that returns all its layers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from ...lazy import LateModule, torch
from .characters import real_tokens
from .layers import Weights, with_positions


class ElmoPart(LateModule):
    """
    Weights and the function that uses them, as a torch module that can be hooked, moved and frozen.

    Parameters
    ----------
    work : callable
        A module-level function of the options, the weights by name and the arguments of the call.
    options : frozen dataclass or None
    weights : mapping of str to tensor
    """

    def __init__(self, work: Callable[..., torch.Tensor], options: object, weights: Weights) -> None:
        super().__init__()
        self.work, self.options = work, options
        for name, weight in weights.items():
            self.register_parameter(name, torch.nn.Parameter(weight.contiguous()))

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Compute the output of the part."""
        return self.work(self.options, dict(self.named_parameters()), *args, **kwargs)


class ElmoModel(LateModule):
    """
    An ELMo: a torch module in evaluation mode that returns all its layers.

    Parameters
    ----------
    kind : {"elmo", "transformer-elmo"}
    width : int
        Features of a layer, over both directions.
    embeddings : ElmoPart
        Character ids to layer 0.
    blocks : sequence of ElmoPart
        Each computes a layer from the one below it.
    final_norm : ElmoPart or None
        The norm after the last layer; only the Transformer ELMo has one.
    """

    kind: Literal["elmo", "transformer-elmo"]
    width: int
    embeddings: ElmoPart
    blocks: torch.nn.ModuleList
    final_norm: ElmoPart | None

    def __init__(
        self,
        *,
        kind: Literal["elmo", "transformer-elmo"],
        width: int,
        embeddings: ElmoPart,
        blocks: Sequence[ElmoPart],
        final_norm: ElmoPart | None,
    ) -> None:
        super().__init__()
        self.kind, self.width = kind, width
        self.embeddings, self.blocks, self.final_norm = embeddings, torch.nn.ModuleList(blocks), final_norm
        self.eval()

    @property
    def layers(self) -> int:
        """Number of blocks; the model has one more layer, layer 0."""
        return len(self.blocks)

    def forward(self, ids: torch.Tensor, *, raw_last: bool = False) -> list[torch.Tensor]:
        """
        Compute every layer.

        Parameters
        ----------
        ids : integer tensor of shape (sentences, tokens, 50)
            As `character_ids` writes them, on the device of the model.
        raw_last : bool
            Whether the last layer is the output of the last block itself. The released Transformer ELMo
            normalizes it; a biLSTM ELMo has no such norm, and the option has no effect.

        Returns
        -------
        list of layers + 1 tensors of shape (sentences, tokens, width)
            Layer 0, the vector of each token repeated, and then the forward and backward halves concatenated;
            zero where there is no token.
        """
        mask = real_tokens(ids)
        x = self.embeddings(ids, mask)
        layers = [x]
        if self.kind == "transformer-elmo":
            x = with_positions(x)
        for block in self.blocks:
            x = block(x, mask)
            layers.append(x)
        if self.final_norm is not None and self.layers and not raw_last:
            layers[-1] = self.final_norm(x)
        return [layer.masked_fill(~mask[..., None], 0) for layer in layers]
