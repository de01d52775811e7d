"""How far did each layer move in tuning? On common sentences, on those of the task; for tuned_layers.py."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tuned_layers_job import MEASURES, Job, recipe_of
from zoo_job import head_of, once, open_task

BANDS = ("values", "low", "high", "band_low", "band_high")


def plain_curve(curve: Any) -> dict[str, Any]:
    """What is kept of a curve."""
    return {"x": list(curve.x), "unit": curve.unit, **{name: getattr(curve, name).tolist() for name in BANDS}}


def common_sentences(options: Mapping[str, Any]) -> list[Any]:
    """Sentences that all models read: the first of the development part of the treebank."""
    import microtome as mt

    def read() -> list[Any]:
        (path,) = sorted(Path(options["treebank"]).glob("*-dev.conllu*"))
        return list(mt.corpus(str(path)))

    return once(("sentences", options["treebank"]), read)[: options["sentences"]]


def changes(encoder: Any, runs: Sequence[Any], options: Mapping[str, Any], aside: Path) -> dict[str, Any]:
    """Similarity of base and tuned in every layer, between two seeds and a random baseline."""
    import microtome as mt

    found = mt.change(
        encoder,
        [run.encoder for run in runs],
        common_sentences(options),
        measures=MEASURES,
        sample=options["rows"],
        halves=options["halves"],
        store=aside,
        device=options["device"],
    )
    curves = {curve.name: curve for curve in found.curves}
    out: dict[str, Any] = {}
    for label in MEASURES:
        names = {"tuned": "base to tuned", "seeds": "between seeds", "twin": "base to random baseline"}
        told = {key: curves.get(f"{label}: {name}") for key, name in names.items()}
        tuned = told["tuned"]
        assert tuned is not None
        average, where = found.more["average"][label], found.more["change"][label]
        out[label] = {
            "curves": {key: plain_curve(curve) for key, curve in told.items() if curve is not None},
            "mean": {key: average[name] for key, name in names.items() if name in average},
            **{
                key: {"value": tuned.values[at], "low": tuned.low[at], "high": tuned.high[at]}
                for key, at in (("middle", encoder.depth // 2), ("last", encoder.depth))
            },
            "top_share": where["top_share"],
            "center": where["center"],
            "n": tuned.n,
        }
    return {"measures": out, "said": list(found.findings), "methods": found.methods}


def inside_texts(job: Job, options: Mapping[str, Any]) -> list[Any]:
    """Inputs of the task; of a passage the sentence with the answer, since others have no passages."""
    from microtome.corpora.examples import Example

    task = open_task(job.what, options["data"])
    made = []
    for item in task.split(task.validation):
        first, second = (*item.texts, None)[:2]
        if task.kind == "span" and second is not None:
            place = item.target[0][0] if item.target else 0
            ends = [0, *(found.end() for found in re.finditer(r"[.!?]\s+", second)), len(second)]
            start = max(end for end in ends if end <= place)
            second = second[start : min((end for end in ends if end > start), default=len(second))].strip()
        # Examples that share a text, such as questions about one passage, are not independent.
        made.append(Example(id=item.id, text=first, pair=second, group=item.group))
    return made


def domain_changes(
    job: Job, encoder: Any, runs: Sequence[Any], options: Mapping[str, Any], aside: Path
) -> dict[str, Any]:
    """Whether sentences of the task changed more than others, at equal length and in one form."""
    import microtome as mt

    inside = inside_texts(job, options)
    found = mt.domains(
        encoder,
        [run.encoder for run in runs],
        inside,
        common_sentences(options),
        template="single" if inside[0].pair is None else "pair",
        measures=MEASURES,
        sample=options["rows"],
        halves=options["halves"],
        store=aside,
        device=options["device"],
    )
    curves = {
        label: {
            key: plain_curve(next(one for one in found.curves if one.name == f"{label}: {name}"))
            for key, name in (("in", "in domain"), ("out", "out of domain"))
        }
        for label in MEASURES
    }
    return {"average": found.more["average"], "matched": found.more["matched"], "curves": curves}


def frozen(job: Job, encoder: Any, options: Mapping[str, Any]) -> dict[str, Any]:
    """Scores with the bottom frozen: nothing, half of the blocks, all but two."""
    from microtome.experiments.surgery.freezing import freeze
    from microtome.training.models.stock import SEQUENCE

    task = open_task(job.what, options["data"])
    found = freeze(
        encoder,
        task,
        ks=sorted({0, encoder.depth // 2, max(0, encoder.depth - 2)}),
        parts="bottom",
        seeds=options["seeds"],
        recipe="merchant2020",
        measure_time=False,
        head=head_of("cls1", encoder) if task.kind in SEQUENCE else "stock",
        dtype=options["precision"],
        device=options["device"],
        store=options["store"],
        keep_models=options["keep_models"],
        command=options["command"],
        **recipe_of(options),
    )
    return {curve.name: plain_curve(curve) for curve in found.curves}
