"""The ELMo model as a torch module that returns all its layers, and what the layers compute."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Literal

from ...lazy import LateModule, torch
from .characters import Weights, layer_norm, real_tokens


def halves(x: torch.Tensor) -> torch.Tensor:
    """
    Split a layer into its forward and its backward half.

    Parameters
    ----------
    x : tensor of shape (sentences, tokens, 2 * features)

    Returns
    -------
    tensor of shape (2, sentences, tokens, features)
    """
    return x.unflatten(-1, (2, -1)).movedim(-2, 0)


def joined(x: torch.Tensor) -> torch.Tensor:
    """
    Concatenate the halves of a layer: the inverse of `halves`.

    Parameters
    ----------
    x : tensor of shape (2, sentences, tokens, features)

    Returns
    -------
    tensor of shape (sentences, tokens, 2 * features)
    """
    return x.movedim(0, -2).flatten(-2)


def linear(x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
    """
    Multiply each direction by its own matrix.

    Parameters
    ----------
    x : tensor of shape (2, ..., inputs)
    weight : tensor of shape (2, inputs, outputs)
    bias : tensor of shape (2, outputs)

    Returns
    -------
    tensor of shape (2, ..., outputs)
    """
    return torch.baddbmm(bias[:, None], x.flatten(1, -2), weight).unflatten(1, x.shape[1:-1])


def bilstm(
    weights: Weights,
    x: torch.Tensor,
    mask: torch.Tensor,
    *,
    cell_clip: float | None,
    projection_clip: float | None,
    skip: bool,
) -> torch.Tensor:
    """
    Run both LSTMs over the real tokens of each sentence, each from states of zero.

    Parameters
    ----------
    weights : mapping of str to tensor
        `input` (2, features, 4 * cells), `recurrent` (2, features, 4 * cells), `bias` (2, 4 * cells) and
        `projection` (2, cells, features), forward before backward; the gates are input, candidate,
        forget and output.
    x : tensor of shape (sentences, tokens, 2 * features)
    mask : bool tensor of shape (sentences, tokens)
        A sentence's tokens come first.
    cell_clip, projection_clip : float or None
        The largest absolute value of the cell and of its projected output; None for no limit.
    skip : bool
        Whether the layer adds its input to its output.

    Returns
    -------
    tensor of shape (sentences, tokens, 2 * features)
        Zero where there is no token.
    """
    lengths = mask.sum(1)
    order = lengths.argsort(descending=True, stable=True)
    back = order.argsort()
    position = torch.arange(mask.shape[1], device=mask.device)
    mirrored = torch.where(mask, lengths[:, None] - 1 - position, position)
    at_work = [n for n in (lengths > position[:, None]).sum(1).tolist() if n]
    sorted_mask = mask[order].T  # (tokens, sentences)

    # Sorted by length: the rows that are active at a step are always the first ones.
    below = _turned(halves(x), mirrored)[:, order].transpose(1, 2)[:, sorted_mask]
    gates = linear(below, weights["input"], weights["bias"])
    steps = _run(weights, gates, at_work, cell_clip, projection_clip)
    out = steps.new_zeros(2, *sorted_mask.shape, steps.shape[-1])
    out[:, sorted_mask] = steps
    layer = joined(_turned(out[:, :, back].transpose(1, 2), mirrored))
    return x + layer if skip else layer


def _turned(x: torch.Tensor, mirrored: torch.Tensor) -> torch.Tensor:
    """Reverse the tokens of the backward half of (2, sentences, tokens, features); its own inverse."""
    return torch.stack([x[0], x[1].gather(1, mirrored[..., None].expand_as(x[1]))])


def _run(
    weights: Weights,
    gates: torch.Tensor,
    at_work: list[int],
    cell_clip: float | None,
    projection_clip: float | None,
) -> torch.Tensor:
    """Step through (2, real tokens, 4 * cells), and return the outputs in this order."""
    cells, features = weights["projection"].shape[1:]
    rows = max(at_work, default=0)
    h, c = (gates.new_zeros(2, rows, size) for size in (features, cells))
    steps = [h[:, :0]]
    for step, rows in zip(gates.split(at_work, 1), at_work, strict=True):
        i, j, f, o = torch.baddbmm(step, h[:, :rows], weights["recurrent"]).chunk(4, -1)
        # The forget gate was trained with 1 added to it, which is not in the stored bias.
        c = i.sigmoid() * j.tanh() + (f + 1).sigmoid() * c[:, :rows]
        c = _clipped(c, cell_clip)
        h = _clipped(torch.bmm(o.sigmoid() * c.tanh(), weights["projection"]), projection_clip)
        steps.append(h)
    return torch.cat(steps, 1)


def _clipped(x: torch.Tensor, limit: float | None) -> torch.Tensor:
    return x if limit is None else x.clamp(-limit, limit)


HEADS = 8  # attention heads of the released code; its configuration does not record them


def bitransformer(weights: Weights, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """
    Run one pre-norm block in each direction; a token attends to itself and those before it.

    Parameters
    ----------
    weights : mapping of str to tensor
        `query`, `key`, `value`, `output` (2, features, features), `inner` (2, features, hidden), `outer`
        (2, hidden, features), each with its `_bias`; `attention_gamma`, `attention_beta`,
        `feedforward_gamma`, `feedforward_beta` (2, features); forward before backward.
    x : tensor of shape (sentences, tokens, 2 * features)
    mask : bool tensor of shape (sentences, tokens)
        A sentence's tokens come first.

    Returns
    -------
    tensor of shape (sentences, tokens, 2 * features)
        Arbitrary where there is no token.
    """
    x = halves(x)
    x = x + _attention(weights, _normed(x, weights, "attention"), _visible(mask))
    inner = linear(_normed(x, weights, "feedforward"), weights["inner"], weights["inner_bias"]).relu()
    return joined(x + linear(inner, weights["outer"], weights["outer_bias"]))


def _normed(x: torch.Tensor, weights: Weights, name: str) -> torch.Tensor:
    gamma, beta = weights[f"{name}_gamma"], weights[f"{name}_beta"]
    return layer_norm(x, gamma[:, None, None], beta[:, None, None])


def _visible(mask: torch.Tensor) -> torch.Tensor:
    """Build the attention mask: bool of shape (2, sentences, 1, tokens, tokens), keys on the last axis."""
    ahead = (
        mask[:, :, None]
        & torch.ones(mask.shape[1], mask.shape[1], dtype=torch.bool, device=mask.device).tril()
    )
    return torch.stack([ahead, ahead.mT])[:, :, None]


def _attention(weights: Weights, x: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
    def heads(name: str) -> torch.Tensor:  # (2, sentences, heads, tokens, features of a head)
        values = linear(x, weights[name], weights[f"{name}_bias"])
        return values.unflatten(-1, (HEADS, -1)).transpose(2, 3)

    query, key, value = heads("query"), heads("key"), heads("value")
    scores = query @ key.mT / math.sqrt(query.shape[-1])
    # Padding attends to nothing: a large finite number instead of infinity keeps its rows defined.
    scores = scores.masked_fill(~visible, max(-1e9, torch.finfo(scores.dtype).min))
    mixed = (scores.softmax(-1) @ value).transpose(2, 3).flatten(-2)
    return linear(mixed, weights["output"], weights["output_bias"])


def final_norm(weights: Weights, x: torch.Tensor) -> torch.Tensor:
    """
    Normalize each half of the last layer, as the released model does.

    Parameters
    ----------
    weights : mapping of str to tensor
        `final_gamma`, `final_beta` (2, features).
    x : tensor of shape (sentences, tokens, 2 * features)

    Returns
    -------
    tensor of the shape of x
    """
    return joined(_normed(halves(x), weights, "final"))


def with_positions(x: torch.Tensor) -> torch.Tensor:
    """
    Add sinusoidal position encodings, counted from the left, to both halves of layer 0.

    Parameters
    ----------
    x : tensor of shape (sentences, tokens, 2 * features)

    Returns
    -------
    tensor of the shape of x
    """
    features = x.shape[-1] // 2
    position = torch.arange(x.shape[1], dtype=torch.float32, device=x.device)[:, None]
    even = torch.arange(0, features, 2, dtype=torch.float32, device=x.device)
    angle = position * torch.exp(even * (-math.log(10000.0) / features))
    wave = torch.stack([angle.sin(), angle.cos()], -1).flatten(-2).to(x.dtype)
    return x + torch.cat([wave, wave], -1)


class ElmoPart(LateModule):
    """
    Weights and the function that uses them, as a torch module that can be hooked, moved and frozen.

    Parameters
    ----------
    work : callable
        A function of the weights by name and the arguments of the call.
    weights : mapping of str to tensor
    """

    def __init__(self, work: Callable[..., torch.Tensor], weights: Weights) -> None:
        super().__init__()
        self.work = work
        for name, weight in weights.items():
            self.register_parameter(name, torch.nn.Parameter(weight.contiguous()))

    def forward(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        """Compute the output of the part."""
        return self.work(dict(self.named_parameters()), *args, **kwargs)


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
