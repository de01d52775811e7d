from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microtome.errors import InputError
from microtome.tasks.loading import task
from microtome.tasks.subset import held_out, subset
from microtome.tasks.task import Item, Split
from task_samples import write_files

LABELS = st.lists(st.integers(0, 5), min_size=2, max_size=120)


def split_of(targets: list, groups: list | None = None) -> Split:
    items = [
        Item(id=str(i), texts=(f"text {i}",), target=t, group="" if groups is None else f"g{groups[i]}")
        for i, t in enumerate(targets)
    ]
    return Split(name="train", items=tuple(items))


def ids(split: Split) -> set[str]:
    return {item.id for item in split}


@given(LABELS, st.data(), st.integers(0, 3))
def test_sizes_are_exact_nested_and_in_proportion(labels: list[int], data: st.DataObject, seed: int) -> None:
    split = split_of(labels)
    small = data.draw(st.integers(1, len(labels)))
    large = data.draw(st.integers(small, len(labels)))
    first, second = subset(split, small, seed), subset(split, large, seed)
    assert (len(first), len(second)) == (small, large)
    assert ids(first) <= ids(second)
    counts, whole = Counter(i.target for i in first), Counter(labels)
    for label, count in whole.items():
        assert abs(counts[label] - count * small / len(labels)) < 1
    assert [i.id for i in first] == sorted((i.id for i in first), key=int)


@settings(max_examples=60)
@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 15)), min_size=2, max_size=80), st.data())
def test_groups_stay_whole(rows: list[tuple[int, int]], data: st.DataObject) -> None:
    split = split_of([t for t, _ in rows], [g for _, g in rows])
    sizes = Counter(g for _, g in rows)
    small = data.draw(st.integers(min(sizes.values()), len(rows)))
    large = data.draw(st.integers(small, len(rows)))
    first, second = subset(split, small, 1), subset(split, large, 1)
    assert ids(first) <= ids(second)
    assert len(first) <= small
    kept = Counter(item.group for item in first)
    assert all(count == sizes[int(group[1:])] for group, count in kept.items())
    left = [sizes[g] for g in sizes if f"g{g}" not in kept]
    if len(first) < small:
        # Only the next group, which is too large, stands in the way.
        assert small - len(first) < max(left)
        assert "groups are kept whole" in first.notes[-1]


def test_proportions_with_groups() -> None:
    # Passages with one to three questions, answered unevenly.
    targets, groups = [], []
    for g in range(1500):
        for q in range(1 + g % 3):
            targets.append(int((7 * g + q) % 10 < 6))
            groups.append(g)
    split = split_of(targets, groups)
    part = subset(split, 500, 0)
    share = sum(targets) / len(targets)
    assert abs(sum(i.target for i in part) - share * len(part)) <= 2
    assert len(part) >= 498
    sizes = Counter(Counter(i.group for i in part).values())
    assert all(abs(sizes[s] / sum(sizes.values()) - 1 / 3) < 0.05 for s in (1, 2, 3))


def test_numbers_are_drawn_from_all_their_range() -> None:
    split = split_of([i / 100 for i in range(1000)])
    part = subset(split, 100, 0)
    assert all(abs(sum(low <= i.target < low + 1 for i in part) - 10) <= 1 for low in range(10))


def test_seeds_and_notes() -> None:
    split = split_of([0, 1] * 50)
    assert ids(subset(split, 20, 0)) == ids(subset(split, 20, 0))
    assert ids(subset(split, 20, 0)) != ids(subset(split, 20, 1))
    assert subset(split, 20, 7).notes == ("20 of 100 examples, drawn with seed 7",)
    assert subset(split, 100, 0) is split


def test_small_subsets_of_large_documents() -> None:
    groups = [g for g in range(60) for _ in range(1 + 5 * (g % 12))]
    split = split_of([None] * len(groups), groups)
    for size in (8, 64, 200):
        assert 0.5 * size < len(subset(split, size, 0)) <= size


def test_other_kinds(tmp_path: Path) -> None:
    for name in ("cosmosqa", "ewt-parsing", "ner", "language-modeling"):
        split = task(name, data=write_files(name, tmp_path)).split("train")
        part = subset(split, len(split) - 1, 0) if len(split) > 1 else split
        assert 0 < len(part) <= len(split)


@pytest.mark.parametrize("size", [0, -1, 5, 2.0, True, "2"])
def test_sizes_that_are_refused(size: object) -> None:
    with pytest.raises(
        InputError, match="the size of a subset of train must be a whole number between 1 and 4, but got"
    ):
        subset(split_of([0, 1, 0, 1]), size)  # pyright: ignore[reportArgumentType]


def test_a_group_that_is_larger_than_the_subset() -> None:
    with pytest.raises(
        InputError, match="size must allow the smallest group of train, but 1 is smaller than it"
    ):
        subset(split_of([0, 1, 0, 1], [0, 0, 1, 1]), 1)


def test_a_split_is_cut_in_two(tmp_path: Path) -> None:
    rows = "".join(f"{i}\tq{i}\ts{i // 3}\t{'not_' * (i % 2)}entailment\n" for i in range(60))
    (tmp_path / "dev.tsv").write_text("index\tquestion\tsentence\tlabel\n" + rows)
    (tmp_path / "test.tsv").write_text("index\tquestion\tsentence\n0\ta\tb\n")
    whole = task("qnli", data=tmp_path)
    made = held_out(whole, 15, seed=1)
    assert set(made.splits) == {"train", "validation", "test"}
    train, held = made.split("train"), made.split("validation")
    assert (len(train), len(held)) == (45, 15)
    assert ids(train) | ids(held) == ids(whole.split("validation"))
    assert not {i.group for i in train} & {i.group for i in held}
    assert "15 of the 60 examples of validation, cut with seed 1, groups kept whole" in held.notes
    assert "cut with seed 1" in made.source
    assert held_out(whole, 15, seed=1).digest("train") == made.digest("train")
    with pytest.raises(InputError, match="to learn from, but it has validation and test alone"):
        held_out(whole, 15, source="train")
    with pytest.raises(InputError, match="size must be smaller than the 60 examples of qnli/validation"):
        held_out(whole, 60).split("train")


def test_the_official_validation_split_is_kept(tmp_path: Path) -> None:
    made = held_out(task("rte", data=write_files("rte", tmp_path)), 1, source="train")
    assert set(made.splits) == {"train", "validation", "test", "original_validation"}
    assert made.split("validation").items[0].id.startswith("train-")
    assert made.split("original_validation").items[0].id == "validation-0"
