"""States that a head reads, and the modules of heads, among them a biaffine dependency parser."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ...lazy import LateModule, torch
from ...tasks.task import Kind
from .head import Head

# Names in the configurations of the dropout before the classifier, or else of that of the states.
_DROPOUTS = (
    "classifier_dropout",
    "classifier_dropout_prob",
    "seq_classif_dropout",
    "hidden_dropout_prob",
    "summary_last_dropout",
    "resid_pdrop",
    "hidden_dropout",
)
# Of the parser: widths of the projections from which arcs and relations are scored, and its dropout.
ARC_WIDTH, RELATION_WIDTH, DROPOUT = 500, 100, 0.33


def dropout_of(config: Any) -> float:
    """Dropout of a family's classifier; 0.1 where its configuration names none."""
    for name in _DROPOUTS:
        dropout = getattr(config, name, None)
        if isinstance(dropout, (int, float)):
            return float(dropout)
    return 0.1


def vector(
    states: torch.Tensor, mask: torch.Tensor, special: torch.Tensor, reads: str, place: str
) -> torch.Tensor:
    """
    Read one vector per example.

    Parameters
    ----------
    states : Tensor of shape (examples, tokens, features)
    mask : Tensor of int of shape (examples, tokens)
        1 where a token is not padding.
    special : Tensor of bool of shape (examples, tokens)
    reads : {"cls", "pooler", "last", "mean"}
    place : {"first", "last"}
        Position of the token that represents the input.

    Returns
    -------
    Tensor of shape (examples, features)
    """
    if reads == "mean":
        real = mask.bool()
        selected = real & ~special
        # A text without regular tokens has only special tokens to average.
        selected = torch.where(selected.any(1, keepdim=True), selected, real).to(states.dtype)
        return (states * selected[..., None]).sum(1) / selected.sum(1, keepdim=True)
    if reads == "last" or place == "last":
        last = mask.to(torch.long).cumsum(1).argmax(1)
        return states[torch.arange(len(states), device=states.device), last]
    return states[:, 0]


