"""Similarity of several models in every layer: the same rows of a text, with the error of each value."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..comparison.similarity import similarity_matrix
from ..context import Context
from ..encoders.loading import reinitialize
from ..errors import InputError, SmallSampleWarning, must
from ..extraction.recording import Activations, record
from ..extraction.texts import Texts
from ..findings.maps import Map
from ..findings.results import Curve
from ..inference.clusters import Clusters, check_balanced
from ..inference.scoring import freedom
from ..measures.declare import Chosen
from ..measures.table import chosen_all
from ..rows.planning import Rows, input_length, plan_at_most
from ..rows.selecting import RowOptions
from ..training.opening import open_model
from .cell_errors import Points, Reasons, Sample, curve_of, errors_of

# Fast arithmetic is accurate to this: a smaller difference from 1 is rounding, and no change.
ROUNDING = 1e-6


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Recorded:
    """
    The same rows of several models.

    Parameters
    ----------
    activations : mapping of str to Activations
        By the name of the model.
    digests : mapping of str to str
        Of the models.
    layers : tuple of int
        Layers of the first model that can be compared: 0 is the embedding output, absent where it is the
        same in every row. A last state that is normed once more is no layer of its own.
    rows : Rows
    """

    activations: Mapping[str, Activations]
    digests: Mapping[str, str]
    layers: tuple[int, ...]
    rows: Rows

    @property
    def unit(self) -> str:
        """What is independent: "document", where the corpus has enough of them, "sentence" or "example"."""
        return self.rows.unit

    @property
    def clusters(self) -> np.ndarray | None:
        """The document or sentence of each row; None where every row is an example of its own."""
        return None if self.unit == "example" else self.rows.clusters

    @property
    def examples(self) -> int:
        """The number of sentences or examples that have rows."""
        return len(np.unique(self.rows.examples))

    @property
    def freedom(self) -> float:
        """Upper limit of the degrees of freedom: documents of unequal sizes count as fewer."""
        if self.unit != "document":
            return float("inf")
        return freedom(Clusters.from_ids(self.rows.clusters, noun=self.unit), len(self.rows))

    @property
    def sentence(self) -> str:
        """The rows in words."""
        return f"{self.rows.sentence()} of {self.rows.extent()}"

    @property
    def warnings(self) -> tuple[str, ...]:
        """Why documents of the corpus are not taken as independent, where it has any."""
        return (self.rows.few,) if self.rows.few else ()

    def layers_of(self, model: str) -> tuple[int, ...]:
        """The layers of one model that can be compared, where models have different depths."""
        return _numbered(self.activations[model])

    def layer(self, model: str, number: int) -> Any:
        """One layer of a model, as it lies on disk."""
        return self.activations[model].layers.stored[number]

    def stack(self, model: str) -> list[Any]:
        """All layers of a model."""
        return [self.layer(model, number) for number in self.layers]

    def curve(self, name: str, points: Points, *, unit: str = "", layers_of: str = "", **facts: Any) -> Curve:
        """Make a curve over the layers of the first model; `layers_of` and `unit` name others."""
        layers = self.layers_of(layers_of) if layers_of else self.layers
        unit = points.unit(unit or self.unit)
        return curve_of(name, "layer", layers, points, unit=unit, n=self.examples, **facts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class LayerSimilarity:
    """
    Similarity of models in every layer, by one measure.

    Parameters
    ----------
    measure : str
    layers : tuple of int
    left, right : tuple of str
        Names of the models.
    values : ndarray of shape (layers, left, right)
    errors : ndarray of shape (layers, left, right, units)
        See `microtome.experiments.cell_errors.errors_of`.
    dof : float
    bounds : pair of float
        Of the measure.
    reasons : tuple of tuple of tuple of (str or None)
        Why a similarity is undefined, by layer, left and right; empty where nothing is.
    """

    measure: str
    layers: tuple[int, ...]
    left: tuple[str, ...]
    right: tuple[str, ...]
    values: np.ndarray
    errors: np.ndarray
    dof: float
    bounds: tuple[float, float]
    reasons: tuple[tuple[Reasons, ...], ...] = ()

    def sample(self, pairs: Sequence[tuple[str, str]]) -> Sample:
        """Similarities of pairs of models: values of shape (pairs, layers), and their errors."""
        at = [(self.left.index(a), self.right.index(b)) for a, b in pairs]
        reasons = (tuple(table[i][j] for table in self.reasons) for i, j in at)
        return Sample(
            values=np.stack([self.values[:, i, j] for i, j in at]),
            errors=np.stack([self.errors[:, i, j] for i, j in at]),
            dof=self.dof,
            reasons=tuple(reasons) if self.reasons else (),
        )

    def records(self) -> Iterator[dict[str, Any]]:
        """One record per pair of different models and layer."""
        for i, left in enumerate(self.left):
            for j, right in enumerate(self.right):
                if left == right or right in self.left[:i]:
                    continue
                for number, value in zip(self.layers, self.values[:, i, j], strict=True):
                    similarity = float(value) if np.isfinite(value) else None
                    pair = {"measure": self.measure, "left": left, "right": right}
                    yield {**pair, "layer": number, "similarity": similarity}


def plan_text(models: Mapping[str, Any], texts: Texts, options: RowOptions) -> Rows:
    """
    Find the rows of the first model, which the others have too; all together limit the input length.

    Parameters
    ----------
    models : mapping of str to Encoder
        With as many layers and the same tokens.
    texts : Texts
    options : RowOptions

    Returns
    -------
    Rows
    """
    if not models:
        raise must("models", "at least one", 0)
    longest = input_length([model for model in models.values() if hasattr(model, "source")], options.longest)
    name, first = next(iter(models.items()))
    return plan_at_most(texts.examples, [called(first, name)], replace(options, longest=longest))


def check_same(name: str, encoder: Any, first: tuple[str, str, tuple[str, ...]]) -> None:
    """Refuse a model that has not the tokens and layers of the first, given by name, cuts and layers."""
    label = name if encoder.name == name else f"{encoder.name} ({name})"
    if encoder.cuts != first[1]:
        raise InputError(f"{label} must cut texts into tokens as {first[0]} does, but it does not.")
    if encoder.layers != first[2]:
        raise InputError(
            f"{label} must have {len(first[2])} layers, as {first[0]} has, but it has {len(encoder.layers)}."
        )


def record_models(
    models: Mapping[str, Any],
    texts: Texts,
    rows: Rows,
    *,
    storage: str = "float32",
    same: bool = True,
    visit: Callable[[str, Any], None] | None = None,
    context: Context | None = None,
) -> Recorded:
    """
    Run models over a text, or read their rows from the store.

    Parameters
    ----------
    models : mapping of str to Encoder, or to what `open_model` opens
        What is opened is released afterwards.
    texts : Texts
    rows : Rows
        That all models have.
    storage : str
        How rows are stored on disk.
    same : bool
        Whether all models must have the tokens and the layers of the first.
    visit : callable, optional
        Called with the name and the encoder of each model after its rows, while it is loaded.
    context : Context, optional

    Returns
    -------
    Recorded
    """
    context = context or Context()
    activations: dict[str, Activations] = {}
    digests: dict[str, str] = {}
    first = None
    for name, model in models.items():
        loaded = open_model(model, context=context).encoder
        first = first or (name, loaded.cuts, loaded.layers)
        if same:
            check_same(name, loaded, first)
        encoder = called(loaded, name)
        activations[name] = record(encoder, texts, rows, context=context.named(name), storage=storage)
        digests[name] = encoder.digest
        if visit is not None:
            visit(name, loaded)
    layers = _numbered(next(iter(activations.values())))
    return Recorded(activations=activations, digests=digests, layers=layers, rows=rows)


def compare_layers(
    recorded: Recorded,
    measures: str | Iterable[str],
    context: Context | None = None,
    *,
    left: Sequence[str] | None = None,
    right: Sequence[str] | None = None,
    halves: int = 40,
    **options: Any,
) -> dict[str, LayerSimilarity]:
    """
    Compare models with one another in each layer, on the same rows.

    Parameters
    ----------
    recorded : Recorded
    measures : str or sequence of str
    context : Context, optional
        To which progress is reported.
    left, right : sequence of str, optional
        Names of models; all of them, with one another, when absent.
    halves : int
        Half-samples for intervals.
    **options
        seed, device, precision, memory, as in `similarity_matrix`.

    Returns
    -------
    dict of str to LayerSimilarity
        By measure.
    """
    names = tuple(recorded.activations) if left is None else tuple(left)
    columns = None if left is None and right is None else tuple(names if right is None else right)
    choices = list(chosen_all(measures))
    if recorded.clusters is not None and any(choice.measure.interval == "debiased" for choice in choices):
        check_balanced(recorded.clusters, recorded.unit)
    maps: dict[str, list[Map]] = {choice.label: [] for choice in choices}
    for place, number in enumerate(recorded.layers):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallSampleWarning)
            layer_maps = similarity_matrix(
                [recorded.layer(name, number) for name in names],
                None if columns is None else [recorded.layer(name, number) for name in columns],
                choices,
                clusters=recorded.clusters,
                certainty=True,
                halves=halves,
                names=names,
                right_names=columns,
                **options,
            )
        for label, layer_map in layer_maps.items():
            maps[label].append(layer_map)
        if context is not None and context.progress is not None:
            context.progress("layers compared", place + 1, len(recorded.layers))
    models = names, names if columns is None else columns
    return {choice.label: _over_layers(choice, maps[choice.label], recorded, *models) for choice in choices}


def _over_layers(
    choice: Chosen, maps: Sequence[Map], recorded: Recorded, left: tuple[str, ...], right: tuple[str, ...]
) -> LayerSimilarity:
    """Put the maps of all layers by one measure together; what differs from 1 by rounding is 1."""
    errors, dofs = zip(*map(errors_of, maps), strict=True)
    values = np.stack([layer_map.values for layer_map in maps])
    unchanged = np.abs(values - 1) <= ROUNDING
    return LayerSimilarity(
        measure=choice.label,
        layers=recorded.layers,
        left=left,
        right=right,
        values=np.where(unchanged, 1.0, values),
        errors=np.where(unchanged[..., None], 0.0, np.stack(errors)),
        dof=min(dofs[-1], recorded.freedom),
        bounds=choice.declared("range"),
        reasons=tuple(layer_map.reasons for layer_map in maps),
    )


def called(encoder: Any, name: str) -> Any:
    """The same encoder under another name; its weights are shared, not copied."""
    renamed = copy.copy(encoder)
    renamed.name = name
    return renamed


def random_copy(encoder: Any, seed: int, name: str | None = None) -> Any:
    """
    Copy an encoder with all weights re-initialized.

    Parameters
    ----------
    encoder : Encoder
        Stays as it is.
    seed : int
    name : str, optional
        That of the encoder with the seed, when absent.

    Returns
    -------
    Encoder
        With the same tokenizer, on the same device.
    """
    if not hasattr(encoder, "initialize"):
        raise InputError(f"{encoder.name} must be a model that can be re-initialized, but it is none.")
    random = called(encoder, name or f"{encoder.name}-random{seed}")
    random.model = copy.deepcopy(encoder.model).eval()
    # The blocks are cached; those would be of the model that was copied.
    vars(random).pop("blocks", None)
    change = reinitialize(random, seed=seed, keep_embeddings=False)
    random.source = replace(encoder.source, changes=(*encoder.source.changes, change))
    return random


def _numbered(activations: Activations) -> tuple[int, ...]:
    return tuple(k for k in activations.varying if activations.names[k].rpartition("/")[2].isdigit())
