"""How does a small model use a GPU? Its way there and back is recorded once a shape, and played again.

A small model keeps a GPU waiting: a thousand short kernels are started one by one by a processor that needs
longer for each start than the kernel runs. Recorded, they are started together. The kernels are the same, in
the same order and with the same draws of dropout, so the gradients are the same to the bit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

# Lengths are filled up to a multiple of this, so that shapes come again.
LENGTHS = 16
# Shapes that are recorded at most; others are run as they come.
MOST = 24
# Larger models keep a GPU busy anyway, and would need their memory once a shape.
PARAMETERS = 50_000_000
# Families whose models never wait for the device on their way, which cannot be recorded.
FAMILIES = ("albert", "bert", "electra", "roberta", "roberta-decoder")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Recording:
    graph: Any
    inputs: Mapping[str, torch.Tensor]
    loss: torch.Tensor
    gradients: tuple[torch.Tensor | None, ...]


class Replay:
    """
    Owns recordings of a model's updates.

    Parameters
    ----------
    loss : callable
        Takes a batch and gives the loss, a tensor of shape (), or several numbers of which it is the first.
    weights : iterable of Parameter
        Those that learn.
    clip : float, optional
        Largest norm of the gradient.
    step : callable, optional
        Moves the weights as a part of each update; what it reads, such as the rate, must lie on the device.
    """

    def __init__(
        self,
        loss: Callable[[Any], torch.Tensor],
        weights: Iterable[torch.Tensor],
        clip: float | None,
        step: Callable[[], Any] | None = None,
    ) -> None:
        import torch

        self._loss, self._weights, self._clip = loss, tuple(weights), clip
        self._step = step
        self._seen: set[Any] = set()
        self._known: dict[Any, _Recording] = {}
        # Everything on one stream of its own: what was begun on another one cannot be recorded.
        self._stream = torch.cuda.Stream()
        self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """
        Find the loss of a batch, and leave its gradient, clipped, in the weights, or make the step.

        Parameters
        ----------
        batch : mapping of str to Tensor

        Returns
        -------
        Tensor of shape () or (numbers,)
            What `loss` gave, to be read before the next call.
        """
        import torch

        shape = tuple((name, value.shape, value.dtype) for name, value in sorted(batch.items()))
        if shape not in self._known and (shape not in self._seen or len(self._known) >= MOST):
            # The first time everything is run as it is: libraries set themselves up.
            self._seen.add(shape)
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                found = self._run(batch)
            torch.cuda.current_stream().wait_stream(self._stream)
            return found
        if shape not in self._known:
            self._known[shape] = self._record(batch)
        known = self._known[shape]
        for name, value in batch.items():
            known.inputs[name].copy_(value, non_blocking=True)
        known.graph.replay()
        if self._step is not None:
            return known.loss
        for weight, gradient in zip(self._weights, known.gradients, strict=True):
            weight.grad = gradient
        return known.loss

    def _run(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        import torch

        for weight in self._weights:
            weight.grad = None
        loss = self._loss(batch)
        loss.flatten()[0].backward()
        if self._clip is not None:
            torch.nn.utils.clip_grad_norm_(self._weights, self._clip)
        if self._step is not None:
            self._step()
        return loss.detach()

    def _record(self, batch: Mapping[str, torch.Tensor]) -> _Recording:
        import torch

        inputs = {name: value.clone() for name, value in batch.items()}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            loss = self._run(inputs)
        gradients = tuple(weight.grad for weight in self._weights)
        return _Recording(graph=graph, inputs=inputs, loss=loss, gradients=gradients)


def can_replay(model: Any, accelerator: Any, accumulate: int) -> bool:
    """
    Whether updates of a model can be recorded, and whether that helps.

    Parameters
    ----------
    model : TaskModel
    accelerator : accelerate.Accelerator
    accumulate : int
        Parts of an update.

    Returns
    -------
    bool
    """
    return (
        accelerator.device.type == "cuda"
        and accelerator.num_processes == 1
        and accelerator.mixed_precision == "no"
        and accumulate == 1
        and getattr(model, "family_name", None) in FAMILIES
        and sum(weight.numel() for weight in model.parameters()) <= PARAMETERS
    )
