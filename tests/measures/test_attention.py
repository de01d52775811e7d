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
from microtome.measures.attention import ATTENTION_MEASURES
from microtome.measures.attention_rows import AttentionCells, AttentionPass
from microtome.measures.cka import LINEAR_CKA
from microtome.measures.declare import Chosen, choose, parse
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


@pytest.fixture(scope="module")
def dense(sentences: Sentences) -> Sentences:
    """The same without zeros."""
    return [(0.9 * x + 0.1 / x.shape[2], 0.9 * y + 0.1 / y.shape[2]) for x, y in sentences]


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


def norm(pairs: Sentences) -> float:
    return 1 - float(np.mean([np.linalg.norm(a - b) for a, b in pairs]))


def test_norm_is_one_minus_the_mean_frobenius_distance(sentences: Sentences) -> None:
    check_heads(found(sentences, "attention_norm"), sentences, norm)
    check_heads(
        found(sentences, "attention_norm", length="normalized"),
        sentences,
        lambda pairs: norm([(a / np.sqrt(2 * len(a)), b / np.sqrt(2 * len(a))) for a, b in pairs]),
    )


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


def pearsons(pairs: Sentences, causal: bool = False) -> list[list[float]]:
    """Correlations of the rows that vary, by sentence; causal: up to the word, from the second word."""
    found: list[Any] = []
    for a, b in pairs:
        rows = (
            [(a[r, : r + 1], b[r, : r + 1]) for r in range(1, len(a))] if causal else zip(a, b, strict=True)
        )
        found.append([pearsonr(p, q)[0] for p, q in rows if np.ptp(p) > 0 and np.ptp(q) > 0])
    return found


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


@pytest.mark.parametrize("variant", ["wu", "wu_masked"])
def test_the_released_forms_of_pearson_count_every_word(dense: Sentences, variant: str) -> None:
    for causal in (False, True):
        cells = found(dense, "attention_pearson", causal, variant=variant)
        assert (cells.sentences, cells.words, cells.dropped_words) == (5, sum(LENGTHS), 0)
        assert np.abs(cells.forward - found(dense, "attention_pearson", causal).forward).max() > 1e-3


def test_a_model_with_itself_correlates_a_little_less_than_one_in_the_released_form() -> None:
    rng = generator(4, "self")
    alone = [(maps(rng, 1, 2, t),) for t in (4, 8, 1)]
    cells = found(alone, "attention_pearson", variant="wu")
    assert cells.forward[0, 0] == pytest.approx((4 * 3 / 4 + 8 * 7 / 8 + 0) / 13)


def test_a_causal_comparison_reads_the_triangle_and_drops_the_first_word(dense: Sentences) -> None:
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
    check_heads(found(dense, "attention_norm", True), longer, norm)
    share = [(a / np.sqrt(2 * len(a[0, 0]) - 2), b / np.sqrt(2 * len(b[0, 0]) - 2)) for a, b in longer]
    check_heads(found(dense, "attention_norm", True, length="normalized"), share, norm)
    pearson = found(dense, "attention_pearson", True)
    check_heads(pearson, longer, lambda p: np.mean([r for s in pearsons(p, True) for r in s]))


def test_a_model_that_is_causal_already_is_not_changed_by_the_mask(dense: Sentences) -> None:
    low = [(triangle(x), triangle(y)) for x, y in dense]
    for name in TABLE:
        one, other = found(dense, name, True), found(low, name, True)
        np.testing.assert_allclose(one.forward, other.forward, atol=1e-6)
        assert np.abs(one.forward - found(dense, name).forward).max() > 1e-3


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


def leading(z: np.ndarray, share: float, coded: bool = False) -> np.ndarray:
    """Components up to the one that crosses the share; as coded of standardized columns, and without it."""
    u, s, _ = np.linalg.svd(z / np.linalg.norm(z, axis=0) if coded else z, full_matrices=False)
    below = int(np.sum(np.cumsum(s**2) / np.sum(s**2) < share))
    return u[:, : below + (not coded)]


def svcca(x: np.ndarray, y: np.ndarray, share: float, coded: bool = False) -> float:
    return float(np.cos(subspace_angles(leading(x, share, coded), leading(y, share, coded))).mean())


