"""Is what files say of words, spans and trees read as it is, and is what they do not say refused?"""

from __future__ import annotations

import json
import lzma
import os
import re
import tarfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from microtome.corpora.opening import corpus
from microtome.errors import InputError, UnknownNameError
from microtome.extraction.texts import make_texts
from microtome.probes.edge.training import EDGE_RECIPES
from microtome.probes.spanlabels import FORMATS
from microtome.probes.targets import TARGETS, Annotated, read_target, word_labels

ROOT = Path(__file__).parents[2]

CONLLU = """# newdoc id = tea
# sent_id = tea-1
1	Ann	Ann	PROPN	NNP	_	2	nsubj	_	_
2-3	doesn't	_	_	_	_	_	_	_	_
2	does	do	AUX	VBZ	_	0	root	_	_
3	n't	not	PART	RB	_	2	advmod	_	_
4	.	.	PUNCT	.	_	2	punct	_	_

# sent_id = tea-2
1	Tea	tea	NOUN	NN	_	0	root	_	_
2	!	!	PUNCT	_	_	1	punct	_	_

"""
TREES = r"""
( (S (NP-SBJ-1 (NNP Ann) )
     (VP (VBZ drinks) (NP (NP (JJ hot) (NN tea)) (PP=2 (IN with) (NP (-LRB- -LRB-) (NN milk)))))
     (NP (-NONE- *T*-1)) (. .)))
(TOP (FRAG|X (UH No)))
"""
SPR = [
    {
        "text": "Ann drinks tea",
        "targets": [
            {"span1": [1, 2], "span2": [0, 1], "label": ["volition", "awareness"]},
            {"span1": [1, 2], "span2": [2, 3], "label": []},
        ],
    },
    {"text": "Tea cools", "targets": [{"span1": [1, 2], "span2": [0, 1], "label": ["change"]}]},
]
RELATIONS = (
    '1\t"The <e1>cup</e1> holds <e2>hot tea</e2>."\r\nContent-Container(e2,e1)\r\nComment: plain\r\n\r\n'
    '2\t"<e1>Ann</e1>\'s<e2> tea </e2> cools"\r\nOther\r\nComment:\r\n\r\n'
)


ENTITIES = """-DOCSTART- -X- O O

Ann NNP I-NP I-PER
Lee NNP I-NP I-PER
went VBD I-VP O
# O

-DOCSTART- -X- O O

# source: a note
Ann\tB-PER
Bo\tB-PER
in\tO
New\tB-LOC
York\tE-LOC
UN\tS-ORG
"""
_SUFFIXES = {"conllu": "conllu", "brackets": "mrg", "semeval": "txt", "edges": "jsonl", "iob": "conll"}


@pytest.fixture(scope="session")
def shared() -> Path:
    """The folder of real corpora, where there is one."""
    folder = Path(os.environ.get("MICROTOME_SHARED", ROOT.parent / "shared")) / "data"
    if not folder.is_dir():
        pytest.skip(f"there are no real corpora at {folder}; MICROTOME_SHARED says where they are")
    return folder


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    """One small file of each kind."""
    content = {
        "a.conllu": CONLLU,
        "a.mrg": TREES,
        "a.jsonl": "".join(f"{json.dumps(one)}\n" for one in SPR),
        "a.txt": RELATIONS,
        "a.conll": ENTITIES,
    }
    for name, text in content.items():
        (tmp_path / name).write_bytes(text.encode())
    return {name[2:]: tmp_path / name for name in content}


def told(found: Annotated) -> list[tuple[int, list[list[int]], list[str]]]:
    """Sentence, spans and labels of each target."""
    return [
        (owner, spans, [found.labels[at] for at in np.flatnonzero(right)])
        for owner, spans, right in zip(found.owner.tolist(), found.spans.tolist(), found.right, strict=True)
    ]


