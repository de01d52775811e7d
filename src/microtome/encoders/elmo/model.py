"""What is an ELMo made of, and what are its layers on a batch?"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from ...errors import InputError, must
from .bilstm import ElmoState, Memory
from .characters import real_tokens
from .latemodule import LateModule
from .transformer import with_positions

if TYPE_CHECKING:
    from torch import Tensor, nn


class ElmoPart(LateModule):
    """
    Weights, and the function that uses them: a torch module, so that it can be hooked, moved and frozen.

    Parameters
    ----------
    work : callable
        A function of a module, called with the options, the weights by name and what the part is called with.
    options : frozen dataclass or None
    weights : mapping of str to tensor
    """

    def __init__(self, work: Callable[..., Tensor], options: object, weights: Mapping[str, Tensor]) -> None:
        from torch import nn

        super().__init__()
        self.work, self.options = work, options
        for name, weight in weights.items():
            self.register_parameter(name, nn.Parameter(weight.contiguous()))

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """Compute what the part gives out."""
        return self.work(self.options, dict(self.named_parameters()), *args, **kwargs)


class ElmoModel(LateModule):
    """
    An ELMo: a torch module in evaluation mode, with layers instead of one output.

    Parameters
    ----------
    kind : {"elmo", "transformer-elmo"}
    width : int
        Features of a layer, both directions together.
    embeddings : ElmoPart
        Character ids to layer 0.
    blocks : sequence of ElmoPart
        Each makes a layer from the one below it.
    final_norm : ElmoPart or None
        What the last layer passes before it is read; only the Transformer ELMo has it.
    """

    kind: Literal["elmo", "transformer-elmo"]
    width: int
    embeddings: ElmoPart
    blocks: nn.ModuleList
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
        from torch import nn

        super().__init__()
        self.kind, self.width = kind, width
        self.embeddings, self.blocks, self.final_norm = embeddings, nn.ModuleList(blocks), final_norm
        self.eval()

    @property
    def layers(self) -> int:
        """Count the blocks; the model has one layer more, layer 0."""
        return len(self.blocks)

    def forward(self, ids: Tensor, *, state: ElmoState | None = None, raw_last: bool = False) -> list[Tensor]:
        """
        Compute every layer.

        Parameters
        ----------
        ids : integer tensor of shape (sentences, tokens, 50)
            As `character_ids` writes them, on the device of the model.
        state : ElmoState, optional
            Where the LSTMs start and, after the call, where they stopped; None: each sentence starts from
            zero. Only for an ELMo of LSTMs.
        raw_last : bool
            Whether the last layer is the output of the last block itself. The released Transformer ELMo
            norms it; in an ELMo of LSTMs there is no such norm and no difference.

        Returns
        -------
        list of layers + 1 tensors of shape (sentences, tokens, width)
            Layer 0, the vector of each token twice, and then forward and backward half side by side; zero
            where there is no token.
        """
        if state is not None and not isinstance(state, ElmoState):
            raise must("state", "an ElmoState", state)
        if state is not None and self.kind != "elmo":
            raise InputError(
                "state must be None for a Transformer ELMo, which remembers nothing, but got one."
            )
        mask = real_tokens(ids)
        x = self.embeddings(ids, mask)
        layers, after = [x], dict(state.blocks if state is not None else {})
        if self.kind == "transformer-elmo":
            x = with_positions(x)
        for place, block in enumerate(self.blocks):
            before = after.get(place, Memory())
            memory = None if state is None else Memory(h=before.h, c=before.c)
            x = block(x, mask, memory)
            layers.append(x)
            if memory is not None:
                after[place] = memory
        if self.final_norm is not None and self.layers and not raw_last:
            layers[-1] = self.final_norm(x)
        if state is not None:
            state.blocks = after
        return [layer.masked_fill(~mask[..., None], 0) for layer in layers]
