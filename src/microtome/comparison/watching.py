"""Forward hooks that collect the layers of any torch module while the user runs it."""

from __future__ import annotations

import inspect
import os
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any

import numpy as np

from ..arguments import checked
from ..errors import InputError, must, unknown
from ..findings.record import Maps
from ..lazy import torch
from ..moments.streamed import StreamedMoments
from ..store.recording import ShardWriter
from ..store.shards import open_stack
from .similarity import similarity_matrix, streamed_maps

Rule = Callable[[str, "torch.Tensor", "torch.Tensor | None"], "torch.Tensor"]

MASK = "attention_mask"

# Rows of a file of recorded layers.
SHARD_ROWS = 4096


@checked
def watch(
    model: torch.nn.Module,
    other: torch.nn.Module | None = None,
    *,
    layers: str | Sequence[str],
    other_layers: str | Sequence[str] | None = None,
    rows: str | Rule = "auto",
    precision: str = "exact",
    record: str | os.PathLike[str] | None = None,
    device: Any = None,
) -> Watch:
    """
    Watch named layers of one or two modules while a user runs them.

    Parameters
    ----------
    model, other : torch.nn.Module
        Any modules; both must be run on the same examples in the same order.
    layers, other_layers : str or sequence of str
        Names as `named_modules` gives them, or patterns such as "encoder.layer.*"; a name is matched as a
        whole, and a star does not cross a dot. `other_layers` is as `layers` when absent.
    rows : {"auto", "first", "tokens", "pixels"} or callable
        What a row of a layer's output is. "auto": as "tokens" where the output has three dimensions, as
        "first" where it has another number. "first": an entry of the first dimension, everything else being
        its features. "tokens": a token of (examples, tokens, features) where the `attention_mask` that the
        module was called with is not 0; it may be a keyword, a positional argument, or an entry of a mapping.
        Without a mask every token counts, padding too. "pixels": a position of (examples, channels, height,
        width). A callable takes the layer's name, its output and the mask, and returns (rows, features).
    precision : {"exact", "fast"}
        Float64 products, or float32 ones added up in float64.
    record : path, optional
        A folder to keep the rows in, for intervals and for measures that need them again.
    device : optional
        Device of the moments; that of the first output when absent.

    Returns
    -------
    Watch
        For a `with` block; call its `similarity_matrix` afterwards.

    Examples
    --------
    >>> import torch
    >>> net = torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 5))
    >>> with watch(net, layers=["0", "2"]) as seen:
    ...     for batch in torch.randn(8, 16, 4):
    ...         _ = net(batch)
    >>> seen.similarity_matrix("linear_cka")["linear_cka"].shape
    (2, 2)
    """
    if precision not in ("exact", "fast"):
        raise must("precision", "'exact' or 'fast'", precision)
    if (isinstance(rows, str) and rows not in RULES) or not (isinstance(rows, str) or callable(rows)):
        raise must("rows", f"one of {', '.join(RULES)}, or a function", rows)
    sides = [Side(model, find_layers(model, layers))]
    if other is not None:
        sides.append(Side(other, find_layers(other, layers if other_layers is None else other_layers)))
    return Watch(sides, RULES[rows] if isinstance(rows, str) else rows, precision, record, device)


def find_layers(model: torch.nn.Module, wanted: str | Sequence[str]) -> list[str]:
    """Find the modules that match names or patterns, in the order of the model."""
    if not hasattr(model, "named_modules"):
        raise must("a model to watch", "a torch module", type(model).__name__)
    module_names = [name for name, _ in model.named_modules() if name]
    matched: set[str] = set()
    for pattern in [wanted] if isinstance(wanted, str) else wanted:
        if not isinstance(pattern, str):
            raise must("layers", "names or patterns of modules", pattern)
        depth = pattern.count(".")
        matches = [name for name in module_names if name.count(".") == depth and fnmatchcase(name, pattern)]
        if not matches:
            raise unknown("layer", pattern, module_names)
        matched |= set(matches)
    if not matched:
        raise must("layers", "at least one name", wanted)
    return [name for name in module_names if name in matched]


