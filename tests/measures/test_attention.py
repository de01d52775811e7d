from __future__ import annotations

import tracemalloc
from collections.abc import Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from scipy.special import rel_entr
from scipy.stats import pearsonr

from microtome.errors import InputError
from microtome.measures.attention import ATTENTION_MEASURES, AttentionCells, AttentionPass, trim
from microtome.measures.cka import LINEAR_CKA
from microtome.measures.declare import Chosen, choose
from microtome.randomness import generator

TABLE = {measure.name: measure for measure in ATTENTION_MEASURES}
LENGTHS = (5, 2, 9, 1, 7)

Sentences = list[tuple[np.ndarray, np.ndarray]]


def every_choice() -> Iterator[Chosen]:
    for measure in ATTENTION_MEASURES:
        names = list(measure.options)
        for values in product(*(measure.options[n].choices or (0.8, 0.99) for n in names)):
            yield choose(measure, dict(zip(names, values, strict=True)))


def maps(rng: np.random.Generator, layers: int, heads: int, words: int) -> np.ndarray:
    """Rows of every kind: spread, sharp, with zeros."""
    rows = rng.dirichlet(np.full(words, 0.4), size=(layers, heads, words))
    rows[rows < 0.02] = 0.0
    return rows / rows.sum(axis=-1, keepdims=True)


@pytest.fixture(scope="module")
def sentences() -> Sentences:
    rng = generator(1, "attention")
    return [(maps(rng, 2, 3, t), maps(rng, 3, 4, t)) for t in LENGTHS]


def found(sentences: Sequence[Any], name: str, causal: bool = False, **options: Any) -> AttentionCells:
    chosen = choose(TABLE[name], options)
    run = AttentionPass([chosen], causal=causal)
    for sentence in sentences:
        run.add(*sentence)
    return run.finish()[chosen.label]


def triangle(maps: np.ndarray) -> np.ndarray:
    low = np.tril(maps)
    return low / low.sum(axis=-1, keepdims=True)


def heads_of(sentences: Sentences) -> Iterator[tuple[tuple[int, int, int, int], Sentences]]:
    """Each pair of heads, with its maps of all sentences."""
    for i, h, j, g in np.ndindex(*sentences[0][0].shape[:2], *sentences[0][1].shape[:2]):
        yield (i, h, j, g), [(x[i, h], y[j, g]) for x, y in sentences]


def check_heads(cells: AttentionCells, sentences: Sentences, similarity: Any, atol: float = 1e-12) -> None:
    """Compare with a similarity computed from one pair of heads, then with the definition of the cells."""
    wanted = np.empty((*sentences[0][0].shape[:2], *sentences[0][1].shape[:2]))
    for place, pairs in heads_of(sentences):
        wanted[place] = similarity(pairs)
    assert cells.heads is not None
    assert cells.best_right is not None
    assert cells.best_left is not None
    np.testing.assert_allclose(cells.heads, wanted, atol=atol)
    for i, j in np.ndindex(cells.forward.shape):
        block = wanted[i, :, j]
        assert cells.forward[i, j] == pytest.approx(block.max(axis=1).mean(), abs=atol)
        assert cells.backward[i, j] == pytest.approx(block.max(axis=0).mean(), abs=atol)
        assert (cells.best_right[i, :, j] == block.argmax(axis=1)).all()
        assert (cells.best_left[i, j] == block.argmax(axis=0)).all()


def test_norm_is_one_minus_the_mean_frobenius_distance(sentences: Sentences) -> None:
    check_heads(
        found(sentences, "attention_norm"),
        sentences,
        lambda pairs: 1 - np.mean([np.linalg.norm(a - b) for a, b in pairs]),
    )
    check_heads(
        found(sentences, "attention_norm", length="normalized"),
        sentences,
        lambda pairs: 1 - np.mean([np.linalg.norm(a - b) / np.sqrt(2 * len(a)) for a, b in pairs]),
    )


def test_norm_keeps_its_digits_for_models_that_hardly_differ() -> None:
    rng = generator(2, "near")
    x = maps(rng, 1, 1, 6)
    shift = np.zeros((6, 6))
    shift[:, 0], shift[:, 1] = 1e-9, -1e-9
    y = np.clip(x + shift, 0, None)
    y /= y.sum(axis=-1, keepdims=True)
    cells = found([(x, y)], "attention_norm")
    assert 1 - cells.forward[0, 0] == pytest.approx(np.linalg.norm(x - y), rel=1e-5)