def test_the_table_declares_what_is_so() -> None:
    for name, target in TARGETS.items():
        assert target.name == name
        assert target.about.endswith("?")
        assert target.slots == 1 or target.kind == "spans"
        assert (target.find is None) == (target.kind == "trees")
        assert set(target.formats) <= set(FORMATS)
        assert target.recipe in EDGE_RECIPES
    with pytest.raises(TypeError):
        TARGETS["upos"] = TARGETS["xpos"]  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize("name", TARGETS)
def test_every_target_can_be_read_from_each_of_its_formats(name: str, files: dict[str, Path]) -> None:
    target = TARGETS[name]
    for one in target.formats:
        source = files[_SUFFIXES[one]]
        if one == "edges" and name != "spr":
            source = files["jsonl"].parent / f"{name}.jsonl"
            spans = {f"span{slot}": [slot - 1, slot] for slot in range(1, target.slots + 1)}
            text = json.dumps({"text": "Ann drinks", "targets": [{**spans, "label": "A"}]})
            source.write_text(f"{text}\n{text}\n")
        found = read_target(source, name)
        assert len(found.sentences) == len(found.ids) == len(found.splits) == len(found.groups) == 2
        assert found.spans.shape[1:] == (target.slots, 2)
        assert found.right.shape == (len(found.owner), len(found.labels))
        assert bool(len(found.heads)) == (target.kind == "trees")
        if not target.multilabel and target.kind != "trees":
            assert (found.right.sum(1) == 1).all()


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("relations", "target 0 of sentence '1' must have one label, but it has 2: is it of another target?"),
        ("constituents", "target 0 of sentence '1' must have 1 span, but it has span2 too"),
    ],
)
def test_what_another_target_has_is_refused(name: str, said: str, files: dict[str, Path]) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        read_target(files["jsonl"], name)


def test_classes_of_words(files: dict[str, Path]) -> None:
    found = read_target(files["conllu"], "upos")
    assert found.sentences == (("Ann", "does", "n't", "."), ("Tea", "!"))
    assert (found.ids, found.groups) == (("tea-1", "tea-2"), ("tea", "tea"))
    assert found.labels == ("AUX", "NOUN", "PART", "PROPN", "PUNCT")
    assert told(found)[1] == (0, [[1, 2]], ["AUX"])
    # A word without a tag is asked nothing.
    xpos = read_target(files["conllu"], "xpos")
    assert len(xpos.owner) == 5
    labels = word_labels(xpos, [0, 0, 0, 0, 1, 1], [0, 1, 2, 3, 0, 1])
    assert [xpos.labels[at] if at >= 0 else None for at in labels] == ["NNP", "VBZ", "RB", ".", "NN", None]


def test_words_and_their_heads(files: dict[str, Path]) -> None:
    found = read_target(files["conllu"], "deprel-edge")
    assert told(found)[:3] == [
        (0, [[0, 1], [1, 2]], ["nsubj"]),
        (0, [[1, 2], [1, 2]], ["root"]),
        (0, [[2, 3], [1, 2]], ["advmod"]),
    ]
    trees = read_target(files["conllu"], "dep-distance")
    assert [heads.tolist() for heads in trees.heads] == [[2, 0, 2, 2], [0, 1]]
    assert [marks.tolist() for marks in trees.punctuation] == [[False] * 3 + [True], [False, True]]
    assert not len(trees.owner)


def test_phrases_of_trees(files: dict[str, Path]) -> None:
    found = read_target(files["mrg"], "constituents")
    assert found.sentences[0] == ("Ann", "drinks", "hot", "tea", "with", "(", "milk", ".")
    assert sorted((spans[0], label[0]) for owner, spans, label in told(found) if owner == 0) == [
        ([0, 1], "NP"),
        ([0, 8], "S"),
        ([1, 7], "VP"),
        ([2, 4], "NP"),
        ([2, 7], "NP"),
        ([4, 7], "PP"),
        ([5, 7], "NP"),
    ]
    assert [(spans, label) for owner, spans, label in told(found) if owner == 1] == [
        ([[0, 1]], ["FRAG"]),
        ([[0, 1]], ["TOP"]),
    ]
    # A corpus that was opened for its words has the phrases too.
    again = read_target(corpus(files["mrg"], escapes="keep"), "constituents")
    assert again.sentences[0][5] == "-LRB-"
    np.testing.assert_array_equal(again.spans, found.spans)


