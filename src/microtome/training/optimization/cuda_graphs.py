"""CUDA graphs of the updates of a model, captured once per shape of a batch.

Short batches keep a GPU waiting: a thousand short kernels are launched one by one by a CPU that needs longer
for each launch than the kernel runs. A CUDA graph launches them together. The kernels are the same, in the
same order and with the same dropout masks, so the gradients are bit-identical.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ...lazy import torch

# Lengths are padded to a multiple of this, so that shapes recur.
LENGTHS = 16
# Maximum number of captured shapes; batches of other shapes run without a graph.
MOST = 24
# No further shape is captured when less than this share of the device's memory is free.
FREE = 0.25


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Captured:
    graph: Any
    inputs: Mapping[str, torch.Tensor]
    loss: torch.Tensor
    gradients: tuple[torch.Tensor | None, ...] = ()


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

    Attributes
    ----------
    failure : str, optional
        Why the first graph could not be captured; no further one is tried.
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
        self.failure: str | None = None
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
        if shape not in self._graphs and (shape not in self._seen or not self._room()):
            # The first batch of a shape runs without a graph, since libraries initialize themselves.
            self._seen.add(shape)
            self._stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(self._stream):
                loss = self._run(batch)
            torch.cuda.current_stream().wait_stream(self._stream)
            return loss
        if shape not in self._graphs:
            random_state = torch.cuda.get_rng_state()
            try:
                self._graphs[shape] = self._capture(batch)
            except RuntimeError as error:
                if self._graphs or isinstance(error, torch.OutOfMemoryError):
                    raise
                # The library does something on the host that a graph cannot hold.
                self.failure, self._capturing = str(error).partition("\n")[0], False
                torch.cuda.set_rng_state(random_state)
                return self._run(batch)
        captured = self._graphs[shape]
        for name, value in batch.items():
            captured.inputs[name].copy_(value, non_blocking=True)
        captured.graph.replay()
        if self._update is not None:
            return captured.loss
        for weight, gradient in zip(self._weights, captured.gradients, strict=True):
            weight.grad = gradient
        return captured.loss

    def _room(self) -> bool:
        """Whether a further shape may be captured: its activations stay in memory as long as its graph."""
        if len(self._graphs) >= MOST:
            return False
        free, total = torch.cuda.mem_get_info()
        if free < FREE * total:
            torch.cuda.empty_cache()
            free, total = torch.cuda.mem_get_info()
        return free >= FREE * total

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
        if self._update is None:
            gradients = tuple(weight.grad for weight in self._weights)
            return _Captured(graph=graph, inputs=inputs, loss=loss, gradients=gradients)
        # Nothing reads the gradients after the update, so all graphs may share their memory.
        for weight in self._weights:
            weight.grad = None
        return _Captured(graph=graph, inputs=inputs, loss=loss)


@contextlib.contextmanager
def computed_once(model: Any) -> Iterator[None]:
    """Within the context, what depends only on shapes is computed once per shape, not in every graph."""

    def once(method: Callable[..., Any]) -> Callable[..., Any]:
        results: dict[Any, Any] = {}

        def remembered(*args: Any, **kwargs: Any) -> Any:
            values = [*args, *kwargs.values()]
            key = tuple(value.shape if torch.is_tensor(value) else value for value in values)
            if key not in results:
                # Evaluations run in inference mode, and a backward pass could not use its tensors.
                with torch.inference_mode(False), torch.no_grad():
                    result = method(*args, **kwargs)
                    results[key] = result if result is None else result.to(model.device)
            return results[key]

        return remembered

    places = [path.rpartition(".") for path in model.family.by_shape]
    owners = [(attrgetter(owner)(model.base), name) for owner, _, name in places]
    try:
        for owner, name in owners:
            owner.__dict__[name] = once(getattr(owner, name))
        yield
    finally:
        for owner, name in owners:
            owner.__dict__.pop(name, None)


def obstacle(model: Any, accelerator: Any, accumulate: int, *, cached: bool = False) -> str | None:
    """
    Say why the updates of a model cannot run as CUDA graphs.

    Parameters
    ----------
    model : TaskModel
    accelerator : accelerate.Accelerator
    accumulate : int
        Number of parts of an update.
    cached : bool
        Whether batches contain the states of frozen blocks.

    Returns
    -------
    str or None
        None if they can.
    """
    reasons = {
        "there is no GPU": accelerator.device.type != "cuda",
        "several processes train together": accelerator.num_processes > 1,
        "float16 needs a scale that each update may change": accelerator.mixed_precision == "fp16",
        "an update has several parts": accumulate > 1,
        "states of frozen blocks are cached": cached,
        f"{model.family.title} cannot be captured": not model.family.cuda_graphs,
    }
    return next((reason for reason, applies in reasons.items() if applies), None)
