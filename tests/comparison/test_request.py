"""What a comparison would need is said before it starts, and kept to."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from microtome.comparison.inputs import prepare
from microtome.comparison.request import EnginePlan, SimilarityOptions, read_bytes
from microtome.errors import InputError

LAYERS = [np.zeros((1000, 64), np.float32)] * 12


def plan(memory: int, measures: str = "linear_cka", **more: Any) -> EnginePlan:
    return prepare(LAYERS, None, measures, SimilarityOptions(memory=memory, device="cpu", **more)).plan


def test_less_memory_takes_more_readings_and_every_pair_is_in_one() -> None:
    rich, poor = plan(10**9), plan(6 * 10**5)
    assert (len(rich.left), rich.passes) == (1, 1)
    assert poor.passes > 1
    assert poor.state_bytes < rich.state_bytes
    assert sorted(i for group in poor.left for i in group) == list(range(12))
    assert sorted(i for group in poor.right for i in group) == list(range(12))


def test_intervals_and_permutations_cost_readings() -> None:
    plain = plan(10**9, "procrustes")
    assert plan(10**9, "procrustes", certainty=True, halves=40).operations > 10 * plain.operations
    plain = plan(10**9, "svcca")
    assert plan(10**9, "svcca", certainty=True).operations < 3 * plain.operations
    assert plan(10**9, "svcca", permutations=99).operations > 50 * plain.operations


@pytest.mark.parametrize(
    "seconds, size, said",
    [
        (0.2, 100, "about 1 MB of memory beside the input, 1 reading of the rows, about a second on"),
        (89.4, 25e6, "about 25 MB of memory beside the input, 1 reading of the rows, about 89 seconds on"),
        (600, 999e6, "about 10 minutes on one thread"),
        (9000, 3.21e9, "about 3.2 GB of memory beside the input, 1 reading of the rows, about 2.5 hours on"),
    ],
)
def test_the_sentence(seconds: float, size: float, said: str) -> None:
    assert said in replace(plan(10**9), seconds=seconds, state_bytes=int(size)).sentence()


def test_several_readings_are_said_in_the_plural() -> None:
    assert "3 readings of the rows" in replace(plan(10**9), passes=3).sentence()


@pytest.mark.parametrize("given", ["", "2 GX", "-1", True, 0, "1.2.3", "0GB"])
def test_what_is_no_amount(given: str | int) -> None:
    with pytest.raises(InputError, match=r"^memory must be an amount such as '2GB' or '512MiB', but got"):
        read_bytes(given)