def test_properties_and_relations(files: dict[str, Path]) -> None:
    found = read_target(files["jsonl"], "spr")
    assert found.labels == ("awareness", "change", "volition")
    assert told(found) == [
        (0, [[1, 2], [0, 1]], ["awareness", "volition"]),
        (0, [[1, 2], [2, 3]], []),
        (1, [[1, 2], [0, 1]], ["change"]),
    ]
    related = read_target(files["txt"], "relations")
    assert related.sentences == (("The", "cup", "holds", "hot", "tea."), ("Ann's", "tea", "cools"))
    assert told(related) == [
        (0, [[1, 2], [3, 5]], ["Content-Container(e2,e1)"]),
        (1, [[0, 1], [1, 2]], ["Other"]),
    ]


def test_splits_are_known_by_the_names_of_files(tmp_path: Path) -> None:
    for name in ("en-ud-dev", "en-ud-train", "en-ud-test"):
        (tmp_path / f"{name}.conllu.xz").write_bytes(lzma.compress(CONLLU.encode()))
    (tmp_path / "LICENSE.txt").write_text("free")
    found = read_target(tmp_path, "upos")
    assert found.splits == ("train",) * 2 + ("validation",) * 2 + ("test",) * 2
    assert found.of("validation").tolist() == [2, 3]
    assert found.ids[2] == "en-ud-dev/tea-1"
    assert len(set(found.groups)) == 3
    with pytest.raises(UnknownNameError, match="must be one of test, train, validation"):
        found.of("dev")


def test_a_file_may_be_given_for_each_split(files: dict[str, Path], tmp_path: Path) -> None:
    other = tmp_path / "b.conllu"
    other.write_text(CONLLU)
    found = read_target({"train": files["conllu"], "Dev": corpus(other)}, "deprel")
    assert found.splits == ("train",) * 2 + ("validation",) * 2, "splits have several names"
    with pytest.raises(UnknownNameError, match=r"split must be one of .*, but got 'vaildation'"):
        read_target({"train": files["conllu"], "vaildation": other}, "deprel")
    with pytest.raises(InputError, match="names of the parts of a target must differ"):
        read_target({"train": other, "test": other}, "deprel")


def test_archives_and_folders_without_splits(tmp_path: Path) -> None:
    (tmp_path / "wsj_1.mrg").write_text(TREES)
    (tmp_path / "wsj_2.mrg").write_text(TREES)
    packed = tmp_path / "trees.tar.xz"
    with tarfile.open(packed, "w:xz") as archive:
        for name in ("wsj_1.mrg", "wsj_2.mrg"):
            archive.add(tmp_path / name, name)
    for source in (tmp_path, packed):
        found = read_target(source, "constituents")
        assert set(found.splits) == {""}
        assert found.ids == ("wsj_1/1", "wsj_1/2", "wsj_2/1", "wsj_2/2")
        assert found.groups == ("wsj_1", "wsj_1", "wsj_2", "wsj_2")


def test_corpora_of_json_lines_carry_the_layout_themselves(files: dict[str, Path]) -> None:
    found = read_target(corpus(files["jsonl"]), "spr")
    assert told(found) == told(read_target(files["jsonl"], "spr"))


def test_sentences_can_be_run(files: dict[str, Path]) -> None:
    found = read_target(files["conllu"], "upos")
    assert [example.words for example in make_texts(found.sentences).examples] == list(found.sentences)


