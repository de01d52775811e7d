"""Change experiment (Merchant et al. 2020): similarity of every layer before and after fine-tuning."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from ...context import Context
from ...errors import must
from ...extraction.texts import Texts
from ...findings.results import Curve, Result
from ...measures.table import chosen_all
from ...rows.cost import row_cost
from ...rows.planning import Rows
from ..base import Experiment, Plan, as_function, option
from ..cell_errors import Points, points_of
from ..citations import cited
from ..inputs import RowSelection, TextOptions
from ..layer_similarity import compare_layers, plan_text, record_models
from ..tuned_models import (
    RANDOM,
    SEEDS,
    TUNED,
    MeasureOptions,
    TunedModels,
    TunedOptions,
    change_methods,
    layer_curve,
    long_table,
    series_of,
    text_provenance,
)
from .claims import beyond_seeds, change_center, mean_levels


def _read_count(typed: str) -> int:
    if not typed.isdigit():
        raise must("--random-baselines", "a whole number of at least 0", typed)
    return int(typed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeInputs:
    """
    What a change experiment has opened.

    Parameters
    ----------
    models : TunedModels
    texts : Texts
    rows : Rows
    """

    models: TunedModels
    texts: Texts
    rows: Rows


@dataclass(frozen=True, kw_only=True)
class LayerChange(MeasureOptions, RowSelection, TextOptions, TunedOptions, Experiment):
    """
    Compare each layer before and after fine-tuning, with a second seed and a random model as references.

    The same sentences go through all models. The similarity of two models that were fine-tuned with different
    seeds is the upper reference, that of the base and a randomly initialized copy of it the lower one. The
    result has for each measure curves over layers: "base to tuned", "between seeds", "base to random twin",
    and "difference, base to tuned minus between seeds". `more["change"]` says where the change is,
    `more["average"]` has means over layers, and `more["tuned_on"]` the task of the tuned models (Merchant et
    al. 2020).

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> tuned = mt.finetune(base, task, epochs=1)
    >>> sentences = ["Dogs bark.", "A cat sleeps.", "It rains."] * 10
    >>> result = mt.change(base, tuned, on=sentences, measures="debiased_cka")
    >>> result.curves[0].name
    'debiased_cka: base to tuned'
    """

    name = "change"

    random_baselines: Any = option(
        "Number of randomly initialized copies of the base, as the lower reference (1 when absent); in "
        "Python also models.",
        1,
        most=1_000,
        read=_read_count,
        metavar="N",
    )

    def plan(self, context: Context) -> Plan:
        """Open models and text, and find the rows that are compared."""
        chosen_all(self.measures)
        texts = self.texts()
        models = self.open_tuned(context, self.random_baselines, self.seed)
        rows = plan_text(models.all, texts, self.row_options(self.longest))
        sentence, summary = row_cost(list(models.all.values()), rows, storage=self.storage)
        inputs = ChangeInputs(models=models, texts=texts, rows=rows)
        return Plan(name=texts.name, summary=summary, sentence=sentence, inputs=inputs)

    def run(self, plan: Plan, context: Context) -> Result:
        """Record the rows, compare the layers, and describe the change."""
        started, inputs, level = time.monotonic(), plan.inputs, context.level
        models, texts = inputs.models, inputs.texts
        recorded = record_models(models.all, texts, inputs.rows, storage=self.storage, context=context)
        similarities = compare_layers(recorded, self.measures, **self.comparing(context))
        curves: list[Curve] = []
        findings: list[str] = []
        more: dict[str, Any] = {
            "tuned_on": models.task,
            "layers": list(recorded.layers),
            "change": {},
            "average": {},
        }
        for label, similarity in similarities.items():
            series = series_of(similarity, models)
            limits: dict[str, Any] = {"level": level, "bounds": similarity.bounds}
            points = {name: points_of(sample, **limits) for name, sample in series.items()}
            average = {name: points_of(sample.mean(), **limits) for name, sample in series.items()}
            more["average"][label] = {name: mean.plain() for name, mean in average.items()}
            curves += [layer_curve(f"{label}: {name}", recorded, curve) for name, curve in points.items()]
            findings.append(mean_levels(label, average, recorded.unit))
            if SEEDS in series:
                beyond = points_of(series[TUNED].together(), series[SEEDS], level=level)
                note = "similarity of base and tuned minus that of two seeds, for these models"
                about = f"{TUNED} minus {SEEDS}"
                facts: dict[str, Any] = {"role": "difference", "label": f"{label}: {about}", "against": SEEDS}
                curves.append(
                    layer_curve(f"{label}: difference, {about}", recorded, beyond, note=note, **facts)
                )
                findings += beyond_seeds(label, beyond, recorded.layers)
            center, sentence = change_center(label, series[TUNED], recorded, level)
            more["change"][label] = {**center, "rescaled": _rescaled(points)}
            findings.append(sentence)
        return Result(
            experiment=self.name,
            model=models.base.name,
            task=models.task_of(texts.name),
            split=texts.name,
            score="similarity",
            points=1.0,
            curves=tuple(curves),
            rows=tuple(long_table(similarities)),
            findings=tuple(findings),
            methods=change_methods(models, [recorded], list(similarities), self.halves, level),
            references=cited("merchant2020", measures=self.measures),
            warnings=(*recorded.warnings, *_warnings(models)),
            more=MappingProxyType(more),
            provenance=MappingProxyType(
                text_provenance(
                    [recorded], [texts], context, started=started, seeds=list(models.seeds), seed=self.seed
                )
            ),
        )


change = as_function(LayerChange, "change")


def _rescaled(points: Mapping[str, Points]) -> list[float] | None:
    """Similarity rescaled to 0 at the lower and 1 at the upper reference, by layer."""
    if not {SEEDS, RANDOM} <= set(points):
        return None
    low, high = points[RANDOM].values, points[SEEDS].values
    room = high - low
    value = points[TUNED].values - low
    return np.where(room > 0, value / np.where(room > 0, room, 1.0), np.nan).tolist()


def _warnings(models: TunedModels) -> tuple[str, ...]:
    warnings = []
    if len(models.tuned) < 2:
        warnings.append(
            "There is no upper reference, and nothing can be said about other seeds: one fine-tuned model "
            "was given."
        )
    if not models.random:
        warnings.append("There is no lower reference: no random baseline was requested.")
    return tuple(warnings)
