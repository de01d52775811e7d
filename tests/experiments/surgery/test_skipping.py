"""Does every span cost what a really cut model loses, and is it told with its doubt?"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import torch

import microtome as mt
import tiny
from microtome.context import Context
from microtome.encoders.cutting import keep_blocks
from microtome.encoders.loading import load
from microtome.errors import InputError, UnknownNameError
from microtome.experiments.surgery.skipping import skip
from microtome.findings.results import Result, SpanMap, open_result
from microtome.randomness import generator
from microtome.tasks.task import Item, Split, Task
from microtome.training.cuts import predict
from microtome.training.evaluating import score_answers
from microtome.training.opening import open_models

QUICK: dict[str, Any] = {"steps": 60, "batch": 16, "rate": 1e-3, "longest": 32}
STILL: dict[str, Any] = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
WORDS = ("the", "sit", "on", "mat", "reader", "long", "books", "short")


def cats(name: str, count: int) -> Split:
    """Sentences with a cat in them, or with tea."""
    rng, items = generator(0, name), []
    for number in range(count):
        words = list(rng.choice(WORDS, size=int(rng.integers(2, 7))))
        words.insert(int(rng.integers(len(words) + 1)), ("cat", "tea")[number % 2])
        items.append(Item(id=str(number), texts=(" ".join(words),), target=number % 2))
    return Split(name=name, items=tuple(items))


def spoken(kind: str) -> Task:
    """A task of language modeling."""
    items = tuple(Item(id=str(n), texts=(text,)) for n, text in enumerate(tiny.TEXT * 3))
    return Task(
        name="text",
        title="a few sentences",
        kind="language_modeling",
        scores=("perplexity",),
        main=("perplexity",),
        readers=MappingProxyType({"validation": lambda: Split(name="validation", items=items)}),
        source=kind,
    )


@pytest.fixture(scope="module")
def task() -> Task:
    return Task(
        name="cats",
        title="Cats and tea",
        kind="classification",
        labels=("cat", "tea"),
        scores=("accuracy",),
        main=("accuracy",),
        readers=MappingProxyType(
            {"train": lambda: cats("train", 256), "validation": lambda: cats("validation", 48)}
        ),
        source="tests",
    )


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory, task: Task) -> list[Any]:
    place = tmp_path_factory.mktemp("runs")
    encoder = load(tiny.save_checkpoint(place / "bert", "bert", **STILL))
    return [mt.finetune(encoder, task, "wu2020", seed=s, store=place / "store", **QUICK) for s in (1, 2)]


def cell(found: SpanMap, first: int, last: int) -> float:
    return float(found.values[first - 1, last - 1])


def one_map(result: Result, name: str) -> SpanMap:
    found = result[name]
    assert isinstance(found, SpanMap)
    return found


def test_every_span_costs_what_a_really_cut_model_loses(runs: list[Any], task: Task, tmp_path: Path) -> None:
    result = skip(runs[0], task, store=tmp_path)
    (found,) = result.spans
    assert found.full == pytest.approx(runs[0].score.value)
    split = task.split("validation")
    for first, last in [(1, 1), (2, 2), (3, 3), (1, 2), (2, 3)]:
        model = copy.deepcopy(runs[0].model)
        keep_blocks(model.net, model.family, [b for b in (1, 2, 3) if not first <= b <= last])
        answers = predict(model, split, task, runs[0].encoder.tokenizer, longest=runs[0].longest)
        lost = runs[0].score.value - score_answers(task, split, answers).score.value
        assert cell(found, first, last) == pytest.approx(lost)
    assert np.isnan(found.values[np.tril_indices(3, -1)]).all()
    inside = np.triu_indices(3)
    assert (found.band_low[inside] <= found.low[inside] + 1e-12).all()
    assert (found.low[inside] <= found.values[inside] + 1e-12).all()


def test_several_seeds_are_averaged_and_shown_alone(runs: list[Any], task: Task, tmp_path: Path) -> None:
    result = skip(runs, task, store=tmp_path)
    assert [one.name for one in result.spans] == [
        "cost of skipping",
        "cost of skipping, seed 1",
        "cost of skipping, seed 2",
    ]
    mean, *alone = (one.values for one in result.spans)
    np.testing.assert_allclose(mean, np.mean(alone, axis=0))
    assert result.spans[0].seeds == 2
    assert len(result.rows) == 2 * 6
    row = next(r for r in result.rows if (r["seed"], r["first"], r["last"]) == (2, 1, 2))
    assert row["cost"] == pytest.approx(cell(one_map(result, "cost of skipping, seed 2"), 1, 2))
    assert row["cost"] == pytest.approx(row["whole"] - row["score"])
    assert "trained with 2 seeds" in result.methods
    assert result.provenance["seeds"] == [1, 2]


def test_a_second_call_reads_what_the_first_one_kept(runs: list[Any], task: Task, tmp_path: Path) -> None:
    told: list[Any] = []
    first = skip(runs[0], task, store=tmp_path, progress=lambda *said: told.append(said), command="skip")
    assert told
    told.clear()
    again = skip(str(runs[0].folder), task, store=tmp_path, progress=lambda *said: told.append(said))
    assert not told
    np.testing.assert_array_equal(first.spans[0].values, again.spans[0].values)
    assert first.model == again.model
    first.save(tmp_path / "result")
    kept = open_result(tmp_path / "result")
    np.testing.assert_array_equal(kept.spans[0].band_high, first.spans[0].band_high)
    assert kept.findings == first.findings
    assert kept.rows == first.rows
    assert kept.provenance["command"] == "skip"


def test_a_failed_run_is_left_out_and_named(runs: list[Any], task: Task, tmp_path: Path) -> None:
    failed = tmp_path / "failed"
    failed.mkdir()
    for path in runs[1].folder.iterdir():
        (failed / path.name).write_bytes(path.read_bytes())
    told = json.loads((failed / "run.json").read_text())
    (failed / "run.json").write_text(json.dumps({**told, "failure": "diverged: loss is NaN"}))
    result = skip([runs[0], failed], task, store=tmp_path / "store")
    assert len(result.spans) == 1
    assert result.warnings[0].endswith("seed 2 was left out: diverged: loss is NaN.")


@pytest.mark.parametrize("model_type", ["gpt2", "llama"])
def test_blocks_that_do_nothing_are_found_to_cost_nothing_in_language_models(
    tmp_path: Path, model_type: str
) -> None:
    """Blocks 2 and 3 write nothing into the residual path, so that all their spans are free."""
    place = tiny.save_checkpoint(tmp_path / "model", model_type, head="CausalLM", num_hidden_layers=4)
    encoder: Any = load(place)
    with torch.no_grad():
        for block in encoder.blocks[1:3]:
            for name, module in block.named_modules():
                if name in encoder.family.outputs:
                    for weight in module.parameters():
                        weight.zero_()
    result = skip(encoder, spoken(model_type), store=tmp_path / "store")
    (found,) = result.spans
    for span in ((2, 2), (2, 3), (3, 3)):
        assert cell(found, *span) == pytest.approx(0, abs=1e-3)
    # Higher perplexity is worse: what is lost is positive.
    assert result.higher_is_better is False
    row = next(r for r in result.rows if (r["first"], r["last"]) == (1, 4))
    assert row["cost"] == pytest.approx(row["score"] - row["whole"])
    assert "of perplexity" in result.findings[0]


def test_shared_blocks_cost_by_how_many_are_left(tmp_path: Path, task: Task) -> None:
    encoder = load(tiny.save_checkpoint(tmp_path / "model", "albert", head="MaskedLM"))
    result = skip(encoder, spoken("albert"), store=tmp_path / "store")
    (found,) = result.spans
    assert cell(found, 1, 1) == cell(found, 2, 2) == cell(found, 3, 3)
    assert cell(found, 1, 2) == cell(found, 2, 3)
    assert "to leave one out is to run it once less" in result.methods


def test_what_is_found_is_said_with_its_doubt(runs: list[Any], task: Task, tmp_path: Path) -> None:
    result = skip(runs[0], task, store=tmp_path, level=0.9)
    said = result.findings[1]
    assert said.startswith("Of single blocks, skipping block ")
    assert "(90 %, over examples)" in said
    costs = np.diag(result.spans[0].values) * 100
    assert f"Cost: {costs.max():.2f} points" in said
    assert (
        "and the head read the last state; without any block it read the embedding output" in result.methods
    )
    assert "majority baseline" in result.lines


def test_what_makes_no_sense_is_refused(runs: list[Any], task: Task, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="level must be between 0 and 1, but got 95"):
        skip(runs[0], task, level=95, store=tmp_path)
    with pytest.raises(UnknownNameError, match="split of cats must be one of train, validation"):
        skip(runs[0], task, split="nowhere", store=tmp_path)
    assert not (tmp_path / "entries").exists()


def test_opened_models_can_be_handed_on(runs: list[Any], task: Task, tmp_path: Path) -> None:
    models = open_models(runs, task, context=Context())
    one: Callable[..., Result] = skip
    np.testing.assert_array_equal(
        one(models, task, store=tmp_path).spans[0].values, one(runs, task, store=tmp_path).spans[0].values
    )
