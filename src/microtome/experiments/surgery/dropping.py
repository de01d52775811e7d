"""Dropping experiment (Sajjad et al. 2023): drop blocks by several strategies, then fine-tune."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from ...context import Context
from ...errors import must
from ...findings.claims.claim import Claim, Quantity
from ...findings.results import Result
from ...findings.words import Unit
from ...interventions.blocks import Skip
from ...measures.table import chosen_all
from ...scores.table import find_score
from ...tasks.task import Task
from ...training.cut_store import cut_answers
from ...training.opening import open_model
from ...training.recipe import Recipe
from ..base import Pieces, Plan, as_function, option
from ..grid import RECIPE_HELP, Grid, GridInputs, GridRuns
from ..run_curves import DRAWN, score_by_draw
from ..runs import Done, Run
from .claims import extent_claims
from .drop_strategies import RANDOM, STRATEGIES, Blocks, Scores, chosen_blocks, random_blocks, read_layers
from .result import ArmSummary, grid_result, summarize_arm

COUNTS = (2, 4, 6)  # by default, those below the depth
THEN = {"full": "all tuned", "head": "head tuned", "none": "not tuned again"}
DEFAULT_STRATEGIES = ("top", "bottom", "alternate", "symmetric", "contribution", "similarity", RANDOM)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """
    Blocks that are dropped together.

    Parameters
    ----------
    strategy : str
    count : int
    draw : int
        Number of the random draw, from 1; 0 for other strategies.
    blocks : tuple of int
        Numbered from 1.
    """

    strategy: str
    count: int
    draw: int = 0
    blocks: Blocks


@dataclass(frozen=True, kw_only=True)
class Dropping(Grid):
    """
    Drop blocks by several strategies, fine-tune, and compare the scores with random choices.

    The result has one curve for each strategy over the number of dropped blocks, and one of its differences
    from the full model; `more["choices"]` lists the dropped blocks (Sajjad et al. 2023).

    Examples
    --------
    >>> import microtome as mt
    >>> base = mt.apply(mt.load("zoo:masked"), mt.Truncate(keep=2))
    >>> task = mt.task("polarity", sizes={"train": 16, "validation": 20})
    >>> result = mt.drop(base, task, epochs=1, seeds=[1], strategies=["top"])
    >>> [curve.name for curve in result.curves]
    ['top', 'difference top']
    """

    name = "dropping"

    count: Sequence[int] | None = option(
        "Numbers of dropped blocks; those of 2, 4 and 6 that are below the depth when absent.",
        None,
        metavar="N,...",
    )
    strategies: Sequence[str] = option(
        "How the dropped blocks are chosen.", DEFAULT_STRATEGIES, choices=(*STRATEGIES, RANDOM)
    )
    measure: str = option(
        "Measure for --strategies similarity: a name of `microtome ls measures`.", "debiased_cka"
    )
    random_draws: int = option("Number of random choices of --strategies random.", 5, least=1)
    then: Sequence[str] = option(
        "What is fine-tuned after dropping: all weights, the head, or nothing, of a model that was "
        "fine-tuned with all blocks.",
        ("full",),
        choices=tuple(THEN),
    )
    recipe: str | Recipe = option(RECIPE_HELP, "wu2020")

    def __post_init__(self) -> None:
        super().__post_init__()
        chosen_all(self.measure)

    def counts(self, depth: int) -> tuple[int, ...]:
        """Numbers of dropped blocks, for an encoder of some depth."""
        if self.count is None:
            return tuple(count for count in COUNTS if count < depth) or (1,)
        for count in self.count:
            if not 1 <= count < depth:
                raise must("count", f"numbers of blocks between 1 and {depth - 1}", count)
        return tuple(dict.fromkeys(int(count) for count in self.count))

    def choose(self, encoder: Any, scores: Scores | None = None) -> tuple[list[Choice], list[str]]:
        """
        Choose the blocks to drop.

        Parameters
        ----------
        encoder : TransformerEncoder
        scores : mapping, optional
            Of `read_layers`. Without them, strategies that need them have blocks above the depth, which
            stand for their choices in a plan.

        Returns
        -------
        choices : list of Choice
        warnings : list of str
            Strategies without a choice.
        """
        choices: list[Choice] = []
        warnings: list[str] = []
        for place, name in enumerate(self.strategies, start=1):
            for count in self.counts(encoder.depth):
                if name == RANDOM:
                    sets = random_blocks(encoder, count, self.random_draws)
                    choices += [
                        Choice(strategy=name, count=count, draw=draw, blocks=blocks)
                        for draw, blocks in enumerate(sets, start=1)
                    ]
                    continue
                if STRATEGIES[name].reads and scores is None:
                    blocks, reason = tuple(range(1000 * place, 1000 * place + count)), ""
                else:
                    blocks, reason = chosen_blocks(encoder, name, count, scores or {})
                if blocks is None:
                    warnings.append(f"{name}, {count} blocks is left out: {reason}")
                else:
                    choices.append(Choice(strategy=name, count=count, blocks=blocks))
        return choices, warnings

    def grid(self, encoder: Any) -> list[Run]:
        """List the fine-tunings; blocks of strategies that read layers are chosen in the run."""
        return self.runs(self.choose(encoder)[0])

    def runs(self, choices: Sequence[Choice]) -> list[Run]:
        """List the fine-tunings of choices; with nothing to tune after dropping, only the full model."""
        size = {} if self.train_size is None else {"train_size": self.train_size}
        runs = []
        for then in self.then:
            options = {**size, **({"method": "head"} if then == "head" else {})}
            for strategy in dict.fromkeys(choice.strategy for choice in choices):
                points: list[tuple[int, int, tuple[Any, ...]]] = [(0, 0, ())]
                points += [
                    (choice.count, choice.draw, (Skip(blocks=choice.blocks),))
                    for choice in choices
                    if choice.strategy == strategy and then != "none"
                ]
                arm = self._arm(strategy, then)
                runs += [
                    Run(arm=arm, x=x, seed=seed, draw=draw, interventions=interventions, options=options)
                    for x, draw, interventions in points
                    for seed in self.seeds
                ]
        return runs

    def pieces(self, plan: Plan, context: Context) -> Pieces:
        """The fine-tunings after dropping; and for each seed of models that are cut afterwards, all of it."""
        inputs, pieces = plan.inputs, {}
        for place, task in enumerate(inputs.tasks):
            runs = self.runs(self.choose(inputs.encoder, self._scores(inputs.encoder, task, context))[0])
            if "none" in self.then:
                runs = [run for run in runs if not _is_full(run)]
                for seed in self.seeds:
                    alone = replace(self, then=("none",), seeds=(seed,))
                    pieces[f"{task.name}: cut seed {seed}"] = partial(alone.train, inputs, place, context)
            pieces |= self.trainer(inputs, place, context).pieces(runs)
        return pieces

    def train(self, inputs: GridInputs, place: int, context: Context) -> tuple[list[Done], Any]:
        """Choose the blocks, and fine-tune; models that are cut after their training keep their weights."""
        task, trainer = inputs.tasks[place], self.trainer(inputs, place, context)
        choices, warnings = self.choose(inputs.encoder, self._scores(inputs.encoder, task, context))
        runs, cut = self.runs(choices), []
        if "none" in self.then:
            full = [run for run in runs if _is_full(run)]
            tuned = replace(trainer, keep_models=True).run_all(full)
            cut = self._cut(tuned, choices, task, context)
        return [*trainer.run_all(runs), *cut], (choices, warnings)

    def _scores(self, encoder: Any, task: Task, context: Context) -> Scores:
        """What strategies read of the layers, if any does."""
        if not any(name != RANDOM and STRATEGIES[name].reads for name in self.strategies):
            return {}
        return read_layers(encoder, task, measure=self.measure, context=context)

    def _cut(
        self, tuned: Sequence[Done], choices: Sequence[Choice], task: Task, context: Context
    ) -> list[Done]:
        """Predictions of fine-tuned models with blocks dropped afterwards."""
        score, split = find_score(task.main), task.split(task.validation)
        targets = [item.target for item in split]
        outcomes: list[Done] = []
        for full in {outcome.address: outcome for outcome in tuned}.values():
            model = open_model(full.folder, task, context=context)
            cuts = [
                tuple(b for b in range(1, model.depth + 1) if b not in choice.blocks) for choice in choices
            ]
            predictions = cut_answers(model, task, split, cuts, context=context)
            for choice, answers in zip(choices, predictions, strict=True):
                run = Run(
                    arm=self._arm(choice.strategy, "none"),
                    x=choice.count,
                    seed=full.run.seed,
                    draw=choice.draw,
                    interventions=(Skip(blocks=choice.blocks),),
                    options={"then": "none"},
                )
                value = float(score.compute(answers, targets, task.labels))
                outcomes.append(replace(full, run=run, answers=tuple(answers), score=value))
        return outcomes

    def summarize(self, runs: GridRuns) -> Result:
        """Curves of scores and costs for each strategy, and comparisons with random choices."""
        choices, warnings = runs.choices
        arms: list[ArmSummary] = []
        claims: list[Claim] = []
        for then in self.then:
            summaries = {
                strategy: self._summarize_strategy(runs, strategy, then)
                for strategy in dict.fromkeys(choice.strategy for choice in choices)
            }
            arms += summaries.values()
            for strategy, summary in summaries.items():
                if summary.costs is None:
                    continue
                # A point of random choices is no single choice of blocks.
                blocks = {c.count: c.blocks for c in choices if c.strategy == strategy != RANDOM}
                order = sorted((x, place) for place, x in enumerate(summary.costs.x) if x)  # pyright: ignore
                changes = {place: blocks.get(x, ()) for x, place in order}
                about = {"subject": self._arm(strategy, then), "depth": runs.encoder.depth}
                claims += extent_claims(summary.costs, "dropped", changes, **about)
            if not any(summary.weak for summary in summaries.values()):
                claims += self._random_claims(runs, then)
        result = grid_result(
            self.name,
            runs,
            arms,
            claims,
            how=self._methods(runs.encoder, choices),
            references=("sajjad2023",),
            columns=_blocks_of,
            more={"choices": [asdict(choice) for choice in choices]},
        )
        return replace(result, warnings=(*warnings, *result.warnings))

    def _summarize_strategy(self, runs: GridRuns, strategy: str, then: str) -> ArmSummary:
        points = runs.points(self._arm(strategy, then))
        return summarize_arm(
            self.name,
            runs,
            points,
            points.at(0),
            model="the full model",
            subject=THEN[then] if len(self.then) > 1 else "",
            draws=strategy == RANDOM and any(points.x),
            axis="blocks dropped",
            against="the full model",
            # One fine-tuned model is cut at all points; draws have the same seeds.
            pair_seeds=then == "none" and strategy != RANDOM,
            note=_note(then) if strategy == RANDOM else "",
        )

    def _arm(self, strategy: str, then: str) -> str:
        return strategy if len(self.then) == 1 else f"{strategy}, {THEN[then]}"

    def _random_claims(self, runs: GridRuns, then: str) -> list[Claim]:
        """Claim how each strategy compares with random choices of as many blocks."""
        score, done, level = find_score(runs.task.main), runs.done, runs.context.level
        sign = score.points if score.higher_is_better else -score.points
        claims = []
        for strategy in STRATEGIES:
            arm = self._arm(strategy, then)
            for x in dict.fromkeys(outcome.run.x for outcome in done if outcome.run.arm == arm):
                scores = score_by_draw(done, arm, x)
                null = score_by_draw(done, self._arm(RANDOM, then), x)
                if not x or not scores or not null:
                    continue
                better = sum(sign * scores[0] > sign * value for value in null)
                p = (1 + len(null) - better) / (1 + len(null))
                claims.append(
                    Claim(
                        kind="against random",
                        verdict="holds" if p < 1 - level else "inconclusive",
                        score=score.name,
                        points=score.points,
                        subject=arm,
                        depth=runs.encoder.depth,
                        estimate=Quantity(
                            value=sign * (scores[0] - float(np.mean(null))), level=level, unit=Unit("draw")
                        ),
                        facts={"x": x, "better": better, "draws": len(null), "p": p},
                    )
                )
        return claims

    def _methods(self, encoder: Any, choices: Sequence[Choice]) -> str:
        descriptions = {
            "full": "all weights were then fine-tuned",
            "head": "only the head was then trained",
            "none": "blocks of models that were fine-tuned with all blocks were dropped without further "
            "training",
        }
        names = list(dict.fromkeys(choice.strategy for choice in choices))
        strategies = "; ".join(
            f"{name}: {STRATEGIES[name].summary[0].lower()}{STRATEGIES[name].summary[1:-1]}"
            for name in names
            if name in STRATEGIES
        )
        draws = max((choice.draw for choice in choices), default=0)
        null = f" Random sets of blocks ({draws} per count) were the null distribution." if draws else ""
        measure = f" Layers were compared by {self.measure}." if "similarity" in names else ""
        return (
            f"Blocks of {encoder.name} ({encoder.depth} in all) were dropped ({strategies}); "
            f"{', and '.join(descriptions[then] for then in self.then)}.{null}{measure}"
        )


drop = as_function(Dropping, "drop")


def _is_full(run: Run) -> bool:
    """Whether all weights of all blocks are fine-tuned."""
    return not run.interventions and "method" not in run.options


def _blocks_of(run: Run) -> dict[str, Any]:
    """The dropped blocks of a run, as a column of the long table."""
    return {"blocks": " ".join(str(block) for move in run.interventions for block in move.blocks)}


def _note(then: str) -> str:
    return f"{DRAWN}; all cut the same trainings, so other seeds are not covered" if then == "none" else DRAWN
