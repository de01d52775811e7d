"""Blocks, convergence and localization, asked of stacks as a user asks."""

from __future__ import annotations

import numpy as np
import pytest

import microtome as mt
from microtome.errors import InputError
from microtome.randomness import generator
from reference import neuron_correlation


def chain(border: int | None, *, layers: int = 9, rows: int = 500, features: int = 12) -> list[np.ndarray]:
    rng = generator(0, "chain")
    x = rng.standard_normal((rows, features))
    found = [x]
    for layer in range(1, layers):
        step = 0.5 if layer == border else 0.05
        x = np.sqrt(1 - step) * x + np.sqrt(step) * rng.standard_normal((rows, features))
        found.append(x)
    return found


@pytest.mark.parametrize("clusters", [None, np.repeat(np.arange(100), 5)])
def test_a_planted_border_is_found_and_named(clusters: np.ndarray | None) -> None:
    found = mt.find_blocks(chain(4), clusters=clusters)
    assert found.verdict == "two blocks"
    assert found.lower == (0, 1, 2, 3)
    assert found.interval is not None
    assert found.interval.unit == ("row" if clusters is None else "cluster")
    assert "layers 0 to 3" in found.sentence()


def test_equal_steps_are_no_blocks() -> None:
    found = mt.find_blocks(chain(None))
    assert found.verdict == "none"
    assert found.sentence().startswith("No step stands out")


def test_the_split_follows_the_seed() -> None:
    one, same, other = (mt.find_blocks(chain(4), seed=seed).contrast for seed in (0, 0, 1))
    assert one == same
    assert one != other


def test_too_few_groups_are_refused() -> None:
    with pytest.raises(InputError, match="groups must be a whole number of at least 3, but got 2"):
        mt.find_blocks(chain(4), groups=2)


def test_a_biased_value_falls_towards_the_debiased_one_as_rows_are_added() -> None:
    rng = generator(2, "layers")
    signal = rng.standard_normal((1600, 4))
    x, y = (signal @ rng.standard_normal((4, 30)) + 3 * rng.standard_normal((1600, 30)) for _ in range(2))
    biased, debiased = (mt.convergence(x, y, name) for name in ("linear_cka", "debiased_cka"))
    assert biased.sizes == debiased.sizes == (50, 100, 200, 400, 800, 1600)
    assert (np.diff(biased.values - debiased.values) < 0).all()
    assert (biased.values > debiased.values).all()
    assert (debiased.low <= debiased.values).all()
    assert (debiased.high[-1] - debiased.low[-1]) < (debiased.high[0] - debiased.low[0])
    assert "has settled" in debiased.sentence()
    assert np.isclose(biased.values[-1], float(mt.similarity(x, y, "linear_cka")), atol=1e-6)


def test_convergence_works_on_few_rows_and_says_which_sizes_it_takes() -> None:
    x = generator(2, "few").standard_normal((20, 3))
    assert mt.convergence(x, x + 1, "linear_cka").sizes == (10, 20)
    with pytest.raises(InputError, match="at least two numbers of rows between 8 and 20"):
        mt.convergence(x, x, sizes=[5, 20])


def test_localization_is_the_loss_under_rotation() -> None:
    rng = generator(3, "local")
    x = rng.standard_normal((800, 10))
    y = x[:, ::-1] + 0.5 * rng.standard_normal((800, 10))
    found = mt.find_localization([x], [y], rotations=20)
    plain = neuron_correlation(x, y)
    turned = []
    for draw in range(40):
        Q, P = (np.linalg.qr(generator(draw, side).standard_normal((10, 10)))[0] for side in "QP")
        turned.append(neuron_correlation(x @ Q, y @ P))
    error = np.std(turned) / np.sqrt(len(turned)) + found.standard_error[0, 0]
    assert abs(found.value[0, 0] - (plain - np.mean(turned))) < 4 * error
    assert found.value[0, 0] > 0.2


def test_a_rotated_copy_is_not_localized() -> None:
    rng = generator(4, "spread")
    x = rng.standard_normal((2000, 10))
    Q = np.linalg.qr(rng.standard_normal((10, 10)))[0]
    found = mt.find_localization([x], [x @ Q], rotations=20)
    assert abs(found.value[0, 0]) < 0.1


def test_one_rotation_is_refused() -> None:
    with pytest.raises(InputError, match="rotations must be a whole number of at least 2, but got 1"):
        mt.find_localization(chain(4), rotations=1)
