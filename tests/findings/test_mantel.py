from __future__ import annotations

import itertools

import numpy as np
import pytest

from microtome.errors import InputError
from microtome.findings.mantel import mantel
from microtome.randomness import generator


def maps(layers: int, seed: int, related: float = 0.0) -> tuple[np.ndarray, np.ndarray]:
    a, b = generator(seed, "maps").uniform(size=(2, layers, layers))
    return a, related * a + (1 - related) * b


def upper(values: np.ndarray) -> np.ndarray:
    return ((values + values.T) / 2)[np.triu_indices(len(values), 1)]


def test_correlation_is_that_of_the_pairs() -> None:
    a, b = maps(9, 0, 0.4)
    assert mantel(a, b, 9).correlation == pytest.approx(np.corrcoef(upper(a), upper(b))[0, 1])


@pytest.mark.parametrize("seed", range(3))
def test_p_approaches_that_of_all_orders(seed: int) -> None:
    a, b = maps(5, seed, 0.3)
    observed = np.corrcoef(upper(a), upper(b))[0, 1]
    every = [
        np.corrcoef(upper(a), upper(b[np.ix_(order, order)]))[0, 1]
        for order in itertools.permutations(range(5))
    ]
    exact = np.mean(np.array(every) >= observed - 1e-12)
    found = mantel(a, b, permutations=2000, seed=seed)
    assert found.p == pytest.approx(exact, abs=4 * np.sqrt(exact * (1 - exact) / 2000) + 1 / 2001)


def test_the_same_map_is_found_and_an_unrelated_one_is_not() -> None:
    a, _ = maps(10, 1)
    same = mantel(a, 2 * a + 3)
    assert same.correlation == pytest.approx(1)
    assert same.p == pytest.approx(1 / 1000)
    assert same.sentence() == (
        "The maps correlate with r = 1.000 over 10 layers (p = 0.001, 999 permutations of the layers)."
    )
    by_chance = [mantel(*maps(8, seed), permutations=99).p for seed in range(40)]
    # 40 independent p-values: uniform, so their mean is 0.5 with sd 0.046.
    assert abs(np.mean(by_chance) - 0.5) < 0.18
    assert min(by_chance) > 0


def test_one_seed_one_answer() -> None:
    a, b = maps(8, 2)
    assert mantel(a, b, 99, 5) == mantel(a, b, 99, 5)
    assert len({mantel(a, b, 99, seed).p for seed in range(8)}) > 1


def test_undefined_layers_are_left_out() -> None:
    a, b = maps(8, 3, 0.5)
    clean = mantel(a[1:, 1:], b[1:, 1:], 50)
    a[0] = np.nan
    found = mantel(a, b, 50)
    assert found.left_out == (0,)
    assert found.layers == 7
    assert (found.correlation, found.p) == pytest.approx((clean.correlation, clean.p))


def test_a_constant_map_has_no_correlation() -> None:
    a, _ = maps(6, 4)
    found = mantel(a, np.full((6, 6), 0.1))
    assert np.isnan(found.correlation)
    assert found.sentence().startswith(
        "The correlation of the maps is undefined: all similarities of one map"
    )


def test_bad_input_is_told() -> None:
    a, _ = maps(6, 5)
    with pytest.raises(InputError, match="the shape of map_b"):
        mantel(a, a[:5, :5])
    with pytest.raises(InputError, match="at least four layers"):
        mantel(a[:3, :3], a[:3, :3])
    with pytest.raises(InputError, match="permutations must be at least 1"):
        mantel(a, a, 0)
