import numpy as np
import pytest

import microtome as mt
from microtome.errors import InputError


def sentences(seed, count=12, layers=3, heads=4):
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        words = int(rng.integers(4, 9))
        raw = rng.gamma(1.0, size=(layers, heads, words, words))
        found.append(raw / raw.sum(-1, keepdims=True))
    return found


def mixed(one, other, share):
    return [share * a + (1 - share) * b for a, b in zip(one, other, strict=True)]


def test_a_model_attends_like_itself():
    left = sentences(0)
    maps = mt.attention_similarity_matrix(left, None, "attention_js,attention_cka,attention_norm")
    for name in maps:
        assert np.allclose(np.diag(maps[name].values), 1.0, atol=1e-6)
        assert maps[name].symmetric
        assert maps[name].left == ("1", "2", "3")


def test_a_generator_is_read_once_and_gives_the_same_map():
    left = sentences(1)
    right = mixed(left, [np.roll(x, 1, axis=1) for x in left], 0.5)
    listed = mt.attention_similarity_matrix(left, right, "attention_pearson")
    streamed = mt.attention_similarity_matrix((x for x in left), (x for x in right), "attention_pearson")
    assert np.array_equal(listed["attention_pearson"].values, streamed["attention_pearson"].values)


def test_intervals_go_by_sentence_and_say_so():
    left = sentences(3, count=30)
    right = mixed(left, [np.roll(x, 1, axis=1) for x in left], 0.7)
    found = mt.attention_similarity_matrix(left, right, "attention_js", certainty=True)["attention_js"]
    assert found.unit == "sentence"
    assert found.method == "half-sampling"
    assert found.target == "value of another sample of the same size"
    assert (found.low < found.values).all()
    assert (found.values < found.high).all()
    assert found.difference((1, 1), (2, 1)).low is not None


def test_sides_with_different_sentences_are_refused():
    left = sentences(4)
    with pytest.raises(InputError, match="same sentences, but the right ends after 11"):
        mt.attention_similarity_matrix(left, left[:-1])
    with pytest.raises(InputError, match="same sentences, but the left ends after 11"):
        mt.attention_similarity_matrix(left[:-1], left)


def test_the_two_kinds_of_measures_are_not_mixed_up():
    with pytest.raises(InputError, match="linear_cka must be given rows, not attention maps"):
        mt.attention_similarity_matrix(sentences(5), None, "linear_cka")
    with pytest.raises(InputError, match="attention_js must be given attention maps, not rows"):
        mt.similarity_matrix([np.ones((9, 2))], None, "attention_js")


def test_certainty_needs_sentences_that_can_be_read_again():
    with pytest.raises(InputError, match="certainty must be asked of lists of sentences"):
        mt.attention_similarity_matrix((x for x in sentences(6)), None, certainty=True)


def test_a_list_of_names_must_fit():
    with pytest.raises(InputError, match="names of the left layers must be 3, one a layer, but got 2"):
        mt.attention_similarity_matrix(sentences(7), None, names=["a", "b"])
