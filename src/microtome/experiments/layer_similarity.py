"""How alike are several models, layer by layer? Read from the same rows, with the error of every number."""

from __future__ import annotations

import copy
import os
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ..comparison.similarity import similarity_matrix
from ..encoders.encoder import Encoder, TransformerEncoder
from ..encoders.twins import draw_anew
from ..errors import InputError, SmallSampleWarning, must, unknown
from ..extraction.extracting import as_encoder
from ..extraction.recording import Activations, record
from ..extraction.texts import Texts
from ..inference.clusters import Clusters, check_balanced
from ..inference.scoring import freedom
from ..measures.table import chosen_all
from ..rows.options import row_options
from ..rows.planning import Rows, input_length, plan_at_most
from ..store.shelf import Shelf
from .cell_errors import Reasons, Sample, errors_of

# Rows that are compared at most, where nobody says how many: RSA looks at every pair of them.
SAMPLE = 5_000
# What fast arithmetic promises: a smaller difference from 1 is rounding, and no change.
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
    found : mapping of str to Activations
        By the name of the model.
    digests : mapping of str to str
        Of the models.
    layers : tuple of int
        That all of them have and that can be compared: 0 is the embedding output, absent where it is the
        same in every row. A last state that is normed once more is no layer of its own.
    rows : Rows
    unit : {"document", "sentence", "example"}
        What is independent: documents, where the corpus has enough of them.
    """

    found: Mapping[str, Activations]
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
        """How many sentences or examples have rows."""
        return len(np.unique(self.rows.examples))

    @property
    def freedom(self) -> float:
        """Degrees of freedom at most: documents of unequal sizes count as fewer, as they do in probing."""
        if self.unit != "document":
            return float("inf")
        return freedom(Clusters.from_ids(self.rows.clusters, noun=self.unit), len(self.rows))

    @property
    def warned(self) -> tuple[str, ...]:
        """What a reader must know of documents that were not taken as independent."""
        return (self.rows.few,) if self.rows.few else ()

    def layers_of(self, model: str) -> tuple[int, ...]:
        """The layers of one model that can be compared, where models may have other depths."""
        return _numbered(self.found[model])

    def layer(self, model: str, number: int) -> Any:
        """One layer of a model, as it lies on disk."""
        one = self.found[model]
        return one.layers.stored[number]

    def stack(self, model: str) -> list[Any]:
        """All layers of a model."""
        return [self.layer(model, number) for number in self.layers]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Alike:
    """
    How alike models are in every layer, by one measure.

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
        """The similarities of some pairs of models: values of shape (pairs, layers), and their errors."""
        at = [(self.left.index(a), self.right.index(b)) for a, b in pairs]
        return Sample(
            values=np.stack([self.values[:, i, j] for i, j in at]),
            errors=np.stack([self.errors[:, i, j] for i, j in at]),
            dof=self.dof,
            reasons=tuple(tuple(each[i][j] for each in self.reasons) for i, j in at) if self.reasons else (),
        )


def record_models(
    models: Mapping[str, Loaded],
    texts: Texts,
    *,
    rows: str = "token",
    sample: int | None = SAMPLE,
    longest: int | None = None,
    seed: int = 0,
    planned: Rows | None = None,
    dtype: str = "float32",
    store: str | os.PathLike[str] | None = None,
    command: str = "",
    progress: Progress | None = None,
) -> Recorded:
    """
    Run models over a text, or find their rows in the store.

    Parameters
    ----------
    models : mapping of str to Encoder, or to a function that loads it
        All with as many layers and the same tokens, unless `planned` is given. What is loaded by a function
        is let go afterwards.
    texts : Texts
    rows : {"token", "word", "cls", "mean"}
    sample : int, optional
        Rows at most, drawn with the seed; all when absent.
    planned : Rows, optional
        Rows that all models have, by these names; found by the first model when absent.
    longest, seed, dtype, store, command, progress
        As in `extract`.

    Returns
    -------
    Recorded
        Its `layers` are those of the first model.
    """
    # Who gives functions that load models says how long inputs are.
    opened: list[Any] = [one for one in models.values() if hasattr(one, "source")]
    longest = input_length(opened, longest)
    shelf = Shelf(store)
    found: dict[str, Activations] = {}
    digests: dict[str, str] = {}
    first: tuple[str, str, tuple[str, ...]] | None = None
    for name, one in models.items():
        loaded = _loaded(one)
        own = name if loaded.name == name else f"{loaded.name} ({name})"
        encoder = called(loaded, name)
        if planned is None:
            first = name, encoder.cuts, encoder.layers
            options = row_options(rows, longest=longest, sample=sample, seed=seed)
            planned = plan_at_most(texts.examples, [encoder], options, progress=progress)
        elif first is not None and encoder.cuts != first[1]:
            raise InputError(f"{own} must cut texts into tokens as {first[0]} does, but it does not.")
        elif first is not None and encoder.layers != first[2]:
            raise InputError(
                f"{own} must have {len(first[2])} layers, as {first[0]} has, but it has "
                f"{len(encoder.layers)}."
            )
        found[name] = record(
            encoder,
            texts,
            planned,
            shelf=shelf,
            storage=dtype,
            command=command,
            progress=_named(progress, name),
        )
        digests[name] = encoder.digest
    if planned is None or not found:
        raise must("models", "at least one", 0)
    one = next(iter(found.values()))
    return Recorded(
        found=found,
        digests=digests,
        layers=_numbered(one),
        rows=planned,
        unit=planned.unit,
    )


