"""Cached states of the frozen bottom blocks, computed once and reused by every update."""

from __future__ import annotations

import contextlib
import inspect
import os
from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from pathlib import Path
from typing import Any

import numpy as np

from ...context import SILENT, Context
from ...errors import InputError
from ...lazy import torch
from ...store.files import TEMPORARY
from ..cuts import TOKENS
from ..inputs import Features, by_length, collate
from ..models.taskmodel import TaskModel
from ..precision import Autocast

# States of more bytes than this are kept in a file, not in memory.
MOST = 1_000_000_000
# Named as a temporary file, so that the leftovers of a killed process never become part of an entry.
FILE = f".states.float32{TEMPORARY}"
# Key in a batch of the states that the blocks above start from, shape (tokens of all rows, features).
GIVEN = "bottom"

_NEEDED = "cached must be asked where the embeddings and the first block are frozen"


def still_blocks(model: TaskModel) -> int:
    """
    Count the frozen blocks at the bottom, whose states are the same in every update.

    Everything that they read must be frozen too: the embeddings, and parameters that all blocks share.

    Parameters
    ----------
    model : TaskModel
        After `trainable`.

    Returns
    -------
    int
        At least 1.
    """
    family = model.family
    if family.shared:
        raise InputError(
            "cached must be asked of blocks with weights of their own, but those of "
            f"{family.title} share them."
        )
    blocks = family.blocks_of(model.base)
    block_ids = [{id(parameter) for parameter in block.parameters()} for block in blocks]
    above_ids = {id(p) for part in _above(model) for p in part.parameters()}
    for name, parameter in model.base.named_parameters():
        below = id(parameter) not in above_ids and not any(id(parameter) in ids for ids in block_ids)
        if parameter.requires_grad and below:
            raise InputError(f"{_NEEDED}, but {name} learns.")
    learning = [any(parameter.requires_grad for parameter in block.parameters()) for block in blocks]
    frozen = learning.index(True) if True in learning else len(blocks)
    if not frozen:
        raise InputError(f"{_NEEDED}, but block 1 learns.")
    return frozen


def _above(model: TaskModel) -> list[torch.nn.Module]:
    """Modules of the base model above its blocks."""
    paths = [path for path in (model.family.final_norm, "pooler") if path is not None]
    parts = [getattr(model.base, path, None) for path in paths]
    return [part for part in parts if part is not None]


