"""Domain experiment (Merchant et al. 2020): change on sentences of the task and on others of equal length."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...context import Context
from ...errors import InputError
from ...extraction.texts import make_texts
from ...findings.claims.claim import Claim
from ...findings.results import Curve, Result
from ...findings.words import counted
from ...measures.table import chosen_all
from ..base import Experiment, Pieces, Plan, as_function, option
from ..cell_errors import Sample, apart, points_of
from ..citations import cited
from ..comparison_options import BASE, TUNED, MeasureOptions, TextInputs, TunedModels, TunedOptions
from ..inputs import RowSelection, open_texts
from ..layer_similarity import Recorded, compare_layers, plan_text, record_models
from .change import change_methods
from .claims import domain_claim
from .length_matching import TEMPLATES, match_lengths


@dataclass(frozen=True, kw_only=True)
class Domains(MeasureOptions, RowSelection, TunedOptions, Experiment):
    """
    Compare the change on sentences of the task with that on other sentences, paired at equal length.

    Every input of one text is paired with one of the other that has as many tokens, in the same template,
    so that neither length nor form distinguishes the two. The difference is tested over these pairs or, where
    a text has documents, over those. The result has for each measure the similarity of base and tuned in
    every layer on both texts, and "difference, out of domain from in domain"; `more["average"]` has the mean
    difference over layers, with its p (Merchant et al. 2020).

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> tuned = mt.finetune(base, task, epochs=1)
    >>> sentences = ["Dogs bark.", "A cat sleeps.", "It rains."] * 10
    >>> result = mt.domains(base, tuned, sentences, sentences[::-1], measures="debiased_cka")
    >>> [curve.name for curve in result.curves[:2]]
    ['debiased_cka: in domain', 'debiased_cka: out of domain']
    """

    name = "domains"

    inside: Any = option(
        "Sentences of the task: a file, a folder, hub:ID or task:NAME/SPLIT.",
        panel="Input",
        metavar="CORPUS",
    )
    outside: Any = option(
        "Other sentences: a file, a folder, hub:ID or task:NAME/SPLIT.", panel="Input", metavar="CORPUS"
    )
    read_inside: Mapping[str, str] = option(
        "Option of the reader of --inside, such as column.text=sentence. May be repeated.",
        {},
        panel="Input",
        repeated=True,
        metavar="NAME=VALUE",
        example="column.text=sentence",
    )
    read_outside: Mapping[str, str] = option(
        "Option of the reader of --outside. May be repeated.",
        {},
        panel="Input",
        repeated=True,
        metavar="NAME=VALUE",
        example="column.text=sentence",
    )
    template: str = option(
        "Whether an input is one sentence or a pair of them.", "single", choices=TEMPLATES, panel="Rows"
    )

    def plan(self, context: Context) -> Plan:
        """Open models and texts, pair their inputs, and find the rows that are compared."""
        chosen_all(self.measures)
        corpora = open_texts(self.inside, self.read_inside), open_texts(self.outside, self.read_outside)
        models = self.open_tuned(context)
        matched = match_lengths(
            models.base, *corpora, template=self.template, longest=self.longest, seed=self.seed
        )
        options = self.row_options(self.longest)
        inside, outside = (
            TextInputs(models=models, texts=texts, rows=plan_text(models.all, texts, options))
            for texts in (make_texts(matched.first), make_texts(matched.second))
        )
        if not np.array_equal(np.unique(inside.rows.examples), np.unique(outside.rows.examples)):
            raise InputError(
                "both texts must have rows of the same inputs to be paired, but the sampled rows are of "
                "different ones; use rows='token', or sample=None."
            )
        names, pairs = [model.name for model in models.all.values()], len(matched.lengths)
        counts = f"{counted(len(names), 'model')}, {counted(pairs, 'pair')} of inputs"
        return Plan(
            name=corpora[0].name,
            summary={"models": names, "pairs": pairs, "rows": [len(inside.rows), len(outside.rows)]},
            sentence=f"{counts}. {matched.sentence()}",
            inputs=(models, corpora, matched, (inside, outside)),
        )

    def pieces(self, plan: Plan, context: Context) -> Pieces:
        """The rows of each model on each text."""
        *_, sides = plan.inputs
        inside, outside = (self.recordings(side, context) for side in sides)
        return {**inside, **{f"{name}, out of domain": piece for name, piece in outside.items()}}

    def run(self, plan: Plan, context: Context) -> Result:
        """Record the rows of both texts, compare the layers, and test the difference."""
        started, level = time.monotonic(), context.level
        models, corpora, matched, matched_texts = plan.inputs
        inside, outside = (
            record_models(models.all, side.texts, side.rows, storage=self.storage, context=context)
            for side in matched_texts
        )
        unit = " or ".join(dict.fromkeys((inside.unit, outside.unit)))
        paired = _paired(inside, outside)
        sides = [
            compare_layers(
                recorded, self.measures, left=[BASE], right=list(models.tuned), **self.comparing(context)
            )
            for recorded in (inside, outside)
        ]
        curves: list[Curve] = []
        claims: list[Claim] = []
        average: dict[str, Any] = {}
        for measure, similarity in sides[0].items():
            inner, outer = (side[measure].sample(models.pairs[TUNED]) for side in sides)
            limits: dict[str, Any] = {"level": level, "bounds": similarity.bounds}
            samples: tuple[Sample, Sample] = (outer, inner) if paired else apart(outer, inner)
            difference = points_of(*samples, level=level)
            mean = points_of(*(sample.mean() for sample in samples), level=level)
            curves += [
                inside.curve(f"{measure}: in domain", points_of(inner, **limits)),
                outside.curve(f"{measure}: out of domain", points_of(outer, **limits)),
                inside.curve(
                    f"{measure}: difference, out of domain from in domain",
                    difference,
                    unit=unit,
                    note=f"out of domain minus in domain, {'pair by pair' if paired else 'at equal lengths'}",
                    role="difference",
                    label=f"{measure}: out of domain from in domain",
                    against="in domain",
                ),
            ]
            average[measure] = {
                "in domain": points_of(inner.mean(), **limits).plain(),
                "out of domain": points_of(outer.mean(), **limits).plain(),
                "difference": mean.plain(tested=True),
            }
            claims.append(domain_claim(measure, mean, difference, inside, unit))
        methods = change_methods(models, [inside, outside], list(sides[0]), self.halves, context)
        return self.result(
            [inside, outside],
            corpora,
            context,
            started=started,
            model=models.base.name,
            task=models.task_of(corpora[0].name),
            split=" against ".join(texts.name for texts in corpora),
            curves=curves,
            rows=[
                {"domain": name, **record}
                for name, side in zip(("in", "out"), sides, strict=True)
                for similarity in side.values()
                for record in similarity.records()
            ],
            claims=claims,
            methods=f"{methods} {matched.sentence()}",
            references=cited("merchant2020", measures=self.measures),
            warnings=_warnings(inside, outside, models),
            more={
                "tuned_on": models.task,
                "layers": list(inside.layers),
                "average": average,
                "matched": {
                    "pairs": len(matched.lengths),
                    "given": list(matched.given),
                    "tokens": float(np.mean(matched.lengths)),
                    "tokens_before": list(matched.before),
                    "template": self.template,
                },
            },
            made_from={"seeds": list(models.seeds)},
        )


domains = as_function(Domains, "domains")


def _paired(inside: Recorded, outside: Recorded) -> bool:
    """
    Whether the units of two texts are pairs.

    A pair of inputs is one unit where inputs are; documents of two texts have nothing to do with each other,
    unless they are the same ones. Inputs of equal length are positively correlated, if at all, so that taking
    them as independent makes the interval of a difference rather too wide.
    """
    return inside.unit == outside.unit and (
        inside.unit != "document" or inside.rows.groups == outside.rows.groups
    )


def _warnings(inside: Recorded, outside: Recorded, models: TunedModels) -> tuple[str, ...]:
    warnings = [
        f"{side}: {warning[0].lower()}{warning[1:]}"
        for side, recorded in (("In domain", inside), ("Out of domain", outside))
        for warning in recorded.warnings
    ]
    if len(models.tuned) < 2:
        warnings.append("Nothing can be said about other seeds: one fine-tuned model was given.")
    return tuple(warnings)
