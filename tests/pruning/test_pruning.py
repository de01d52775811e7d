"""Is the smallest safe model found, told truly, and refused where nothing is safe?"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import microtome as mt
import tiny
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.experiments.tuning.pruning import prune
from microtome.findings.claims.render import render
from microtome.findings.words import at_most
from microtome.pruning.exporting import card
from microtome.store.shelf import Shelf
from microtome.tasks.task import Item, Task
from microtome.training.cuts import predict_cuts
from microtome.training.finetuning import finetune
from microtome.training.models.modeling import build
from pruning.idle import balance, still, task_with, texts

QUICK: dict[str, Any] = {"speed": False}


@pytest.fixture(scope="module")
def shelf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("shelf")


def test_blocks_that_do_nothing_go(classifier: Path, solved: Callable[..., Task], shelf: Path) -> None:
    found = prune(classifier, solved(), 5.0, store=shelf, **QUICK)
    assert found.certified
    assert {4, 5} <= set(found.removed)
    costs = {one["kept"]: one["cost"] for one in found.candidates}
    assert costs[1, 2, 3] == 0.0
    assert max(costs.values()) > 10.0  # other blocks do something
    assert found.scored == 30  # every subset of 5 blocks but all and none
    assert found.comparison is not None
    assert found.comparison.n == 200
    assert found.comparison.upper <= 5.0
    assert "can be removed at a cost of at most" in found.findings[0]
    assert "(96 %, one-sided, over examples)" in found.findings[0]
    assert "n = 200 examples never used to choose" in found.findings[0]
    assert 0.3 < found.guess < 0.6
    assert f", {found.guess:.3f} of the majority baseline." in found.findings[0]
    assert found.findings[0] in card(found)
    assert f"| {at_most(found.comparison.upper)} |" in card(found)
    assert found.model is not None
    assert found.model.config.num_hidden_layers == len(found.kept)


def test_the_majority_baseline_is_that_of_evaluate(
    classifier: Path, solved: Callable[..., Task], shelf: Path
) -> None:
    task = solved(120, ("validation", "train", "test"))
    found = prune(classifier, task, 20.0, split="validation", certify_on="test", store=shelf, **QUICK)
    assert found.guess == mt.evaluate(classifier, task, split="test").baseline["accuracy"]


def test_asking_again_reads_the_store(
    classifier: Path, solved: Callable[..., Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = solved(120)
    first = prune(classifier, task, 20.0, store=tmp_path, **QUICK)
    assert {entry.kind for entry in Shelf(tmp_path).entries()} == {"cuts", "look"}
    before = sorted(Shelf(tmp_path).addresses())
    # Nothing is run again, but for the few examples whose time is taken.
    monkeypatch.setattr("microtome.pruning.search.run_cuts", lambda *_: [])
    monkeypatch.setattr("microtome.training.cut_store.predict_cuts", None)
    again = prune(classifier, task, 20.0, store=tmp_path, **QUICK)
    assert (again.kept, again.comparison, again.look) == (first.kept, first.comparison, first.look)
    assert sorted(Shelf(tmp_path).addresses()) == before


def test_too_few_examples_are_told(classifier: Path, solved: Callable[..., Task], shelf: Path) -> None:
    found = prune(classifier, solved(80), 1.0, store=shelf, **QUICK)
    assert not found.certified
    assert found.kept == (1, 2, 3, 4, 5)
    assert found.model is None
    assert found.findings[0].startswith("Nothing can be removed safely: without block")
    assert "that certify would be needed to show it 8 times in 10" in found.findings[0]
    assert "there were 40 (80 in all)." in found.findings[0]
    with pytest.raises(InputError, match="must be certified, but bert is not: Nothing can be removed safely"):
        found.export("anywhere")


def test_where_every_cut_costs_too_much_nothing_is_tested(checkpoint_of: Any, shelf: Path) -> None:
    encoder: Any = load(checkpoint_of("bert", "SequenceClassification", num_labels=3, num_hidden_layers=2))
    encoder.model.config.id2label = {0: "a", 1: "b", 2: "c"}
    items = tuple(Item(id=str(i), texts=(text,), target=0) for i, text in enumerate(texts(300)))
    blank = task_with("classification", {"validation": items}, ("a", "b", "c"))
    balance(encoder, blank, "validation")
    model = build(encoder, blank, "own")
    split, cuts = blank.split("validation"), [(1, 2), (1,), (2,)]
    full, *rest = predict_cuts(model, split, blank, encoder.tokenizer, cuts, longest=32)
    # Texts on which some cut differs from the whole model, whose answers are right.
    kept = [
        [
            Item(id=item.id, texts=item.texts, target=right)
            for item, right, answer in zip(items, full, one, strict=True)
            if answer != right
        ]
        for one in rest
    ]
    fewest = min(map(len, kept))
    assert fewest > 10
    chosen = {item.id: item for part in kept for item in part[:fewest]}
    task = task_with("classification", {"validation": tuple(chosen.values())}, ("a", "b", "c"))
    found = prune(encoder, task, 1.0, store=shelf, **QUICK)
    assert (found.certified, found.steps, found.look) == (False, (), None)
    assert found.findings[0].startswith("Nothing can be removed safely: the cheapest cut, without block")
    assert "examples that choose" in found.findings[0]


def test_certify_and_confirm_on_splits_of_their_own(
    classifier: Path, solved: Callable[..., Task], shelf: Path
) -> None:
    task = solved(200, ("validation", "train", "test", "more"))
    found = prune(classifier, task, 8.0, certify_on="test", confirm_on="more", store=shelf, **QUICK)
    assert found.comparison is not None
    assert found.confirmed is not None
    assert (found.comparison.n, found.confirmed.n) == (200, 200)
    assert "200 examples of validation" in found.chosen_on
    assert "200 examples of test" in found.certified_on
    assert found.claims[-1].kind == "confirmation"
    assert "onfirmed on 200 examples of more" in render(found.claims[-1])
    assert found.document()["confirmed"]["n"] == 200
    with pytest.raises(InputError, match="must be different ones, but got validation, test, test"):
        prune(classifier, task, certify_on="test", confirm_on="test")


def test_another_draw_of_the_examples_is_another_half(
    classifier: Path, solved: Callable[..., Task], shelf: Path
) -> None:
    task = solved(120)
    told = [prune(classifier, task, 20.0, seed=seed, store=shelf, **QUICK).provenance for seed in (0, 1)]
    assert told[0]["certify_digest"] != told[1]["certify_digest"]


@pytest.mark.parametrize("model_type", ["gpt2", "llama", "bert"])
def test_language_models_by_perplexity(model_type: str, checkpoint_of: Any, shelf: Path) -> None:
    head = "MaskedLM" if model_type == "bert" else "CausalLM"
    folder = checkpoint_of(model_type, head)
    encoder: Any = load(folder)
    still(encoder.model, encoder.family, (2, 3))
    items = tuple(Item(id=str(i), texts=(text,)) for i, text in enumerate(texts(160)))
    task = task_with("language_modeling", {"validation": items})
    found = prune(encoder, task, 15.0, store=shelf, **QUICK)
    assert found.unit == "of perplexity"
    assert found.certified
    assert len(found.removed) == 2  # two of three blocks do nothing
    assert re.search(r"can be removed at a cost of at most [\d.]+ of perplexity\.", found.findings[0])
    assert found.comparison is not None
    assert found.comparison.method.endswith("on the log scale")


def test_recovered_models_are_what_is_certified(
    classifier: Path, solved: Callable[..., Task], tmp_path: Path
) -> None:
    task = solved(200)
    found = prune(
        classifier,
        task,
        30.0,
        recover=3,
        recipe="wu2020",
        batch=8,
        rate=1e-6,
        longest=32,
        store=tmp_path,
        **QUICK,
    )
    kinds = [entry.kind for entry in Shelf(tmp_path).entries()]
    assert kinds.count("finetune") >= len(found.steps) >= 1
    assert found.certified
    assert found.model is not None
    assert found.recover == 3
    whole: Any = load(classifier)
    tuned = found.model.state_dict()
    name = "net.bert.encoder.layer.0.output.dense.weight"
    block = found.kept[0] - 1
    before = whole.model.state_dict()[f"bert.encoder.layer.{block}.output.dense.weight"]
    assert not tuned[name].equal(before)  # it learned


def test_examples_that_were_not_trained_on(solved: Callable[..., Task], tmp_path: Path) -> None:
    task = solved(120)
    encoder: Any = load(tiny.save_checkpoint(tmp_path / "plain", "bert"))
    tuned = finetune(
        encoder, task, "wu2020", train_size=40, steps=2, batch=8, longest=32, store=tmp_path / "shelf", seed=3
    )
    found = prune(tuned, task, 99.0, split="rest", store=tmp_path / "shelf", **QUICK)
    assert "40 examples of rest of train" in found.chosen_on
    with pytest.raises(InputError, match="'train' is what it was trained on; 'rest' names the part"):
        prune(tuned, task, split="train", store=tmp_path / "shelf")
    again = prune(tuned.folder, task, 99.0, split="rest", store=tmp_path / "shelf", **QUICK)
    assert again.provenance["certify_digest"] == found.provenance["certify_digest"]
    whole = finetune(encoder, task, "wu2020", steps=1, batch=8, longest=32, store=tmp_path / "shelf")
    with pytest.raises(InputError, match=r"'rest' must leave examples, but .* was trained on all 120"):
        prune(whole, task, split="rest")


@pytest.mark.parametrize(
    "options,words",
    [
        ({"max_drop": 0}, "max_drop must be a number above 0, but got 0"),
        ({"level": 0.3}, "level must be between 0.5 and 1, but got 0.3"),
        ({"recover": -1}, "recover must be at least 0, but got -1"),
        ({"share": 1.0}, "share must be between 0 and 1, but got 1.0"),
        ({"rate": 1e-5}, "values of a recipe must come with recover, but got rate alone"),
        ({"split": "rest"}, "'rest' must be of a model that finetune trained"),
    ],
)
def test_wrong_requests(
    options: dict[str, Any], words: str, classifier: Path, solved: Callable[..., Task]
) -> None:
    with pytest.raises(InputError, match=words):
        prune(classifier, solved(20), **options)


def test_what_is_no_model() -> None:
    with pytest.raises(InputError, match="a model must be what finetune returned"):
        prune(7, task_with("classification", {}))
    with pytest.raises(InputError, match="a fine-tuned model must be a folder that exists"):
        prune("/no/such/folder", task_with("classification", {}))
