"""How many bits do labels take when a layer is known? Online codes of all layers, on the same words."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arguments import checked
from ...errors import InputError, must
from ...findings.intervals import with_own_interval
from ...findings.results import Curve, Result
from ...findings.words import number
from ...probes.dataset import Asked
from ...probes.mdl import Code, code_difference, code_interval, online_code
from ...probes.table import PROBES
from ...probes.targets import Annotated, read_target, word_labels
from ...probes.wordprobe import words_left_out
from ...rows.documents import document_codes
from ...store.shelf import Shelf
from ...version import VERSION
from ..citations import cited
from ..curve_claims import differences_from
from ..models import Progress
from .facts import CONTROL
from .probing import AXIS, probe_provenance
from .rows import TWIN, open_models, record_rows
from .stored_probes import kept_code, question

if TYPE_CHECKING:
    import os

SCORE = "bits a word"
UNIFORM = "all labels equally likely"


@checked
def description_length(
    encoder: Any,
    on: Any,
    target: str = "upos",
    *,
    others: Sequence[Any] = (),
    twin: bool = True,
    control: bool = False,
    train_size: int | None = None,
    seed: int = 0,
    level: float = 0.95,
    store: str | os.PathLike[str] | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    command: str = "",
) -> Result:
    """
    Say how many bits the labels of words take when a layer is known.

    The labels of the sentences to learn from are sent block by block, each with a readout of those before
    it. A layer that says more, or says it from fewer examples, gives a shorter code; unlike accuracy, that
    counts how hard it is to read.

    Parameters
    ----------
    encoder, on, target, others, twin, control, train_size, store, device, progress, command
        As in `probing`; a target of words.
    seed : int
        Of the order in which sentences are sent, and of control labels.
    level : float
        Of intervals and bands.

    Returns
    -------
    Result
        Curves of bits a word over layers, for each model, for the random twin and for control labels;
        differences from layer 0 and of each other model from the first, paired by document or sentence.

    References
    ----------
    Voita and Titov 2020.
    """
    started = time.monotonic()
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    annotated = read_target(on, target)
    check_words(annotated)
    models = open_models(encoder, others, twin, device)
    probe = PROBES["linear"]
    asked, recorded, names = record_rows(
        annotated, models, probe, train_size, (seed,), device, store, progress, judging=False, command=command
    )
    labels = word_labels(annotated, asked.examples, asked.units)
    rows = asked.rows_of(asked.train)
    rows = rows[labels[rows] >= 0]
    # What is asked of which model, and the labels that are right.
    wanted = {name: (name, asked, labels) for name in recorded}
    if control:
        drawing = replace(asked, control=seed)
        drawn = _drawn(asked, labels, seed)
        wanted |= {f"{CONTROL}, {name}": (name, drawing, drawn) for name in names}
    codes: dict[str, Code] = {}
    shelf, lost = Shelf(store), asked.words_lost(asked.train)
    for place, (name, (model, asking, right)) in enumerate(wanted.items()):
        if progress is not None:
            progress(f"coding {name}", place, len(wanted))
        send = partial(
            online_code,
            recorded[model].X[:, rows],
            right[rows],
            len(annotated.labels),
            groups=asked.examples[rows],
            seed=seed,
            device=device,
        )
        codes[name] = kept_code(
            shelf, question(asking, "online code"), recorded[model].address, send, command
        )
    sent = next(iter(codes.values())).groups
    documents, few = document_codes(sent, annotated.ids, annotated.groups)
    curves = _curves(codes, names, len(rows), documents, level)
    uniform = float(np.log2(len(annotated.labels)))
    done = all(code.converged.all() for code in codes.values())
    return Result(
        experiment="probing",
        model=", ".join(names),
        task=target,
        split="train",
        score=SCORE,
        points=1.0,
        higher_is_better=False,
        curves=tuple(curves),
        lines=MappingProxyType({UNIFORM: uniform}),
        rows=tuple(_rows(codes, len(rows))),
        findings=_findings({one.name: one for one in curves}, names, target, uniform),
        methods=_methods(asked, names, target, len(rows), curves[0].unit, level),
        references=cited("voita2020", "merchant2020"),
        warnings=(
            *([few] if few else []),
            *([words_left_out(lost)] if lost else []),
            *([] if done else ["Some readouts did not converge."]),
        ),
        more=MappingProxyType({"target": target, "probe": "online code", "words": len(rows)}),
        provenance=probe_provenance(
            asked,
            models,
            started=started,
            seeds=[seed],
            train_size=train_size,
            control=control,
            device=device or "cpu",
            command=command,
        ),
    )


def check_words(found: Annotated) -> None:
    """Refuse what has no labels of words."""
    if found.target.kind != "words":
        raise InputError(f"description length must be of labels of words, but {found.target.name} has none.")


def _drawn(asked: Asked, labels: np.ndarray, seed: int) -> np.ndarray:
    from ...probes.control import control_labels

    found = asked.annotated
    words = [found.sentences[row][unit] for row, unit in zip(asked.examples, asked.units, strict=True)]
    return np.where(labels < 0, -1, control_labels(words, labels, seed=seed))


def _curves(
    codes: Mapping[str, Code],
    names: Sequence[str],
    words: int,
    documents: np.ndarray | None,
    level: float,
) -> list[Curve]:
    told: dict[str, Any] = {"words": words, "documents": documents, "level": level}
    curves = [_curve(name, code, **told) for name, code in codes.items()]
    for name in names:
        curves.append(_curve(f"difference, {name} from its layer 0", codes[name], against=0, **told))
    for name in [*names[1:], *([TWIN] if TWIN in codes else [])]:
        first = codes[names[0]]
        if len(codes[name].bits) == len(first.bits):
            curves.append(_curve(f"difference, {name} from {names[0]}", codes[name], against=first, **told))
    return curves


def _curve(
    name: str,
    code: Code,
    *,
    words: int,
    documents: np.ndarray | None,
    level: float,
    against: Code | int | None = None,
) -> Curve:
    """Bits a word, or how many more they are than those of another code or layer."""
    count = len(code.bits)
    ends = []
    values = code.bits
    for each in (level, 1 - (1 - level) / count):
        if against is None:
            band = code_interval(code, clusters=documents, level=each)
        elif isinstance(against, int):
            values, band = code_difference(code, reference=against, clusters=documents, level=each)
        else:
            values, band = code_difference(code, against, clusters=documents, level=each)
        ends += [band.low / words, band.high / words]
    return Curve(
        name=name,
        axis=AXIS,
        x=tuple(range(count)),
        values=values / words,
        low=ends[0],
        high=ends[1],
        band_low=ends[2],
        band_high=ends[3],
        level=level,
        unit="sentence" if documents is None else "document",
        n=words,
        seeds=(1,) * count,
        reasons=(None,) * count,
        note="The band is Bonferroni's over the layers; what other sentences to learn from would change is "
        "not in it.",
    )


def _findings(
    known: Mapping[str, Curve], names: Sequence[str], target: str, uniform: float
) -> tuple[str, ...]:
    said = []
    for name in names:
        curve, gain = known[name], known[f"difference, {name} from its layer 0"]
        best = int(np.nanargmin(curve.values))
        sentence = (
            f"{name}: {target} takes fewest bits at layer {best}, {_at(curve, best)} a word, "
            f"{number(uniform / curve.values[best])} times fewer than labels that are all equally likely"
        )
        said.append(f"{sentence}; {_at(gain, best)} from layer 0." if best else f"{sentence}.")
        drawn = known.get(f"{CONTROL}, {name}")
        if drawn is not None:
            said.append(f"{name}: random labels of word types take {_at(drawn, best)} a word there.")
    for found in differences_from(list(known.values()), names[0]):
        one = found.curve
        most = int(np.nanargmax(np.abs(one.values)))
        shown = one.band_low[most] > 0 or one.band_high[most] < 0
        doubt = "" if shown else f", not significant by the {one.level * 100:g}% band of all layers"
        said.append(f"{found.one} against {found.other}: {_at(one, most)} a word at layer {most}{doubt}.")
    return tuple(said)


def _at(curve: Curve, at: int) -> str:
    sign = "+" if curve.name.startswith("difference") and curve.values[at] > 0 else ""
    value, low, high = (float(line[at]) for line in (curve.values, curve.low, curve.high))
    return sign + with_own_interval(
        value, low, high, level=curve.level, unit=curve.unit, noun="bits", digits=3, points=1.0
    )


def _rows(codes: Mapping[str, Code], words: int) -> list[dict[str, Any]]:
    return [
        {
            "model": name,
            "layer": layer,
            "bits": float(code.bits[layer]),
            "score": float(code.bits[layer]) / words,
            "compression": float(code.compression[layer]),
        }
        for name, code in codes.items()
        for layer in range(len(code.bits))
    ]


def _methods(asked: Asked, names: Sequence[str], target: str, words: int, unit: str, level: float) -> str:
    return (
        f"Labels of {target} of {words:,} words in {len(asked.train):,} sentences of "
        f"{asked.annotated.source} were sent block by block given each layer of {', '.join(names)} (online "
        "code, Voita and Titov 2020): the first block as if all labels were equally likely, each further one "
        "with a logistic readout of those before it. Blocks end at .1 to 100 % of the words, with a whole "
        f"sentence. Intervals of {level * 100:g}% are over {unit}s, apart from what blocks differ by; bands "
        f"hold for all layers at once. Computed with microtome {VERSION}."
    )
