from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from microtome.errors import InputError, UnknownNameError
from microtome.extraction.texts import make_texts
from microtome.tasks.corpus import corpus
from task_samples import SAMPLES, write_files


def test_a_split_as_a_corpus(tmp_path: Path) -> None:
    opened = corpus("task:rte/train", data=write_files("rte", tmp_path))
    assert (opened.name, opened.reader, opened.rule, len(opened)) == ("rte/train", "task", "whitespace", 3)
    first, _, third = opened.head(3)
    assert (first.id, first.text, first.pair) == ("train-0", 'A "cat" sat.', "It's a cat")
    assert first.marks == {"label": "not_entailment"}
    assert first.group == third.group
    assert opened.describe()["source"] == "task:rte/train"
    assert [e.text for e in pickle.loads(pickle.dumps(opened))] == [e.text for e in opened]
    assert make_texts(opened).digest == opened.digest
    assert opened.digest != corpus("task:rte/validation", data=tmp_path).digest
    hidden = corpus("task:rte/test", data=tmp_path).head(1)[0]
    assert hidden.marks == {}


def test_choices_are_examples(tmp_path: Path) -> None:
    opened = corpus("task:socialiqa/train", data=write_files("socialiqa", tmp_path))
    examples = list(opened)
    assert [e.id for e in examples[:4]] == ["train-0/0", "train-0/1", "train-0/2", "train-1/0"]
    assert [e.marks["label"] for e in examples[:3]] == ["wrong", "wrong", "right"]
    assert (examples[1].text, examples[1].pair) == ("Jan ran. Why?", "b")
    assert len({e.group for e in examples[:3]}) == 1


def test_words_and_their_marks(tmp_path: Path) -> None:
    tree = corpus("task:parsing/train", data=write_files("ewt-parsing", tmp_path)).head(1)[0]
    assert tree.words == ("He", "ca", "n't", ".")
    assert tree.marks == {"head": ("2", "0", "2", "2"), "label": ("nsubj", "root", "advmod", "punct")}
    tags = corpus("task:ner/train", data=write_files("ner", tmp_path))
    assert tags.rule == "given"
    assert tags.head(1)[0].marks == {"label": ("B-ORG", "O", "B-LOC", "B-LOC")}


@pytest.mark.parametrize("name", SAMPLES)
def test_every_task_is_a_corpus(name: str, tmp_path: Path) -> None:
    write_files(name, tmp_path)
    for split in SAMPLES[name]().targets:
        examples = list(corpus(f"task:{name}/{split}", data=tmp_path))
        assert len({e.id for e in examples}) == len(examples) > 0


def test_all_else_is_a_corpus_as_before(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    assert [e.text for e in corpus(tmp_path / "a.txt")] == ["one", "two"]
    assert len(corpus("task:polarity/validation", name="mine", sizes={"validation": 12})) == 12


def test_what_is_refused(tmp_path: Path) -> None:
    write_files("rte", tmp_path)
    for source in ("task:", "task:rte", "task:rte/"):
        with pytest.raises(InputError, match="source must be task:NAME/SPLIT, such as task:rte/validation"):
            corpus(source, data=tmp_path)
    with pytest.raises(UnknownNameError, match="split of rte must be one of"):
        corpus("task:rte/dev", data=tmp_path)
    with pytest.raises(InputError, match="rule must be whitespace for rte/train, but got 'given'"):
        corpus("task:rte/train", data=tmp_path, rule="given")
    with pytest.raises(InputError, match="reader must be left out for a task"):
        corpus("task:rte/train", data=tmp_path, reader="tsv")
