"""Where does the change sit when less learns? All weights, adapters, biases or the head, at one score."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ...arguments import checked
from ...checks import check_level, check_seeds, several, whole_number
from ...encoders.encoder import Encoder
from ...errors import InputError, MissingExtraError
from ...extraction.texts import make_texts
from ...findings.results import Curve, Result
from ...scores.table import find_score
from ...tasks.corpus import split_corpus
from ...tasks.task import Task
from ...training.recipe import Recipe, find_recipe
from ...version import VERSION
from ..cell_errors import Sample, center_of, points_of
from ..citations import cited
from ..layer_similarity import SAMPLE, Recorded, alike, record_models
from ..run_curves import counts, failures, rows_of
from ..runs import Done, open_encoder, open_task, run_all
from ..tuned_models import BASE, layer_curve, told_provenance
from .claims import said_center, said_unit, said_value
from .learning_rates import (
    BEST,
    WAYS,
    WEAKEST,
    Way,
    check_match,
    choose_rates,
    rate_runs,
    said_scores,
    told_scores,
    way_run,
)

MEASURES = ("debiased_cka",)
# Whose way it is.
CITED: Mapping[str, str] = MappingProxyType({"lora": "hu2022", "bitfit": "benzaken2022"})


@checked
def tuning_ways(
    encoder: Encoder | Mapping[str, Any],
    task: Task | Mapping[str, Any],
    *,
    on: Any = None,
    ways: str | Sequence[str] = WAYS,
    rates: Mapping[str, Sequence[float]] | None = None,
    match: str | float = WEAKEST,
    seeds: int | Sequence[int] = (1, 2, 3),
    trial_seeds: int = 1,
    recipe: str | Recipe = "wu2020",
    train_size: int | None = None,
    measures: Sequence[str] = MEASURES,
    rows: str = "token",
    sample: int | None = SAMPLE,
    halves: int = 40,
    level: float = 0.95,
    seed: int = 0,
    **options: Any,
) -> Result:
    """
    Fine-tune in several ways to about the same score, and see where each of them changes the encoder.

    Parameters
    ----------
    encoder : Encoder or mapping
        A mapping is what `load` is called with, which `at_once` needs.
    task : Task or mapping
    on : Corpus, path or list of texts, optional
        To compare the models on; the task's validation split when absent.
    ways : sequence of {"full", "lora", "bitfit", "head"}
        Which weights learn, as in `finetune`. The others are compared with the first.
    rates : mapping of str to sequence of float, optional
        Learning rates to try for each way; multiples of the recipe's when absent.
    match : "weakest", "best" or float
        The score that every way is to have: the best of the way that can do least, so that all can reach
        it; each way's own best; or a number in points of 100. The rate whose score is nearest is taken.
    seeds : int or sequence of int
        Of models at the chosen rates.
    trial_seeds : int
        With how many of them every rate is tried.
    recipe : str or Recipe
    train_size : int, optional
    measures : sequence of str
        Of `microtome ls measures`.
    rows, sample, halves
        As in `change`.
    level : float
        Of intervals and bands.
    seed : int
        Of the rows and half-samples.
    **options
        Of `run_all` (at_once, threads, device, dtype, store, progress, command), of `finetune`, and
        values of the recipe. The weights of all runs stay in the store.

    Returns
    -------
    Result
        For each measure and way the similarity of base and tuned over layers. `more["ways"]` has the rates
        that were tried, the score that was reached, how far it is from that of the first way, and the center
        of the change with its interval over seeds and documents or sentences.
    """
    started, level, seeds = time.monotonic(), check_level(level), check_seeds(seeds)
    match = check_match(match)
    if "lora" in several(ways):
        _check_peft()
    opened, asked = open_encoder(encoder), open_task(task)
    trials = seeds[: whole_number("trial_seeds", trial_seeds, 1)]
    runs = rate_runs(ways, rates=rates, seeds=trials, recipe=recipe, train_size=train_size, **options)
    given = (encoder, task) if options.get("at_once", 1) != 1 else (opened, asked)
    running: dict[str, Any] = {"recipe": recipe, **options, "keep_models": True}
    tried = run_all(*given, runs, **running)
    chosen = choose_rates(tried, asked, match)
    wanted = [
        way_run(way.name, way.rate, each, train_size)
        for way in chosen.values()
        if way.tried
        for each in seeds
    ]
    done = run_all(*given, wanted, **running)
    found = {
        name: replace(way, done=tuple(one for one in done if one.run.arm == name and counts(one)))
        for name, way in chosen.items()
    }
    sound = {name: way for name, way in found.items() if way.done}
    if not sound:
        raise InputError("ways of tuning must leave sound runs to compare, but all of them diverged.")
    texts = make_texts(split_corpus(asked, asked.validation) if on is None else on)
    device = options.get("device", "cpu")
    own = {name: value for name, value in options.items() if name in Recipe.__slots__}
    recorded = record_models(
        {BASE: opened, **{_name(one): _loader(one, device) for way in sound.values() for one in way.done}},
        texts,
        rows=rows,
        sample=sample,
        longest=find_recipe(recipe, **own).longest,
        seed=seed,
        store=options.get("store"),
        command=options.get("command", ""),
        progress=options.get("progress"),
    )
    every = [_name(one) for way in sound.values() for one in way.done]
    comparing: dict[str, Any] = {"halves": halves, "seed": seed, "device": device}
    likeness = alike(
        recorded, measures, left=[BASE], right=every, progress=options.get("progress"), **comparing
    )
    # A run that was tried and then chosen is one.
    every_run = list({one.address: one for one in [*tried, *done]}.values())
    told = told_scores(asked, found, level)
    curves: list[Curve] = []
    said = said_scores(asked, told)
    for label, one in likeness.items():
        samples = {
            name: one.sample([(BASE, _name(each)) for each in way.done]) for name, way in sound.items()
        }
        for name, each in samples.items():
            points = points_of(each, level=level, bounds=one.bounds)
            curves.append(layer_curve(f"{label}: {name}", recorded, points))
            about, sentence = said_center(label, each, recorded.layers, level, recorded.unit)
            told[name].setdefault("change", {})[label] = about
            said.append(f"{name[:1].upper()}{name[1:]} tuning. {sentence}")
        said += _said_apart(label, samples, recorded, level, told)
    return Result(
        experiment="tuning_ways",
        model=opened.name,
        task=asked.name,
        split=asked.validation,
        score="similarity",
        points=1.0,
        curves=tuple(curves),
        rows=rows_of(every_run, task=asked.name),
        findings=tuple(said),
        references=cited(*(CITED[way] for way in found if way in CITED), measures=measures),
        methods=_methods(opened, asked, recorded, done, match, trials, find_recipe(recipe, **own), level),
        warnings=(*recorded.warned, *_warned(found, seeds), *failures(every_run)),
        more=MappingProxyType(
            {
                "layers": list(recorded.layers),
                "ways": told,
                "match": match,
                "score": find_score(asked.main).name,
            }
        ),
        provenance=MappingProxyType(
            told_provenance(
                [recorded],
                [texts],
                started=started,
                task=asked.digest(asked.validation),
                task_source=asked.source,
                runs=[one.address for one in done],
                seeds=list(seeds),
                seed=seed,
                device=device,
                command=options.get("command", ""),
            )
        ),
    )


def _check_peft() -> None:
    """Refuse adapters before anything is trained, where they cannot be."""
    try:
        import peft  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(
            "the way lora must find peft; try `pip install microtome[lora]`, or leave it out of ways."
        ) from error


def _name(one: Done) -> str:
    return f"{one.run.arm} {one.run.seed}"


def _loader(one: Done, device: str) -> Callable[[], Any]:
    from ...encoders.loading import load

    folder: Path = one.folder
    return lambda: load(folder, device=device)


def _said_apart(
    label: str,
    samples: Mapping[str, Sample],
    recorded: Recorded,
    level: float,
    told: dict[str, dict[str, Any]],
) -> list[str]:
    """Say whether the change of each way sits elsewhere than that of the first, and write it down."""
    centers = {name: center_of(each, recorded.layers) for name, each in samples.items()}
    first = next(iter(centers))
    reference, said = centers[first], []
    for name, each in centers.items():
        if name == first or each is None or reference is None:
            continue
        # Models of two ways are not pairs for having equal seeds.
        found = points_of(each, reference, level=level, pair_models=False)
        told[name]["change"][label]["center_apart"] = {"from": first, **found.plain(tested=True)}
        low, high = float(found.low[0]), float(found.high[0])
        where = "above" if low > 0 else "below" if high < 0 else ""
        start = (
            f"By {label}, the change of {name} sits {where} that of {first}"
            if where
            else f"By {label}, that the change of {name} sits elsewhere than that of {first} is not sure"
        )
        unit = said_unit(recorded.unit, found)
        said.append(
            f"{start}: centers differ by {said_value(found, 2)} layers ({level * 100:g}%, unit: {unit})."
        )
    return said


def _methods(
    encoder: Any,
    task: Task,
    recorded: Recorded,
    done: Sequence[Done],
    match: str | float,
    trials: Sequence[int],
    recipe: Recipe,
    level: float,
) -> str:
    wanted = {WEAKEST: "the best of the way that can do least", BEST: "the best of that way"}
    length = f"{recipe.steps:,} updates at most" if recipe.steps is not None else f"{recipe.epochs:g} epochs"
    seeds, tried = ", ".join(map(str, sorted({one.run.seed for one in done}))), ", ".join(map(str, trials))
    return (
        f"{encoder.name} was fine-tuned on {task.title} in several ways{_said_ways(done)} by the recipe "
        f"{recipe.name} (batches of {recipe.batch}, {length}; seeds {seeds}), each at a learning rate of its "
        f"own: of a few rates, tried with seed {tried} and not above the best of them, the one whose score "
        f"is nearest to {wanted.get(str(match), f'{match} points')}. Base and tuned models were compared on "
        f"{recorded.rows.sentence()} of {recorded.rows.extent()}. The center of the change is "
        f"the mean layer, weighted by 1 - similarity; intervals of {level * 100:g}% are over "
        f"{recorded.unit}s and seeds. Computed with microtome {VERSION}."
    )


def _said_ways(done: Sequence[Done]) -> str:
    """Which they are, with whose they are."""
    words = {
        "full": "all weights",
        "lora": "adapters of low rank (LoRA, Hu et al. 2022)",
        "bitfit": "biases (BitFit, Ben Zaken et al. 2022)",
        "head": "the head alone",
    }
    return f" ({', '.join(words.get(way, way) for way in dict.fromkeys(one.run.arm for one in done))})"


def _warned(found: Mapping[str, Way], seeds: Sequence[int]) -> tuple[str, ...]:
    said = [f"{name} was left out: no run of it is sound." for name, way in found.items() if not way.done]
    if len(seeds) < 2:
        said.append("Nothing is said of other seeds: there is one model a way.")
    return tuple(said)
