"""Are the rows of every layer the same however the examples are batched, within the memory that there is?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import given

import tiny
from microtome.corpora.examples import Example
from microtome.encoders.loading import load
from microtome.errors import InputError, WorkError
from microtome.extraction.streaming import Budget, buckets, constant_layers, out_of_memory, stream
from microtome.randomness import generator
from microtome.rows.planning import plan_rows
from microtome.rows.selecting import row_options
from microtome.testing.families import states

WORDS = ["the", "cat", "sleeps", "on", "every", "mat", "don't", "日本", "😀", "reader", "likes", "long"]
WORDS += ["books", "stop", ".", "\u200b"]


@pytest.fixture(scope="module")
def encoders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("models")
    kinds = ("bert", "roberta", "xlnet", "gpt2", "albert")
    return {kind: load(tiny.save_checkpoint(folder / kind, kind)) for kind in kinds}


@pytest.fixture(scope="module")
def corpus() -> list[Example]:
    rng = generator(0, "corpus")
    return [
        Example(id=f"s{k}", words=tuple(rng.choice(WORDS, size=int(rng.integers(1, 15))))) for k in range(23)
    ]


def collect(
    encoders: Sequence[Any], corpus: list[Example], kind: str = "word", **options: Any
) -> list[list[Any]]:
    """All rows of all layers, by encoder."""
    chosen = {k: options.pop(k) for k in ("subword", "published", "sample", "special") if k in options}
    rows = plan_rows(corpus, encoders, row_options(kind, **chosen))
    found = list(stream(encoders, corpus, rows, **options))
    assert [w.start for w in found[1:]] == [w.stop for w in found[:-1]]
    assert found[-1].stop == len(rows)
    return [
        [torch.cat([w.layers[side][layer] for w in found]) for layer in range(len(found[0].layers[side]))]
        for side in range(len(encoders))
    ]


@pytest.mark.parametrize("kind, options", [
    ("word", {}), ("word", {"subword": "mean"}), ("word", {"published": "wu"}), ("word", {"sample": 20}),
    ("cls", {}), ("mean", {}), ("mean", {"special": "in"}), ("token", {}),
])  # fmt: skip
@pytest.mark.parametrize("name", ["bert", "xlnet", "gpt2"])
def test_batches_windows_and_padding_change_nothing(
    encoders: dict[str, Any], corpus: list[Example], name: str, kind: str, options: dict[str, Any]
) -> None:
    encoder = [encoders[name]]
    (alone,) = collect(encoder, corpus, kind, tokens=1, **options)
    for settings in ({}, {"tokens": 60}, {"window": 4}, {"window": 1000, "tokens": 10**6}):
        (found,) = collect(encoder, corpus, kind, **settings, **options)
        for one, two in zip(alone, found, strict=True):
            torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-5)


def test_rows_are_the_states_of_their_words(encoders: dict[str, Any], corpus: list[Example]) -> None:
    encoder = encoders["roberta"]
    for subword in ("first", "last", "mean"):
        (found,) = collect([encoder], corpus, subword=subword)
        row = 0
        for example in corpus:
            (tokens,) = encoder.words([example.words])
            seen = states(encoder, [tokens])
            for word in range(len(example.words or ())):
                places = np.flatnonzero(tokens.words == word)
                pick = {"first": places[:1], "last": places[-1:], "mean": places}[subword]
                for layer, rows in enumerate(found):
                    expected = seen[layer][0, pick].mean(0)
                    torch.testing.assert_close(rows[row], expected, atol=1e-5, rtol=1e-5)
                row += 1
        assert row == len(found[0])


def test_two_models_in_one_pass_see_the_same_rows(encoders: dict[str, Any], corpus: list[Example]) -> None:
    pair = [encoders["bert"], encoders["xlnet"]]
    together = collect(pair, corpus)
    assert len({len(layer) for side in together for layer in side}) == 1
    rows = plan_rows(corpus, pair, row_options("word"))
    for side, encoder in enumerate(pair):
        (alone,) = zip(*[w.layers for w in stream([encoder], corpus, rows, window=1000)], strict=True)
        for one, two in zip(alone[0], together[side], strict=True):
            torch.testing.assert_close(one, two, atol=1e-5, rtol=1e-5)


def test_the_embedding_of_a_fixed_token_keeps_its_place(
    encoders: dict[str, Any], corpus: list[Example]
) -> None:
    options = row_options("cls")
    for name, constant in (("bert", (0,)), ("albert", (0,)), ("xlnet", ()), ("gpt2", ())):
        rows = plan_rows(corpus, [encoders[name]], options)
        assert constant_layers(encoders[name], rows) == constant
        (found,) = collect([encoders[name]], corpus, "cls")
        assert len(found) == len(encoders[name].layers)
        for layer in constant:
            assert torch.equal(found[layer], found[layer][:1].expand_as(found[layer]))
        assert not torch.equal(found[1], found[1][:1].expand_as(found[1]))


@pytest.mark.parametrize("kind", ["word", "token", "mean"])
def test_other_rows_differ_in_every_layer(encoders: dict[str, Any], corpus: list[Example], kind: str) -> None:
    for encoder in encoders.values():
        assert constant_layers(encoder, plan_rows(corpus, [encoder], row_options(kind))) == ()


def test_operations_in_place_do_not_change_what_was_seen(
    encoders: dict[str, Any], corpus: list[Example]
) -> None:
    encoder = encoders["bert"]
    (before,) = collect([encoder], corpus)

    def overwrite(module: Any, given: Any, result: Any) -> None:
        given[0].zero_()

    hooks = [block.register_forward_hook(overwrite) for block in encoder.blocks[1:]]
    try:
        (after,) = collect([encoder], corpus)
    finally:
        for hook in hooks:
            hook.remove()
    for one, two in zip(before, after, strict=True):
        assert torch.equal(one, two)


def test_no_hook_stays_behind(encoders: dict[str, Any], corpus: list[Example]) -> None:
    encoder = encoders["albert"]
    collect([encoder], corpus)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in encoder.base.modules())
    with pytest.raises(ZeroDivisionError):
        encoder.run(encoder.words([["the"]]), lambda layer, seen: 1 / 0)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in encoder.base.modules())


def test_a_run_can_begin_in_the_middle(encoders: dict[str, Any], corpus: list[Example]) -> None:
    encoder = [encoders["bert"]]
    rows = plan_rows(corpus, encoder, row_options("word"))
    whole = list(stream(encoder, corpus, rows, window=5))
    rest = list(stream(encoder, corpus, rows, window=5, first=3))
    assert [w.number for w in rest] == [3, 4]
    for one, two in zip(whole[3:], rest, strict=True):
        assert (one.start, one.stop) == (two.start, two.stop)
        assert all(torch.equal(a, b) for a, b in zip(one.layers[0], two.layers[0], strict=True))


def test_another_corpus_is_noticed(encoders: dict[str, Any], corpus: list[Example]) -> None:
    encoder = [encoders["bert"]]
    rows = plan_rows(corpus, encoder, row_options("word"))
    with pytest.raises(InputError, match="the one that the rows were planned on, but from example 0"):
        list(stream(encoder, corpus[::-1], rows))


def test_buckets_hold_everything_once_and_keep_to_the_budget() -> None:
    rng = generator(0, "lengths")
    lengths = rng.integers(1, 50, size=200).tolist()
    found = list(buckets(lengths, 100))
    assert sorted(k for batch in found for k in batch) == list(range(200))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(lengths[k] for k in batch) <= 100


def test_batches_are_halved_when_memory_runs_out() -> None:
    done: list[int] = []

    def work(part: Sequence[int]) -> None:
        if len(part) > 3:
            raise RuntimeError("CUDA out of memory. Tried to allocate 20.00 GiB")
        done.extend(part)

    budget = Budget(64)
    budget.run(list(range(10)), [4] * 10, work)
    assert done == list(range(10))
    assert budget.tokens < 64

    def never(part: Sequence[int]) -> None:
        raise MemoryError

    with pytest.raises(WorkError, match="one example of 4 tokens must fit the memory, but it ran out"):
        budget.run([0, 1], [4, 4], never)

    def otherwise(part: Sequence[int]) -> None:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        budget.run([0, 1], [4, 4], otherwise)


def test_progress_counts_examples(encoders: dict[str, Any], corpus: list[Example]) -> None:
    encoder = [encoders["bert"]]
    rows = plan_rows(corpus, encoder, row_options("word"))
    said: list[tuple[str, int, int]] = []
    list(stream(encoder, corpus, rows, window=10, progress=lambda *report: said.append(report)))
    assert said == [("examples", 10, 23), ("examples", 20, 23), ("examples", 23, 23)]


LENGTHS = st.lists(st.integers(1, 40), max_size=40)


@given(LENGTHS, st.integers(1, 200))
def test_every_example_runs_once_and_within_the_budget(lengths: list[int], tokens: int) -> None:
    found = list(buckets(lengths, tokens))
    assert sorted(k for batch in found for k in batch) == list(range(len(lengths)))
    for batch in found:
        assert len(batch) == 1 or len(batch) * max(lengths[k] for k in batch) <= tokens
    # Longest first, so that memory that does not suffice shows at once.
    flat = [lengths[k] for batch in found for k in batch]
    assert flat == sorted(flat, reverse=True)


@given(LENGTHS.filter(bool), st.integers(1, 12))
def test_whatever_fits_runs_once_and_in_order(lengths: list[int], most: int) -> None:
    done: list[int] = []

    def work(part: Sequence[int]) -> None:
        if len(part) > most:
            raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory")
        done.extend(part)

    budget = Budget(10**6)
    budget.run(range(len(lengths)), lengths, work)
    assert done == list(range(len(lengths)))
    assert (budget.tokens < 10**6) == (len(lengths) > most)


def test_one_example_that_does_not_fit_is_told_by_its_length() -> None:
    def work(part: Sequence[int]) -> None:
        if 1 in part:
            raise MemoryError

    with pytest.raises(WorkError) as caught:
        Budget(64).run([0, 1], [3, 512], work)
    said = "one example of 512 tokens must fit the memory, but it ran out; try a smaller longest=."
    assert str(caught.value) == said


def test_other_errors_are_not_taken_for_memory() -> None:
    def work(part: Sequence[int]) -> None:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    budget = Budget(64)
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        budget.run([0, 1], [1, 1], work)
    assert budget.tokens == 64


@pytest.mark.parametrize("said, memory", [
    ("CUDA out of memory. Tried to allocate 20.00 GiB", True),
    ("DefaultCPUAllocator: can't allocate memory: you tried to allocate", True),
    ("index out of range in self", False),
])  # fmt: skip
def test_memory_is_known_by_its_words(said: str, memory: bool) -> None:
    assert out_of_memory(RuntimeError(said)) is memory
