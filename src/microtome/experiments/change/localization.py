"""Localization experiment: what the similarity of layers owes to single neurons (Wu et al. 2020)."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...comparison.similarity import similarity_matrix
from ...comparison.structure import find_localization
from ...context import Context
from ...errors import InputError, SmallSampleWarning, must
from ...findings.claims.claim import Claim, Quantity, overlapping
from ...findings.localization import Localizations, localizations
from ...findings.results import Curve, Result
from ...findings.words import coverage
from ...inference.clusters import Clusters
from ...inference.estimate import Band
from ...inference.resampling import half_interval, half_plan
from ...rows.planning import plan_at_most, row_cost
from ...rows.selecting import KINDS, RowOptions, row_options
from ..base import Experiment, Plan, as_function, option
from ..cell_errors import Points
from ..citations import cited
from ..comparison_options import ComparisonOptions, TextInputs
from ..inputs import SAMPLE, LoadingOptions, RowSelection, TextOptions
from ..layer_similarity import Recorded, called, record_models

# SVCCA as the paper of Wu et al. 2020 describes it, and as its code has it.
SVCCAS = ("svcca", "svcca:scaling=standardize:inclusive=False")
# Rows that each half must have: of fewer, the correlations of rotated neurons are 1 but for rounding.
LEAST = 4
BEYOND, DESCRIBED, CODED = "beyond rotations", "published, as described", "published, as coded"


@dataclass(frozen=True, kw_only=True)
class LayerLocalization(ComparisonOptions, RowSelection, TextOptions, LoadingOptions, Experiment):
    """
    Score layers for what their similarity to others owes to single neurons, beyond rotated layers.

    The neuron similarity of two layers is set against its mean after random rotations of both, which keep
    everything but the axes. So the score needs no other measure and no z-score over a set of layers, and what
    many neurons or few rows add to any largest correlation is subtracted. The result has for each model the
    curves "beyond rotations", "published, as described" and "published, as coded" over layers, with intervals
    over documents or sentences; the last is in standard deviations over all layers compared (Wu et al. 2020
    for the published score).

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> sentences = ["Dogs bark.", "A cat sleeps.", "It rains."] * 10
    >>> result = mt.localize(base, on=sentences, rotations=2, halves=2)
    >>> [curve.name for curve in result.curves]
    ['masked: beyond rotations', 'masked: published, as described', 'masked: published, as coded']
    """

    name = "localization"

    models: Any = option(
        "Models: hub ids, folders or zoo:NAME.",
        argument=True,
        repeated=True,
        panel="Input",
        metavar="MODEL...",
        python="Also a mapping of names to models.",
    )
    rows: str | None = option(  # pyright: ignore[reportIncompatibleVariableOverride]
        "What one row is; token when absent, word with --published.",
        None,
        choices=tuple(KINDS),
        panel="Rows",
    )
    published: str | None = option(
        "Rows exactly as in a paper (Wu et al. 2020): last sub-words of words, no special tokens in the "
        "input, no repeated sentences, and all rows unless --sample differs from its default.",
        None,
        choices=("wu",),
        panel="Rows",
    )
    direction: str = option(
        "Which neurons are looked for: those of other layers in this one (in), or its own in others (out).",
        "in",
        choices=("in", "out"),
    )
    rotations: int = option("Number of random rotations of each pair of layers.", 5, least=2)
    halves: int = option(
        "Number of half-samples for intervals, all with the same rotations.",
        20,
        least=2,
        most=100_000,
        panel="Statistics",
    )

    def row_options(self, longest: int | None = None) -> RowOptions:
        """The rows; the paper took all words, so they are the default with `published`."""
        if self.published is None:
            kind, sample = self.rows or "token", self.sample
        elif self.direction != "in":
            raise must("direction", f"'in' with published={self.published!r}", self.direction)
        elif self.rows not in (None, "word"):
            raise must("rows", f"'word' with published={self.published!r}", self.rows)
        else:
            kind, sample = "word", None if self.sample == SAMPLE else self.sample
        return row_options(kind, sample=sample, longest=longest, seed=self.seed, published=self.published)

    def plan(self, context: Context) -> Plan:
        """Open models and text, and find the rows that all models have."""
        options, texts = self.row_options(self.longest), self.texts()
        models = self._open(context)
        rows = plan_at_most(texts.examples, list(models.values()), options)
        sentence, summary = row_cost(list(models.values()), rows, storage=self.storage)
        inputs = TextInputs(models=models, texts=texts, rows=rows)
        return Plan(name=texts.name, summary=summary, sentence=sentence, inputs=inputs)

    def _open(self, context: Context) -> dict[str, Any]:
        named = self.models if isinstance(self.models, Mapping) else None
        models = self.open_encoders(self.models if named is None else list(named.values()), context)
        names = [model.name for model in models] if named is None else [str(name) for name in named]
        if len(set(names)) < len(names):
            raise must("models", "one or more, named differently", names)
        return {name: called(model, name) for name, model in zip(names, models, strict=True)}

    def run(self, plan: Plan, context: Context) -> Result:
        """Record the rows, and score the layers on all rows and on half-samples."""
        started, inputs = time.monotonic(), plan.inputs
        recorded = record_models(
            inputs.models, inputs.texts, inputs.rows, storage=self.storage, same=False, context=context
        )
        names = [(model, layer) for model in recorded.activations for layer in recorded.layers_of(model)]
        if len(names) < 3:
            # Of two layers, each is compared with the other only, and published scores are the same for both.
            raise must("layers to localize", "at least 3, of all models together", len(names))
        units, halves = _halved(recorded, self.halves, self.seed)
        scores = self._score(recorded, names, None, context)
        resamples = []
        for place, half in enumerate(halves):
            leave_out = np.ones(len(recorded.rows), dtype=bool)
            leave_out[half] = False
            resamples.append(_readings(self._score(recorded, names, leave_out, context)))
            if context.progress is not None:
                context.progress("half-samples", place + 1, self.halves)
        readings = _readings(scores)
        notes = {CODED: f"both means z-scored over the {scores.coded.compared} layers of all models"}
        curves: list[Curve] = []
        bands: dict[str, Band] = {}
        for name, values in readings.items():
            replicates = np.stack([resample[name] for resample in resamples])
            band = half_interval(values, replicates, units=units, unit=recorded.unit)
            band = bands[name] = replace(band, level=context.level)
            blank = np.full(len(values), np.nan)
            for model in recorded.activations:
                places = [place for place, (owner, _) in enumerate(names) if owner == model]
                lines = [line[places] for line in (values, band.low, band.high, blank, blank, blank)]
                points = Points(*lines, level=context.level, models=1)
                facts = {"model": model, "arm": name, "note": notes.get(name, "")}
                curves.append(recorded.curve(f"{model}: {name}", points, layers_of=model, **facts))
        readings = {BEYOND: scores.beyond, "monte_carlo": scores.monte_carlo, **readings}
        table = [
            {"model": model, "layer": layer, **{name: float(v[k]) for name, v in readings.items()}}
            for k, (model, layer) in enumerate(names)
        ]
        return self.result(
            [recorded],
            [inputs.texts],
            context,
            started=started,
            model=", ".join(recorded.activations),
            score="localization",
            curves=curves,
            rows=[{k: v if v == v else None for k, v in row.items()} for row in table],
            claims=(_claim(scores, bands[BEYOND], _labels(names)),),
            methods=self._methods(recorded, context),
            references=cited("wu2020", measures=["neuron_correlation", "svcca"]),
            more={
                "layers": table,
                "agreement": scores.agreement,
                "agreement_described": scores.agreement_described,
                "rotations": self.rotations,
                "direction": self.direction,
                "published": self.published,
                "svcca": dict(zip((DESCRIBED, CODED), SVCCAS, strict=True)),
            },
        )

    def _score(
        self,
        recorded: Recorded,
        names: list[tuple[str, int]],
        leave_out: np.ndarray | None,
        context: Context,
    ) -> Localizations:
        layers = [recorded.layer(*name) for name in names]
        options: dict[str, Any] = {**self.computing(context), "leave_out": leave_out, "names": _labels(names)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallSampleWarning)
            rotated = find_localization(layers, rotations=self.rotations, **options)
            maps = similarity_matrix(layers, None, SVCCAS, **options)
        svcca, coded = (maps[name].values for name in SVCCAS)
        return localizations(svcca, coded, rotated, direction=self.direction)  # pyright: ignore[reportArgumentType]

    def _methods(self, recorded: Recorded, context: Context) -> str:
        return (
            f"Layers of {' and '.join(recorded.activations)} were compared by the mean largest absolute "
            f"correlation of single neurons on {recorded.sentence}. From "
            f"the value of each pair its mean over {self.rotations} random rotations of both layers was "
            f"subtracted, and the difference was averaged over the other layers (direction: "
            f"{self.direction}). Published scores (Wu et al. 2020) subtract the mean SVCCA instead: as "
            "described, of centered neurons up to the component that reaches 99 % of the variance; as coded, "
            "of standardized neurons with a component less, both means over the layers whose neurons are "
            f"looked for and z-scored over all layers. Intervals of {coverage(context.level)} are by "
            f"{self.halves} half-samples of {recorded.unit}s, all with the same rotations."
        )


localize = as_function(LayerLocalization, "localize")


def _labels(names: list[tuple[str, int]]) -> list[str]:
    return [f"{model}/{layer}" for model, layer in names]


def _readings(scores: Localizations) -> dict[str, np.ndarray]:
    """The three scores of all layers."""
    return {BEYOND: scores.beyond, DESCRIBED: scores.described.scores, CODED: scores.coded.scores}


def _claim(scores: Localizations, band: Band, labels: list[str]) -> Claim:
    """Claim where single neurons match best, with the published scores and how far they agree."""
    extremes = _extremes(scores.beyond, labels)
    near = [
        overlapping(scores.beyond, band.low, band.high, place) or ()
        for place in (int(np.nanargmax(scores.beyond)), int(np.nanargmin(scores.beyond)))
    ]
    published = _extremes(scores.coded.scores, labels)
    about = f"published score as coded, of {scores.coded.compared} layers compared,"
    beside = {
        **{f"in layer {name}": value for name, value in extremes.items()},
        **{f"{about} in layer {name}": value for name, value in published.items()},
        "rank correlation with the published score as described (no z-score)": scores.agreement_described,
        "as coded (z-scored)": scores.agreement,
    }
    return Claim(
        kind="single neurons",
        verdict="inconclusive" if any(near) else "holds",
        score="localization",
        points=1.0,
        beside={name: Quantity(value=value) for name, value in beside.items()},
        facts={
            "direction": scores.direction,
            "extremes": list(extremes),
            "overlapping": [[labels[k] for k in places] for places in near],
        },
    )


def _extremes(scores: np.ndarray, labels: list[str]) -> dict[str, float]:
    """The highest and the lowest score, by their layers."""
    return {labels[k]: float(scores[k]) for k in (np.nanargmax(scores), np.nanargmin(scores))}


def _halved(recorded: Recorded, halves: int, seed: int) -> tuple[int, list[np.ndarray]]:
    """How many units are independent, and the rows of every half of them; refused where one has too few."""
    count, ids = len(recorded.rows), recorded.clusters
    if count < 2 * LEAST:
        raise InputError(
            f"localization must have at least {2 * LEAST} rows, {LEAST} in every half, but got {count}."
        )
    units = Clusters.singletons(count) if ids is None else Clusters.from_ids(ids, noun=recorded.unit)
    plan = half_plan(units, halves, seed)
    fewest = min(len(half) for half in plan)
    if fewest < LEAST:
        raise InputError(
            f"localization must have at least {LEAST} rows in every half of its {recorded.unit}s, but got "
            f"{fewest} of {count} in one."
        )
    return len(units), plan
