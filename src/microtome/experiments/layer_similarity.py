"""Similarity of several models in every layer: the same rows of a text, with the error of each value."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..comparison.request import PRECISIONS
from ..comparison.similarity import similarity_matrix
from ..context import Context
from ..encoders.encoder import Encoder, TransformerEncoder
from ..encoders.loading import reinitialize
from ..errors import InputError, SmallSampleWarning, must, unknown
from ..extraction.recording import Activations, record
from ..extraction.texts import Texts
from ..inference.clusters import Clusters, check_balanced
from ..inference.scoring import freedom
from ..measures.table import chosen_all
from ..rows.options import RowOptions, row_options
from ..rows.planning import Rows, input_length, plan_at_most
from ..store.shelf import Shelf
from ..training.opening import open_model
from .base import option
from .cell_errors import Reasons, Sample, errors_of
from .inputs import SampleOptions

# Fast arithmetic is accurate to this: a smaller difference from 1 is rounding, and no change.
ROUNDING = 1e-6
COMPUTING = ("precision", "memory", "threads")
Progress = Callable[[str, int, int], None]
Loaded = Encoder | Callable[[], Encoder]


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
    unit : {"document", "sentence", "example"}
        What is independent: documents, where the corpus has enough of them.
    """

    activations: Mapping[str, Activations]
    digests: Mapping[str, str]
    layers: tuple[int, ...]
    rows: Rows
    unit: str

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
        return Sample(
            values=np.stack([self.values[:, i, j] for i, j in at]),
            errors=np.stack([self.errors[:, i, j] for i, j in at]),
            dof=self.dof,
            reasons=tuple(tuple(table[i][j] for table in self.reasons) for i, j in at)
            if self.reasons
            else (),
        )


@dataclass(frozen=True, kw_only=True)
class ComparisonOptions(SampleOptions):
    """How rows of a text are stored, and how layers are compared on them."""

    storage: str = option(
        "How rows are stored on disk.", "float32", choices=("float32", "float16", "bfloat16"), panel="Rows"
    )
    precision: str = option("Arithmetic of the measures.", "fast", choices=PRECISIONS, panel="Statistics")
    memory: str | int = option(
        "Memory limit for intermediate results, such as 2GB.", "2GB", panel="Statistics", metavar="SIZE"
    )

    def row_options(self, longest: int | None = None) -> RowOptions:
        """The rows, with a maximum number of tokens per example."""
        return row_options(self.rows, longest=longest, sample=self.sample, seed=self.seed)

    def computing(self, context: Context) -> dict[str, Any]:
        """Options of `similarity_matrix`."""
        return {
            "seed": self.seed,
            "device": context.device,
            "precision": self.precision,
            "memory": self.memory,
        }


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


def check_same(models: Mapping[str, Any]) -> None:
    """Refuse models that do not have the tokens and the layers of the first."""
    name, first = next(iter(models.items()))
    for key, encoder in models.items():
        _check_same(key, encoder, (name, first.cuts, first.layers))


def _check_same(name: str, encoder: Any, first: tuple[str, str, tuple[str, ...]]) -> None:
    label = name if encoder.name == name else f"{encoder.name} ({name})"
    if encoder.cuts != first[1]:
        raise InputError(f"{label} must cut texts into tokens as {first[0]} does, but it does not.")
    if encoder.layers != first[2]:
        raise InputError(
            f"{label} must have {len(first[2])} layers, as {first[0]} has, but it has {len(encoder.layers)}."
        )


