from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from microtome.errors import InputError
from microtome.inference.clusters import Clusters, check_balanced, cluster_sums

lists_of_ids = st.lists(st.integers(-3, 8), min_size=12, max_size=40).filter(
    lambda ids: 2 * max(ids.count(i) for i in ids) < len(ids)
)


@given(lists_of_ids)
def test_rows_with_one_id_form_one_cluster(ids: list[int]) -> None:
    clusters = Clusters.from_ids(ids)
    assert [ids[row] for row in np.unique(clusters.codes, return_index=True)[1]] == list(dict.fromkeys(ids))
    for row, other in np.ndindex(len(ids), len(ids)):
        assert (clusters.codes[row] == clusters.codes[other]) == (ids[row] == ids[other])
    assert clusters.sizes.tolist() == [ids.count(name) for name in dict.fromkeys(ids)]
    for code, (start, size) in enumerate(zip(clusters.starts, clusters.sizes, strict=True)):
        assert (clusters.codes[clusters.order[start : start + size]] == code).all()


@given(lists_of_ids)
def test_the_kind_of_id_does_not_matter(ids: list[int]) -> None:
    expected = Clusters.from_ids(ids).codes.tolist()
    forms: list[Any] = [
        np.array(ids),
        np.array(ids, dtype=np.float64),
        [f"s{i}" for i in ids],
        np.array([f"s{i}" for i in ids]),
        [(i, "doc") for i in ids],
    ]
    for form in forms:
        assert Clusters.from_ids(form).codes.tolist() == expected


def test_tensors_of_ids_count_by_value() -> None:
    import torch

    ids = torch.tensor([3, 1, 3, 2, 0])
    assert Clusters.from_ids(ids).codes.tolist() == [0, 1, 0, 2, 3]
    assert Clusters.from_ids(list(ids)).codes.tolist() == [0, 1, 0, 2, 3]


def test_a_number_and_its_text_are_two_ids() -> None:
    assert len(Clusters.from_ids([1, "1", 2, 3])) == 4


def test_adjacent_clusters_keep_the_row_order() -> None:
    clusters = Clusters.from_ids([7, 7, 3, 3, 3, 9, 1, 1])
    assert clusters.order.tolist() == list(range(8))
    assert clusters.starts.tolist() == [0, 2, 5, 6]
    assert clusters.unit == "cluster"


def test_rows_keep_their_order_inside_a_cluster() -> None:
    clusters = Clusters.from_ids(np.random.default_rng(1).integers(0, 20, 3000))
    for rows in np.split(clusters.order, clusters.starts[1:]):
        assert (np.diff(rows) > 0).all()


def test_singletons() -> None:
    clusters = Clusters.singletons(5)
    assert clusters.codes.tolist() == [0, 1, 2, 3, 4]
    assert clusters.sizes.tolist() == [1] * 5
    assert (len(clusters), clusters.n, clusters.unit) == (5, 5, "row")


def test_rows_of_clusters() -> None:
    clusters = Clusters.from_ids(["a", "b", "a", "c", "d", "b"])
    assert clusters.rows([1, 0]).tolist() == [0, 1, 2, 5]
    assert clusters.rows([False, True, False, True]).tolist() == [1, 4, 5]


def test_the_arrays_cannot_be_changed() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Clusters.singletons(4).codes[0] = 2


@pytest.mark.parametrize(
    "ids, n, sentence",
    [
        ([1, 2, 3], 4, "one id for each of the 4 rows, but got '3 ids'"),
        ([1, 1, 1], 3, "at least 2 clusters, such as sentences or documents, but all 3 come from one"),
        ([], 0, "at least 2 clusters, .* but there are none"),
        (["a", "a", "b", "c"], 4, "fewer than half of the rows, but 'a' holds 2 of 4: give more clusters."),
        (np.array([5, 7, 7, 9]), 4, "every cluster must hold .* but 7 holds 2 of 4"),
        ([1, None, 2, 3], 4, "the id of row 1 is None"),
        ([1.0, 2.0, float("nan"), 3.0], 4, "the id of row 2 is nan"),
        ([[1], [2], [3]], 3, "hashable"),
        (np.zeros((4, 2), dtype=int), 4, "flat"),
    ],
)
def test_what_is_wrong_is_said(ids: Any, n: int, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Clusters.from_ids(ids, n)


def test_what_holds_too_many_rows_is_said_in_words_of_its_unit() -> None:
    said = "every sentence must hold fewer than half of the rows, but one holds 3 of 6: give more sentences."
    with pytest.raises(InputError, match=f"^{said}$"):
        check_balanced([1, 1, 1, 2, 2, 3], "sentence")
    check_balanced([1, 1, 1, 2, 2, 3, 3], "sentence")
    # That all come from one is said elsewhere, with what it means.
    check_balanced([1, 1, 1], "sentence")
    with pytest.raises(InputError, match="every document must hold"):
        Clusters.from_ids([1, 1, 2], noun="document")


def test_cluster_sums_against_a_loop() -> None:
    rng = np.random.default_rng(0)
    values, codes = rng.standard_normal((2, 3, 20)), rng.permutation(np.arange(20) % 6)
    sums = cluster_sums(values, codes)
    assert sums.shape == (2, 3, 6)
    for code in range(6):
        np.testing.assert_allclose(sums[..., code], values[..., codes == code].sum(-1), atol=1e-14)
