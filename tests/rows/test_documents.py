"""Which rows are of one document, and when are there too few documents to go by?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import tiny
from microtome.corpora.examples import Example
from microtome.encoders.loading import load
from microtome.rows.documents import document_codes
from microtome.rows.planning import plan_rows
from microtome.rows.selecting import row_options


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return load(tiny.save_checkpoint(tmp_path_factory.mktemp("models"), "bert"))


def corpus(*sizes: int) -> list[Example]:
    """Documents of so many sentences of two words, their sentences in turn."""
    found = [(k, document) for document, size in enumerate(sizes) for k in range(size)]
    return [Example(id=f"{d}-{k}", words=("the", "cat"), group=f"text {d}") for k, d in sorted(found)]


def test_rows_are_clustered_by_document_wherever_it_goes_on(encoder: Any) -> None:
    examples = corpus(*[3] * 10)
    rows = plan_rows(examples, [encoder], row_options("word"))
    assert rows.unit == "document"
    assert [f"text {code}" for code in rows.clusters] == [one.group for one in examples for _ in range(2)]
    assert (rows.few, rows.extent()) == ("", "30 sentences in 10 documents")
    means = plan_rows(examples, [encoder], row_options("mean"))
    assert means.unit == "document"
    assert means.clusters.tolist() == [int(one.group[5:]) for one in examples]
    assert means.extent() == "30 examples in 10 documents"


def test_rows_are_the_same_whatever_groups_them(encoder: Any) -> None:
    examples = corpus(*[3] * 10)
    plain = [replace(one, group="") for one in examples]
    for sample in (None, 50):
        grouped, alone = (
            plan_rows(some, [encoder], row_options("word", sample=sample)) for some in (examples, plain)
        )
        assert grouped.digest == alone.digest
        assert grouped.unit == "document"
        assert (alone.unit, alone.groups, alone.few) == ("sentence", (), "")
        np.testing.assert_array_equal(alone.clusters, alone.examples)
        assert len(grouped.clusters) == len(grouped)


@pytest.mark.parametrize(
    ("sizes", "said"),
    [
        ([30], "Only 1 document is read, so"),
        ([3] * 9, "Only 9 documents are read, so"),
        ([22, *[4] * 11], "One document holds 33 % of the rows, so"),
    ],
)
@pytest.mark.parametrize(("kind", "noun"), [("word", "sentence"), ("mean", "example")])
def test_too_few_documents_leave_the_sentences_and_say_it(
    encoder: Any, sizes: list[int], said: str, kind: str, noun: str
) -> None:
    rows = plan_rows(corpus(*sizes), [encoder], row_options(kind))
    assert rows.unit == noun
    np.testing.assert_array_equal(rows.clusters, rows.examples)
    assert rows.few == (
        f"{said} {noun}s are taken as independent: intervals do not say what other documents would give."
    )
    assert rows.extent() == f"{sum(sizes)} {noun}s"


def test_documents_of_one_sentence_each_are_sentences(encoder: Any) -> None:
    rows = plan_rows(corpus(*[1] * 12), [encoder], row_options("word"))
    assert (rows.unit, rows.few) == ("sentence", "")


def test_only_documents_that_have_rows_count() -> None:
    ids, groups = [str(k) for k in range(24)], [f"text {k // 2}" for k in range(24)]
    codes, few = document_codes(np.arange(20), ids, groups)
    assert codes is not None
    assert (codes.max(), few) == (9, "")
    codes, few = document_codes(np.arange(18), ids, groups)
    assert codes is None
    assert few.startswith("Only 9 documents are read")


def test_a_document_may_be_called_like_its_first_sentence() -> None:
    ids = [str(k) for k in range(30)]
    codes, _ = document_codes(np.arange(30), ids, [str(3 * (k // 3)) for k in range(30)])
    assert codes is not None
    assert codes.tolist() == [k // 3 for k in range(30)]
