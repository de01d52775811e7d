from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from microtome.errors import InputError
from microtome.measures.attention_rows import (
    AttentionRows,
    checked,
    compared_rows,
    norm_sums,
    wu_masked_sums,
    wu_sums,
)
from microtome.randomness import generator


def maps(name: str, heads: int, rows: int, words: int, concentration: float) -> np.ndarray:
    return generator(3, name).dirichlet(np.full(words, concentration), size=(heads, rows))


def sentence(words: int, sparse: bool, causal: bool) -> tuple[np.ndarray, np.ndarray, AttentionRows]:
    """Heads of two models, as the released code would read them, and as rows to compare."""
    rng = generator(4, "sentence", words)
    x, y = (rng.dirichlet(np.full(words, 0.5), size=(1, heads, words)) for heads in (3, 2))
    if sparse:
        x, y = (np.where(m < 0.05, 0.0, m) + 1e-3 * np.eye(words) for m in (x, y))
    else:
        x, y = x + 0.01, y + 0.01
    x, y = (m / m.sum(axis=-1, keepdims=True) for m in (x, y))
    rows = AttentionRows(*compared_rows(x, y, causal), causal=causal)
    if causal:
        x, y = (np.tril(m) / np.tril(m).sum(axis=-1, keepdims=True) for m in (x, y))
    return x[0], y[0], rows


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("words", [1, 2, 7])
def test_the_first_released_form_divides_the_covariance_over_n_by_deviations_over_n_minus_1(
    causal: bool, words: int
) -> None:
    x, y, rows = sentence(words, False, causal)
    total, count, mean, _ = wu_sums(rows)
    wanted = np.zeros((3, 2))
    for h, g in np.ndindex(3, 2) if words > 1 else ():
        a, b = x[h], y[g]
        covariance = (a * b).mean(axis=1) - a.mean(axis=1) * b.mean(axis=1)
        wanted[h, g] = np.sum(covariance / (a.std(axis=1, ddof=1) * b.std(axis=1, ddof=1)))
    np.testing.assert_allclose(total, wanted, atol=1e-12)
    np.testing.assert_allclose(mean, wanted / words, atol=1e-12)
    assert (count == words).all()


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("words", [1, 2, 7])
def test_the_second_released_form_counts_the_places_that_are_zero_in_neither_row(
    sparse: bool, causal: bool, words: int
) -> None:
    x, y, rows = sentence(words, sparse, causal)
    total, count, _, _ = wu_masked_sums(rows)
    wanted = np.zeros((3, 2))
    for h, g, r in np.ndindex(3, 2, words):
        p, q = x[h, r], y[g, r]
        n = int(np.sum((p != 0) & (q != 0)))
        spread = (p @ p - 1 / n) * (q @ q - 1 / n) if n else 0.0
        if n > 1 and spread > 0:  # with a single place the first row of a causal model is 0 / 0
            wanted[h, g] += (p @ q - 1 / n) / np.sqrt(spread)
        elif n == 1 and spread > 1e-12:
            wanted[h, g] += (p @ q - 1) / np.sqrt(spread)
    np.testing.assert_allclose(total, wanted, atol=1e-9)
    assert (count == words).all()


def test_norm_keeps_its_digits_for_models_that_hardly_differ() -> None:
    x = maps("x", 2, 6, 6, 2.0)[None]
    y = x.copy()
    y[..., 0], y[..., 1] = y[..., 0] + 1e-9, y[..., 1] - 1e-9
    norm, share = norm_sums(AttentionRows(*compared_rows(x, y, False)))
    for h in range(2):
        assert norm[h, h] == pytest.approx(np.sqrt(12) * 1e-9, rel=1e-5)
        assert share[h, h] == pytest.approx(1e-9, rel=1e-5)


@pytest.mark.parametrize(
    "place, value, message",
    [
        ((1, 2, 0, 0), np.nan, "sentence 7, right layer 2, head 3, row 1 sums to nan"),
        ((1, 2, 3, 1), np.inf, "sentence 7, right layer 2, head 3, row 4 sums to inf"),
        ((0, 1, 1), [0.3, 0.1, 0.1, 0.1], "sentence 7, right layer 1, head 2, row 2 sums to 0.6"),
        ((1, 0, 1), [1.5, -0.5, 0, 0], "layer 2, head 1, row 2 sums to 1 with -0.5 as its smallest number"),
    ],
)
def test_what_is_no_attention_is_named(place: tuple[int, ...], value: Any, message: str) -> None:
    wrong = maps("wrong", 6, 4, 4, 1.0).reshape(2, 3, 4, 4)
    checked(wrong, "right", 7)
    wrong[place] = value
    with pytest.raises(InputError, match=message):
        checked(wrong, "right", 7)


@pytest.mark.parametrize("shape", [(3, 4, 4), (2, 3, 4, 5), (2, 3, 0, 0)])
def test_attention_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(InputError, match=r"left attention of sentence 1 must be of shape \(layers, heads"):
        checked(np.zeros(shape), "left", 1)


def test_half_precision_is_attention_and_its_rows_are_scaled_to_one() -> None:
    half = torch.softmax(torch.from_numpy(maps("half", 6, 9, 9, 1.0).reshape(2, 3, 9, 9)), -1).half()
    values = checked(half, "left", 1)
    np.testing.assert_array_equal(values, half.numpy())
    left, right, inside = compared_rows(values, values, False)
    assert left is right
    assert inside.all()
    np.testing.assert_allclose(left.sum(axis=2), 1, rtol=1e-15)
    np.testing.assert_allclose(left, half.double().numpy().reshape(6, 9, 9), rtol=2e-3)


def test_a_causal_comparison_leaves_out_the_first_word_and_one_that_some_head_turns_away_from() -> None:
    x, y = (maps(name, 2, 6, 6, 1.0)[None] for name in ("x", "y"))
    y[0, 1, 3] = [0, 0, 0, 0, 1, 0]
    left, right, inside = compared_rows(x, y, True)
    rest = [1, 2, 4, 5]
    np.testing.assert_array_equal(inside, np.tri(6)[rest])
    for found, maps_of in ((left, x), (right, y)):
        low = np.tril(maps_of[0])[:, rest]
        np.testing.assert_allclose(found, low / low.sum(axis=-1, keepdims=True), atol=1e-15)