def pwcca(x: np.ndarray, y: np.ndarray, variant: str = "morcos") -> float:
    """Weights come from the columns as they are, whatever the correlations came from."""
    bases = {
        "morcos": lambda z: np.linalg.qr(z)[0],
        "svcca": lambda z: leading(z, 0.99),
        "wu": lambda z: leading(z, 0.99, coded=True),
    }
    qx, qy = bases[variant](x), bases[variant](y)
    u, rho, _ = np.linalg.svd(qx.T @ qy, full_matrices=False)
    return float(np.average(rho, weights=np.abs((qx @ u).T @ x).sum(axis=1)))


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("weight", ["pairs", "sentences"])
def test_measures_over_pairs_of_words(dense: Sentences, causal: bool, weight: str) -> None:
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
    assert (sv50.kept[0] < 3).all()
    assert [r.tolist() for r in pw.rank] == [[3, 3], [4, 4, 4]]


@pytest.fixture(scope="module")
def skewed(dense: Sentences) -> Sentences:
    """The same with the last head of every layer nearly like the first, so that a share of 0.99 cuts."""

    def near(rows: np.ndarray) -> np.ndarray:
        first = rows[:, :1] * 0.98 + rows[:, -1:] * 0.02
        return np.concatenate([rows[:, :-1], first], axis=1)

    return [(near(x), near(y)) for x, y in dense]


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("weight", ["pairs", "sentences"])
def test_the_definitions_of_wu_et_al_after_a_truncation(skewed: Sentences, causal: bool, weight: str) -> None:
    w = weights(skewed, weight, causal)
    left, right = ([weighted(x, w) for x in table(skewed, side, causal)] for side in (0, 1))
    coded = found(skewed, "attention_svcca", causal, weight=weight, scaling="standardize", inclusive=False)
    ways = {v: found(skewed, "attention_pwcca", causal, weight=weight, variant=v) for v in ("svcca", "wu")}
    whole = found(skewed, "attention_pwcca", causal, weight=weight)
    for (i, x), (j, y) in product(enumerate(left), enumerate(right)):
        assert coded.forward[i, j] == pytest.approx(svcca(x, y, 0.99, coded=True), abs=1e-9)
        for variant, cells in ways.items():
            assert cells.forward[i, j] == pytest.approx(pwcca(x, y, variant), abs=1e-9)
            assert cells.backward[i, j] == pytest.approx(pwcca(y, x, variant), abs=1e-9)
    kept, rank = ways["svcca"].kept, ways["svcca"].rank
    assert (kept[0] < rank[0]).any(), "a truncation that cuts nothing tells nothing"
    assert np.abs(ways["svcca"].forward - whole.forward).max() > 1e-3
    assert np.abs(ways["wu"].forward - ways["svcca"].forward).max() > 1e-3


def test_a_truncation_that_keeps_no_direction_says_so() -> None:
    rng = generator(14, "alone")
    alone = [(maps(rng, 1, 1, t), maps(rng, 1, 2, t)) for t in (5, 7)]
    for name in ("attention_svcca:inclusive=False", "attention_pwcca:variant=wu"):
        measure, written = parse(name)
        cells = found(alone, measure, False, **written)
        assert np.isnan(cells.forward).all()
        assert str(cells.reasons[0][0]).startswith("no direction is kept")


def test_flat_attention_over_long_texts_keeps_its_digits() -> None:
    # Departures from 1/t of a millionth of it: raw second moments would lose five digits.
    rows = 1 / 60 + 1e-6 / 60 * generator(6, "flat").standard_normal((2, 1, 2, 60, 60))
    rows /= rows.sum(axis=-1, keepdims=True)
    pair = (rows[0], rows[1])
    x, y = (table([pair], side, False)[0] for side in (0, 1))
    k, m = (z - z.mean(axis=0) for z in (x, y))
    wanted = np.sum((k.T @ m) ** 2) / np.linalg.norm(k.T @ k) / np.linalg.norm(m.T @ m)
    assert found([pair], "attention_cka").forward[0, 0] == pytest.approx(wanted, rel=1e-5)


@pytest.mark.parametrize("name", ["attention_cka", "attention_svcca", "attention_pwcca"])
def test_lengths_of_sentences_make_unrelated_heads_alike_unless_rows_are_centered(name: str) -> None:
    rng = generator(13, "unrelated")
    lengths = [4, 30] * 6
    unrelated = [(maps(rng, 1, 2, t), maps(rng, 1, 2, t)) for t in lengths]
    centered = [tuple(m - 1 / m.shape[2] for m in s) for s in unrelated]
    x, y = (table(centered, side, False)[0] for side in (0, 1))  # pyright: ignore[reportArgumentType]
    wanted = {
        "attention_cka": np.sum((x.T @ y) ** 2) / np.linalg.norm(x.T @ x) / np.linalg.norm(y.T @ y),
        "attention_svcca": svcca(x, y, 0.99),
        "attention_pwcca": pwcca(x, y),
    }[name]
    assert found(unrelated, name, center="rows").forward[0, 0] == pytest.approx(wanted, abs=1e-9)
    assert found(unrelated, name).forward[0, 0] > 2 * wanted


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
@given(st.integers(0, 99), st.floats(0.02, 20), st.booleans(), st.lists(st.integers(1, 8), max_size=6))
def test_values_stay_in_the_declared_range(
    seed: int, concentration: float, causal: bool, lengths: list[int]
) -> None:
    rng = generator(seed, "range")
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


