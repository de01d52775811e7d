"""Tuning-method experiment: where the change is when all weights, adapters, biases or the head learn."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

from ...context import Context
from ...errors import InputError, MissingExtraError, must
from ...extraction.texts import Texts, make_texts
from ...findings.results import Curve, Result
from ...measures.table import chosen_all
from ...rows.planning import Rows
from ...scores.table import find_score
from ...tasks.corpus import split_corpus
from ...training.opening import open_model
from ...training.recipe import Recipe
from ...version import VERSION
from ..base import Plan, as_function, option
from ..cell_errors import Sample, center_of, points_of
from ..citations import cited
from ..grid import RECIPE_HELP, GridInputs, GridRuns, TrainingGrid
from ..inputs import TextOptions
from ..layer_similarity import Recorded, compare_layers, plan_text, record_models
from ..run_curves import counts, failures, rows_of
from ..runs import Done, Run
from ..tuned_models import BASE, MeasureOptions, layer_curve, text_provenance
from .claims import change_center, unit_text, value_text
from .learning_rates import (
    BEST,
    METHODS,
    WEAKEST,
    TunedMethod,
    check_match,
    check_methods,
    choose_rates,
    method_run,
    rates_of,
    read_match,
    score_documents,
    score_findings,
)

CITED: Mapping[str, str] = MappingProxyType({"lora": "hu2022", "bitfit": "benzaken2022"})


@dataclass(frozen=True, kw_only=True)
class TuningInputs(GridInputs):
    """
    What the experiment has opened.

    Parameters
    ----------
    texts : Texts
        To compare models on.
    rows : Rows
    """

    texts: Texts
    rows: Rows


@dataclass(frozen=True, kw_only=True)
class TuningMethods(MeasureOptions, TextOptions, TrainingGrid):
    """
    Fine-tune all weights, adapters, biases or the head to about one score, and see where each changes.

    Every learning rate is tried with the first seeds, and the one whose score is nearest to the target is
    trained with all seeds; the weights of all runs stay in the store. The result has for each measure and
    method the similarity of base and tuned over layers. `more["ways"]` has the rates that were tried, the
    score that was reached, how far it is from that of the first method, and the center of the change with its
    interval over seeds and documents or sentences (LoRA: Hu et al. 2022; BitFit: Ben Zaken et al. 2022).

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> settings = {"methods": ("full", "head"), "rates": {"full": [1e-4], "head": [1e-3]}, "epochs": 1}
    >>> result = mt.tuning_methods(base, task, seeds=[1], **settings)
    >>> [curve.name for curve in result.curves]
    ['debiased_cka: full', 'debiased_cka: head']
    """

    name = "tuning_ways"

    methods: Sequence[str] = option(
        "Weights that learn; methods are compared with the first.", METHODS, choices=METHODS
    )
    rates: Mapping[str, Any] = option(
        "Learning rates to try for a method; multiples of the recipe's when absent. May be repeated.",
        {},
        repeated=True,
        metavar="lora=1e-4,3e-4",
    )
    match: str | float = option(
        "Target score of all methods: weakest (the best score of the weakest method), best (each method's "
        "own best), or a number in points.",
        WEAKEST,
        read=read_match,
        metavar="SCORE",
    )
    trial_seeds: int = option("Number of seeds that every rate is tried with.", 1, least=1)
    on: Any = option(
        "Corpus to compare on; the task's validation split when absent.",
        None,
        panel="Input",
        metavar="CORPUS",
    )
    measures: str | Sequence[str] = option(
        "Names of `microtome ls measures`.", ("debiased_cka",), panel="Statistics", metavar="NAME,..."
    )
    recipe: str | Recipe = option(RECIPE_HELP, "wu2020")
    # Models are compared, so that their weights are needed.
    keep_models: ClassVar[bool] = True  # pyright: ignore[reportIncompatibleVariableOverride]

    def __post_init__(self) -> None:
        super().__post_init__()
        check_match(self.match)
        check_methods(self.methods, self.rates)
        if self.read and self.on is None:
            raise InputError("read must be given with on, but it is absent.")

    def grid(self, encoder: Any) -> list[Run]:
        """List the runs: all rates with the trial seeds, the first rate of each method with the others."""
        recipe, runs = self.chosen_recipe(), []
        for method in self.methods:
            for place, rate in enumerate(rates_of(method, self.rates, recipe.rate)):
                # Which rate is trained with all seeds is not known yet.
                seeds = self.seeds if place == 0 else self.seeds[: self.trial_seeds]
                runs += [method_run(method, rate, seed, self.train_size) for seed in seeds]
        return runs

    def plan(self, context: Context) -> Plan:
        """Open encoder, task and text, count the fine-tunings, and find the rows that are compared."""
        chosen_all(self.measures)
        if "lora" in self.methods:
            _check_peft()
        plan = super().plan(context)
        grid = plan.inputs
        if len(grid.tasks) > 1:
            raise must("task", "one", [task.name for task in grid.tasks])
        task = grid.tasks[0]
        texts = make_texts(split_corpus(task, task.validation)) if self.on is None else self.texts()
        rows = plan_text({BASE: grid.encoder}, texts, self.row_options(grid.recipe.longest))
        return replace(
            plan,
            sentence=f"{plan.sentence}; compared on {rows.sentence()}",
            summary={**plan.summary, "rows": len(rows)},
            inputs=TuningInputs(**vars(grid), texts=texts, rows=rows),
        )

    def run(self, plan: Plan, context: Context) -> Result:
        """Try the rates, fine-tune at the chosen ones with all seeds, and compare models with the base."""
        started, inputs, task = time.monotonic(), plan.inputs, plan.inputs.tasks[0]
        tried = self.fine_tune(inputs, 0, [run for run in inputs.runs if run.seed in self._trials], context)
        chosen = choose_rates(tried, task, self.match)
        runs = [
            method_run(method.name, method.rate, seed, self.train_size)
            for method in chosen.values()
            if method.tried
            for seed in self.seeds
        ]
        done = self.fine_tune(inputs, 0, runs, context)
        methods = {
            name: replace(method, done=tuple(run for run in done if run.run.arm == name and counts(run)))
            for name, method in chosen.items()
        }
        if not any(method.done for method in methods.values()):
            raise InputError("tuning methods must leave sound runs to compare, but all of them diverged.")
        # A run that was tried and then chosen is one.
        distinct = list({run.address: run for run in [*tried, *done]}.values())
        grid = GridRuns(
            encoder=inputs.encoder,
            task=task,
            done=distinct,
            recipe=inputs.recipe,
            settings={},
            context=context,
            started=started,
        )
        return self._result(methods, grid, inputs)

    @property
    def _trials(self) -> Sequence[int]:
        return self.seeds[: self.trial_seeds]

    def _result(self, methods: Mapping[str, TunedMethod], grid: GridRuns, inputs: TuningInputs) -> Result:
        task, context, level = grid.task, grid.context, grid.context.level
        sound = {name: method for name, method in methods.items() if method.done}
        models = {_name(run): _loader(run, context) for method in sound.values() for run in method.done}
        recorded = record_models(
            {BASE: inputs.encoder, **models}, inputs.texts, inputs.rows, storage=self.storage, context=context
        )
        similarities = compare_layers(
            recorded, self.measures, left=[BASE], right=list(models), **self.comparing(context)
        )
        documents = score_documents(task, methods, level)
        curves: list[Curve] = []
        findings = score_findings(task, documents)
        for label, similarity in similarities.items():
            samples = {
                name: similarity.sample([(BASE, _name(run)) for run in method.done])
                for name, method in sound.items()
            }
            for name, sample in samples.items():
                points = points_of(sample, level=level, bounds=similarity.bounds)
                curves.append(layer_curve(f"{label}: {name}", recorded, points))
                center, sentence = change_center(label, sample, recorded, level)
                documents[name].setdefault("change", {})[label] = center
                findings.append(f"{name[:1].upper()}{name[1:]} tuning. {sentence}")
            for name, (document, sentence) in _center_differences(label, samples, recorded, level).items():
                documents[name]["change"][label]["center_apart"] = document
                findings.append(sentence)
        return Result(
            experiment=self.name,
            model=grid.encoder.name,
            task=task.name,
            split=task.validation,
            score="similarity",
            points=1.0,
            curves=tuple(curves),
            rows=rows_of(grid.done, task=task.name),
            findings=tuple(findings),
            references=cited(
                *(CITED[method] for method in methods if method in CITED), measures=self.measures
            ),
            methods=self._methods(grid, recorded, [name for name, method in methods.items() if method.tried]),
            warnings=(*recorded.warnings, *_warnings(methods, self.seeds), *failures(grid.done)),
            more=MappingProxyType(
                {
                    "layers": list(recorded.layers),
                    "ways": documents,
                    "match": self.match,
                    "score": find_score(task.main).name,
                }
            ),
            provenance=MappingProxyType(
                text_provenance(
                    [recorded],
                    [inputs.texts],
                    context,
                    started=grid.started,
                    task=task.digest(task.validation),
                    task_source=task.source,
                    runs=[run.address for run in grid.done],
                    seeds=list(self.seeds),
                    seed=self.seed,
                )
            ),
        )

    def _methods(self, grid: GridRuns, recorded: Recorded, methods: Sequence[str]) -> str:
        targets = {WEAKEST: "the best score of the weakest method", BEST: "the best score of that method"}
        target = targets.get(str(self.match), f"{self.match} points")
        recipe = grid.recipe
        length = (
            f"at most {recipe.steps:,} updates" if recipe.steps is not None else f"{recipe.epochs:g} epochs"
        )
        trials = ", ".join(map(str, self._trials))
        return (
            f"{grid.encoder.name} was fine-tuned on {grid.task.title} by several tuning methods "
            f"({', '.join(_DESCRIPTIONS.get(method, method) for method in methods)}) with the recipe "
            f"{recipe.name} (batches of {recipe.batch}, {length}; seeds {', '.join(map(str, self.seeds))}), "
            f"each at a learning rate of its own: of a few rates, tried with seed {trials} and not above the "
            f"best of them, the one whose score is nearest to {target}. Base and tuned models were compared "
            f"on {recorded.rows.sentence()} of {recorded.rows.extent()}. The center of the change is the "
            f"mean layer, weighted by 1 - similarity; intervals of {grid.context.level * 100:g} % are over "
            f"{recorded.unit}s and seeds. Computed with microtome {VERSION}."
        )


tuning_methods = as_function(TuningMethods, "tuning_methods")

_DESCRIPTIONS = {
    "full": "all weights",
    "lora": "adapters of low rank (LoRA, Hu et al. 2022)",
    "bitfit": "biases (BitFit, Ben Zaken et al. 2022)",
    "head": "the head only",
}


def _check_peft() -> None:
    """Refuse adapters before anything is trained, where they cannot be."""
    try:
        import peft  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "the method lora must find peft; try `pip install microtome[lora]`, or leave it out of methods."
        ) from error


def _name(run: Done) -> str:
    return f"{run.run.arm} {run.run.seed}"


def _loader(run: Done, context: Context) -> Callable[[], Any]:
    folder: Path = run.folder
    return lambda: open_model(folder, context=context).encoder


def _center_differences(
    label: str, samples: Mapping[str, Sample], recorded: Recorded, level: float
) -> dict[str, tuple[dict[str, Any], str]]:
    """How far the center of the change of each method is from that of the first: plain data and sentence."""
    centers = {name: center_of(sample, recorded.layers) for name, sample in samples.items()}
    first = next(iter(centers))
    reference, differences = centers[first], {}
    for name, center in centers.items():
        if name == first or center is None or reference is None:
            continue
        # Models of two methods are not pairs for having equal seeds.
        difference = points_of(center, reference, level=level, pair_models=False)
        low, high = float(difference.low[0]), float(difference.high[0])
        side = "above" if low > 0 else "below" if high < 0 else ""
        start = (
            f"By {label}, the change of {name} is {side} that of {first}"
            if side
            else f"By {label}, the center of the change of {name} is not significantly different from that "
            f"of {first}"
        )
        sentence = (
            f"{start}: centers differ by {value_text(difference, 2)} layers ({level * 100:g} %, unit: "
            f"{unit_text(recorded.unit, difference)})."
        )
        differences[name] = {"from": first, **difference.plain(tested=True)}, sentence
    return differences


def _warnings(methods: Mapping[str, TunedMethod], seeds: Sequence[int]) -> tuple[str, ...]:
    warnings = [
        f"{name} was left out: no run of it is sound." for name, method in methods.items() if not method.done
    ]
    if len(seeds) < 2:
        warnings.append("Nothing can be said about other seeds: there is one model per method.")
    return tuple(warnings)
