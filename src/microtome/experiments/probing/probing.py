"""What does each layer know? Probes of all layers of one model or several, on the same words."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arguments import checked
from ...encoders.versions import provenance
from ...errors import must
from ...findings.results import Curve, Result
from ...findings.scorecurves import difference_curve, score_curve
from ...inference.answers import Answers
from ...inference.pairing import compare_scores
from ...probes.dataset import Asked, Probed
from ...probes.table import Probe
from ...probes.targets import read_target
from ...scores.declare import Score
from ...store.shelf import Shelf
from ..citations import cited
from ..models import Progress
from .claims import layer_findings, length_findings, methods_of, said_lines
from .control import beside_draws, control_questions, over_draws, rightness
from .facts import CONTROL, depth_notes, more_facts, probe_rows, sizes_of
from .layer_mixes import LAYERS, called, check_kinds, find_probe, mix_facts, mix_findings
from .rows import TWIN, check_size, open_models, record_rows
from .stored_probes import kept_probe, question

if TYPE_CHECKING:
    import os

AXIS = "layer"
NO_SPREAD = "every group of examples has the same outcome"
SELECTIVITY = "difference, selectivity"


@checked
def probing(
    encoder: Any,
    on: Any,
    target: str = "upos",
    *,
    others: Sequence[Any] = (),
    twin: bool = True,
    control: bool | int = False,
    probe: str | None = None,
    layers: str | Sequence[str] = "single",
    train_size: int | None = None,
    seeds: Sequence[int] = (0,),
    steps: int | None = None,
    size: int | None = None,
    level: float = 0.95,
    store: str | os.PathLike[str] | None = None,
    device: str | None = None,
    progress: Progress | None = None,
    command: str = "",
) -> Result:
    """
    Read something out of every layer of a model, and say how well it can be read.

    All layers are probed at once, from one run of the model over the corpus. Models are probed on the same
    words, so that their layers can be compared word by word.

    Parameters
    ----------
    encoder : Encoder, hub id or folder
        The one that others are compared with.
    on : path, Corpus, or mapping of str to them
        With the annotation: a file, a folder of files that name their splits, or one for each split.
    target : str
        What to read: a name of `microtome.probes.targets.TARGETS`.
    others : sequence of Encoder, hub id or folder
        Such as fine-tuned ones.
    twin : bool
        Whether the encoder with weights drawn anew is probed too: what its layers give is no knowledge.
    control : bool or int
        Whether labels drawn at random for each type of word or span are read too: what a probe can learn by
        heart. A number is how often they are drawn, each time with another seed; intervals of several draws
        cover other draws, and those of one do not.
    probe : {"linear", "edge", "structural"}, optional
        How to read: labels of words by a linear readout, of spans by an edge probe, trees by a structural
        one, when absent. An edge probe can read labels of words too.
    layers : {"single", "upto", "mix"}, or several of them
        What an edge probe reads: every layer alone; for every l the mix of layers 0..l, with weights that it
        learns; or the mix of all layers.
    train_size : int, optional
        Learn from so many sentences at most.
    seeds : sequence of int
        Of probes that begin at random.
    steps : int, optional
        Updates of an edge probe at most; as published when absent.
    size : int, optional
        Principal components of a layer, of features of variance 1, that a linear probe sees: a smaller probe
        learns less by heart. The whole layer when absent.
    level : float
        Of intervals and bands.
    store : path, optional
        The folder of the store: layers are recorded there with what probes of them answered, and read when
        they are asked for again.
    device : str, optional
        Where the probes are trained, and where models that are given by their folders run.
    progress : callable, optional
    command : str
        What a user types to do it again.

    Returns
    -------
    Result
        A curve over layers for each model, for the random twin and for control labels, and apart for each
        of `layers`; differences from
        layer 0, of each other model from the first, and from control labels (selectivity); what can be had
        without any layer as lines.

    References
    ----------
    Merchant et al. 2020; Hewitt and Liang 2019; Hewitt and Manning 2019; Tenney et al. 2019.
    """
    started = time.monotonic()
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    if not seeds or len(set(seeds)) < len(seeds):
        raise must("seeds", "one or more, each once", list(seeds))
    if control < 0:
        raise must("control", "a number of draws", control)
    kinds, draws = check_kinds(layers), int(control)
    annotated = read_target(on, target)
    chosen = find_probe(annotated, probe, kinds, draws > 0, seeds=seeds, steps=steps, size=size)
    models = open_models(encoder, others, twin, device)
    check_size(size, models)
    asked, recorded, names = record_rows(
        annotated, models, chosen, train_size, seeds, device, store, progress, command=command
    )
    stacks = {name: one.X for name, one in recorded.items()}
    run, shelf = chosen.function(), Shelf(store)
    every: dict[str, dict[str, Probed]] = {}
    controls: dict[str, dict[str, Probed]] = {}
    for kind in kinds:
        every[kind], controls[kind] = {}, {}
        for place, (name, X) in enumerate(stacks.items()):
            if progress is not None:
                progress(f"probing {name}", place, len(stacks))
            reading = replace(
                recorded[name].asked, steps=steps, size=size, progress=progress, inputs=LAYERS[kind]
            )
            rows = recorded[name].address

            def read(one: Asked, X: np.ndarray = X, rows: str = rows) -> Probed:
                return kept_probe(shelf, question(one, chosen.name), rows, lambda: run(one, X), command)

            every[kind][called(name, kind)] = read(reading)
            if draws and name in names:
                drawn = [read(one) for one in control_questions(reading, draws)]
                controls[kind][called(name, kind)] = over_draws(drawn)
    curves: list[Curve] = []
    said: list[str] = []
    first = next(iter(every[kinds[0]].values()))
    for kind, found in every.items():
        labels = [called(name, kind) for name in names]
        made = _curves(found, controls[kind], labels, level, draws)
        drawn = [_with_unit(one, asked, chosen, several=draws > 1) for one in made]
        curves += drawn
        said += layer_findings(drawn, labels, first.score, target, kind=kind, lines=first.lines)
        said += mix_findings(found, labels, kind)
    facts = more_facts(every)
    said += length_findings(facts, names)
    return Result(
        experiment="probing",
        model=", ".join(names),
        task=target,
        split=asked.split,
        score=first.score.name,
        points=first.score.points,
        higher_is_better=first.score.higher_is_better,
        curves=tuple(curves),
        lines=first.lines,
        rows=tuple(row for kind, found in every.items() for row in probe_rows(kind, found, controls[kind])),
        findings=(*said, *said_lines(first.lines)),
        methods=methods_of(
            asked,
            chosen,
            names,
            twin=twin,
            control=draws,
            level=level,
            kinds=kinds,
            steps=steps,
            size=size,
        ),
        references=cited("merchant2020", chosen.cites, *(["tenney2019pipeline"] if "upto" in kinds else [])),
        warnings=tuple(
            dict.fromkeys(
                note
                for note in (
                    asked.few,
                    *depth_notes(stacks, names),
                    *(one.note for found in every.values() for one in found.values()),
                )
                if note
            )
        ),
        more=MappingProxyType(
            {
                "target": target,
                "probe": chosen.name,
                "layers": list(kinds),
                "size": size,
                "sentences": sizes_of(asked),
                **mix_facts(every),
                **facts,
            }
        ),
        provenance=probe_provenance(
            asked,
            models,
            started=started,
            seeds=list(seeds),
            train_size=train_size,
            control=draws,
            steps=steps,
            size=size,
            device=device or "cpu",
            command=command,
        ),
    )


def probe_provenance(
    asked: Asked, models: Mapping[str, Any], *, started: float, **more: Any
) -> Mapping[str, Any]:
    """
    Say what it takes to make a result again.

    Parameters
    ----------
    asked : Asked
    models : mapping of str to Encoder
    started : float
        When, by the monotonic clock.
    **more
        Other facts.

    Returns
    -------
    mapping
    """
    return MappingProxyType(
        provenance(
            {
                "models": {name: one.digest for name, one in models.items()},
                "corpus": asked.annotated.source,
                "texts": [dict(one) for one in asked.annotated.texts],
                "rows": {"count": len(asked.examples), "digest": asked.digest},
                **more,
                "seconds": round(time.monotonic() - started, 3),
            }
        )
    )


def _curves(
    found: dict[str, Probed], controls: dict[str, Probed], names: Sequence[str], level: float, draws: int
) -> list[Curve]:
    first = found[names[0]]
    told = {"axis": AXIS, "level": level}
    curves = []
    for name, one in found.items():
        curves.append(score_curve(name, one.x, one.answers, one.score, one.labels, **told))
    for name, one in controls.items():
        curves.append(score_curve(f"{CONTROL}, {name}", one.x, one.answers, one.score, one.labels, **told))
    for name in names:
        one = found[name]
        if one.x[0] != 0:
            continue
        curves.append(
            difference_curve(
                f"difference, {name} from its layer 0",
                one.x,
                one.answers,
                one.answers[0],
                one.score,
                one.labels,
                **told,
            )
        )
    for name, one in controls.items():
        # Two questions about the same words: how much oftener the true one is answered rightly.
        true = beside_draws(rightness(found[name]), one)
        alike = draws == 1 or true.answers[0].seeds == one.answers[0].seeds
        curves.append(
            layer_differences(
                f"{SELECTIVITY} of {name}", true, rightness(one), level, one.score, pair_seeds=alike
            )
        )
    for name in [*names[1:], *(name for name in found if name.startswith(TWIN))]:
        other = found[name]
        if len(other.answers) == len(first.answers):
            curves.append(
                layer_differences(f"difference, {name} from {names[0]}", other, first, level, first.score)
            )
    return curves


def layer_differences(
    name: str, one: Probed, other: Probed, level: float, score: Score, *, pair_seeds: bool = True
) -> Curve:
    """
    Subtract the scores of one model's layers from those of another's, word by word.

    Parameters
    ----------
    name : str
    one, other : Probed
        With as many layers, on the same examples.
    level : float
    score : Score
    pair_seeds : bool
        Whether a seed of one belongs to the same seed of the other, where there are several; a draw of
        control labels belongs to none.

    Returns
    -------
    Curve
        The band is Bonferroni's: each point at a level that holds for all of them. Seeds count with as many
        degrees of freedom as there are, also at a layer where they agree by luck.
    """
    count = len(one.answers)
    pairs: list[tuple[Answers, Answers]] = list(zip(one.answers, other.answers, strict=True))
    alone, together = (
        [
            compare_scores(
                score, a, b, one.labels, level=each, pair_seeds=pair_seeds and len(a.predictions) > 1
            )
            for a, b in pairs
        ]
        for each in (level, 1 - (1 - level) / count)
    )
    widest = score.range[1] - score.range[0]

    def end(given: Sequence[Any], side: str) -> np.ndarray:
        ends = [getattr(each.interval, side) if each.interval else np.nan for each in given]
        return np.clip(np.array(ends, dtype=float), -widest, widest)

    return Curve(
        name=name,
        axis=AXIS,
        x=one.x,
        values=np.array([each.difference for each in alone]),
        low=end(alone, "low"),
        high=end(alone, "high"),
        band_low=end(together, "low"),
        band_high=end(together, "high"),
        level=level,
        unit=next((each.interval.unit for each in alone if each.interval), "example"),
        n=alone[0].n,
        seeds=tuple(len(a.predictions) for a, _ in pairs),
        reasons=tuple(None if each.interval else NO_SPREAD for each in alone),
        note="The band is Bonferroni's over the layers.",
    )


def _with_unit(curve: Curve, asked: Asked, probe: Probe, *, several: bool) -> Curve:
    """Call the unit by its name: what an example is, what clusters examples, and what was drawn, is known."""
    alone = "word" if probe.kind == "words" else "sentence"
    said = curve.unit.replace("group of examples", asked.unit).replace("example", alone)
    if several and curve.name.startswith((f"{CONTROL}, ", SELECTIVITY)):
        said = said.replace("seed", "draw of control labels")
    return replace(curve, unit=said)