def write(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


def test_wrong_files_get_a_sentence(files: dict[str, Path], tmp_path: Path) -> None:
    none = {"text": "Tea cools", "targets": [{"span1": [1, 3], "span2": [0, 1], "label": "x"}]}
    half = {"text": "Tea cools", "targets": [{"span1": [1, 2], "label": "x"}]}
    bare = {"text": "Tea cools", "targets": [{"span1": [1, 2], "span2": [0, 1]}]}
    number = {"text": "Tea cools", "targets": [{"span1": [1, 2], "span2": [0, 1], "label": 3}]}
    headless = CONLLU.replace("\t2\tnsubj", "\t_\tnsubj")
    unrelated = RELATIONS.replace("Other\r\n", "")
    cyclic = CONLLU.replace(
        "2	does	do	AUX	VBZ	_	0", "2	does	do	AUX	VBZ	_	1"
    )
    unmarked = '1\t"A <e1>cup</e1> of tea"\nOther\n'
    cases: list[tuple[Any, str, str]] = [
        (files["conllu"], "spr", r"spr must be read from .jsonl or .ndjson files, but got 'a.conllu'"),
        (files["jsonl"], "upos", r"upos must be read from .conllu files, but got 'a.jsonl'"),
        (tmp_path / "none.mrg", "xpos", "the corpus of xpos must be a file or a folder that exists"),
        (7, "xpos", "source must be a path, a corpus, or one of them for each split"),
        ({}, "xpos", "source must be at least one file"),
        (corpus(files["conllu"], units="tokens"), "deprel", "must have deprel for every word"),
        (corpus(files["conllu"]), "spr", "must have a list of targets, but it has none"),
        (corpus(files["txt"]), "upos", "must have upos for every word"),
        (write(tmp_path, "1.jsonl", json.dumps(none)), "spr", "span1 of target 0 .* within its 2 words"),
        (write(tmp_path, "2.jsonl", json.dumps(half)), "spr", "span2 of target 0 .* but got None"),
        (write(tmp_path, "3.jsonl", json.dumps(bare)), "spr", "must have span1 and label"),
        (write(tmp_path, "4.jsonl", json.dumps(number)), "spr", "label of target 0 .* a list of texts"),
        (write(tmp_path, "5.jsonl", '{"text": "a"}'), "spr", "must have a list of targets"),
        (write(tmp_path, "1.conllu", cyclic), "dep-depth", "of sentence 'tea-1' must "),
        (write(tmp_path, "2.conllu", headless), "dep-depth", "must have a head"),
        (write(tmp_path, "1.txt", unmarked), "relations", "must mark two spans as <e1> and <e2>"),
        (write(tmp_path, "2.txt", unrelated), "relations", "followed by its relation"),
        (write(tmp_path, "1.mrg", "(S (NP (NN tea))"), "constituents", "must have its bracket closed"),
    ]  # fmt: skip
    for source, name, words in cases:
        with pytest.raises(InputError, match=words):
            read_target(source, name)
    with pytest.raises(UnknownNameError, match="Did you mean constituents"):
        read_target(files["mrg"], "constituent")
    with pytest.raises(InputError, match="labels are those of words must be one of upos, xpos, deprel"):
        word_labels(read_target(files["jsonl"], "spr"), [0], [0])


COUNTS = {
    ("UD_English-EWT/en_ewt-ud-dev.conllu.xz", "deprel-edge"): (2001, 25147),
    ("SPR2", "spr"): (2191 + 291 + 276, 5669 + 751 + 670),
    ("SemEval2010-8", "relations"): (8000 + 2717, 8000 + 2717),
    ("PTB-sample/treebank-combined.tar.xz", "constituents"): (3914, None),
}


@pytest.mark.parametrize(("source", "name"), COUNTS)
def test_real_files_have_the_counts_that_are_known_of_them(shared: Path, source: str, name: str) -> None:
    found = read_target(shared / source, name)
    sentences, targets = COUNTS[source, name]
    assert len(found.sentences) == sentences
    if targets is not None:
        assert len(found.owner) == targets
    lengths = np.array([len(words) for words in found.sentences])
    assert (found.spans <= lengths[found.owner, None, None]).all()
    if name == "relations":
        assert len(found.labels) == 19
        assert set(found.splits) == {"train", "test"}