def at_words(rows: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
    """
    Select the rows of words from those of tokens.

    Parameters
    ----------
    rows : Tensor of shape (examples, tokens, numbers)
    words : Tensor of int of shape (examples, words)
        The token of each word; -1 where it has none, which selects the first row and must be ignored.

    Returns
    -------
    Tensor of shape (examples, words, numbers)
    """
    index = words.clamp(min=0)[..., None].expand(-1, -1, rows.shape[-1])
    return rows.gather(1, index)


def rolled_left(values: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Move padding from the end of each example to its beginning; values (examples, tokens, ...)."""
    tokens = mask.shape[1]
    positions = torch.arange(tokens, device=values.device)[None] - (tokens - mask.sum(1, keepdim=True))
    index = positions % tokens
    return values[torch.arange(len(values), device=values.device)[:, None], index]


def sequence_head(head: Head, config: Any, outputs: int, *, pooler: bool) -> torch.nn.Module:
    """Make the stages of a head, after a new pooler if one is requested."""
    from torch import nn

    width = int(config.hidden_size)
    rate = dropout_of(config) if head.dropout is None else head.dropout
    active = {"tanh": nn.Tanh, "gelu": nn.GELU, "relu": nn.ReLU}[head.activation]
    stages: list[nn.Module] = [_dense(width, width, config), nn.Tanh()] if pooler else []
    stages.append(nn.Dropout(rate))
    for _ in range(head.dense):
        stages += [_dense(width, width, config), active(), nn.Dropout(rate)]
    return nn.Sequential(*stages, _dense(width, outputs, config))


def row_head(kind: Kind, config: Any, outputs: int) -> torch.nn.Module:
    """Make a head with outputs for every word or token: a linear layer, or a parser."""
    from torch import nn

    width = int(config.hidden_size)
    if kind == "parsing":
        return biaffine_parser(width, outputs)
    return nn.Sequential(nn.Dropout(dropout_of(config)), _dense(width, outputs, config))


def _dense(inputs: int, outputs: int, config: Any) -> torch.nn.Linear:
    """Make a linear layer, initialized as the library initializes those of the model."""
    from torch import nn

    layer = nn.Linear(inputs, outputs)
    nn.init.normal_(layer.weight, std=float(getattr(config, "initializer_range", None) or 0.02))
    nn.init.zeros_(layer.bias)
    return layer


class Given(LateModule):
    """Replaces a base model, and returns precomputed states."""

    def __init__(self, base: torch.nn.Module, states: torch.Tensor, pooled: torch.Tensor | None) -> None:
        super().__init__()
        self.output = Output(states, pooled)
        # In a tuple, so that it is not registered as a submodule.
        self.standing_for = (base,)

    def __getattr__(self, name: str) -> Any:
        # Some heads read a table of the base model, such as the word embeddings.
        if name == "standing_for":
            raise AttributeError(name)
        return getattr(self.standing_for[0], name)

    def forward(self, *_: Any, **__: Any) -> Output:
        """Return the states, whatever the tokens are."""
        return self.output


class Output:
    """Output of a base model: states, the pooler's vector, and None for all else."""

    def __init__(self, states: torch.Tensor, pooled: torch.Tensor | None) -> None:
        self.last_hidden_state, self.pooler_output = states, pooled

    def __getitem__(self, index: int) -> torch.Tensor | None:
        return (self.last_hidden_state, self.pooler_output)[index]

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):
            raise AttributeError(name)


@contextmanager
def given_states(net: Any, states: torch.Tensor, pooled: torch.Tensor | None) -> Iterator[None]:
    """Let a model of the library predict from given states, not its encoder's, within a context."""
    prefix, base = net.base_model_prefix, net.base_model
    setattr(net, prefix, Given(base, states, pooled))
    try:
        yield
    finally:
        setattr(net, prefix, base)


def biaffine_parser(features: int, relations: int) -> torch.nn.Module:
    """
    Make a biaffine parser (Dozat and Manning 2017) that reads one vector per word.

    Parameters
    ----------
    features : int
        Width of a word vector.
    relations : int
        Number of relation labels.

    Returns
    -------
    torch.nn.Module
        Maps vectors of shape (examples, words, features) to scores of arcs, shape (examples, words,
        words + 1), and of relations, shape (examples, words, words + 1, relations). Index 0 of a word's
        possible heads is the root, which has a learned vector.
    """
    from torch import nn

    def narrow(width: int) -> nn.Module:
        return nn.Sequential(nn.Dropout(DROPOUT), nn.Linear(features, width), nn.LeakyReLU(0.1))

    class Biaffine(nn.Module):
        """Scores every word as the head of every other word."""

        def __init__(self) -> None:
            super().__init__()
            self.root = nn.Parameter(torch.empty(features))
            self.arc_word, self.arc_head = narrow(ARC_WIDTH), narrow(ARC_WIDTH)
            self.relation_word, self.relation_head = narrow(RELATION_WIDTH), narrow(RELATION_WIDTH)
            self.drop = nn.Dropout(DROPOUT)
            # The extra row on the word's side is the linear term: how likely a word is a head at all.
            self.arc = nn.Parameter(torch.empty(ARC_WIDTH + 1, ARC_WIDTH))
            self.relation = nn.Parameter(torch.empty(relations, RELATION_WIDTH + 1, RELATION_WIDTH + 1))
            nn.init.normal_(self.root, std=0.02)
            nn.init.xavier_uniform_(self.arc)
            for matrix in self.relation.data:
                nn.init.xavier_uniform_(matrix)

        def forward(self, rows: Any) -> tuple[Any, Any]:
            """Score arcs and relations."""
            root = self.root.to(rows.dtype).expand(len(rows), 1, -1)
            heads = torch.cat([root, rows], dim=1)
            words = _one_more(self.drop(self.arc_word(rows)))
            arcs = words @ self.arc @ self.drop(self.arc_head(heads)).transpose(1, 2)
            words = _one_more(self.drop(self.relation_word(rows)))
            relation_heads = _one_more(self.drop(self.relation_head(heads)))
            relations = torch.einsum("nwi,rij,nhj->nwhr", words, self.relation, relation_heads)
            return arcs, relations

    return Biaffine()


def _one_more(rows: Any) -> Any:
    return torch.cat([rows, torch.ones_like(rows[..., :1])], dim=-1)
