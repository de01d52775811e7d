from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy.spatial.distance import jensenshannon
from scipy.special import rel_entr

from microtome.errors import InputError
from microtome.measures.attention_js import Kernel, divergence_sums
from microtome.randomness import generator

KERNELS: tuple[Kernel, ...] = ("numba", "torch")


def maps(name: str, heads: int, rows: int, words: int, concentration: float) -> np.ndarray:
    return generator(3, name).dirichlet(np.full(words, concentration), size=(heads, rows))


def exact(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Two Kullback-Leibler divergences to the middle, in float64 and bits, summed over rows."""
    p, q = x[:, None], y[None, :]
    middle = (p + q) / 2
    return (rel_entr(p, middle) + rel_entr(q, middle)).sum(axis=(-1, -2)) / 2 / np.log(2)


def flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1)


@pytest.mark.parametrize("kernel", KERNELS)
@pytest.mark.parametrize("concentration", [0.01, 0.3, 50.0])
@pytest.mark.parametrize("rows, words", [(1, 2), (25, 25), (3, 700), (1, 3000)])
def test_it_agrees_with_float64_to_a_millionth(
    kernel: Kernel, concentration: float, rows: int, words: int
) -> None:
    x, y = maps("x", 9, rows, words, concentration), maps("y", 7, rows, words, concentration)
    error = divergence_sums(flat(x), flat(y), kernel=kernel) - exact(x, y)
    assert np.abs(error).max() / rows < 1e-6


@pytest.mark.parametrize("kernel", KERNELS)
def test_it_is_the_square_of_scipys_distance(kernel: Kernel) -> None:
    x, y = maps("x", 3, 6, 12, 0.5), maps("y", 4, 6, 12, 0.5)
    wanted = [
        [sum(jensenshannon(p, q, base=2) ** 2 for p, q in zip(a, b, strict=True)) for b in y] for a in x
    ]
    np.testing.assert_allclose(divergence_sums(flat(x), flat(y), kernel=kernel), wanted, atol=6e-6)


@pytest.mark.parametrize("kernel", KERNELS)
def test_sharp_rows_of_one_model_against_flat_rows_of_the_other(kernel: Kernel) -> None:
    x, y = maps("x", 5, 20, 60, 0.005), maps("y", 5, 20, 60, 500.0)
    assert np.abs(divergence_sums(flat(x), flat(y), kernel=kernel) - exact(x, y)).max() / 20 < 1e-6
    assert np.abs(divergence_sums(flat(y), flat(x), kernel=kernel) - exact(y, x)).max() / 20 < 1e-6


@pytest.mark.parametrize("kernel", KERNELS)
def test_zeros_and_numbers_too_small_for_float32_count_for_nothing(kernel: Kernel) -> None:
    x = np.array([[[1.0, 0.0, 0.0, 0.0]], [[0.5, 0.5 - 1e-40, 1e-40, 0.0]]])
    y = np.array([[[0.0, 1.0, 0.0, 0.0]], [[1.0, 0.0, 1e-300, 0.0]]])
    np.testing.assert_allclose(divergence_sums(flat(x), flat(y), kernel=kernel), exact(x, y), atol=3e-7)


@pytest.mark.parametrize("kernel", KERNELS)
def test_rows_apart_are_one_bit_apart_and_never_more(kernel: Kernel) -> None:
    words = 33
    x, y = np.zeros((4, words, words)), np.zeros((4, words, words))
    x[:, :, ::2] = maps("x", 4, words, 17, 0.4)
    y[:, :, 1::2] = maps("y", 4, words, 16, 0.4)
    found = divergence_sums(flat(x), flat(y), kernel=kernel)
    np.testing.assert_allclose(found, words, rtol=1e-6)
    assert (found <= words + 1e-9).all()


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_model_with_itself_is_symmetric_with_an_exact_diagonal(kernel: Kernel) -> None:
    x = flat(maps("x", 70, 5, 40, 0.3))  # more heads than a tile
    alone, twice = divergence_sums(x, kernel=kernel), divergence_sums(x, x, kernel=kernel)
    assert (np.diag(alone) == 0).all()
    assert (alone == alone.T).all()
    np.testing.assert_allclose(alone, twice, atol=5e-6)
    assert (twice >= 0).all()


def test_more_positions_than_a_chunk_and_more_heads_than_a_tile_are_all_there() -> None:
    x, y = maps("x", 3, 90, 30, 1.0), maps("y", 131, 90, 30, 1.0)
    found = divergence_sums(flat(x), flat(y), kernel="numba")
    assert np.abs(found - exact(x, y)).max() / 90 < 1e-6


def test_float32_input_gives_what_float64_input_gives() -> None:
    x, y = maps("x", 3, 8, 9, 0.6), maps("y", 3, 8, 9, 0.6)
    found = divergence_sums(flat(x).astype(np.float32), flat(y).astype(np.float32))
    np.testing.assert_allclose(found, divergence_sums(flat(x), flat(y)), atol=1e-6)


def test_an_unknown_kernel_is_named() -> None:
    with pytest.raises(InputError, match="kernel must be numba or torch, but got 'cuda'"):
        divergence_sums(np.eye(2), kernel="cuda")  # pyright: ignore[reportArgumentType]


def test_without_numba_torch_does_the_work() -> None:
    script = """
import sys
sys.modules["numba"] = None
import numpy as np
from microtome.errors import MissingExtraError
from microtome.measures.attention_js import divergence_sums
assert "torch" not in sys.modules
rows = np.array([[1.0, 0.0], [0.0, 1.0]])
assert abs(divergence_sums(rows)[0, 1] - 1) < 1e-6
assert "torch" in sys.modules
try:
    divergence_sums(rows, kernel="numba")
except MissingExtraError as error:
    assert "microtome[fast]" in str(error)
else:
    raise SystemExit("numba was asked for, is not there, and nobody said so")
"""
    subprocess.run([sys.executable, "-c", script], check=True)


def test_importing_the_measures_imports_neither_torch_nor_numba() -> None:
    script = (
        "import sys, microtome.measures.attention_rows; sys.exit(bool({'torch', 'numba'} & set(sys.modules)))"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
