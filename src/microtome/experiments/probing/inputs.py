"""Inputs of probing: encoders, annotated sentences with their splits, and recorded activations of words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ...context import Context
from ...errors import InputError, must, unknown
from ...findings.words import counted
from ...probes.dataset import Asked, divide
from ...probes.table import PROBES, Probe
from ...probes.targets import Annotated, read_target
from ..base import Plan
from ..layer_similarity import random_copy

if TYPE_CHECKING:
    from .probing import Probing

RANDOM_BASELINE = "random baseline"
# What probes read, by the name of a user and that of `microtome.probes.mixing`.
LAYERS: Mapping[str, str] = MappingProxyType({"single": "layers", "upto": "prefixes", "mix": "mix"})


@dataclass(frozen=True, kw_only=True, eq=False)
class ProbingInputs:
    """
    Encoders whose layers are probed.

    Parameters
    ----------
    encoders : mapping of str to Encoder
        By name: the first one, those that are compared with it, and the random baseline of the first.
    """

    encoders: Mapping[str, Any] = field(repr=False)

    @property
    def names(self) -> list[str]:
        """Names of the encoders, without the random baseline."""
        return [name for name in self.encoders if name != RANDOM_BASELINE]


@dataclass(frozen=True, kw_only=True, eq=False)
class AnnotationInputs(ProbingInputs):
    """
    Encoders and annotated sentences.

    Parameters
    ----------
    annotated : Annotated
    probe : Probe
    train, held, judged : ndarray of int
        Indices of the training, validation (early stopping) and test sentences.
    split : str
        Name of the test split.
    judging : bool
        Whether test sentences are read; a code is scored on its training sentences.
    """

    annotated: Annotated
    probe: Probe
    train: np.ndarray
    held: np.ndarray
    judged: np.ndarray
    split: str
    judging: bool = True

    @property
    def sizes(self) -> dict[str, int]:
        """Numbers of training, validation and test sentences."""
        return {name: len(getattr(self, name)) for name in ("train", "held", "judged")}

    @property
    def needed(self) -> np.ndarray:
        """Indices of the sentences that encoders are run over."""
        # Probes that converge need no early stopping.
        held = [self.held] if self.probe.seeded else []
        return np.unique(np.concatenate([self.train, *held, *([self.judged] * self.judging)]))


def open_encoders(experiment: Probing, context: Context) -> dict[str, Any]:
    """Open the encoders by their names, with the random baseline of the first where it is asked for."""
    encoders = experiment.open_encoders(experiment.models, context)
    names = [encoder.name for encoder in encoders]
    if len(set(names)) < len(names):
        raise must("models", "named differently", names)
    named = {encoder.name: encoder for encoder in encoders}
    if experiment.random_baselines:
        named[RANDOM_BASELINE] = random_copy(encoders[0], 0, RANDOM_BASELINE)
    return named


def open_annotations(experiment: Probing, context: Context) -> AnnotationInputs:
    """Parse the treebank, divide its sentences, and open the encoders; the cheapest checks come first."""
    annotated = read_target(experiment.on, experiment.target)
    judging = not experiment.mdl
    if not judging and annotated.target.kind != "words":
        raise InputError(
            f"description length must be of labels of words, but {annotated.target.name} has none."
        )
    probe = find_probe(annotated, experiment)
    train, held, judged, split = divide(annotated, train_size=experiment.train_size)
    _check_enough(annotated, train, judged if judging else None)
    encoders = open_encoders(experiment, context)
    most = min(width for encoder in encoders.values() for width in encoder.widths)
    if experiment.size is not None and experiment.size > most:
        raise must("size", f"from 1 to {most}, the features of a layer", experiment.size)
    return AnnotationInputs(
        encoders=encoders,
        annotated=annotated,
        probe=probe,
        train=train,
        held=held,
        judged=judged,
        split=split,
        judging=judging,
    )


def find_probe(annotated: Annotated, experiment: Probing) -> Probe:
    """
    Take the probe of an experiment, or the default one of its target, and refuse what it does not support.

    Parameters
    ----------
    annotated : Annotated
    experiment : Probing

    Returns
    -------
    Probe
    """
    target, seeds = annotated.target, experiment.probe_seeds
    able = {name: probe for name, probe in PROBES.items() if target.kind in (probe.kind, *probe.also)}
    if experiment.probe is None:
        probe = next(probe for probe in able.values() if probe.kind == target.kind)
    elif experiment.probe not in able:
        raise unknown(f"probe of {target.name}", experiment.probe, able)
    else:
        probe = able[experiment.probe]
    subject = f"the {probe.name} probe of {target.name}"
    if experiment.control_task and not probe.control:
        raise InputError(f"a control task must be of labels of words or spans, but {target.name} has none.")
    if len(seeds) > 1 and not probe.seeded:
        raise InputError(
            f"seeds must be one for {subject}, which is deterministic, but got {', '.join(map(str, seeds))}."
        )
    if experiment.steps is not None and not probe.stepped:
        raise InputError(f"steps must be those of an edge probe, but {target.name} has a {probe.name} one.")
    if experiment.size is not None and not probe.sized:
        raise InputError(f"size must be that of a linear probe, but {target.name} has a {probe.name} one.")
    if not probe.mixes and list(experiment.layers) != ["single"]:
        mixing = next((name for name, candidate in able.items() if candidate.mixes), None)
        hint = "" if mixing is None else f"; the probe {mixing} can mix them"
        raise InputError(
            f"layers must be 'single' for {subject}, which reads one at a time, but got "
            f"{', '.join(experiment.layers)}{hint}."
        )
    return probe


def annotation_plan(experiment: Probing, inputs: AnnotationInputs, work: str) -> Plan:
    """Count sentences, words and bytes of activations, and put the work into words."""
    target = inputs.annotated.target.name
    words = sum(len(inputs.annotated.sentences[sentence]) for sentence in inputs.needed)
    size = 4 * words * sum(sum(encoder.widths) for encoder in inputs.encoders.values())
    return Plan(
        name=target,
        summary={
            "target": target,
            "models": inputs.names,
            "sentences": inputs.sizes,
            "words": words,
            "bytes": size,
        },
        sentence=f"{work} all layers of {counted(len(inputs.names), 'model')}"
        f"{' and a random baseline' if experiment.random_baselines else ''}"
        f"{', also for a control task' if experiment.control_task else ''}: "
        f"about {max(size / 1e6, 1):,.0f} MB of activations in the store",
        inputs=inputs,
    )


def _check_enough(annotated: Annotated, train: np.ndarray, judged: np.ndarray | None) -> None:
    """Refuse too few sentences or labels before any encoder is run."""
    for sentences, purpose in ((train, "train on"), (judged, "test on")):
        if sentences is not None and len(sentences) < 2:
            raise InputError(
                f"{annotated.source} must hold at least 2 sentences to {purpose}, but there is "
                f"{len(sentences)}."
            )
    if annotated.target.kind != "words":
        return
    present = annotated.right[np.isin(annotated.owner, train)].any(0)
    if present.sum() < 2:
        labels = ", ".join(repr(annotated.labels[k]) for k in np.flatnonzero(present)) or "none"
        raise InputError(
            f"the {len(train):,} training sentences must have at least 2 labels of {annotated.target.name}, "
            f"but they have {labels}."
        )


class RecordedRows(NamedTuple):
    """
    The probing task and the activations of one encoder.

    asked : Asked
        With the rows of this encoder.
    X : ndarray of float32 of shape (layers, rows, features)
    address : str
        Of the activations in the store.
    """

    asked: Asked
    X: np.ndarray
    address: str


def record_rows(
    inputs: AnnotationInputs, seeds: Sequence[int], context: Context, names: Iterable[str] | None = None
) -> tuple[Asked, dict[str, RecordedRows]]:
    """
    Run the encoders over the sentences, on the words that all of them have.

    Parameters
    ----------
    inputs : AnnotationInputs
    seeds : sequence of int
        Of the probes.
    context : Context
    names : iterable of str, optional
        Of the encoders to run; all of them when absent.

    Returns
    -------
    asked : Asked
        With a row for each of these words.
    recorded : dict of str to RecordedRows
        By encoder: an edge probe has a row for each subword, and tokenizers differ.
    """
    from ...extraction.recording import record
    from ...extraction.texts import make_texts
    from ...rows.planning import plan_rows
    from ...rows.selecting import row_options

    needed, subword = inputs.needed, inputs.probe.subword
    texts = make_texts([inputs.annotated.sentences[sentence] for sentence in needed])
    # Which words there are is the same whichever of their subwords are read.
    options = row_options("word", subword="last" if subword == "each" else subword)
    shared = plan_rows(texts.examples, list(inputs.encoders.values()), options, context)
    asked = Asked(
        annotated=inputs.annotated,
        examples=needed[np.asarray(shared.examples)],
        units=np.asarray(shared.units),
        train=inputs.train,
        held=inputs.held,
        judged=inputs.judged,
        split=inputs.split,
        seeds=tuple(seeds),
        device=context.device,
    )
    recorded = {}
    for name in inputs.encoders if names is None else names:
        encoder, rows = inputs.encoders[name], shared
        if subword == "each":
            rows = plan_rows(texts.examples, [encoder], replace(options, subword="each")).among(shared)
        activations = record(encoder, texts, rows, context=context)
        # A norm behind the last block is a layer of some families, but no block of its own.
        layers = activations.layers[: encoder.depth + 1]
        recorded[name] = RecordedRows(
            asked=replace(asked, examples=needed[np.asarray(rows.examples)], units=np.asarray(rows.units)),
            X=np.stack([np.asarray(layer, dtype=np.float32) for layer in layers]),
            address=activations.address,
        )
    return asked, recorded


def probe_provenance(
    asked: Asked, inputs: AnnotationInputs, context: Context, **facts: Any
) -> dict[str, Any]:
    """
    Record what reproduces a result.

    Parameters
    ----------
    asked : Asked
    inputs : ProbingInputs
    context : Context
    **facts
        Options of the experiment.

    Returns
    -------
    dict
    """
    return {
        "models": {name: encoder.digest for name, encoder in inputs.encoders.items()},
        "corpus": asked.annotated.source,
        "texts": [dict(text) for text in asked.annotated.texts],
        "rows": {"count": len(asked.examples), "digest": asked.digest},
        **facts,
        "device": context.device,
    }
