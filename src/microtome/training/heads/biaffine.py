"""Biaffine dependency parser (Dozat and Manning 2017)."""

from __future__ import annotations

from typing import Any

from ...lazy import torch

ARC_WIDTH, RELATION_WIDTH, DROPOUT = 500, 100, 0.33


def biaffine_parser(
    features: int,
    relations: int,
    *,
    arc_width: int = ARC_WIDTH,
    relation_width: int = RELATION_WIDTH,
    dropout: float = DROPOUT,
) -> torch.nn.Module:
    """
    Make a biaffine parser that reads one vector per word.

    Parameters
    ----------
    features : int
        Width of a word vector.
    relations : int
        Number of relation labels.
    arc_width, relation_width : int
        Widths of the projections from which arcs and relations are scored.
    dropout : float

    Returns
    -------
    torch.nn.Module
        Maps vectors of shape (examples, words, features) to scores of arcs, shape (examples, words,
        words + 1), and of relations, shape (examples, words, words + 1, relations). Index 0 of a word's
        possible heads is the root, which has a learned vector.
    """
    from torch import nn

    def narrow(width: int) -> nn.Module:
        return nn.Sequential(nn.Dropout(dropout), nn.Linear(features, width), nn.LeakyReLU(0.1))

    class Biaffine(nn.Module):
        """Scores every word as the head of every other word."""

        def __init__(self) -> None:
            super().__init__()
            self.root = nn.Parameter(torch.empty(features))
            self.arc_word, self.arc_head = narrow(arc_width), narrow(arc_width)
            self.relation_word, self.relation_head = narrow(relation_width), narrow(relation_width)
            self.drop = nn.Dropout(dropout)
            # The extra row on the word's side is the linear term: how likely a word is a head at all.
            self.arc = nn.Parameter(torch.empty(arc_width + 1, arc_width))
            self.relation = nn.Parameter(torch.empty(relations, relation_width + 1, relation_width + 1))
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
