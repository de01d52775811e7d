"""Are names found as tags of every usual scheme tell them, and lines that tell nothing refused?"""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from microtome.errors import InputError
from microtome.probes.spanlabels import spans_of
from microtome.probes.targets import read_target, split_of

TEXT = """-DOCSTART- -X- -X- O

Ann NNP B-NP I-PER
Lee NNP I-NP I-PER
drinks VBZ B-VP O
tea NN B-NP O

Rome NNP B-NP I-LOC
# . B-NP O

-DOCSTART- -X- -X- O

# a note of nobody
Bo\tB-PER
Ann\tB-PER
"""

# Runs of words: the kind of a name, or nothing, and how many words.
RUNS = st.lists(st.tuples(st.sampled_from(["PER", "LOC", "I-ORG", ""]), st.integers(1, 4)), max_size=8)


def tagged(runs: list[tuple[str, int]], scheme: str) -> list[str]:
    """Write runs of words as tags."""
    tags: list[str] = []
    before = ""
    for kind, length in runs:
        if not kind:
            marks = "O" * length
        elif scheme == "bioes":
            marks = "S" if length == 1 else f"B{'I' * (length - 2)}E"
        elif scheme == "bilou":
            marks = "U" if length == 1 else f"B{'I' * (length - 2)}L"
        else:
            first = "B" if scheme == "iob2" or kind == before else "I"
            marks = first + "I" * (length - 1)
        tags += [mark if mark == "O" else f"{mark}-{kind}" for mark in marks]
        before = kind
    return tags


@given(RUNS, st.sampled_from(["iob1", "iob2", "bioes", "bilou"]))
def test_names_come_back_from_tags_of_any_scheme(runs: list[tuple[str, int]], scheme: str) -> None:
    expected, place = [], 0
    for kind, length in runs:
        if kind:
            expected.append((kind, (place, place + length)))
        place += length
    assert spans_of(tagged(runs, scheme)) == expected


def test_a_file_has_sentences_documents_and_names(tmp_path: Path) -> None:
    path = tmp_path / "names.conll"
    path.write_text(TEXT)
    found = read_target(path, "entities")
    assert found.sentences == (("Ann", "Lee", "drinks", "tea"), ("Rome", "#"), ("Bo", "Ann"))
    assert found.groups == ("document-1", "document-1", "document-2")
    assert found.labels == ("LOC", "PER")
    assert found.owner.tolist() == [0, 1, 2, 2]
    assert found.spans[:, 0].tolist() == [[0, 2], [0, 1], [0, 1], [1, 2]]


def test_names_of_files_tell_their_splits(tmp_path: Path) -> None:
    for name in ("eng.train", "eng.testa", "eng.testb"):
        (tmp_path / name).write_text(TEXT)
    found = read_target(tmp_path, "entities")
    assert list(dict.fromkeys(found.splits)) == ["train", "validation", "test"]
    assert split_of(Path("emerging.dev.conll")) == "validation"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("Ann B-PER\nLee\n", "line 2 of .* must begin with a word and end in a tag such as B-PER"),
        ("Ann NOUN\n", "line 1 of .* but got 'Ann NOUN'"),
        ("Ann O\n\nBo O\n", "must hold entities of some words, but it holds none"),
    ],
)
def test_what_tells_of_no_names_is_refused(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "names.iob2"
    path.write_text(text)
    with pytest.raises(InputError, match=said):
        read_target(path, "entities")
