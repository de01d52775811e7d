"""Does the store know how often examples were looked at, and does the promise hold after several tries?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from microtome.context import Context
from microtome.errors import InputError
from microtome.experiments.tuning.pruning import prune
from microtome.pruning.exporting import card
from microtome.pruning.looks import Look, look_level, take_look
from microtome.store.shelf import Shelf
from microtome.tasks.task import Item, Split, Task

QUICK: dict[str, Any] = {"speed": False}


def examples(first: int, last: int, name: str = "validation") -> Split:
    items = tuple(Item(id=f"{name}-{i}", texts=(f"text {i}",), target=0) for i in range(first, last))
    return Split(name=name, items=items)


def look(split: Split, store: Path, margin: float = 1.0, model: str = "a", **more: Any) -> Look:
    return take_look(
        split,
        model=model,
        request={"max_drop": margin, **more},
        context=Context(store=store, command="prune"),
    )


def test_a_second_try_is_counted_told_and_tested_at_a_corrected_level(
    classifier: Path, solved: Callable[..., Task], tmp_path: Path
) -> None:
    task = solved(200, ("validation", "test"))
    first = prune(classifier, task, 1.0, store=tmp_path, **QUICK)
    assert not first.certified
    assert first.look == Look(number=1, level=0.96, promised=0.95)
    second = prune(classifier, task, 20.0, store=tmp_path, **QUICK)
    assert second.provenance["certify_digest"] == first.provenance["certify_digest"]
    assert second.look == Look(number=2, level=0.995, promised=0.95, earlier=(1.0,))
    assert second.comparison is not None
    assert (second.comparison.level, second.level) == (0.995, 0.95)
    assert "(99.5 %, one-sided" in second.findings[0]
    assert (
        "look 2 at the examples that certify, after 1 earlier look (margin 1): tested at 99.5 %, so that all "
        "looks at these examples together keep 95 %; examples that no look has had would be tested at 96 %."
    ) in second.findings
    text = card(second)
    assert "margin 20 points, declared after 1 earlier look (margin 1) at the examples that certify" in text
    assert "declared before" not in text
    assert second.document()["look"]["number"] == 2
    # The same request is the same look; other halves of the same examples are not fresh; others are.
    assert prune(classifier, task, 1.0, store=tmp_path, **QUICK).steps == first.steps
    other = prune(classifier, task, 20.0, seed=1, store=tmp_path, **QUICK)
    assert other.look is not None
    assert other.look.earlier == (1.0, 20.0)
    fresh = prune(classifier, task, 20.0, certify_on="test", store=tmp_path, **QUICK)
    assert fresh.look is not None
    assert fresh.look.number == 1


def test_a_smaller_model_counts_as_the_one_it_was_cut_from(
    classifier: Path, solved: Callable[..., Task], tmp_path: Path
) -> None:
    task = solved(120)
    found = prune(classifier, task, 30.0, store=tmp_path / "store", **QUICK)
    again = prune(found.export(tmp_path / "small"), task, 60.0, store=tmp_path / "store", **QUICK)
    assert again.look is not None
    assert again.look.earlier == (30.0,)


def test_looks_are_known_by_the_text_of_examples(tmp_path: Path) -> None:
    assert look(examples(0, 100), tmp_path).number == 1
    assert look(examples(0, 100), tmp_path, 2.0).number == 2
    assert look(examples(0, 100), tmp_path).number == 1  # the same request
    renamed = replace(examples(50, 150, "other"), name="other")
    assert look(renamed, tmp_path, 3.0).earlier == (1.0, 2.0)
    assert look(examples(0, 100), tmp_path, 4.0, model="b").number == 1  # of another model
    assert look(examples(1000, 1100), tmp_path, 5.0).number == 1
    # A text or two that stand in both do not make examples known.
    assert look(examples(1098, 1400), tmp_path, 6.0).number == 1


def test_examples_that_chose_before_are_not_fresh(tmp_path: Path) -> None:
    take_look(
        examples(0, 10),
        model="a",
        request={"max_drop": 1.0},
        beside=(examples(10, 20),),
        context=Context(store=tmp_path),
    )
    assert look(examples(10, 20), tmp_path, 2.0).number == 2


def test_old_looks_are_not_swept_away(tmp_path: Path) -> None:
    look(examples(0, 10), tmp_path)
    assert Shelf(tmp_path).gc(older_than_days=0).removed == ()
    assert look(examples(0, 10), tmp_path, 2.0).number == 2


@pytest.mark.parametrize("level", [0.95, 0.8])
def test_any_number_of_looks_keeps_the_level(level: float) -> None:
    spent = [1 - look_level(level, number) for number in range(1, 2000)]
    assert spent == sorted(spent, reverse=True)
    assert sum(spent) <= 1 - level + 1e-12
    with pytest.raises(InputError, match="the number of a look must be at least 1"):
        look_level(level, 0)
