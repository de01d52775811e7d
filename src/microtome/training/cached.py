"""What does a frozen bottom give? Its states: computed once, and read again by every update."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from .evaluating import TOKENS
from .inputs import Features, collate
from .taskmodel import TaskModel

if TYPE_CHECKING:
    import torch

# More than this many bytes of states lie in a file, not in memory.
MOST = 1_000_000_000
FILE = "states.float32"
# What a batch calls the states that the blocks above begin with, shape (tokens of all rows, features).
GIVEN = "bottom"

_NEEDED = "cached must be asked where the embeddings and the first block are frozen"
Progress = Callable[[str, int, int], None]


def still_blocks(model: TaskModel) -> int:
    """
    Count the blocks, from the bottom up, that give every update the same states.

    They and all that they read must be frozen: the embeddings, and what all blocks share.

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
    inside = [{id(parameter) for parameter in block.parameters()} for block in blocks]
    above = {id(p) for part in _above(model) for p in part.parameters()}
    for name, parameter in model.base.named_parameters():
        below = id(parameter) not in above and not any(id(parameter) in each for each in inside)
        if parameter.requires_grad and below:
            raise InputError(f"{_NEEDED}, but {name} learns.")
    learning = [any(parameter.requires_grad for parameter in block.parameters()) for block in blocks]
    still = learning.index(True) if True in learning else len(blocks)
    if not still:
        raise InputError(f"{_NEEDED}, but block 1 learns.")
    return still


def _above(model: TaskModel) -> list[torch.nn.Module]:
    """What the base model has above its blocks."""
    paths = [path for path in (model.family.final_norm, "pooler") if path is not None]
    found = [getattr(model.base, path, None) for path in paths]
    return [part for part in found if part is not None]


class Bottom:
    """
    States of the frozen bottom of a model for every example: owns hooks, and a file where they are many.

    Within its context a batch that `add` has given the states runs the blocks above alone; any other batch
    runs the whole model. The bottom was run in evaluation mode, so it drops nothing out.

    Parameters
    ----------
    model : TaskModel
        After `trainable`, on its device.
    features : sequence of Features
    folder : Path, optional
        For the file, which goes when the context ends; without one everything is in memory.
    autocast : callable, optional
        Makes the context of mixed precision.
    progress : callable, optional
    most : int
        Bytes of states that may be in memory where there is a folder.
    """

    def __init__(
        self,
        model: TaskModel,
        features: Sequence[Features],
        *,
        folder: Path | None = None,
        autocast: Callable[[], Any] | None = None,
        progress: Progress | None = None,
        most: int = MOST,
    ) -> None:
        self.model, self.features, self.still = model, features, still_blocks(model)
        self._autocast, self._progress = autocast, progress
        self._blocks = model.family.blocks_of(model.base)
        self._places = {id(feature): place for place, feature in enumerate(features)}
        lengths = [[len(row) for row in feature.tokens] for feature in features]
        ends = np.cumsum([length for rows in lengths for length in rows])
        starts = iter((ends - [length for rows in lengths for length in rows]).tolist())
        # For each example, where the states of its text, or of each of its choices, are.
        self._spans = [[(start := next(starts), start + length) for length in rows] for rows in lengths]
        self._shape = int(ends[-1]), int(model.config.hidden_size)
        large = folder is not None and 4 * self._shape[0] * self._shape[1] > most
        self._path = folder / FILE if large and folder is not None else None
        self._hooks: list[Any] = []
        self._states: Any = None
        # What the batch that is in the model brings, or where its states are to be put.
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
            # A block is passed by where its own forward is replaced: a hook cannot keep it from running.
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
        Give a batch the states of its examples.

        Parameters
        ----------
        batch : dict of str to Tensor
            Of `collate`.
        chosen : sequence of Features
            Those that it was made of.

        Returns
        -------
        dict of str to Tensor
        """
        import torch

        most = max(len(feature.tokens) for feature in chosen)
        spans = []
        for feature in chosen:
            rows = self._spans[self._places[id(feature)]]
            # A choice that is not there is read as the first one, as `collate` has it.
            spans += [rows[choice if choice < len(rows) else 0] for choice in range(most)]
        flat = np.concatenate([self._states[start:end] for start, end in spans])
        return {**batch, GIVEN: torch.from_numpy(flat).to(batch["input_ids"].device, non_blocking=True)}

    def _record(self) -> None:
        import contextlib

        import torch

        shape: Any = self._shape
        if self._path is None:
            self._states = np.empty(shape, dtype=np.float32)
        else:
            self._states = np.memmap(self._path, dtype=np.float32, mode="w+", shape=shape)
        model, training = self.model, self.model.training
        order = sorted(range(len(self.features)), key=lambda place: -len(self.features[place]))
        budget = TOKENS["cpu" if model.device.type == "cpu" else "cuda"]
        model.eval()
        done = 0
        try:
            while done < len(order):
                rows = len(self.features[order[done]].tokens)
                count = max(1, budget // max(1, rows * len(self.features[order[done]])))
                places = order[done : done + count]
                self._wanted = []
                mixed = self._autocast() if self._autocast is not None else contextlib.nullcontext()
                with torch.no_grad(), mixed:
                    model(collate([self.features[place] for place in places], model.device))
                self._keep(places, self._wanted[0])
                done += len(places)
                if self._progress is not None:
                    self._progress("frozen blocks", done, len(order))
        finally:
            self._wanted = None
            model.train(training)

    def _keep(self, places: Sequence[int], found: torch.Tensor) -> None:
        """Put the states of a batch, of shape (rows, tokens, features), where they belong."""
        each = found.shape[0] // len(places)
        real = self._mask.bool()
        for number, place in enumerate(places):
            for choice, (start, end) in enumerate(self._spans[place]):
                row = number * each + choice
                self._states[start:end] = found[row][real[row]].float().cpu().numpy()

    def _begin(self, _: torch.nn.Module, given: tuple[Any, ...]) -> None:
        self._given = given[0].get(GIVEN)

    def _end(self, *_: object) -> None:
        self._given = self._dense = None

    def _see(self, base: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._given is None and self._wanted is None:
            return
        bound = inspect.signature(type(base).forward).bind(base, *args, **kwargs)
        self._mask = mask = bound.arguments["attention_mask"]
        if self._given is not None:
            # Real tokens in their order, wherever the padding is; what padded places hold is never read.
            dense = self._given.new_zeros(*mask.shape, self._shape[1])
            dense[mask.bool()] = self._given
            self._dense = dense.transpose(0, 1) if self.model.family.time_major else dense

    def _block(self, number: int, run: Callable[..., Any], states: Any, *args: Any, **kwargs: Any) -> Any:
        if self._wanted is not None:
            return self._looked_at(number, run, states, *args, **kwargs)
        if self._dense is None:
            return run(states, *args, **kwargs)
        if number <= self.still:
            # Above the last block nobody would put the states in place.
            return self._handed(self._dense if number == len(self._blocks) else states)
        return run(self._dense if number == self.still + 1 else states, *args, **kwargs)

    def _looked_at(self, number: int, run: Callable[..., Any], states: Any, *args: Any, **kwargs: Any) -> Any:
        """Run the bottom, and keep what the block above it would read."""
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
        """States in the form in which blocks of this model hand them over."""
        if self._form is None:
            return states
        kind, more = self._form
        return kind([states, *(None for _ in range(more))])
