"""Blocks, convergence and localization, asked of stacks as a user asks."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import microtome as mt
from microtome.errors import InputError
from microtome.findings.paired import cell_errors
from microtome.randomness import generator
from reference import neuron_correlation


def chain(
    block: tuple[int, int] | None, *, layers: int = 9, rows: int = 500, features: int = 12
) -> list[np.ndarray]:
    """Layers that change evenly; those of a block share a component."""
    rng = generator(0, "chain")
    x, common = rng.standard_normal((2, rows, features))
    found = []
    for layer in range(layers):
        x = np.sqrt(0.95) * x + np.sqrt(0.05) * rng.standard_normal((rows, features))
        shares = block is not None and block[0] <= layer <= block[1]
        found.append(np.sqrt(0.6) * x + np.sqrt(0.4) * common if shares else x)
    return found


@pytest.mark.parametrize("clusters", [None, np.repeat(np.arange(100), 5)])
def test_a_planted_block_is_found_and_named(clusters: np.ndarray | None) -> None:
    found = mt.analysis.find_blocks(chain((3, 6)), clusters=clusters)
    # The layers below share less with the block than among themselves, so they form one too.
    below, block = found.blocks
    assert (below.first, below.last, below.certain) == (0, 2, True)
    assert (block.first, block.last, block.certain) == (3, 6, True)
    assert block.interval is not None
    assert block.interval.unit == ("row" if clusters is None else "cluster")
    assert block.interval.low < block.margin < block.interval.high
    assert found.headline() == "Layers 0-2 and layers 3-6 each form a block."


def test_equal_steps_are_no_blocks() -> None:
    found = mt.analysis.find_blocks(chain(None))
    assert found.blocks == ()
    assert found.headline() == "The layers form no blocks."


@pytest.mark.parametrize("measure", ["debiased_cka", "linear_cka", "svcca", "neuron_correlation"])
def test_errors_of_a_difference_are_those_of_the_paired_interval(measure: str) -> None:
    # Scores, half-samples and the jackknife over few clusters.
    for clusters in (None, np.repeat(np.arange(20), 25)):
        maps = mt.similarity_matrix(
            chain((3, 6)), measures=measure, certainty=True, halves=12, clusters=clusters
        )
        one = next(iter(maps.values()))
        assert one.resamples is not None
        errors, dof = cell_errors(one.resamples, one.values)
        paired = one.difference((3, 6), (2, 3))
        assert paired.interval is not None
        se = np.linalg.norm(errors[:, 3, 6] - errors[:, 2, 3])
        quantile = (
            stats.norm.ppf(0.975)
            if paired.interval.method == "influence function" and clusters is None
            else stats.t.ppf(0.975, dof)
        )
        assert paired.interval.width == pytest.approx(2 * quantile * se)


def test_blocks_that_two_models_share() -> None:
    rng = generator(1, "other")
    stack = chain((3, 6))
    other = [0.7 * x + 0.7 * rng.standard_normal(x.shape) for x in stack]
    found = mt.analysis.find_blocks(stack, other)
    assert [(block.first, block.last) for block in found.certain] == [(0, 2), (3, 6)]
    # A model with a block elsewhere has none in common with it.
    assert not mt.analysis.find_blocks(stack, chain((1, 4))).certain
    with pytest.raises(InputError, match="asked of models with equally many layers, but got '9 and 8'"):
        mt.analysis.find_blocks(stack, other[1:])


def test_a_biased_value_falls_towards_the_debiased_one_as_rows_are_added() -> None:
    rng = generator(2, "layers")
    signal = rng.standard_normal((1600, 4))
    x, y = (signal @ rng.standard_normal((4, 30)) + 3 * rng.standard_normal((1600, 30)) for _ in range(2))
    biased, debiased = (mt.analysis.convergence(x, y, name) for name in ("linear_cka", "debiased_cka"))
    assert biased.sizes == debiased.sizes == (50, 100, 200, 400, 800, 1600)
    assert (np.diff(biased.values - debiased.values) < 0).all()
    assert (biased.values > debiased.values).all()
    assert (debiased.low <= debiased.values).all()
    assert (debiased.high[-1] - debiased.low[-1]) < (debiased.high[0] - debiased.low[0])
    assert "has settled" in debiased.sentence()
    assert np.isclose(biased.values[-1], float(mt.similarity(x, y, "linear_cka")), atol=1e-6)


def test_convergence_works_on_few_rows_and_says_which_sizes_it_takes() -> None:
    x = generator(2, "few").standard_normal((20, 3))
    assert mt.analysis.convergence(x, x + 1, "linear_cka").sizes == (10, 20)
    with pytest.raises(InputError, match="at least two numbers of rows between 8 and 20"):
        mt.analysis.convergence(x, x, sizes=[5, 20])


def test_localization_is_the_loss_under_rotation() -> None:
    rng = generator(3, "local")
    x = rng.standard_normal((800, 10))
    y = x[:, ::-1] + 0.5 * rng.standard_normal((800, 10))
    found = mt.analysis.find_localization([x], [y], rotations=20)
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
    found = mt.analysis.find_localization([x], [x @ Q], rotations=20)
    assert abs(found.value[0, 0]) < 0.1


def test_one_rotation_is_refused() -> None:
    with pytest.raises(InputError, match="rotations must be a whole number of at least 2, but got 1"):
        mt.analysis.find_localization(chain(None), rotations=1)
