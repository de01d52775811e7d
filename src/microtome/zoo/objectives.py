"""Pretraining objectives: masked, every-token and causal prediction, and replaced-token detection.

All shapes are fixed: each sequence has the same length and the same number of masked tokens, so that a
model is compiled only once. Random numbers come from torch's generator, which the training loop seeds with
the number of the update.
"""

from __future__ import annotations

from typing import Any

from ..lazy import LateModule, torch
from .designs import Design, build, build_generator
from .text import MASK


class Learner(LateModule):
    """
    A model with its pretraining objective.

    Parameters
    ----------
    design : Design
    entries : int
        Entries of the tokenizer.
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
        Compile the expensive parts: the blocks of a model, and the loss of its predictions.

        The embeddings are not compiled: in deterministic mode the compiled backward pass would add up the
        gradients of a frequent word one by one, which takes most of an update.

        Parameters
        ----------
        backend : str
            The backend of torch.compile.
        """
        for net in (self.net, self.generator):
            for block in [] if net is None else _blocks(net):
                block.compile(backend=backend)
        self.guess = torch.compile(_guess, backend=backend)

    def forward(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Compute the loss of a batch.

        Parameters
        ----------
        ids : Tensor of int64 of shape (sequences, tokens)

        Returns
        -------
        loss : Tensor of shape ()
            The training loss.
        reported : Tensor of shape ()
            The loss for monitoring: cross-entropy of the predictions of masked tokens, or of next tokens;
            for replaced tokens the detection loss.
        """
        return getattr(self, f"_{self.design.objective}")(ids)

    def _masked(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        visible = self.design.shown
        positions, inputs = hide(ids, self.design.guessed, visible)
        losses = self.guess(
            _head(self.net), _at(_states(self.net, inputs), positions), ids.gather(1, positions)
        )
        return losses.mean(), losses.detach()[:, visible:].mean()

    def _every(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        visible = self.design.shown
        positions, inputs = hide(ids, self.design.guessed, visible)
        losses = self.guess(_head(self.net), _states(self.net, inputs)[:, 1:-1], ids[:, 1:-1])
        return losses.mean(), losses.detach().gather(1, positions[:, visible:] - 1).mean()

    def _causal(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        loss = self.guess(_head(self.net), _states(self.net, ids)[:, :-1], ids[:, 1:]).mean()
        return loss, loss.detach()

    def _replaced(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        from torch.nn.functional import binary_cross_entropy_with_logits

        assert self.generator is not None
        generator: Any = self.generator
        positions, inputs = hide(ids, self.design.guessed)
        targets = ids.gather(1, positions)
        states = _at(_states(generator, inputs), positions)
        logits = generator.generator_lm_head(generator.generator_predictions(states))
        generator_loss = _cross_entropy(logits, targets).mean()
        with torch.no_grad():
            # The argmax of logits with Gumbel noise is a sample from their softmax.
            noise = -torch.log(-torch.log(torch.rand_like(logits, dtype=torch.float32).clamp(1e-9, 1 - 1e-7)))
            replacements = (logits.float() + noise).argmax(-1)
            corrupt = _put(ids, positions, replacements)
            # A token that is sampled unchanged counts as original.
            replaced = (corrupt != ids).float()
        net: Any = self.net
        detections = net.discriminator_predictions(_states(net, corrupt))
        detection_loss = binary_cross_entropy_with_logits(detections[:, 1:-1].float(), replaced[:, 1:-1])
        return generator_loss + self.design.weight * detection_loss, detection_loss.detach()


def hide(ids: torch.Tensor, count: int, shown: int = 0) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Mask the same number of tokens in each sequence, never its two ends.

    Parameters
    ----------
    ids : Tensor of shape (sequences, tokens)
    count : int
        Tokens of a sequence that are predicted.
    shown : int
        How many of them stay visible in the input.

    Returns
    -------
    positions : Tensor of shape (sequences, count)
        The visible ones first.
    hidden : Tensor of shape (sequences, tokens)
        [MASK] at the other positions; no random tokens are inserted.
    """
    order = torch.rand(ids.shape[0], ids.shape[1] - 2, device=ids.device).argsort(dim=1)
    positions = order[:, :count] + 1
    hidden = positions[:, shown:]
    return positions, _put(ids, hidden, torch.full_like(hidden, MASK))


def _rows(positions: torch.Tensor, length: int) -> torch.Tensor:
    """Return the positions as indices into the flattened batch."""
    return (positions + length * torch.arange(len(positions), device=positions.device)[:, None]).flatten()


def _put(ids: torch.Tensor, positions: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Replace the tokens at some positions of each sequence."""
    flat = ids.flatten().index_put((_rows(positions, ids.shape[1]),), tokens.flatten())
    return flat.view_as(ids)


def _at(states: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
    """Select states at some positions of each sequence, by rows: the backward pass then adds whole rows."""
    _, length, width = states.shape
    return states.reshape(-1, width).index_select(0, _rows(positions, length)).view(*positions.shape, width)


def _states(net: Any, ids: torch.Tensor) -> torch.Tensor:
    """
    Compute the last hidden states of a model.

    There is no padding and hence no mask: attention then uses its fastest kernel, which is also
    deterministic.
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
    """Return the language-model head of a model of any of the classes."""
    return net.predictions if hasattr(net, "predictions") else net.lm_head


def _guess(head: Any, states: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Compute the cross-entropy of each prediction, in the shape of the targets."""
    return _cross_entropy(head(states), targets)


def _cross_entropy(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    from torch.nn.functional import cross_entropy

    losses = cross_entropy(logits.flatten(0, -2).float(), targets.flatten(), reduction="none")
    return losses.view_as(targets)
