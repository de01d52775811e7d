"""CUDA graphs of the updates of a small model, captured once per shape of a batch.

A small model keeps a GPU waiting: a thousand short kernels are launched one by one by a CPU that needs longer
for each launch than the kernel runs. A CUDA graph launches them together. The kernels are the same, in the
same order and with the same dropout masks, so the gradients are bit-identical.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from ...lazy import torch

# Lengths are padded to a multiple of this, so that shapes recur.
LENGTHS = 16
# Maximum number of captured shapes; batches of other shapes run without a graph.
MOST = 24
# Larger models keep a GPU busy anyway, and would need their memory once per shape.
PARAMETERS = 50_000_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Captured:
    graph: Any
    inputs: Mapping[str, torch.Tensor]
    loss: torch.Tensor
    gradients: tuple[torch.Tensor | None, ...]


class TrainingStep:
    """
    Forward and backward pass of a batch, as CUDA graphs where requested: one per shape of a batch.

    Parameters
    ----------
    loss : callable
        Takes a batch and returns the loss, a tensor of shape (), or a vector whose first element is the loss.
    weights : iterable of Parameter
        Trainable weights.
    clip : float, optional
        Maximum norm of the gradient.
    update : callable, optional
        Updates the weights; what it reads, such as the rate, must be on the device to be captured.
    capture : bool
        Whether a batch whose shape recurs runs as a CUDA graph.
    """

    def __init__(
        self,
        loss: Callable[[Any], torch.Tensor],
        weights: Iterable[torch.Tensor],
        *,
        clip: float | None = None,
        update: Callable[[], Any] | None = None,
        capture: bool,
    ) -> None:
        self._loss, self._weights, self._clip = loss, tuple(weights), clip
        self._update, self._capturing = update, capture
        self._seen: set[Any] = set()
        self._graphs: dict[Any, _Captured] = {}
        if capture:
            # Everything runs on a separate stream: work that began on another one cannot be captured.
            self._stream = torch.cuda.Stream()
            self._pool = torch.cuda.graph_pool_handle()

    def __call__(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """
        Compute the loss of a batch, and leave its clipped gradient in the weights, or update them.

        Parameters
        ----------
        batch : mapping of str to Tensor

        Returns
        -------
        Tensor of shape () or (numbers,)
            The value of `loss`, to be read before the next call.
        """
        if not self._capturing:
            return self._run(batch)
        shape = tuple((name, value.shape, value.dtype) for name, value in sorted(batch.items()))
        if shape not in self._graphs and (shape not in self._seen or len(self._graphs) >= MOST):
            # The first batch of a shape runs without a graph, since libraries initialize themselves.
            self._seen.add(shape)
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                loss = self._run(batch)
            torch.cuda.current_stream().wait_stream(self._stream)
            return loss
        if shape not in self._graphs:
            self._graphs[shape] = self._capture(batch)
        captured = self._graphs[shape]
        for name, value in batch.items():
            captured.inputs[name].copy_(value, non_blocking=True)
        captured.graph.replay()
        if self._update is not None:
            return captured.loss
        for weight, gradient in zip(self._weights, captured.gradients, strict=True):
            weight.grad = gradient
        return captured.loss

    def _run(self, batch: Mapping[str, torch.Tensor]) -> torch.Tensor:
        for weight in self._weights:
            weight.grad = None
        loss = self._loss(batch)
        loss.flatten()[0].backward()
        if self._clip is not None:
            torch.nn.utils.clip_grad_norm_(self._weights, self._clip)
        if self._update is not None:
            self._update()
        return loss.detach()

    def _capture(self, batch: Mapping[str, torch.Tensor]) -> _Captured:
        inputs = {name: value.clone() for name, value in batch.items()}
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool, stream=self._stream):
            loss = self._run(inputs)
        gradients = tuple(weight.grad for weight in self._weights)
        return _Captured(graph=graph, inputs=inputs, loss=loss, gradients=gradients)


def can_capture(model: Any, accelerator: Any, accumulate: int) -> bool:
    """
    Whether updates of a model can run as CUDA graphs, and whether that helps.

    Parameters
    ----------
    model : TaskModel
    accelerator : accelerate.Accelerator
    accumulate : int
        Number of parts of an update.

    Returns
    -------
    bool
    """
    return (
        accelerator.device.type == "cuda"
        and accelerator.num_processes == 1
        and accelerator.mixed_precision == "no"
        and accumulate == 1
        and model.family.cuda_graphs
        and sum(weight.numel() for weight in model.parameters()) <= PARAMETERS
    )