def alike(
    recorded: Recorded,
    measures: str | Iterable[str],
    *,
    left: Sequence[str] | None = None,
    right: Sequence[str] | None = None,
    halves: int = 40,
    seed: int = 0,
    device: Any = "cpu",
    progress: Progress | None = None,
    **options: Any,
) -> dict[str, Alike]:
    """
    Compare models with one another in each layer, on the same rows.

    Parameters
    ----------
    recorded : Recorded
    measures : str or sequence of str
    left, right : sequence of str, optional
        Names of models; all of them, with one another, when absent.
    halves, seed, device
        As in `similarity_matrix`.
    progress : callable, optional
    **options
        precision, memory, threads, as there.

    Returns
    -------
    dict of str to Alike
        By measure.
    """
    for name in options:
        if name not in COMPUTING:
            raise unknown("option", name, COMPUTING)
    names = tuple(recorded.found) if left is None else tuple(left)
    others = None if left is None and right is None else tuple(names if right is None else right)
    choices = list(chosen_all(measures))
    if recorded.clusters is not None and any(one.measure.interval == "debiased" for one in choices):
        check_balanced(recorded.clusters, recorded.unit)
    values: dict[str, list[np.ndarray]] = {one.label: [] for one in choices}
    errors: dict[str, list[np.ndarray]] = {one.label: [] for one in choices}
    reasons: dict[str, list[tuple[Reasons, ...]]] = {one.label: [] for one in choices}
    dof: dict[str, float] = {}
    for place, number in enumerate(recorded.layers):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallSampleWarning)
            maps = similarity_matrix(
                [recorded.layer(name, number) for name in names],
                None if others is None else [recorded.layer(name, number) for name in others],
                choices,
                clusters=recorded.clusters,
                certainty=True,
                halves=halves,
                seed=seed,
                device=device,
                names=names,
                right_names=others,
                **options,
            )
        for label, one in maps.items():
            found, free = errors_of(one)
            dof[label] = min(free, recorded.freedom)
            still = np.abs(one.values - 1) <= ROUNDING
            values[label].append(np.where(still, 1.0, one.values))
            errors[label].append(np.where(still[..., None], 0.0, found))
            reasons[label].append(one.reasons)
        if progress is not None:
            progress("layers compared", place + 1, len(recorded.layers))
    return {
        one.label: Alike(
            measure=one.label,
            layers=recorded.layers,
            left=names,
            right=names if others is None else others,
            values=np.stack(values[one.label]),
            errors=np.stack(errors[one.label]),
            dof=dof[one.label],
            bounds=one.declared("range"),
            reasons=tuple(reasons[one.label]),
        )
        for one in choices
    }


def called(encoder: Any, name: str) -> Any:
    """The same encoder under another name; its weights are shared, not copied."""
    found = copy.copy(encoder)
    found.name = name
    return found


def random_twin(encoder: Any, seed: int, name: str | None = None) -> TransformerEncoder:
    """
    Draw all weights of a copy of an encoder anew; it keeps the tokenizer and the device.

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
            f"{encoder.name} must be a model of transformers to have a twin drawn; load one with "
            "random_init=True and give it as twin."
        )
    found = TransformerEncoder(
        name=name or f"{encoder.name}-random{seed}",
        family=encoder.family,
        model=copy.deepcopy(encoder.model).eval(),
        tokenizer=encoder.tokenizer,
        source=encoder.source,
        autocast=encoder.autocast,
    )
    device = encoder.device
    said = draw_anew(found, seed=seed, keep_embeddings=False)
    found.model.to(device=device).eval()
    found.source = replace(encoder.source, changes=(*encoder.source.changes, said))
    return found


def twin_of(encoder: Any, name: str, seed: int = 0) -> Any:
    """
    Draw a twin of any encoder, with its tokenizer; one that is no model of transformers is loaded again.

    Parameters
    ----------
    encoder : Encoder
    name : str
        Of the twin.
    seed : int

    Returns
    -------
    Encoder
    """
    from ..encoders.loading import load

    if isinstance(encoder, TransformerEncoder):
        return random_twin(encoder, seed, name)
    origin = encoder.source
    return load(origin.given, name=name, random_init=True, seed=seed, device=str(encoder.device))


def _numbered(one: Activations) -> tuple[int, ...]:
    return tuple(k for k in one.varying if one.names[k].rpartition("/")[2].isdigit())


def _loaded(given: Any) -> Any:
    return as_encoder(given() if callable(given) and not hasattr(given, "run") else given)


def _named(progress: Progress | None, name: str) -> Progress | None:
    if progress is None:
        return None
    return lambda what, done, total: progress(f"{name}: {what}", done, total)
