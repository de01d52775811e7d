"""Does the search on growing samples find planted cuts, twice alike, and go on where it was interrupted?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from microtome.context import Context
from microtome.encoders.loading import load
from microtome.experiments.tuning.pruning import Pruning, prune
from microtome.pruning import search as searching
from microtome.pruning.exporting import card
from microtome.pruning.search import Search, Stage, count_passes, growing_samples
from microtome.tasks.task import Item, Split, Task
from microtome.training.cuts import predict, predict_cuts
from microtome.training.models.modeling import build
from pruning.idle import balance, still, task_with, texts

IDLE = (3, 6)
LABELS = ("no", "yes", "maybe")


@pytest.fixture(scope="module")
def planted(checkpoint_of: Callable[..., Path]) -> tuple[Path, Task]:
    """A BERT of 8 blocks of which two that are no neighbors do nothing, and a task that it solves."""
    names = dict(enumerate(LABELS))
    label = {"id2label": names, "label2id": {name: number for number, name in names.items()}}
    folder = checkpoint_of("bert", "SequenceClassification", num_hidden_layers=8, **label)
    encoder: Any = load(folder)
    still(encoder.model, encoder.family, IDLE)
    items = tuple(Item(id=str(place), texts=(text,), target=0) for place, text in enumerate(texts(300)))
    blank = task_with("classification", {"validation": items}, LABELS)
    balance(encoder, blank, "validation")
    encoder.model.save_pretrained(folder)
    model = build(encoder, blank, "own")
    said = predict(model, blank.split("validation"), blank, encoder.tokenizer)
    solved = tuple(
        replace(item, target=(answer + (place % 10 == 0)) % 3)
        for place, (item, answer) in enumerate(zip(items, said, strict=True))
    )
    return folder, task_with("classification", {"validation": solved}, LABELS)


@pytest.fixture(autouse=True)
def small_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(searching, "FIRST", 32)
    monkeypatch.setattr(searching, "PIECE", {"cpu": 200, "cuda": 200})


def prune_planted(planted: tuple[Path, Task], store: Path, **options: Any) -> Any:
    return prune(*planted, 8.0, store=store, speed=False, **options)


def test_the_planted_cut_is_found(planted: tuple[Path, Task], tmp_path: Path) -> None:
    found = prune_planted(planted, tmp_path)
    cuts = {cut["kept"]: cut for cut in found.candidates}
    idle = cuts[1, 2, 4, 5, 7, 8]  # neither a span nor a top cut
    assert (idle["cost"], idle["examples"]) == (0.0, 150)
    assert found.certified
    assert set(IDLE) <= set(found.removed)
    every = prune_planted(planted, tmp_path, exhaustive=True)
    assert every.kept == found.kept
    assert {cut["examples"] for cut in every.candidates} == {150}
    assert every.search == (Stage(examples=150, cuts=every.scored),)


def test_the_search_is_recorded(planted: tuple[Path, Task], tmp_path: Path) -> None:
    found = prune_planted(planted, tmp_path)
    assert [stage.examples for stage in found.search] == [32, 64, 150]
    scored = [stage.cuts for stage in found.search]
    assert scored == sorted(scored, reverse=True)
    assert scored[0] == found.scored > 2 * scored[-1]
    assert found.document()["search"][0] == {"examples": 32, "cuts": scored[0]}
    said = f"{scored[0]} on 32 examples, and of these the cheapest {scored[1]} on 64 and {scored[2]} on 150"
    assert said in found.methods
    assert said in card(found)
    complete = {cut["kept"] for cut in found.candidates if cut["examples"] == 150}
    assert len(complete) == scored[-1]
    assert {step.candidate.what for step in found.steps} <= complete


def test_only_examples_that_choose_are_read(planted: tuple[Path, Task], tmp_path: Path) -> None:
    context = Context(store=tmp_path, device="cpu")
    plan = Pruning(model=planted[0], task=planted[1], max_drop=8.0).plan(context)
    search = Search(plan.inputs)
    search.run()
    choose = plan.inputs.examples.choose
    assert sorted(item.id for item in search.items) == sorted(item.id for item in choose)
    assert plan.summary["seconds"] > 0
    assert "To choose takes about" in plan.sentence
    assert "on a first sample of 32 examples" in plan.sentence


def test_the_same_seed_gives_the_same_search(planted: tuple[Path, Task], tmp_path: Path) -> None:
    first, again = (prune_planted(planted, tmp_path / name) for name in ("a", "b"))
    assert first.candidates == again.candidates
    assert first.kept == again.kept
    split = planted[1].split("validation")
    ids = [[item.id for item in growing_samples(split, seed)[0]] for seed in (0, 0, 1)]
    assert ids[0] == ids[1] != ids[2]


def test_an_interrupted_search_goes_on(
    planted: tuple[Path, Task], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run: list[tuple[str, int]] = []

    def counted(model: Any, split: Split, task: Task, tokenizer: Any, cuts: Any, **options: Any) -> Any:
        run.append((split.digest, len(cuts)))
        return predict_cuts(model, split, task, tokenizer, cuts, **options)

    monkeypatch.setattr("microtome.training.cut_store.predict_cuts", counted)
    monkeypatch.setattr(Search, "seconds", lambda _: 0.0)
    whole = prune_planted(planted, tmp_path / "whole")
    pieces = list(run)
    assert len(set(pieces)) == len(pieces) > 8
    run.clear()

    def stop(what: str, *_: int) -> None:
        if len(run) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prune_planted(planted, tmp_path / "part", progress=stop)
    assert run == pieces[:5]
    run.clear()
    resumed = prune_planted(planted, tmp_path / "part")
    assert run == pieces[4:]  # the fifth was under way
    assert (resumed.candidates, resumed.kept) == (whole.candidates, whole.kept)


def test_progress_runs_to_its_end(planted: tuple[Path, Task], tmp_path: Path) -> None:
    told: list[tuple[str, int, int]] = []
    prune_planted(planted, tmp_path, progress=lambda *report: told.append(report))
    search = [(done, total) for what, done, total in told if what == "mine: passes to score cuts"]
    assert len(search) >= 8
    done = [pair[0] for pair in search]
    assert done == sorted(done)
    assert all(part <= total for part, total in search)


def test_fine_tuned_cuts_may_come_back_from_any_loss(planted: tuple[Path, Task], tmp_path: Path) -> None:
    options = Pruning(model=planted[0], task=planted[1], max_drop=0.1)
    plan = options.plan(Context(store=tmp_path, device="cpu"))
    recovering = replace(plan.inputs, options=replace(options, recover=1))
    sizes = [{len(cut) for cut in Search(inputs).run()} for inputs in (plan.inputs, recovering)]
    assert sizes[1] == set(range(1, 8))
    assert len(sizes[0]) < 7


def test_passes_are_the_blocks_that_run(planted: tuple[Path, Task]) -> None:
    folder, task = planted
    encoder: Any = load(folder)
    model = build(encoder, task, "own")
    split = replace(task.split("validation"), items=task.split("validation").items[:4])
    cuts = [(1, 2, 3), (1, 2, 5, 6), (2,), (1, 2, 5, 8)]
    ran: list[int] = []
    for block in model.family.blocks_of(model.base):
        block.register_forward_hook(lambda *_: ran.append(1))
    predict_cuts(model, split, task, encoder.tokenizer, cuts)
    assert count_passes(cuts, 8) == len(ran) / 8


def test_samples_grow_and_keep_groups_together() -> None:
    items = tuple(Item(id=str(i), texts=("a",), target=0, group=str(i // 3)) for i in range(300))
    parts = growing_samples(Split(name="all", items=items), 0)
    assert [len(part) for part in parts] == pytest.approx([32, 32, 64, 172], abs=3)
    assert sorted(item.id for part in parts for item in part) == sorted(item.id for item in items)
    groups = [{item.group for item in part} for part in parts]
    assert sum(map(len, groups)) == 100
    few = Split(name="few", items=items[:60])
    assert [part.items for part in growing_samples(few, 0)] == [few.items]
