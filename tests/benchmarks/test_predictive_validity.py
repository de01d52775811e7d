"""A planted measure is found, noise is not, and where nothing beats length and depth the result says so."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from predictive_validity import Case, predictive_validity
from predictive_validity_words import adjusted_p

from microtome.errors import InputError
from microtome.findings.results import SpanMap, open_result
from microtome.findings.words import Unit
from microtome.randomness import generator


def walk(rng: np.random.Generator, depth: int) -> np.ndarray:
    """Distances of layers 0..depth that take steps of uneven size."""
    places = np.concatenate([[0.0], np.cumsum(0.2 + rng.random(depth))])
    return np.abs(np.subtract.outer(places, places))


def costs(rng: np.random.Generator, apart: np.ndarray, noise: float = 0.3) -> np.ndarray:
    depth = len(apart) - 1
    i, j = np.triu_indices(depth + 1, 1)
    found = np.full((depth, depth), np.nan)
    found[i, j - 1] = apart[i, j] + noise * rng.random(len(i))
    return found


def planted(model: str, task: str, seed: int, depth: int = 6) -> Case:
    """Costs that follow one measure; the other falls with distance as any does, by steps of its own."""
    rng = generator(0, "planted", model, task, seed)
    apart = walk(rng, depth)
    similarity = {"good": np.exp(-apart), "noise": np.exp(-walk(rng, depth))}
    return Case(model=model, task=task, seed=seed, cost=costs(rng, apart), similarity=similarity)


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return [
        planted(*given)
        for given in itertools.product(("bert", "gpt2"), ("rte", "cola", "sst2", "mrpc"), (1, 2))
    ]


def test_the_measure_that_predicts_by_construction_is_told_from_noise(cases: list[Case]) -> None:
    found = predictive_validity(cases)
    good, noise = (found.more["measures"][name] for name in ("good", "noise"))
    assert found.more["ranking"] == ["good", "noise"]
    assert good["spearman"]["mean"] < -0.9
    assert good["partial"]["high"] < -0.5
    assert noise["spearman"]["high"] < 0  # any measure goes with length, and so with cost
    assert noise["partial"]["low"] < 0 < noise["partial"]["high"]
    for what in ("task", "model"):
        assert good[f"gain_out_of_{what}"]["low"] > 0
        assert noise[f"gain_out_of_{what}"]["mean"] < 0.05
    assert good["partial"]["unit"] == "task"
    assert good["partial"]["units"] == 4
    assert found.findings[0].startswith("good tells most about what can be cut beyond span length and depth")
    assert "So do" not in found.findings[0]


def test_there_is_one_record_a_measure_and_case(cases: list[Case], tmp_path: Path) -> None:
    found = predictive_validity(cases)
    assert len(found.rows) == 2 * len(cases)
    row = found.rows[0]
    assert (row["measure"], row["model"], row["task"], row["seed"]) == ("good", "bert", "rte", "1")
    assert (row["depth"], row["spans"], row["reason"]) == (6, 21, None)
    assert row["gain_out_of_task"] == row["out_of_task"] - row["out_of_task_without"]
    mean = np.mean([r["partial"] for r in found.rows if r["measure"] == "good"])
    assert found.more["measures"]["good"]["partial"]["mean"] == pytest.approx(mean)  # balanced
    json.dumps(found.document(), allow_nan=False)
    found.save(tmp_path)
    back = open_result(tmp_path)
    assert back.more["ranking"] == ["good", "noise"]
    assert [r["task"] for r in back.rows] == [r["task"] for r in found.rows]


def test_a_span_map_is_read_like_its_values(cases: list[Case]) -> None:
    one = cases[0]
    assert isinstance(one.cost, np.ndarray)
    square = SpanMap(
        name="x",
        depth=6,
        **dict.fromkeys(("values", "low", "high", "band_low", "band_high"), one.cost),
        full=0.9,
        level=0.95,
        unit=Unit("example"),
        n=10,
    )
    same = Case(model=one.model, task=one.task, seed=one.seed, cost=square, similarity=one.similarity)
    first, second = (predictive_validity([case]).rows[0]["partial"] for case in (one, same))
    assert first == second


def test_nothing_beats_length_where_cost_depends_on_length_only() -> None:
    # Spans of one map depend on each other; the interval must hold 0 as often as promised all the same.
    held, claimed, sets = 0, 0, 120
    for number in range(sets):
        rng = generator(0, "null", number)
        depth = 6
        apart = np.abs(np.subtract.outer(np.arange(depth + 1.0), np.arange(depth + 1)))
        drawn = [
            Case(
                model="m",
                task=task,
                seed=1,
                cost=costs(rng, apart, noise=1.0),
                similarity={"cka": np.exp(-walk(rng, depth))},
            )
            for task in "abcd"
        ]
        found = predictive_validity(drawn)
        partial = found.more["measures"]["cka"]["partial"]
        held += partial["low"] <= 0 <= partial["high"]
        claimed += "tells most" in found.findings[0]
    assert 0.9 <= held / sets <= 0.99
    assert claimed / sets <= 0.06


def test_it_is_said_plainly_that_no_measure_beats_length() -> None:
    rng = generator(3, "plain")
    apart = np.abs(np.subtract.outer(np.arange(7.0), np.arange(7)))
    drawn = [
        Case(
            model="m",
            task=task,
            seed=1,
            cost=costs(rng, apart),
            similarity={name: np.exp(-walk(rng, 6)) for name in ("cka", "svcca")},
        )
        for task in "abc"
    ]
    found = predictive_validity(drawn)
    assert found.findings[0].startswith("No measure is shown to beat span length and depth")
    assert "after Holm's correction for 2 measures" in found.findings[0]
    assert "All cases are of one model, m: nothing is said of others." in found.findings
    assert any("gain out of model undefined (there is one model only)" in said for said in found.findings)


def turned(case: Case, **more: Any) -> Case:
    """The same with a measure that calls layers alike where cutting between them is dear."""
    given: dict[str, Any] = {
        "model": case.model,
        "task": case.task,
        "seed": case.seed,
        "cost": case.cost,
        "similarity": {"turned": -case.similarity["good"]},
    }
    return Case(**given | more)


def test_a_measure_that_goes_the_wrong_way_is_told(cases: list[Case]) -> None:
    found = predictive_validity([turned(case) for case in cases])
    assert found.more["measures"]["turned"]["partial"]["low"] > 0
    assert found.findings[0].startswith(
        "No measure is shown to beat span length and depth. turned goes the wrong way"
    )
    assert "not significantly different from 0" not in found.findings[0]
    both = predictive_validity(
        [turned(case, similarity={**case.similarity, "turned": -case.similarity["good"]}) for case in cases]
    )
    assert both.findings[0].startswith("good tells most")
    assert "turned goes the wrong way" in both.findings[0]


def test_nothing_is_tested_over_seeds_or_over_values_that_do_not_differ(cases: list[Case]) -> None:
    said = "Whether a measure tells more than span length and depth cannot be tested"
    seeds = [planted("bert", "rte", seed) for seed in (1, 2, 3, 4)]
    same = [turned(cases[0], task=task, similarity=cases[0].similarity) for task in "abc"]
    for given in (seeds, same):
        found = predictive_validity(given)
        assert found.more["measures"]["good"]["partial"]["p"] is None
        assert found.findings[0].startswith(said)


def test_one_case_gets_no_interval_but_a_permutation_of_layers() -> None:
    found = predictive_validity([planted("bert", "rte", 1)], seed=4)
    good = found.more["measures"]["good"]
    assert good["partial"]["low"] is None
    assert good["partial"]["reason"] == "one case: its spans overlap, so they give no interval"
    assert good["spearman"]["p"] < 0.05
    assert "permutations of the layers" in good["spearman"]["test"]
    assert found.findings[0].startswith(
        "Whether a measure tells more than span length and depth cannot be tested"
    )
    assert found.document() == predictive_validity([planted("bert", "rte", 1)], seed=4).document()


@pytest.mark.parametrize(
    "models,tasks,seeds,unit,units",
    [
        (("a",), ("x", "y", "z"), (1, 2), "task", 3),
        (("a", "b", "c"), ("x",), (1, 2), "model", 3),
        (("a", "b"), ("x", "y"), (1, 2), "model and task", 4),
        (("a",), ("x",), (1, 2, 3), "case", 3),
    ],
)
def test_the_unit_of_an_interval_is_the_largest_there_are_enough_of(
    models: tuple[str, ...], tasks: tuple[str, ...], seeds: tuple[int, ...], unit: str, units: int
) -> None:
    found = predictive_validity([planted(*given) for given in itertools.product(models, tasks, seeds)])
    partial = found.more["measures"]["good"]["partial"]
    assert (partial["unit"], partial["units"]) == (unit, units)
    assert (partial["reason"] is None) == (unit in ("task", "model"))
    assert any("are fewer than 3" in said for said in found.warnings) == (unit not in ("task", "model"))


def test_with_many_tasks_and_models_the_wider_interval_is_told() -> None:
    drawn = []
    for model, task in itertools.product("abc", "wxyz"):
        case = planted(model, task, 1)
        if model == "c":  # a model of which the measure tells nothing
            case = Case(
                model=model, task=task, seed=1, cost=case.cost, similarity={"good": case.similarity["noise"]}
            )
        drawn.append(case)
    partial = predictive_validity(drawn).more["measures"]["good"]["partial"]
    assert (partial["unit"], partial["units"]) == ("model", 3)
    assert partial["low"] < 0 < partial["high"]


def test_layer_0_ties_and_missing_cells_are_left_out_and_told(cases: list[Case]) -> None:
    drawn = []
    for case in cases:
        assert isinstance(case.cost, np.ndarray)
        cost = np.round(case.cost)  # many ties
        cost[2, 4] = np.nan
        drawn.append(
            Case(
                model=case.model,
                task=case.task,
                seed=case.seed,
                cost=cost,
                similarity={"good": case.similarity["good"][1:, 1:], "noise": case.similarity["noise"]},
            )
        )
    found = predictive_validity(drawn)
    assert [(r["spans"], r["without_layer_0"], r["missing"]) for r in found.rows[::16]] == [
        (14, 6, 1),
        (20, 0, 1),
    ]
    assert "good: 96 spans from layer 0, whose similarity is undefined, were left out." in found.warnings
    assert "noise: 16 spans without a cost or a similarity were left out." in found.warnings
    assert found.more["measures"]["good"]["partial"]["high"] < 0


def test_an_empty_place_of_layer_0_is_as_good_as_none(cases: list[Case]) -> None:
    def told(some: list[Case], *, kept: bool) -> Any:
        drawn = []
        for case in some:
            square = generator(0, "random", case.task, case.seed).random((6, 6))
            found = {name: values[1:, 1:] for name, values in case.similarity.items()}
            found["random"] = square + square.T
            if kept:
                found = {
                    name: np.pad(values, ((1, 0), (1, 0)), constant_values=np.nan)
                    for name, values in found.items()
                }
            drawn.append(replace(case, similarity=found))
        result = predictive_validity(drawn)
        # In words, where NaN is equal to NaN.
        return repr([dict(row) for row in result.rows]), result.document()["more"], result.warnings

    # One case alone is tested by relabeling layers, several by their spread.
    for some in (cases, *([case] for case in cases[:3])):
        assert told(some, kept=True) == told(some, kept=False)


def test_a_case_that_says_nothing_is_left_out(cases: list[Case]) -> None:
    flat = Case(
        model="bert", task="wnli", seed=1, cost=np.triu(np.ones((6, 6))), similarity=cases[0].similarity
    )
    short = planted("tiny", "rte", 1, depth=2)
    found = predictive_validity([*cases, flat, short])
    assert "good of bert on wnli, seed 1, was left out: every span costs the same." in found.warnings
    assert any("tiny on rte" in said and "6 are needed" in said for said in found.warnings)
    expected = predictive_validity(cases).more["measures"]["good"]["partial"]["mean"]
    assert found.more["measures"]["good"]["partial"]["mean"] == pytest.approx(expected)
    alone = predictive_validity([short])
    assert alone.findings[0].startswith("No measure can be set against length and depth")


def test_a_measure_that_some_cases_lack_is_judged_on_the_others(cases: list[Case]) -> None:
    lacking = [
        Case(model=c.model, task=c.task, seed=c.seed, cost=c.cost, similarity={"good": c.similarity["good"]})
        for c in cases[:8]
    ]
    found = predictive_validity([*lacking, *cases[8:]])
    assert found.more["measures"]["good"]["cases"] == 16
    assert found.more["measures"]["noise"]["cases"] == 8


def test_holm_corrects_in_steps() -> None:
    given = {"a": 0.04, "b": 0.01, "c": None, "d": 0.03}
    table = {name: {"partial": {"p": p}} for name, p in given.items()}
    assert adjusted_p(table, list(given)) == {"b": 0.03, "d": 0.06, "a": 0.06}


def test_bad_cases_are_told(cases: list[Case]) -> None:
    with pytest.raises(InputError, match="the number of cases must be at least 1"):
        predictive_validity([])
    with pytest.raises(InputError, match="cases must be one for each model, task and seed"):
        predictive_validity([cases[0], cases[0]])
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        predictive_validity(cases, level=95)
    bare = Case(model="m", task="t", seed=1, cost=np.ones((3, 3)), similarity={})
    with pytest.raises(InputError, match="at least one measure of similarity"):
        predictive_validity([bare])
    wrong = Case(model="m", task="t", seed=1, cost=np.ones((3, 3)), similarity={"cka": np.ones((6, 6))})
    with pytest.raises(InputError, match="the shape of a similarity"):
        predictive_validity([wrong])
