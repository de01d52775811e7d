"""Change experiment (Merchant et al. 2020): similarity of every layer before and after fine-tuning."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...context import Context
from ...errors import must
from ...findings.claims.claim import Claim
from ...findings.results import Curve, Result
from ...findings.words import counted, coverage
from ...measures.table import chosen_all
from ...rows.planning import row_cost
from ..base import Experiment, Plan, as_function, option
from ..cell_errors import Points, Sample, points_of
from ..citations import cited
from ..comparison_options import RANDOM, SEEDS, TUNED, MeasureOptions, TextInputs, TunedModels, TunedOptions
from ..inputs import RowSelection, TextOptions
from ..layer_similarity import (
    LayerSimilarity,
    Recorded,
    compare_layers,
    plan_text,
    record_models,
)
from .claims import beyond_seeds_claims, center_claim


def _read_count(typed: str) -> int:
    if not typed.isdigit():
        raise must("--random-baselines", "a whole number of at least 0", typed)
    return int(typed)


@dataclass(frozen=True, kw_only=True)
class LayerChange(MeasureOptions, RowSelection, TextOptions, TunedOptions, Experiment):
    """
    Compare each layer before and after fine-tuning, with a second seed and a random model as references.

    The same sentences go through all models. The similarity of two models that were fine-tuned with different
    seeds is the upper reference, that of the base and a randomly initialized copy of it the lower one. The
    result has for each measure curves over layers: "base to tuned", "between seeds", "base to random
    baseline", and "difference, base to tuned minus between seeds". `more["change"]` says where the change is,
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
        "Number of randomly initialized copies of BASE, as the lower reference; 1 when absent.",
        1,
        most=1_000,
        read=_read_count,
        metavar="N",
        python="Also models.",
    )

    def plan(self, context: Context) -> Plan:
        """Open models and text, and find the rows that are compared."""
        chosen_all(self.measures)
        texts = self.texts()
        models = self.open_tuned(context, self.random_baselines, self.seed)
        rows = plan_text(models.all, texts, self.row_options(self.longest))
        sentence, summary = row_cost(list(models.all.values()), rows, storage=self.storage)
        inputs = TextInputs(models=models, texts=texts, rows=rows)
        return Plan(name=texts.name, summary=summary, sentence=sentence, inputs=inputs)

    def run(self, plan: Plan, context: Context) -> Result:
        """Record the rows, compare the layers, and describe the change."""
        started, level = time.monotonic(), context.level
        models, texts, rows = plan.inputs.models, plan.inputs.texts, plan.inputs.rows
        recorded = record_models(models.all, texts, rows, storage=self.storage, context=context)
        similarities = compare_layers(recorded, self.measures, **self.comparing(context))
        curves: list[Curve] = []
        claims: list[Claim] = []
        change: dict[str, Any] = {}
        average: dict[str, Any] = {}
        for measure, similarity in similarities.items():
            series = _series_of(similarity, models)
            limits: dict[str, Any] = {"level": level, "bounds": similarity.bounds}
            points = {name: points_of(sample, **limits) for name, sample in series.items()}
            means = {name: points_of(sample.mean(), **limits) for name, sample in series.items()}
            average[measure] = {name: mean.plain() for name, mean in means.items()}
            curves += [recorded.curve(f"{measure}: {name}", curve) for name, curve in points.items()]
            if SEEDS in series:
                beyond = points_of(series[TUNED].together(), series[SEEDS], level=level)
                curves.append(
                    recorded.curve(
                        f"{measure}: difference, {TUNED} minus {SEEDS}",
                        beyond,
                        note="similarity of base and tuned minus that of two seeds, for these models",
                        role="difference",
                        label=f"{measure}: {TUNED} minus {SEEDS}",
                        against=SEEDS,
                    )
                )
                claims += beyond_seeds_claims(measure, beyond, recorded)
            center, claim = center_claim(measure, series[TUNED], recorded, context, means=means)
            change[measure] = {**center, "rescaled": _rescaled(points)}
            claims.append(claim)
        return self.result(
            [recorded],
            [texts],
            context,
            started=started,
            model=models.base.name,
            task=models.task_of(texts.name),
            curves=curves,
            rows=[record for similarity in similarities.values() for record in similarity.records()],
            claims=claims,
            methods=change_methods(models, [recorded], list(similarities), self.halves, context),
            references=cited("merchant2020", measures=self.measures),
            warnings=_warnings(models),
            more={
                "tuned_on": models.task,
                "layers": list(recorded.layers),
                "change": change,
                "average": average,
            },
            made_from={"seeds": list(models.seeds)},
        )


change = as_function(LayerChange, "change")


def _series_of(similarity: LayerSimilarity, models: TunedModels) -> dict[str, Sample]:
    """
    Similarities of base and tuned, of two seeds, and of base and random baseline.

    Pairs of seeds share models and do not vary independently, so only their mean is given.
    """
    samples = {name: similarity.sample(pairs) for name, pairs in models.pairs.items()}
    return {name: sample.together() if name == SEEDS else sample for name, sample in samples.items()}


def change_methods(
    models: TunedModels, recorded: Sequence[Recorded], measures: Sequence[str], halves: int, context: Context
) -> str:
    """How models were compared, on one text or two, for the methods of a paper."""
    units = " or ".join(dict.fromkeys(f"{text.unit}s" for text in recorded))
    count = len(models.tuned)
    task = f" (on {models.task})" if models.task else ""
    random = "A randomly initialized copy of the base is the lower reference. " if models.random else ""
    return (
        f"{models.base.name} was compared with {counted(count, 'fine-tuned model')}{task} in "
        f"{len(recorded[0].layers)} layers by {' and '.join(measures)} (Merchant et al. 2020), on "
        f"{' and on '.join(dict.fromkeys(text.sentence for text in recorded))}. {random}Intervals of "
        f"{coverage(context.level)} are over {units}{' and fine-tuning seeds' if count > 1 else ''}: by "
        f"influence scores for debiased CKA (by a jackknife where there are few {units}) and by {halves} "
        "half-samples for RSA and similar measures; bands hold for all layers at once."
    )


def _rescaled(points: Mapping[str, Points]) -> list[float] | None:
    """Similarity rescaled to 0 at the lower and 1 at the upper reference, by layer."""
    if not {SEEDS, RANDOM} <= set(points):
        return None
    low, high = points[RANDOM].values, points[SEEDS].values
    room = high - low
    value = points[TUNED].values - low
    return np.where(room > 0, value / np.where(room > 0, room, 1.0), np.nan).tolist()


def _warnings(models: TunedModels) -> tuple[str, ...]:
    absent = {
        "There is no upper reference, and nothing can be said about other seeds: one fine-tuned model was "
        "given.": len(models.tuned) < 2,
        "There is no lower reference: no random baseline was requested.": not models.random,
    }
    return tuple(warning for warning, holds in absent.items() if holds)