@pytest.mark.parametrize("unit", ["nats", "bits"])
def test_js_is_one_minus_the_mean_divergence(sentences: Sentences, unit: str) -> None:
    def rows(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        middle = (a + b) / 2
        nats = (rel_entr(a, middle) + rel_entr(b, middle)).sum(axis=-1) / 2
        return nats if unit == "nats" else nats / np.log(2)

    by_word = found(sentences, "attention_js", unit=unit)
    check_heads(by_word, sentences, lambda p: 1 - np.concatenate([rows(a, b) for a, b in p]).mean(), 1e-6)
    by_sentence = found(sentences, "attention_js", unit=unit, average="sentences")
    check_heads(by_sentence, sentences, lambda p: 1 - np.mean([rows(a, b).mean() for a, b in p]), 1e-6)
    assert (by_word.sentences, by_word.words, by_word.dropped_words) == (5, sum(LENGTHS), 0)


def pearsons(pairs: Sentences, allowed: bool = False) -> list[list[float]]:
    """Correlations of the rows that vary, by sentence; `allowed`: up to the word, from the second."""
    return [
        [
            float(pearsonr(a[r, : r + 1 if allowed else None], b[r, : r + 1 if allowed else None])[0])
            for r in range(1 if allowed else 0, len(a))
            if np.ptp(a[r, : r + 1 if allowed else None]) > 0
            and np.ptp(b[r, : r + 1 if allowed else None]) > 0
        ]
        for a, b in pairs
    ]


def test_pearson_leaves_constant_rows_out_and_counts_them(sentences: Sentences) -> None:
    uneven = [(x.copy(), y.copy()) for x, y in sentences]
    uneven[0][0][1, 2, 3] = 1 / 5
    uneven[2][1][0, 1, :] = 1 / 9
    cells = found(uneven, "attention_pearson")
    check_heads(cells, uneven, lambda p: np.mean([r for s in pearsons(p) for r in s]))
    by_sentence = found(uneven, "attention_pearson", average="sentences")
    check_heads(by_sentence, uneven, lambda p: np.mean([np.mean(s) for s in pearsons(p) if s]))
    assert cells.undefined is not None
    for place, pairs in heads_of(uneven):
        assert cells.undefined[place] == sum(LENGTHS) - sum(map(len, pearsons(pairs)))
    assert cells.undefined[1, 2, 1, 0] > cells.undefined[1, 1, 1, 0]


def wu(pairs: Sentences) -> float:
    """The first form of the released code: covariance over n, deviations over n - 1, all words counted."""
    total = 0.0
    for a, b in pairs:
        if len(a) > 1:
            covariance = (a * b).mean(axis=1) - a.mean(axis=1) * b.mean(axis=1)
            total += np.sum(covariance / (a.std(axis=1, ddof=1) * b.std(axis=1, ddof=1)))
    return total / sum(len(a) for a, _ in pairs)


def wu_masked(pairs: Sentences) -> float:
    """The second form: n is the number of places non-zero in both, what is not finite is 0."""
    total = 0.0
    for a, b in pairs:
        for p, q in zip(a, b, strict=True):
            n = np.sum((p != 0) & (q != 0))
            with np.errstate(all="ignore"):
                value = (p @ q - 1 / n) / np.sqrt((p @ p - 1 / n) * (q @ q - 1 / n))
            certain = n > 0 and abs(p @ p - 1 / n) > 1e-12 and abs(q @ q - 1 / n) > 1e-12
            total += value if certain and np.isfinite(value) else 0.0
    return total / sum(len(a) for a, _ in pairs)


def test_the_released_forms_of_pearson(sentences: Sentences) -> None:
    dense = [(0.9 * x + 0.1 / x.shape[2], 0.9 * y + 0.1 / y.shape[2]) for x, y in sentences]
    check_heads(found(dense, "attention_pearson", variant="wu"), dense, wu)
    check_heads(found(dense, "attention_pearson", variant="wu_masked"), dense, wu_masked)
    check_heads(found(sentences, "attention_pearson", variant="wu_masked"), sentences, wu_masked, 1e-9)


def test_the_released_forms_of_pearson_keep_the_first_word_of_a_causal_comparison(
    sentences: Sentences,
) -> None:
    dense = [(0.9 * x + 0.1 / x.shape[2], 0.9 * y + 0.1 / y.shape[2]) for x, y in sentences]
    low = [(triangle(x), triangle(y)) for x, y in dense]
    for variant, formula in (("wu", wu), ("wu_masked", wu_masked)):
        cells = found(dense, "attention_pearson", True, variant=variant)
        check_heads(cells, low, formula, 1e-9)
        assert (cells.sentences, cells.words, cells.dropped_words) == (5, sum(LENGTHS), 0)


def test_a_model_with_itself_correlates_a_little_less_than_one_in_the_released_form() -> None:
    rng = generator(4, "self")
    alone = [(maps(rng, 1, 2, t),) for t in (4, 8, 1)]
    cells = found(alone, "attention_pearson", variant="wu")
    assert cells.forward[0, 0] == pytest.approx((4 * 3 / 4 + 8 * 7 / 8 + 0) / 13)


def test_a_causal_comparison_reads_the_triangle_and_drops_the_first_word(sentences: Sentences) -> None:
    dense = [(0.9 * x + 0.1 / x.shape[2], 0.9 * y + 0.1 / y.shape[2]) for x, y in sentences]
    low = [(triangle(x), triangle(y)) for x, y in dense]
    longer = [pair for pair in low if pair[0].shape[2] > 1]

    def js(pairs: Sentences) -> float:
        rows = [(rel_entr(a, (a + b) / 2) + rel_entr(b, (a + b) / 2)).sum(axis=1)[1:] / 2 for a, b in pairs]
        return 1 - np.concatenate(rows).mean()

    cells = found(dense, "attention_js", True)
    check_heads(cells, longer, js, 1e-6)
    assert (cells.sentences, cells.dropped_sentences) == (4, 1)
    assert (cells.words, cells.dropped_words) == (sum(LENGTHS) - 5, 5)
    assert "lower triangle" in cells.estimator
    check_heads(
        found(dense, "attention_norm", True),
        longer,
        lambda pairs: 1 - np.mean([np.linalg.norm(a - b) for a, b in pairs]),
    )
    check_heads(
        found(dense, "attention_pearson", True),
        longer,
        lambda p: np.mean([r for s in pearsons(p, True) for r in s]),
    )


def test_a_model_that_is_causal_already_is_not_changed_by_the_mask(sentences: Sentences) -> None:
    dense = [(0.9 * x + 0.1 / x.shape[2], 0.9 * y + 0.1 / y.shape[2]) for x, y in sentences]
    low = [(triangle(x), triangle(y)) for x, y in dense]
    for name in TABLE:
        one, other = found(dense, name, True), found(low, name, True)
        np.testing.assert_allclose(one.forward, other.forward, atol=1e-6)
        assert np.abs(one.forward - found(dense, name).forward).max() > 1e-3


def test_a_word_that_looks_only_ahead_is_left_out_of_a_causal_comparison() -> None:
    rng = generator(5, "ahead")
    x, y = maps(rng, 1, 2, 6) * 0.9 + 0.1 / 6, maps(rng, 1, 2, 6) * 0.9 + 0.1 / 6
    blind = x.copy()
    blind[0, 1, 3] = [0, 0, 0, 0, 1, 0]
    cells = found([(blind, y)], "attention_js", True)
    assert (cells.words, cells.dropped_words) == (4, 2)
    rest = [1, 2, 4, 5]
    a, b = triangle(x)[0, 0][rest], triangle(y)[0, 0][rest]
    middle = (a + b) / 2
    wanted = 1 - (rel_entr(a, middle) + rel_entr(b, middle)).sum() / 2 / 4
    assert cells.heads is not None
    assert cells.heads[0, 0, 0, 0] == pytest.approx(wanted, abs=1e-6)


def table(sentences: Sentences, side: int, causal: bool) -> list[np.ndarray]:
    """Pairs of words x heads, for each layer of a side."""
    layers = []
    for layer in range(sentences[0][side].shape[0]):
        parts = []
        for sentence in sentences:
            if causal and sentence[side].shape[2] > 1:
                low = triangle(sentence[side][layer])
                rows, columns = np.tril_indices(low.shape[1])
                parts.append(low[:, rows[1:], columns[1:]].T)
            elif not causal:
                parts.append(sentence[side][layer].reshape(sentence[side].shape[1], -1).T)
        layers.append(np.concatenate(parts))
    return layers


def weights(sentences: Sentences, weight: str, causal: bool) -> np.ndarray:
    sizes = [len(table([s], 0, causal)[0]) for s in sentences if not causal or s[0].shape[2] > 1]
    return np.concatenate([np.full(n, 1.0 if weight == "pairs" else 1 / n) for n in sizes])


def weighted(rows: np.ndarray, weight: np.ndarray) -> np.ndarray:
    return (rows - np.average(rows, axis=0, weights=weight)) * np.sqrt(weight)[:, None]


def svcca(x: np.ndarray, y: np.ndarray, share: float) -> float:
    def leading(z: np.ndarray) -> np.ndarray:
        u, s, _ = np.linalg.svd(z, full_matrices=False)
        return u[:, : int(np.argmax(np.cumsum(s**2) / np.sum(s**2) >= share)) + 1]

    return float(np.cos(subspace_angles(leading(x), leading(y))).mean())


def pwcca(x: np.ndarray, y: np.ndarray) -> float:
    qx, qy = np.linalg.qr(x)[0], np.linalg.qr(y)[0]
    u, rho, _ = np.linalg.svd(qx.T @ qy, full_matrices=False)
    return float(np.average(rho, weights=np.abs((qx @ u).T @ x).sum(axis=1)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("weight", ["pairs", "sentences"])
def test_measures_over_pairs_of_words(sentences: Sentences, causal: bool, weight: str) -> None:
    dense = [(0.9 * x + 0.1 / x.shape[2], 0.9 * y + 0.1 / y.shape[2]) for x, y in sentences]
    w = weights(dense, weight, causal)
    left, right = ([weighted(x, w) for x in table(dense, side, causal)] for side in (0, 1))
    cka = found(dense, "attention_cka", causal, weight=weight)
    sv = found(dense, "attention_svcca", causal, weight=weight)
    sv50 = found(dense, "attention_svcca", causal, weight=weight, threshold=0.5)
    pw = found(dense, "attention_pwcca", causal, weight=weight)
    for (i, x), (j, y) in product(enumerate(left), enumerate(right)):
        k, m = x @ x.T, y @ y.T
        wanted = np.sum(k * m) / np.linalg.norm(k) / np.linalg.norm(m)
        assert cka.forward[i, j] == pytest.approx(wanted, abs=1e-10)
        assert cka.backward[i, j] == cka.forward[i, j]
        assert sv.forward[i, j] == pytest.approx(svcca(x, y, 0.99), abs=1e-9)
        assert sv50.forward[i, j] == pytest.approx(svcca(x, y, 0.5), abs=1e-9)
        assert pw.forward[i, j] == pytest.approx(pwcca(x, y), abs=1e-9)
        assert pw.backward[i, j] == pytest.approx(pwcca(y, x), abs=1e-9)
    assert sv50.kept is not None
    assert pw.rank is not None
    assert (sv50.kept[0] < 3).all()
    assert (pw.rank[0] == 3).all()
    assert (pw.rank[1] == 4).all()


def test_flat_attention_over_long_texts_keeps_its_digits() -> None:
    # Departures from 1/t of a millionth of it: raw second moments would lose five digits.
    rng = generator(6, "flat")

    def nearly(heads: int) -> np.ndarray:
        rows = 1 / 60 + 1e-6 / 60 * rng.standard_normal((1, heads, 60, 60))
        return rows / rows.sum(axis=-1, keepdims=True)

    pair = (nearly(2), nearly(2))
    x, y = (table([pair], side, False)[0] for side in (0, 1))
    k, m = (z - z.mean(axis=0) for z in (x, y))
    wanted = np.sum((k.T @ m) ** 2) / np.linalg.norm(k.T @ k) / np.linalg.norm(m.T @ m)
    assert found([pair], "attention_cka").forward[0, 0] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("causal", [False, True])
def test_a_model_with_itself(causal: bool) -> None:
    rng = generator(7, "itself")
    alone = [maps(rng, 3, 4, t) * 0.9 + 0.1 / t for t in (4, 6, 9)]
    for chosen in every_choice():
        run, twice = AttentionPass([chosen], causal=causal), AttentionPass([chosen], causal=causal)
        for sentence in alone:
            run.add(sentence)
            twice.add(sentence, sentence.copy())
        cells, pair = run.finish()[chosen.label], twice.finish()[chosen.label]
        np.testing.assert_allclose(cells.forward, pair.forward, atol=1e-6)
        np.testing.assert_allclose(cells.backward, cells.forward.T, atol=1e-12)
        expected = chosen.declared("self_value")
        if not np.isnan(expected):
            np.testing.assert_allclose(np.diag(cells.forward), expected, atol=1e-12)


def test_the_order_of_heads_and_of_sentences_does_not_matter(sentences: Sentences) -> None:
    shuffled = [(x[:, [2, 0, 1]], y[:, [3, 1, 0, 2]]) for x, y in reversed(sentences)]
    for chosen in every_choice():
        one = found(sentences, chosen.measure.name, **chosen.options)
        other = found(shuffled, chosen.measure.name, **chosen.options)
        np.testing.assert_allclose(one.forward, other.forward, atol=1e-6)
        np.testing.assert_allclose(one.backward, other.backward, atol=1e-6)


def test_pwcca_looks_for_the_left_heads_in_any_mixture_of_the_right_ones(sentences: Sentences) -> None:
    mixture = generator(8, "mix").dirichlet(np.ones(4), size=4)
    mixed = [(x, np.einsum("gh,lhij->lgij", mixture, y)) for x, y in sentences]
    plain, other = found(sentences, "attention_pwcca"), found(mixed, "attention_pwcca")
    np.testing.assert_allclose(plain.forward, other.forward, atol=1e-9)
    assert np.abs(plain.backward - other.backward).max() > 1e-3


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 10**6),
    st.floats(0.02, 20),
    st.booleans(),
    st.lists(st.integers(1, 8), min_size=3, max_size=6),
)
def test_values_stay_in_the_declared_range(
    seed: int, concentration: float, causal: bool, lengths: list[int]
) -> None:
    rng = np.random.default_rng(seed)
    run = AttentionPass(list(every_choice()), causal=causal)
    for t in [*lengths, 5]:
        x, y = (rng.dirichlet(np.full(t, concentration), size=(2, h, t)) for h in (2, 3))
        run.add(x * 0.999 + 0.001 / t, y * 0.999 + 0.001 / t)
    cells = run.finish()
    for chosen in every_choice():
        low, high = chosen.declared("range")
        for values in (cells[chosen.label].forward, cells[chosen.label].backward):
            assert not np.isnan(values).any() or "cca" in chosen.label
            assert (values[~np.isnan(values)] >= low).all()
            assert (values[~np.isnan(values)] <= high).all()


def test_a_head_that_never_varies_is_left_out_and_a_layer_of_them_is_undefined() -> None:
    rng = generator(9, "constant")
    x, y = maps(rng, 2, 2, 6), maps(rng, 1, 3, 6)
    x[0, 1] = 1 / 6
    x[1] = 1 / 6
    cells = found([(x, y)], "attention_pearson")
    assert cells.heads is not None
    assert cells.best_right is not None
    assert cells.forward[0, 0] == pytest.approx(cells.heads[0, 0, 0].max())
    assert cells.best_right[0, 1, 0] == -1
    assert np.isnan(cells.forward[1, 0])
    assert cells.reasons[0][0] is None
    assert "both rows vary" in (cells.reasons[1][0] or "")
    for name in ("attention_cka", "attention_svcca", "attention_pwcca"):
        other = found([(x, y)], name)
        assert np.isfinite(other.forward[0, 0])
        assert np.isnan(other.forward[1, 0])
        assert other.reasons[1][0] == "all heads of a layer are constant"


def test_equal_heads_count_once_for_the_rank() -> None:
    rng = generator(10, "twice")
    x, y = maps(rng, 1, 3, 8), maps(rng, 1, 2, 8)
    x[0, 2] = x[0, 0]
    cells = found([(x, y)], "attention_pwcca")
    assert cells.rank is not None
    assert cells.rank[0][0] == 2


def test_pwcca_says_when_there_are_too_few_pairs_of_words() -> None:
    rng = generator(11, "few")
    cells = found([(maps(rng, 1, 4, 3), maps(rng, 1, 4, 3))], "attention_pwcca")
    assert np.isnan(cells.forward[0, 0])
    assert "too many for 6 free pairs" in (cells.reasons[0][0] or "")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_tensors_give_what_arrays_give(sentences: Sentences, dtype: torch.dtype) -> None:
    tensors = [tuple(torch.softmax(torch.from_numpy(m) * 4, -1).to(dtype) for m in s) for s in sentences]
    arrays = [tuple(m.numpy() for m in s) for s in tensors]
    for name in TABLE:
        np.testing.assert_array_equal(found(tensors, name).forward, found(arrays, name).forward)


def test_half_precision_rows_are_scaled_to_one(sentences: Sentences) -> None:
    rounded = [tuple((m * 0.9 + 0.1 / m.shape[2]).astype(np.float16) for m in s) for s in sentences]
    exact = [tuple(m / np.sum(m, axis=-1, keepdims=True, dtype=np.float64) for m in s) for s in rounded]
    for name in TABLE:
        np.testing.assert_allclose(found(rounded, name).forward, found(exact, name).forward, atol=1e-7)


def test_trim_takes_padding_out_of_rows_and_columns(sentences: Sentences) -> None:
    real = sentences[2][0]
    padded = np.zeros((2, 3, 13, 13))
    mask = np.ones(13, dtype=bool)
    mask[[0, 5, 11, 12]] = False
    padded[:, :, ~mask] = 1 / 13
    padded[np.ix_(range(2), range(3), np.flatnonzero(mask), np.flatnonzero(mask))] = real
    np.testing.assert_array_equal(trim(padded, mask), real)
    tensor = trim(torch.from_numpy(padded), torch.from_numpy(mask))
    assert isinstance(tensor, torch.Tensor)
    np.testing.assert_array_equal(tensor.numpy(), real)
    with pytest.raises(InputError, match=r"maps must be of shape \(layers, heads, 4, 4\)"):
        trim(padded, mask[:4])


def test_memory_does_not_grow_with_the_number_of_sentences() -> None:
    rng = generator(12, "memory")
    run = AttentionPass(list(every_choice()), kernel="torch")
    pair = maps(rng, 2, 3, 12), maps(rng, 2, 3, 12)
    for _ in range(3):
        run.add(*pair)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(30):
            run.add(*pair)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 40_000  # one sentence is 14 kB, thirty would be 410 kB
    assert run.finish()["attention_js"].sentences == 33


@pytest.mark.parametrize(
    "spoil, message",
    [
        (
            lambda m: m.__setitem__((1, 2, 0, 0), np.nan),
            r"sentence 2, right layer 2, head 3, row 1 sums to nan",
        ),
        (lambda m: m.__setitem__((0, 1, 1), 0.3), r"sentence 2, right layer 1, head 2, row 2 sums to 0.6"),
        (
            lambda m: m.__setitem__((2, 0, 1), [1.5, -0.5]),
            r"right layer 3, head 1, row 2 .* -0.5 as its smallest",
        ),
    ],
)
def test_what_is_no_attention_is_named(sentences: Sentences, spoil: Any, message: str) -> None:
    run = AttentionPass([choose(TABLE["attention_js"])], kernel="torch")
    run.add(*sentences[0])
    wrong = sentences[1][1].copy()
    spoil(wrong)
    with pytest.raises(InputError, match=message):
        run.add(sentences[1][0], wrong)
    run.add(*sentences[1])
    assert run.finish()["attention_js"].sentences == 2


def test_sentences_that_do_not_fit_are_refused(sentences: Sentences) -> None:
    run = AttentionPass([choose(TABLE["attention_norm"])])
    with pytest.raises(InputError, match="sentences must be there"):
        run.finish()
    with pytest.raises(
        InputError, match="words of sentence 1 must be 5 on the right as on the left, but got 2"
    ):
        run.add(sentences[0][0], sentences[1][1])
    with pytest.raises(InputError, match=r"left attention of sentence 1 must be of shape \(layers, heads"):
        run.add(sentences[0][0][0], sentences[0][1])
    run.add(*sentences[0])
    with pytest.raises(InputError, match="layers, heads and sides of sentence 2 must be as before"):
        run.add(sentences[0][0])
    with pytest.raises(InputError, match="layers, heads and sides of sentence 2 must be as before"):
        run.add(sentences[0][0][:, :2], sentences[0][1])


def test_only_measures_of_attention_are_taken() -> None:
    with pytest.raises(InputError, match="measures must be measures of attention, but got 'linear_cka'"):
        AttentionPass([choose(LINEAR_CKA)])


def test_labels_and_estimators_say_what_was_computed(sentences: Sentences) -> None:
    run = AttentionPass(list(every_choice()))
    for sentence in sentences:
        run.add(*sentence)
    cells = run.finish()
    assert list(cells) == [chosen.label for chosen in every_choice()]
    assert len({c.estimator for c in cells.values()}) == len(cells)
    assert "nats" in cells["attention_js"].estimator
    assert all(label == c.label for label, c in cells.items())