def _first(name: str, output: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    return output.flatten(1) if output.ndim > 1 else output[:, None]


def _auto(name: str, output: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    # The number of tokens varies with the batch, so tokens cannot be features.
    return (_tokens if output.ndim == 3 else _first)(name, output, mask)


def _tokens(name: str, output: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    if output.ndim != 3:
        raise must(f"the output of layer {name}", "(examples, tokens, features)", list(output.shape))
    if mask is None:
        return output.flatten(0, 1)
    if tuple(mask.shape) != tuple(output.shape[:2]):
        raise must(f"the mask of layer {name}", f"of the shape {list(output.shape[:2])}", list(mask.shape))
    return output[mask.to(output.device).bool()]


def _pixels(name: str, output: torch.Tensor, mask: torch.Tensor | None) -> torch.Tensor:
    if output.ndim != 4:
        raise must(f"the output of layer {name}", "(examples, channels, height, width)", list(output.shape))
    return output.permute(0, 2, 3, 1).flatten(0, 2)


def _mask_of(model: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.Tensor | None:
    """Find the attention mask of a call: a keyword, an entry of a mapping argument, or a positional one."""
    for argument in (kwargs, *args):
        if isinstance(argument, Mapping) and argument.get(MASK) is not None:
            return argument[MASK]
    try:
        bound = inspect.signature(model.forward).bind_partial(*args, **kwargs)
    except (TypeError, ValueError):
        # The call itself raises the better error.
        return None
    return bound.arguments.get(MASK)


RULES: dict[str, Rule] = {"auto": _auto, "first": _first, "tokens": _tokens, "pixels": _pixels}


class Side:
    """
    One module, the hooks on it, and the outputs of its layers in the current batch.

    Parameters
    ----------
    model : torch.nn.Module
    names : list of str
    """

    def __init__(self, model: torch.nn.Module, names: list[str]) -> None:
        self.model, self.names = model, names
        self.now: dict[str, torch.Tensor] = {}
        self.mask: torch.Tensor | None = None
        self.waiting: deque[list[torch.Tensor]] = deque()
        self.batches = 0
        self.hooks: list[Any] = []

    def start(self, rule: Rule, done: Callable[[], None]) -> None:
        """Register the hooks."""
        self.hooks.append(self.model.register_forward_pre_hook(self._begin, with_kwargs=True))
        for name in self.names:
            hook = self._saw(name, rule)
            self.hooks.append(self.model.get_submodule(name).register_forward_hook(hook))
        self.hooks.append(self.model.register_forward_hook(lambda *_: self._end(done)))

    def stop(self) -> None:
        """Remove the hooks."""
        for hook in self.hooks:
            hook.remove()
        self.hooks.clear()

    def _begin(self, _: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.now, self.mask = {}, _mask_of(self.model, args, kwargs)

    def _saw(self, name: str, rule: Rule) -> Callable[..., None]:
        def hook(_: Any, __: Any, output: Any) -> None:
            first = output[0] if isinstance(output, (tuple, list)) else output
            if name in self.now:
                raise InputError(f"layer {name} must run once a batch, but it ran again.")
            rows = rule(name, first.detach(), self.mask)
            if rows.ndim != 2:
                raise must(f"rows of layer {name}", "(rows, features)", list(rows.shape))
            # An in-place operation may follow, and would change any view of the output.
            shared = rows.untyped_storage().data_ptr() == first.untyped_storage().data_ptr()
            self.now[name] = rows.clone() if shared else rows

        return hook

    def _end(self, done: Callable[[], None]) -> None:
        missing = [name for name in self.names if name not in self.now]
        if missing:
            raise InputError(f"layer {missing[0]} must run in every batch, but it did not run.")
        counts = {name: len(rows) for name, rows in self.now.items()}
        if len(set(counts.values())) > 1:
            raise InputError(
                f"every layer must give the same rows, but got {counts}; watch them apart, or say what a row "
                "is with rows=."
            )
        self.waiting.append([self.now[name] for name in self.names])
        self.batches += 1
        self.now = {}
        done()


class Watch:
    """
    Hooks, moments and, with `record`, the recorded rows of the watched layers; see `watch`.

    Parameters
    ----------
    sides : list of Side
    rule : callable
    precision : {"exact", "fast"}
    record : path, optional
    device : optional
    """

    def __init__(
        self,
        sides: list[Side],
        rule: Rule,
        precision: str,
        record: str | os.PathLike[str] | None,
        device: Any,
    ) -> None:
        self.sides, self.rule, self.precision, self.device = sides, rule, precision, device
        self.folder = record
        self.moments: StreamedMoments | None = None
        self.writer: ShardWriter | None = None
        self.held: list[list[torch.Tensor]] = []
        self.open = False

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """Names of the layers of the left and of the right module."""
        return self.sides[0].names, self.sides[1].names if len(self.sides) > 1 else []

    def __enter__(self) -> Watch:
        self.open = True
        for side in self.sides:
            side.start(self.rule, self._match)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.open = False
        for side in self.sides:
            side.stop()
        if kind is None:
            self._check_ends()
            self._write()
            if self.writer is not None:
                self.writer.finish()

    def similarity_matrix(
        self, measures: Any = "debiased_cka", *, clusters: Any = None, certainty: bool = False, **options: Any
    ) -> Maps:
        """
        Compare the watched layers: left with right, or those of one module with one another.

        Parameters
        ----------
        measures : str or sequence
            Names of `microtome ls measures`.
        clusters : array of shape (rows,), optional
            Cluster of each row; needs recorded rows.
        certainty : bool
            Whether to compute intervals; needs recorded rows.
        **options
            As in `microtome.similarity_matrix`; they need recorded rows, too.

        Returns
        -------
        Maps
        """
        if self.open:
            raise InputError("a comparison must be asked for after the `with` block, but it is still open.")
        if self.moments is None:
            raise InputError("layers must have seen at least one batch, but the modules were not run.")
        if self.folder is not None:
            stored = {layer.name: layer for layer in open_stack(self.folder)}
            left_layers, right_layers = (
                [stored[f"{k}/{name}"] for name in layer_names] for k, layer_names in enumerate(self.names)
            )
            return similarity_matrix(
                left_layers,
                right_layers or None,
                measures,
                names=self.names[0],
                right_names=self.names[1] or None,
                clusters=clusters,
                certainty=certainty,
                **options,
            )
        if certainty or clusters is not None or options:
            raise InputError(
                "intervals, clusters and other options must have the rows again, but they were not kept; "
                "watch with record=FOLDER."
            )
        return streamed_maps(self.moments, measures)

    def _match(self) -> None:
        while all(side.waiting for side in self.sides):
            batch = [side.waiting.popleft() for side in self.sides]
            counts = [len(rows[0]) for rows in batch]
            if len(set(counts)) > 1:
                number = min(side.batches for side in self.sides)
                raise InputError(
                    f"both sides must have seen the same rows, but in batch {number} the left had "
                    f"{counts[0]} and the right {counts[1]}."
                )
            self._take([layer for rows in batch for layer in rows])

    def _take(self, layers: list[torch.Tensor]) -> None:
        if self.moments is None:
            where = torch.device(layers[0].device if self.device is None else self.device)
            self.moments = StreamedMoments(
                [*self.names[0], *self.names[1]],
                [int(layer.shape[1]) for layer in layers],
                left=len(self.names[0]) if self.names[1] else None,
                dtype=torch.float64 if self.precision == "exact" else torch.float32,
                device=where,
            )
        device = self.moments.device
        if self.folder is None:
            self.moments.add([layer.to(device) for layer in layers])
            return
        self.held.append([layer.float().cpu() for layer in layers])
        if sum(len(part[0]) for part in self.held) >= SHARD_ROWS:
            self._write()

    def _write(self) -> None:
        names = [f"{k}/{name}" for k, layer_names in enumerate(self.names) for name in layer_names]
        if not self.held or self.folder is None:
            return
        layer_rows = [torch.cat(parts) for parts in zip(*self.held, strict=True)]
        if self.writer is None:
            widths = [layer.shape[1] for layer in layer_rows]
            self.writer = ShardWriter(self.folder, list(zip(names, widths, strict=True)), "float32")
            if self.writer.done:
                raise must("record", "an empty folder", str(self.folder))
        self.writer.write(
            dict(zip(names, (np.ascontiguousarray(w.numpy()) for w in layer_rows), strict=True))
        )
        self.held = []

    def _check_ends(self) -> None:
        counts = [side.batches for side in self.sides]
        if len(set(counts)) > 1:
            raise InputError(
                f"both sides must have seen the same batches, but the left ran {counts[0]} and the right "
                f"{counts[1]}."
            )