class Bottom:
    """
    Cached states of a model's frozen bottom blocks; owns forward hooks, and a file if the states are large.

    Within its context, a batch to which `add` has added the states runs only the blocks above; any other
    batch runs the whole model. The bottom blocks run in evaluation mode, without dropout.

    Parameters
    ----------
    model : TaskModel
        After `trainable`, on its device.
    features : sequence of Features
    folder : Path, optional
        For the file, which is removed when the context ends; without one all states are in memory.
    autocast : callable
        Returns the context of mixed precision.
    context : Context
    most : int
        Maximum bytes of states in memory if there is a folder.
    """

    def __init__(
        self,
        model: TaskModel,
        features: Sequence[Features],
        *,
        folder: Path | None = None,
        autocast: Autocast = contextlib.nullcontext,
        context: Context = SILENT,
        most: int = MOST,
    ) -> None:
        self.model, self.features, self.still = model, features, still_blocks(model)
        self._autocast, self._context = autocast, context
        self._blocks = model.family.blocks_of(model.base)
        self._places = {id(feature): index for index, feature in enumerate(features)}
        lengths = [[len(row) for row in feature.tokens] for feature in features]
        ends = np.cumsum([length for rows in lengths for length in rows])
        starts = iter((ends - [length for rows in lengths for length in rows]).tolist())
        # For each example, the range of the states of its text, or of each of its choices.
        self._spans = [[(start := next(starts), start + length) for length in rows] for rows in lengths]
        self._shape = int(ends[-1]), int(model.config.hidden_size)
        large = folder is not None and 4 * self._shape[0] * self._shape[1] > most
        self._path = folder / FILE if large and folder is not None else None
        self._hooks: list[Any] = []
        self._states: Any = None
        # The cached states of the current batch, or the list that collects its states.
        self._given: Any = None
        self._wanted: list[Any] | None = None
        self._mask: Any = None
        self._dense: Any = None
        self._form: tuple[Any, int] | None = None

    def __deepcopy__(self, _: object) -> Bottom:
        # A copy of the model, such as one whose adapters are merged, has these hooks but needs no states.
        return self

    def __enter__(self) -> Bottom:
        model = self.model
        self._hooks = [
            model.register_forward_pre_hook(self._begin),
            model.register_forward_hook(self._end, always_call=True),
            model.base.register_forward_pre_hook(self._see, with_kwargs=True),
        ]
        try:
            # Blocks are skipped by replacing their forward method: a hook cannot keep one from running.
            for number, block in enumerate(self._blocks, start=1):
                block.forward = partial(self._block, number, block.forward)
            self._record()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        for block in self._blocks:
            block.__dict__.pop("forward", None)
        self._states = None
        if self._path is not None:
            self._path.unlink(missing_ok=True)

    def add(self, batch: dict[str, torch.Tensor], chosen: Sequence[Features]) -> dict[str, torch.Tensor]:
        """
        Add the cached states of its examples to a batch.

        Parameters
        ----------
        batch : dict of str to Tensor
            Made by `collate`.
        chosen : sequence of Features
            The examples that it was made of.

        Returns
        -------
        dict of str to Tensor
        """
        most = max(len(feature.tokens) for feature in chosen)
        spans = []
        for feature in chosen:
            rows = self._spans[self._places[id(feature)]]
            # A missing choice is read as the first one, as in `collate`.
            spans += [rows[choice if choice < len(rows) else 0] for choice in range(most)]
        flat = np.concatenate([self._states[start:end] for start, end in spans])
        return {**batch, GIVEN: torch.from_numpy(flat).to(batch["input_ids"].device, non_blocking=True)}

    def _record(self) -> None:
        shape: Any = self._shape
        if self._path is None:
            self._states = np.empty(shape, dtype=np.float32)
        else:
            size = 4 * shape[0] * shape[1]
            with self._path.open("wb") as file:
                file.truncate(size)
                if hasattr(os, "posix_fallocate"):
                    # Writing a page of a mapped file for which the disk has no room would kill the process.
                    os.posix_fallocate(file.fileno(), 0, size)
            self._states = np.memmap(self._path, dtype=np.float32, mode="r+", shape=shape)
        model, training = self.model, self.model.training
        budget = TOKENS["cpu" if model.device.type == "cpu" else "cuda"]
        model.eval()
        done = 0
        try:
            for indices in by_length(self.features, budget, attrgetter("padded_size")):
                self._wanted = []
                with torch.no_grad(), self._autocast():
                    model(collate([self.features[index] for index in indices], model.device))
                self._keep(indices, self._wanted[0])
                done += len(indices)
                self._context.report("frozen blocks", done, len(self.features))
        finally:
            self._wanted = None
            model.train(training)

    def _keep(self, indices: Sequence[int], states: torch.Tensor) -> None:
        """Store the states of a batch, of shape (rows, tokens, features)."""
        rows_per_example = states.shape[0] // len(indices)
        real = self._mask.bool()
        for number, index in enumerate(indices):
            for choice, (start, end) in enumerate(self._spans[index]):
                row = number * rows_per_example + choice
                self._states[start:end] = states[row][real[row]].float().cpu().numpy()

    def _begin(self, _: torch.nn.Module, inputs: tuple[Any, ...]) -> None:
        self._given = inputs[0].get(GIVEN)

    def _end(self, *_: object) -> None:
        self._given = self._dense = None

    def _see(self, base: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._given is None and self._wanted is None:
            return
        bound = inspect.signature(type(base).forward).bind(base, *args, **kwargs)
        self._mask = mask = bound.arguments["attention_mask"]
        if self._given is not None:
            # Real tokens in order, wherever the padding is; padded positions are never read.
            dense = self._given.new_zeros(*mask.shape, self._shape[1])
            dense[mask.bool()] = self._given
            self._dense = dense.transpose(0, 1) if self.model.family.time_major else dense

    def _block(self, number: int, run: Callable[..., Any], states: Any, *args: Any, **kwargs: Any) -> Any:
        if self._wanted is not None:
            return self._looked_at(number, run, states, *args, **kwargs)
        if self._dense is None:
            return run(states, *args, **kwargs)
        if number <= self.still:
            # There is no block above the last one that would insert the states.
            return self._handed(self._dense if number == len(self._blocks) else states)
        return run(self._dense if number == self.still + 1 else states, *args, **kwargs)

    def _looked_at(self, number: int, run: Callable[..., Any], states: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the bottom blocks, and record the input of the first block above them."""
        assert self._wanted is not None
        if number <= self.still:
            result = run(states, *args, **kwargs)
            self._form = (type(result), len(result) - 1) if isinstance(result, tuple | list) else None
            if number == len(self._blocks):
                self._want(result[0] if isinstance(result, tuple | list) else result)
            return result
        if number == self.still + 1:
            self._want(states)
        return self._handed(states)

    def _want(self, states: Any) -> None:
        assert self._wanted is not None
        self._wanted.append(states.transpose(0, 1) if self.model.family.time_major else states)

    def _handed(self, states: Any) -> Any:
        """Wrap states in the form in which the blocks of this model return them."""
        if self._form is None:
            return states
        container, extra = self._form
        return container([states, *(None for _ in range(extra))])
