"""Tuning-method experiment: where the change is when all weights, adapters, biases or the head learn."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from ...context import Context
from ...errors import InputError, MissingExtraError, must
from ...extraction.texts import make_texts
from ...findings.results import Result
from ...findings.words import coverage
from ...measures.table import chosen_all
from ...scores.table import find_score
from ...tasks.corpus import split_corpus
from ...tasks.task import Task
from ...training.recipe import Recipe
from ..base import Pieces, Plan, as_function, option
from ..cell_errors import points_of
from ..citations import cited
from ..comparison_options import BASE, MeasureOptions, TextInputs
from ..grid import RECIPE_HELP, GridInputs, TrainingGrid
from ..inputs import TextOptions
from ..layer_similarity import Recorded, compare_layers, plan_text, record_models
from ..run_curves import counts, failures, rows_of
from ..runs import Done, Run
from .claims import center_claim, center_difference, side_of
from .learning_rates import (
    BEST,
    METHODS,
    WEAKEST,
    TunedMethod,
    check_match,
    check_methods,
    choose_rates,
    compare_methods,
    method_run,
    rates_of,
    read_match,
)


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
        "Which weights learn; other methods are compared with the first.",
        tuple(METHODS),
        choices=tuple(METHODS),
    )
    rates: Mapping[str, Any] = option(
        "Learning rates to try for a method, such as lora=1e-4,3e-4; multiples of the recipe's when absent. "
        "May be repeated.",
        {},
        repeated=True,
        metavar="METHOD=X,...",
        example="lora=1e-4,3e-4",
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
        if self.trial_seeds > len(self.seeds):
            raise must("trial_seeds", f"at most the number of seeds, {len(self.seeds)}", self.trial_seeds)

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
            inputs=(grid, TextInputs(models={BASE: grid.encoder}, texts=texts, rows=rows)),
        )

    def pieces(self, plan: Plan, context: Context) -> Pieces:
        """The trials of the rates; then the other seeds of the rates that follow; then rows of the models."""
        grid, text = plan.inputs
        trials = self.trainer(grid, 0, context).pieces(self._trial_runs(grid))
        if trials:
            return trials
        runs = self._runs(self._choose(grid, context)[1])
        missing = self.trainer(grid, 0, context).pieces(runs)
        if missing:
            return missing
        done = [run for run in self.trainer(grid, 0, context).run_all(runs) if counts(run)]
        models = {**text.models, **{_name(run): run.folder for run in done}}
        return self.recordings(replace(text, models=models), context)

    def run(self, plan: Plan, context: Context) -> Result:
        """Try the rates, fine-tune at the chosen ones with all seeds, and compare models with the base."""
        started, level, (grid, text) = time.monotonic(), context.level, plan.inputs
        task: Task = grid.tasks[0]
        methods, outcomes = self._tune(grid, context)
        sound = {name: method for name, method in methods.items() if method.done}
        models = {_name(run): run.folder for method in sound.values() for run in method.done}
        recorded = record_models(
            {**text.models, **models}, text.texts, text.rows, storage=self.storage, context=context
        )
        similarities = compare_layers(
            recorded, self.measures, left=[BASE], right=list(models), **self.comparing(context)
        )
        citations = [METHODS[name].citation for name in methods]
        documents, matched = compare_methods(task, methods, context)
        curves, claims, reference = [], [matched], next(iter(sound))
        for measure, similarity in similarities.items():
            samples = {
                name: similarity.sample([(BASE, _name(run)) for run in method.done])
                for name, method in sound.items()
            }
            for name, sample in samples.items():
                points = points_of(sample, level=level, bounds=similarity.bounds)
                curves.append(recorded.curve(f"{measure}: {name}", points))
                facts, apart = {"method": name}, {}
                difference = center_difference(sample, samples[reference], recorded, context)
                if name != reference and difference is not None:
                    facts |= {"reference": reference, "apart": side_of(difference)}
                    apart["center_apart"] = {"from": reference, **difference.plain(tested=True)}
                center, claim = center_claim(measure, sample, recorded, context, facts=facts)
                documents[name].setdefault("change", {})[measure] = {**center, **apart}
                claims.append(claim)
        return self.result(
            [recorded],
            [text.texts],
            context,
            started=started,
            model=grid.encoder.name,
            task=task,
            split=task.validation,
            curves=curves,
            rows=rows_of(outcomes, task=task.name),
            claims=claims,
            references=cited(*filter(None, citations), measures=self.measures),
            methods=self._methods(grid, recorded, methods, context),
            warnings=(*_warnings(methods, self.seeds), *failures(outcomes)),
            more={
                "layers": list(recorded.layers),
                "ways": documents,
                "match": self.match,
                "score": find_score(task.main).name,
            },
            made_from={
                "runs": [run.address for run in outcomes],
                "seeds": list(self.seeds),
            },
        )

    @property
    def _trials(self) -> Sequence[int]:
        return self.seeds[: self.trial_seeds]

    def _trial_runs(self, grid: GridInputs) -> list[Run]:
        return [run for run in grid.runs if run.seed in self._trials]

    def _choose(self, grid: GridInputs, context: Context) -> tuple[list[Done], dict[str, TunedMethod]]:
        """Try the rates, and choose one for each method."""
        tried = self.trainer(grid, 0, context).run_all(self._trial_runs(grid))
        return tried, choose_rates(tried, grid.tasks[0], self.match)

    def _runs(self, chosen: Mapping[str, TunedMethod]) -> list[Run]:
        """The runs of all seeds at the chosen rates."""
        return [
            method_run(method.name, method.rate, seed, self.train_size)
            for method in chosen.values()
            if method.tried
            for seed in self.seeds
        ]

    def _tune(self, grid: GridInputs, context: Context) -> tuple[dict[str, TunedMethod], list[Done]]:
        """The methods at the rates that are chosen for them, and the outcomes of all runs, each once."""
        tried, chosen = self._choose(grid, context)
        done = self.trainer(grid, 0, context).run_all(self._runs(chosen))
        methods = {
            name: replace(method, done=tuple(run for run in done if run.run.arm == name and counts(run)))
            for name, method in chosen.items()
        }
        if not any(method.done for method in methods.values()):
            raise InputError("tuning methods must leave sound runs to compare, but all of them diverged.")
        return methods, list({run.address: run for run in [*tried, *done]}.values())

    def _methods(
        self, grid: GridInputs, recorded: Recorded, methods: Mapping[str, TunedMethod], context: Context
    ) -> str:
        targets = {WEAKEST: "the best score of the weakest method", BEST: "the best score of that method"}
        target = targets.get(str(self.match), f"{self.match} points")
        recipe = grid.recipe
        length = (
            f"at most {recipe.steps:,} updates" if recipe.steps is not None else f"{recipe.epochs:g} epochs"
        )
        names = [METHODS[name].description for name, method in methods.items() if method.tried]
        return (
            f"{grid.encoder.name} was fine-tuned on {grid.tasks[0].title} by several tuning methods "
            f"({', '.join(names)}) with the recipe {recipe.name} (batches of {recipe.batch}, {length}; seeds "
            f"{', '.join(map(str, self.seeds))}), each at a learning rate of its own: of a few rates, tried "
            f"with seed {', '.join(map(str, self._trials))} and not above the best of them, the one whose "
            f"score is nearest to {target}. Base and tuned models were compared on {recorded.sentence}. The "
            f"center of the change is the mean layer, weighted by 1 - similarity; intervals of "
            f"{coverage(context.level)} are over {recorded.unit}s and seeds."
        )


tuning_methods = as_function(TuningMethods, "tuning_methods")


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


def _warnings(methods: Mapping[str, TunedMethod], seeds: Sequence[int]) -> tuple[str, ...]:
    warnings = [
        f"{name} was left out: no run of it is sound." for name, method in methods.items() if not method.done
    ]
    if len(seeds) < 2:
        warnings.append("Nothing can be said about other seeds: there is one model per method.")
    return tuple(warnings)
