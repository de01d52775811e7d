"""A call with an argument of another type is answered in one sentence, whatever function is called."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import microtome as mt
from microtome.arguments import checked
from microtome.errors import InputError, MicrotomeError
from microtome.runtime import find_device
from microtome.store.shelf import Shelf

# Not typed, since what is called with is wrong.
wrong: Any = mt
WrongShelf: Any = Shelf
ROWS = np.random.default_rng(0).normal(size=(40, 4))
MAP = np.corrcoef(np.random.default_rng(1).normal(size=(4, 20)))


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: wrong.similarity(ROWS, ROWS, seed="x"), "seed must be a whole number, but got 'x'."),
        (
            lambda: mt.similarity(ROWS, ROWS, seed=-1),
            "seed must be a whole number of at least 0, but got -1.",
        ),
        (lambda: wrong.similarity(ROWS, ROWS, level=None), "level must be a number, but got None."),
        (lambda: wrong.similarity_matrix([ROWS], halves=1.5), "halves must be a whole number, but got 1.5."),
        (
            lambda: wrong.similarity_matrix([ROWS], halves=10**40),
            "halves must be at most 100,000, but got",
        ),
        (lambda: mt.similarity(ROWS, ROWS, seed=10**400), "seed must be within 64 bits, but"),
        (lambda: mt.similarity(ROWS, ROWS, level=10**400), "level must be within 64 bits, but"),
        (lambda: wrong.compare([{"a": 1}], on=["a b"]), "the source of a model must be a folder or a hub id"),
        (lambda: WrongShelf(3), "store must be a folder, but got 3."),
        (lambda: WrongShelf("\0"), "store must be a folder without a zero byte"),
        (lambda: wrong.watch(3, layers=["x"]), "a model to watch must be a torch module, but got 'int'."),
        (lambda: wrong.attention_similarity_matrix(None), "left must be the attention of sentences"),
        (lambda: wrong.similarity_matrix([ROWS], measures=3), "measures must be names of measures"),
        (lambda: mt.trajectory("a" * 3000, on=["a b c"]), "checkpoints must be in a folder that can be read"),
        (lambda: wrong.similarity(ROWS, ROWS, clusters=3), "clusters must be a flat list of ids, but got 3."),
        (lambda: wrong.analysis.convergence(3, ROWS), "x layer 0 must have the shape [rows, features]"),
        (
            lambda: wrong.analysis.mantel(np.ma.masked_array(MAP, MAP > 0.5), MAP),
            "map_a must have no mask, but it is",
        ),
        (lambda: wrong.analysis.mantel("x", MAP), "map_a must be an array of numbers, but got 'x'."),
        (
            lambda: wrong.analysis.monotonicity(np.zeros((0, 0))),
            "the shape of values must be [layers, layers]",
        ),
        (
            lambda: wrong.analysis.layer_matching({"a": 1}),
            "values must be an array of numbers, but got {'a': 1}.",
        ),
        (lambda: wrong.over_seeds([]), "runs must be fine-tuned models, at least one, but got []."),
        (
            lambda: wrong.attention_similarity_matrix(3),
            "left must be the attention of sentences",
        ),
        (lambda: wrong.load([]), "source must be a path, but got []."),
        (lambda: wrong.load("x\0"), "source must have no zero byte in it, but got 'x\\x00'."),
        (lambda: wrong.load("x", random_init="yes"), "random_init must be true or false, but got 'yes'."),
        (lambda: wrong.load("x", device="abacus"), "device must be a torch device such as 'cpu' or 'cuda'"),
        (lambda: wrong.load("x", revision=""), "revision must not be empty, but got ''; leave it out"),
        (lambda: wrong.open(3), "path must be a path, but got 3."),
        (
            lambda: wrong.finetune("bert", "sst2"),
            "encoder must be an encoder of mt.load, but got 'bert'.",
        ),
        (lambda: wrong.held_out(None, 5), "task must be a task of mt.task, but got None."),
    ],
)
def test_one_sentence_says_what_must_hold(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(MicrotomeError) as told:
        call()
    assert words in str(told.value)
    assert "\n" not in str(told.value)


def test_what_an_annotation_leaves_open_is_not_looked_at() -> None:
    @checked
    def show(anything: Any, size: int | None = None, *, names: list[str] | None = None) -> tuple[Any, ...]:
        return anything, size, names

    assert show(object, None)[1] is None
    assert show(3, int(np.int64(4)), names=["a"]) == (3, 4, ["a"])
    with pytest.raises(InputError, match="size must be a whole number or None, but got 'x'"):
        show(3, "x")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"show: got an unexpected keyword argument 'bogus'\."):
        show(3, bogus=1)  # pyright: ignore[reportCallIssue]


def _is_checked(function: Any) -> bool:
    """By its annotations, or by the options of the experiment that it is derived from."""
    return hasattr(function, "__wrapped__") or "context" in inspect.signature(function).parameters


def test_every_public_function_is_checked() -> None:
    # By their modules: the name of a package takes the place of a function once it is imported.
    places = [path.rpartition(".") for path in mt._PUBLIC.values()]
    values = [getattr(import_module(f"microtome.{module}"), name) for module, _, name in places]
    functions = [value for value in (*values, *vars(mt.analysis).values()) if inspect.isfunction(value)]
    assert len(functions) >= 40
    assert [function.__name__ for function in functions if not _is_checked(function)] == []


def test_a_device_that_is_not_here_is_refused() -> None:
    assert find_device("cpu").type == "cpu"
    for name, words in (
        ("meta", "'cpu' or 'cuda'"),
        ("cuda:99", "one that this machine has"),
        (3.5, "a torch"),
    ):
        with pytest.raises(InputError, match=words):
            find_device(name)


def test_long_values_are_cut_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(InputError) as told:
        mt.similarity(ROWS, ROWS, level=np.full((50, 50), math.pi))  # pyright: ignore[reportArgumentType]
    assert len(str(told.value)) < 300


@pytest.mark.parametrize(
    "call, words",
    [
        (lambda: wrong.open("a" * 5000), "path must be a path of at most 4,000 characters, but got 'aaa"),
        (lambda: wrong.similarity_matrix([ROWS], halves=-1), "halves must be a whole number of at least 0"),
        (lambda: wrong.series("x", revisions=[3]), "a revision must be a string, but got 3."),
        (lambda: wrong.over_seeds(3), "runs must be fine-tuned models, at least one, but got 3."),
        (lambda: wrong.watch(None, layers="x", rows=3), "rows must be one of"),
    ],
)
def test_what_a_signature_does_not_say(call: Callable[[], Any], words: str) -> None:
    with pytest.raises(MicrotomeError) as told:
        call()
    assert words in str(told.value)