def record_models(
    models: Mapping[str, Loaded],
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
    models : mapping of str to Encoder, or to a function that loads it
        What a function loads is released afterwards.
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
    shelf = Shelf(context.store)
    activations: dict[str, Activations] = {}
    digests: dict[str, str] = {}
    first = None
    for name, model in models.items():
        loaded = _loaded(model)
        first = first or (name, loaded.cuts, loaded.layers)
        if same:
            _check_same(name, loaded, first)
        encoder = called(loaded, name)
        activations[name] = record(
            encoder,
            texts,
            rows,
            shelf=shelf,
            storage=storage,
            command=context.command,
            progress=context.named(name).progress,
        )
        digests[name] = encoder.digest
        if visit is not None:
            visit(name, loaded)
    layers = _numbered(next(iter(activations.values())))
    return Recorded(activations=activations, digests=digests, layers=layers, rows=rows, unit=rows.unit)


def compare_layers(
    recorded: Recorded,
    measures: str | Iterable[str],
    *,
    left: Sequence[str] | None = None,
    right: Sequence[str] | None = None,
    halves: int = 40,
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, LayerSimilarity]:
    """
    Compare models with one another in each layer, on the same rows.

    Parameters
    ----------
    recorded : Recorded
    measures : str or sequence of str
    left, right : sequence of str, optional
        Names of models; all of them, with one another, when absent.
    halves : int
        Half-samples for intervals.
    progress : callable, optional
    **options
        seed, device, precision, memory, threads, as in `similarity_matrix`.

    Returns
    -------
    dict of str to LayerSimilarity
        By measure.
    """
    for name in options:
        if name not in ("seed", "device", *COMPUTING):
            raise unknown("option", name, COMPUTING)
    names = tuple(recorded.activations) if left is None else tuple(left)
    columns = None if left is None and right is None else tuple(names if right is None else right)
    choices = list(chosen_all(measures))
    if recorded.clusters is not None and any(choice.measure.interval == "debiased" for choice in choices):
        check_balanced(recorded.clusters, recorded.unit)
    values: dict[str, list[np.ndarray]] = {choice.label: [] for choice in choices}
    errors: dict[str, list[np.ndarray]] = {choice.label: [] for choice in choices}
    reasons: dict[str, list[tuple[Reasons, ...]]] = {choice.label: [] for choice in choices}
    dof: dict[str, float] = {}
    for place, number in enumerate(recorded.layers):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallSampleWarning)
            maps = similarity_matrix(
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
        for label, layer_map in maps.items():
            map_errors, map_dof = errors_of(layer_map)
            dof[label] = min(map_dof, recorded.freedom)
            unchanged = np.abs(layer_map.values - 1) <= ROUNDING
            values[label].append(np.where(unchanged, 1.0, layer_map.values))
            errors[label].append(np.where(unchanged[..., None], 0.0, map_errors))
            reasons[label].append(layer_map.reasons)
        if progress is not None:
            progress("layers compared", place + 1, len(recorded.layers))
    return {
        choice.label: LayerSimilarity(
            measure=choice.label,
            layers=recorded.layers,
            left=names,
            right=names if columns is None else columns,
            values=np.stack(values[choice.label]),
            errors=np.stack(errors[choice.label]),
            dof=dof[choice.label],
            bounds=choice.declared("range"),
            reasons=tuple(reasons[choice.label]),
        )
        for choice in choices
    }


def called(encoder: Any, name: str) -> Any:
    """The same encoder under another name; its weights are shared, not copied."""
    renamed = copy.copy(encoder)
    renamed.name = name
    return renamed


def random_copy(encoder: Any, seed: int, name: str | None = None) -> TransformerEncoder:
    """
    Copy an encoder with all weights re-initialized; it keeps the tokenizer and the device.

    Parameters
    ----------
    encoder : TransformerEncoder
        Stays as it is.
    seed : int
    name : str, optional
        That of the encoder with the seed, when absent.

    Returns
    -------
    TransformerEncoder
    """
    if not isinstance(encoder, TransformerEncoder):
        raise InputError(
            f"{encoder.name} must be a model of transformers to be re-initialized; load one with "
            "random_init=True."
        )
    random = TransformerEncoder(
        name=name or f"{encoder.name}-random{seed}",
        family=encoder.family,
        model=copy.deepcopy(encoder.model).eval(),
        tokenizer=encoder.tokenizer,
        source=encoder.source,
        autocast=encoder.autocast,
    )
    device = encoder.device
    change = reinitialize(random, seed=seed, keep_embeddings=False)
    random.model.to(device=device).eval()
    random.source = replace(encoder.source, changes=(*encoder.source.changes, change))
    return random


def twin_of(encoder: Any, name: str, seed: int = 0) -> Any:
    """
    Make a random baseline of any encoder; one that is no model of transformers is loaded again.

    Parameters
    ----------
    encoder : Encoder
    name : str
        Of the random baseline.
    seed : int

    Returns
    -------
    Encoder
    """
    if isinstance(encoder, TransformerEncoder):
        return random_copy(encoder, seed, name)
    origin = encoder.source
    reference = {"source": origin.given, "name": name, "random_init": True, "seed": seed}
    return open_model(reference, context=Context(device=str(encoder.device))).encoder


def _numbered(activations: Activations) -> tuple[int, ...]:
    return tuple(k for k in activations.varying if activations.names[k].rpartition("/")[2].isdigit())


def _loaded(model: Any) -> Any:
    opened = model() if callable(model) and not hasattr(model, "run") else model
    return open_model(opened, context=Context()).encoder