def test_constant_heads_are_left_out_a_layer_of_them_is_undefined_and_equal_heads_count_once() -> None:
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
    y[0, 2] = y[0, 0]
    for name in ("attention_cka", "attention_svcca", "attention_pwcca"):
        other = found([(x, y)], name)
        assert other.rank.left is None or ([r.tolist() for r in other.rank] == [[1, 0], [2]])
        assert np.isfinite(other.forward[0, 0])
        assert np.isnan(other.forward[1, 0])
        assert other.reasons[1][0] == "all heads of a layer are constant"


def test_a_head_that_is_nearly_flat_is_a_dimension_of_pwcca() -> None:
    rng = generator(10, "faint")
    x, y = maps(rng, 1, 2, 8), maps(rng, 1, 2, 8)
    x[0, 1] = 1 / 8 + 1e-5 * (x[0, 1] - 1 / 8)
    cells = found([(x, y)], "attention_pwcca")
    assert cells.rank[0] == 2
    left, right = (table([(x, y)], side, False)[0] for side in (0, 1))
    wanted = pwcca(left - left.mean(axis=0), right - right.mean(axis=0))
    assert cells.forward[0, 0] == pytest.approx(wanted, abs=1e-9)


def test_pwcca_says_when_there_are_too_few_pairs_of_words() -> None:
    rng = generator(11, "few")
    cells = found([(maps(rng, 1, 4, 3), maps(rng, 1, 4, 3))], "attention_pwcca")
    assert np.isnan(cells.forward[0, 0])
    assert "too many for 6 free pairs" in (cells.reasons[0][0] or "")


def test_tensors_give_what_arrays_give(sentences: Sentences) -> None:
    tensors = [tuple(torch.softmax(torch.from_numpy(m) * 4, -1).half() for m in s) for s in sentences]
    arrays = [tuple(m.numpy() for m in s) for s in tensors]
    for name in TABLE:
        np.testing.assert_array_equal(found(tensors, name).forward, found(arrays, name).forward)


def test_memory_does_not_grow_with_the_number_of_sentences() -> None:
    rng = generator(12, "memory")
    run = AttentionPass(list(every_choice()))
    pair = maps(rng, 2, 3, 12), maps(rng, 2, 3, 12)
    for _ in range(3):
        run.add(*pair)
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for _ in range(30):
            run.add(pair[0].copy(), pair[1].copy())
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 40_000  # one sentence is 14 kB, thirty would be 410 kB
    assert run.finish()["attention_js"].sentences == 33


def test_measures_and_sentences_that_do_not_fit_are_refused(sentences: Sentences) -> None:
    with pytest.raises(InputError, match="measures must be measures of attention, but got 'linear_cka'"):
        AttentionPass([choose(LINEAR_CKA)])
    run = AttentionPass([choose(TABLE["attention_norm"])])
    with pytest.raises(InputError, match="sentences must be there"):
        run.finish()
    with pytest.raises(InputError, match="words of sentence 1 must be 5 on the right as on the left"):
        run.add(sentences[0][0], sentences[1][1])
    run.add(*sentences[0])
    with pytest.raises(InputError, match=r"sentence 2, right layer 1, head 1, row 1 sums to 0\.5"):
        run.add(sentences[2][0], sentences[2][1] / 2)
    with pytest.raises(InputError, match="layers, heads and sides of sentence 2 must be as before"):
        run.add(sentences[0][0])
    with pytest.raises(InputError, match="layers, heads and sides of sentence 2 must be as before"):
        run.add(sentences[0][0][:, :2], sentences[0][1])
    run.add(*sentences[1])  # what was refused has left no trace
    assert run.finish()["attention_norm"].forward == pytest.approx(
        found(sentences[:2], "attention_norm").forward
    )


def test_labels_and_estimators_say_what_was_computed(sentences: Sentences) -> None:
    run = AttentionPass(list(every_choice()))
    for sentence in sentences:
        run.add(*sentence)
    cells = run.finish()
    assert list(cells) == [chosen.label for chosen in every_choice()]
    assert len({c.estimator for c in cells.values()}) == len(cells)
    assert "nats" in cells["attention_js"].estimator
    assert all(label == c.label for label, c in cells.items())
