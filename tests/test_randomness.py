"""Do random numbers depend on the seed and the purpose alone?"""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
import torch

from microtome.errors import InputError
from microtome.randomness import generator, repeatable


def drawn(seed: int, *names: str | int) -> list[float]:
    return generator(seed, *names).random(4).tolist()


def test_the_same_seed_and_name_give_the_same_numbers_on_every_machine() -> None:
    assert drawn(3, "halves") == drawn(3, "halves")
    # Stored results are repeated from these: a change of the numbers is a change of the results.
    known = [0.6725224893366349, 0.46101917684614013, 0.7467807676414425, 0.49082574323713335]
    assert drawn(3, "halves") == known


def test_another_seed_or_name_gives_other_numbers() -> None:
    several = [drawn(0, "a"), drawn(1, "a"), drawn(0, "b"), drawn(0), drawn(0, "a", "b"), drawn(0, "ab")]
    several += [drawn(0, "a", 1), drawn(0, "a", 11), drawn(0, "a", 1, 1)]
    assert len({tuple(numbers) for numbers in several}) == len(several)


@pytest.mark.parametrize("seed", [-1, 1.5, "1", True, None])
def test_a_seed_is_a_whole_number_of_at_least_0(seed: Any) -> None:
    with pytest.raises(InputError, match="seed must be a whole number of at least 0, but got"):
        generator(seed, "rows")


def test_purposes_are_unrelated() -> None:
    one, two = (generator(0, name).standard_normal(4000) for name in ("left", "right"))
    assert abs(np.corrcoef(one, two)[0, 1]) < 4 / np.sqrt(4000)


def test_global_state_is_neither_read_nor_changed() -> None:
    np.random.seed(1)  # noqa: NPY002
    random.seed(1)
    before = np.random.get_state()[1].copy(), random.getstate()  # type: ignore[index,union-attr]  # noqa: NPY002
    first = drawn(0, "a")
    assert np.array_equal(np.random.get_state()[1], before[0])  # type: ignore[index]  # noqa: NPY002
    assert random.getstate() == before[1]
    np.random.seed(2)  # noqa: NPY002
    assert drawn(0, "a") == first


def test_sums_of_a_gpu_are_in_order_for_as_long_as_it_lasts() -> None:
    told = torch.are_deterministic_algorithms_enabled, torch.is_deterministic_algorithms_warn_only_enabled
    before = [each() for each in told]
    with repeatable("cpu"):
        assert [each() for each in told] == before, "those of a processor always are"
    for strict in (True, False):
        with repeatable("cuda:0", strict=strict):
            assert [each() for each in told] == [True, not strict]
        assert [each() for each in told] == before
