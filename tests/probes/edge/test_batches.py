"""Do labeled spans find their rows, and do batches hold all of them?"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microtome.errors import InputError
from microtome.probes.edge.batches import Edges, find_edges, in_ranges, make_batch
from microtome.probes.targets import TARGETS, Annotated, read_target


def annotated(name: str = "constituents") -> Annotated:
    """Two sentences of four and two words."""
    spans = np.array([[[0, 2]], [[2, 4]], [[3, 4]], [[0, 2]]])
    return Annotated(
        target=TARGETS[name],
        source="here",
        ids=("1", "2"),
        groups=("1", "2"),
        splits=("", ""),
        sentences=(("a", "b", "c", "d"), ("e", "f")),
        labels=("x", "y"),
        spans=spans,
        right=np.array([[1, 0], [0, 1], [0, 1], [1, 0]], dtype=bool),
        owner=np.array([0, 0, 0, 1]),
    )


def test_rows_of_words() -> None:
    found = find_edges(annotated(), [0, 0, 0, 0, 1, 1], [0, 1, 2, 3, 0, 1])
    assert found.spans[:, 0].tolist() == [[0, 2], [2, 4], [3, 4], [4, 6]]
    assert (found.labels, found.multilabel) == (("x", "y"), False)


def test_rows_of_parts_of_words() -> None:
    found = find_edges(annotated(), [0] * 6 + [1] * 3, [0, 0, 1, 2, 2, 3, 0, 1, 1])
    assert found.spans[:, 0].tolist() == [[0, 3], [3, 6], [5, 6], [6, 9]]


def test_targets_without_all_of_their_rows_are_left_out() -> None:
    found = find_edges(annotated(), [0, 0, 0, 1, 1], [0, 2, 3, 0, 1])
    assert found.spans[:, 0].tolist() == [[1, 3], [2, 3], [3, 5]]
    assert found.owner.tolist() == [0, 0, 1]
    # The second sentence was cut to nothing.
    assert find_edges(annotated(), [0] * 4, [0, 1, 2, 3]).owner.tolist() == [0, 0, 0]


@settings(deadline=None)
@given(st.integers(0, 200), st.integers(1, 2), st.booleans())
def test_a_batch_holds_every_span_of_its_sentences(seed: int, slots: int, wide: bool) -> None:
    rng = np.random.default_rng(seed)
    owner = np.sort(rng.integers(5, size=12))
    begin = owner[:, None] * 10 + rng.integers(6, size=(12, slots))
    sizes = rng.integers(1, 4, size=begin.shape) if wide else np.ones_like(begin)
    right = rng.random((12, 3)) < 0.5
    spans = np.stack([begin, begin + sizes], axis=-1)
    edges = Edges(spans=spans, right=right, owner=owner, labels=("a", "b", "c"), multilabel=True)
    known = np.unique(owner)
    sets = [rng.permutation(known)[: rng.integers(1, len(known) + 1)] for _ in range(3)]
    batch = make_batch(edges, sets)
    for place, sentences in enumerate(sets):
        targets = edges.of(np.sort(sentences))
        assert batch.counts[place][1] == len(targets)
        assert (batch.right[place, : len(targets)].numpy() > 0).tolist() == right[targets].tolist()
        np.testing.assert_allclose(batch.share[place].numpy().sum() * 3, 1, rtol=1e-5)
        rows = batch.rows[place].numpy()
        for number, slot in enumerate(batch.slots):
            own = rows if slot.rows is None else rows[slot.rows[place].numpy()]
            members = own if slot.places is None else own[slot.places[place].numpy()]
            for order, target in enumerate(targets):
                first, end = spans[target, number]
                if slot.starts is None or slot.spans is None:
                    assert members[order] == first
                    continue
                low, high = slot.starts[place, order : order + 2].tolist()
                assert members[low:high].tolist() == list(range(first, end))
                assert set(slot.spans[place, low:high].tolist()) == {order}


def test_ranges_may_be_empty() -> None:
    assert in_ranges(np.array([5, 2, 2]), np.array([5, 4, 3])).tolist() == [2, 3, 2]


def test_bad_rows_get_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text("1\tTea\ttea\tNOUN\tNN\t_\t0\troot\t_\t_\n")
    trees = read_target(path, "dep-depth")
    spans, right = np.zeros((1, 1, 2), int), np.ones((1, 2), bool)
    whole = spans + np.array([0, 1])
    cases = [
        (lambda: find_edges(trees, [0], [0]), "a target for edge probing must be of words or spans"),
        (lambda: find_edges(annotated(), [0, 1], [0]), "rows must be a sentence and a word for each"),
        (lambda: find_edges(annotated(), [0, 2], [0, 0]), "sentences of rows must be below 2, but got 2"),
        (lambda: find_edges(annotated(), [0, 0], [1, 0]), "rows must be in the order of sentences"),
        (lambda: find_edges(annotated(), [0], [0]), "rows must hold the words of at least one target"),
        (lambda: Edges(spans=spans, right=right, owner=np.zeros(1), labels=("a", "b")), "at least one row"),
        (lambda: Edges(spans=whole, right=right, owner=np.zeros(1), labels=("a",)), "right must be bool"),
        (
            lambda: Edges(spans=whole[0], right=right, owner=np.zeros(1), labels=("a", "b")),
            "spans must be of",
        ),
        (
            lambda: Edges(
                spans=np.repeat(whole, 2, 0),
                right=np.repeat(right, 2, 0),
                owner=np.array([1, 0]),
                labels=("a", "b"),
            ),
            "in the order of their sentences",
        ),
    ]
    for call, words in cases:
        with pytest.raises(InputError, match=words):
            call()
