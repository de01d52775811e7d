"""What does a small encoder learn from? Sequences of tokens, some hidden or replaced.


All shapes are fixed: each sequence has the same length and the same number of hidden tokens, so that a
compiled model never has to be compiled again. What is drawn at random comes from torch's generator, which
the loop seeds with the number of the update.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..encoders.elmo.latemodule import LateModule
from .designs import Design
from .models import build, build_generator
from .text import MASK

if TYPE_CHECKING:
    import torch


class Learner(LateModule):
    """
    A model with what it learns from.

    Parameters
    ----------
    design : Design
    entries : int
        Of the tokenizer.
    seed : int
    """

    def __init__(self, design: Design, entries: int, *, seed: int) -> None:
        super().__init__()
        self.design = design
        self.net = build(design, entries, seed=seed)
        self.generator = (
            build_generator(design, self.net, seed=seed) if design.objective == "replaced" else None
        )
        self.guess = _guess

    def hasten(self, backend: str = "inductor") -> None:
        """
        Compile what takes the time: one block for all of a model's, and the loss of its guesses.

        The embeddings stay as they are. Compiled, what flows back into the row of a frequent word would be
        added up one by one wherever the order of sums is kept, which takes most of an update.

        Parameters
        ----------
        backend : str
            Of torch.compile.
        """
        import torch

        for net in (self.net, self.generator):
            for block in [] if net is None else _blocks(net):
                block.compile(backend=backend)
        self.guess = torch.compile(_guess, backend=backend)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Find the loss of a batch.

        Parameters
        ----------
        ids : Tensor of int64 of shape (sequences, tokens)

        Returns
        -------
        loss : Tensor of shape ()
            What is learned from.
        told : Tensor of shape ()
            What is compared between designs' own runs: cross-entropy of the guesses of tokens that were
            hidden, or of next tokens; for replaced tokens the error of telling them.
        """
        return getattr(self, f"_{self.design.objective}")(ids)

    def _masked(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shown = self.design.shown
        places, inputs = hide(ids, self.design.guessed, shown)
        losses = self.guess(_head(self.net), _at(_states(self.net, inputs), places), ids.gather(1, places))
        return losses.mean(), losses.detach()[:, shown:].mean()

    def _every(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        shown = self.design.shown
        places, inputs = hide(ids, self.design.guessed, shown)
        losses = self.guess(_head(self.net), _states(self.net, inputs)[:, 1:-1], ids[:, 1:-1])
        return losses.mean(), losses.detach().gather(1, places[:, shown:] - 1).mean()

    def _causal(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss = self.guess(_head(self.net), _states(self.net, ids)[:, :-1], ids[:, 1:]).mean()
        return loss, loss.detach()

    def _replaced(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits

        assert self.generator is not None
        made: Any = self.generator
        places, inputs = hide(ids, self.design.guessed)
        right = ids.gather(1, places)
        states = _at(_states(made, inputs), places)
        logits = made.generator_lm_head(made.generator_predictions(states))
        guessing = _cross_entropy(logits, right).mean()
        with torch.no_grad():
            # The largest of the logits with Gumbel noise is a draw from their softmax.
            noise = -torch.log(-torch.log(torch.rand_like(logits, dtype=torch.float32).clamp(1e-9, 1 - 1e-7)))
            drawn = (logits.float() + noise).argmax(-1)
            corrupt = _put(ids, places, drawn)
            # A token that was drawn as it was is a real one.
            wrong = (corrupt != ids).float()
        net: Any = self.net
        found = net.discriminator_predictions(_states(net, corrupt))
        telling = binary_cross_entropy_with_logits(found[:, 1:-1].float(), wrong[:, 1:-1])
        return guessing + self.design.weight * telling, telling.detach()


def hide(ids: torch.Tensor, count: int, shown: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Hide as many tokens of each sequence, never its two ends.

    Parameters
    ----------
    ids : Tensor of shape (sequences, tokens)
    count : int
        Tokens of a sequence that are guessed.
    shown : int
        How many of them stand in the input all the same.

    Returns
    -------
    places : Tensor of shape (sequences, count)
        Those that are shown first.
    hidden : Tensor of shape (sequences, tokens)
        [MASK] at the other places: no random tokens there, so that what is read is the text.
    """
    import torch

    order = torch.rand(ids.shape[0], ids.shape[1] - 2, device=ids.device).argsort(dim=1)
    places = order[:, :count] + 1
    hidden = places[:, shown:]
    return places, _put(ids, hidden, torch.full_like(hidden, MASK))


def _rows(places: torch.Tensor, length: int) -> torch.Tensor:
    """The numbers of places of all sequences, one sequence after the other."""
    import torch

    return (places + length * torch.arange(len(places), device=places.device)[:, None]).flatten()


def _put(ids: torch.Tensor, places: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Put other tokens at some places of each sequence."""
    flat = ids.flatten().index_put((_rows(places, ids.shape[1]),), tokens.flatten())
    return flat.view_as(ids)


def _at(states: torch.Tensor, places: torch.Tensor) -> torch.Tensor:
    """States at some places of each sequence, by rows: the way back then adds whole rows."""
    _, length, width = states.shape
    return states.reshape(-1, width).index_select(0, _rows(places, length)).view(*places.shape, width)


def _states(net: Any, ids: torch.Tensor) -> torch.Tensor:
    """
    Last states of a model, as the model itself gives them.

    Nothing is padded, so that no mask is needed: attention then takes its fastest way, which also adds in
    the same order every time.
    """
    base = net.base_model
    states = base.embeddings(input_ids=ids)
    if hasattr(base, "embeddings_project"):
        states = base.embeddings_project(states)
    return base.encoder(states).last_hidden_state


def _blocks(net: Any) -> Any:
    encoder = net.base_model.encoder
    return encoder.layer if hasattr(encoder, "layer") else encoder.albert_layer_groups


def _head(net: Any) -> Any:
    """What makes logits over the vocabulary of states, in whichever class."""
    return net.predictions if hasattr(net, "predictions") else net.lm_head


def _guess(head: Any, states: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of each guess, of the shape of what is right."""
    return _cross_entropy(head(states), right)


def _cross_entropy(logits: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
    from torch.nn.functional import cross_entropy

    losses = cross_entropy(logits.flatten(0, -2).float(), right.flatten(), reduction="none")
    return losses.view_as(right)
