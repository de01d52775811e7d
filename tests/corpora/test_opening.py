from __future__ import annotations

import gzip
import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from microtome.corpora.opening import Corpus, corpus
from microtome.errors import InputError, UnknownNameError, WorkError
from microtome.store.address import is_address

CONLLU = "# sent_id = s1\n# text = Cut it.\n" + "".join(
    f"{i}\t{form}\t_\t_\tX\t_\t_\t_\t_\t_\n" for i, form in enumerate(["Cut", "it", "."], start=1)
)


@pytest.fixture
def lines(tmp_path: Path) -> Path:
    path = tmp_path / "lines.txt"
    path.write_text("one\ntwo\nthree\n")
    return path


# What a corpus is


def test_a_corpus_says_what_it_is(lines: Path) -> None:
    opened = corpus(lines, blank_lines="keep")
    assert (opened.name, opened.source, opened.reader) == ("lines", str(lines), "text")
    assert opened.rule == "whitespace"
    assert dict(opened.options) == {"blank_lines": "keep"}
    assert is_address(opened.digest)
    told = opened.describe()
    assert json.loads(json.dumps(told)) == told
    assert list(told) == ["name", "source", "reader", "rule", "digest", "options"]
    assert corpus(str(lines), name="mine").name == "mine"


def test_a_corpus_is_a_value(lines: Path) -> None:
    opened = corpus(lines)
    again = pickle.loads(pickle.dumps(opened))
    assert again == opened == corpus(lines)
    assert {again, opened} == {opened}
    assert list(again) == list(opened)
    with pytest.raises(AttributeError):
        opened.name = "other"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(TypeError):
        opened.options["blank_lines"] = "keep"  # pyright: ignore[reportIndexIssue]


def test_it_can_be_read_again_and_side_by_side(lines: Path) -> None:
    opened = corpus(lines)
    assert [e.text for e in opened] == [e.text for e in opened.examples()] == ["one", "two", "three"]
    pairs = [(a.text, b.text) for a, b in zip(opened, opened, strict=True)]
    assert pairs == [("one", "one"), ("two", "two"), ("three", "three")]


def test_length_and_truth(lines: Path) -> None:
    opened = corpus(lines)
    assert bool(opened)
    assert len(opened) == 3
    assert len(opened) == 3
    assert len(list(opened)) == 3


def test_head(lines: Path) -> None:
    opened = corpus(lines)
    assert opened.head(0) == []
    assert [e.text for e in opened.head(2)] == ["one", "two"]
    assert len(opened.head(9)) == 3
    assert len(opened) == 3
    for k in (-1, 1.5, True, "2"):
        with pytest.raises(InputError, match="k must be a whole number of at least 0, but got"):
            opened.head(k)  # pyright: ignore[reportArgumentType]


def test_nothing_after_the_head_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"one\ntwo\n" + b"\n" * 100_000 + b"\xff\n")
    opened = corpus(path)
    assert [e.text for e in opened.head(2)] == ["one", "two"]
    with pytest.raises(InputError, match=r"line 100003 of .* must be UTF-8"):
        len(opened)


# Digests


def test_a_digest_is_of_bytes_and_options(lines: Path, tmp_path: Path) -> None:
    known = corpus(lines).digest
    (tmp_path / "copy.txt").write_bytes(lines.read_bytes())
    assert corpus(tmp_path / "copy.txt", name="other").digest == known
    assert corpus(lines, blank_lines="skip").digest == known
    digests = {known, corpus(lines, blank_lines="keep").digest}
    digests.add(corpus(lines, reader="tsv", columns={"text": "one"}).digest)
    digests.add(corpus(lines, reader="tsv", header="no", columns={"text": "1"}).digest)
    lines.write_text("one\ntwo\nThree\n")
    digests.add(corpus(lines).digest)
    assert len(digests) == 5


def test_the_digest_of_a_folder_knows_names_and_order(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").write_text("two")
    known = corpus(tmp_path).digest
    (tmp_path / "b.txt").rename(tmp_path / "c.txt")
    assert corpus(tmp_path).digest != known
    (tmp_path / "c.txt").rename(tmp_path / "b.txt")
    assert corpus(tmp_path).digest == known
    (tmp_path / "notes.md").write_text("not read")
    assert corpus(tmp_path).digest == known


def test_a_file_that_changes_after_it_was_opened(lines: Path) -> None:
    opened = corpus(lines)
    content = lines.read_bytes()
    lines.write_bytes(content.replace(b"two", b"six"))
    os.utime(lines, ns=(1, 1))
    with pytest.raises(
        WorkError, match=r"lines\.txt must stay as it was when it was opened, but it holds something else"
    ):
        list(opened.examples())
    lines.write_bytes(content)
    os.utime(lines, ns=(2, 2))
    assert len(opened) == 3  # touched, but the same
    lines.unlink()
    with pytest.raises(WorkError, match=r"lines\.txt must stay readable, but got"):
        opened.head(1)


def test_a_file_that_comes_later_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    opened = corpus(tmp_path)
    (tmp_path / "b.txt").write_text("two")
    assert [e.text for e in opened] == ["one"]


# Rules


def test_rules(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu"
    path.write_text(CONLLU)
    given = corpus(path)
    assert given.rule == "given"
    assert given.head(1)[0].words == ("Cut", "it", ".")
    split = corpus(path, rule="whitespace")
    (example,) = split
    assert (split.rule, example.words, example.text, dict(example.marks)) == (
        "whitespace",
        None,
        "Cut it.",
        {},
    )
    assert split.digest != given.digest


def test_rules_that_cannot_be_followed(lines: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"rule must be whitespace for .*lines\.txt, but got 'given'"):
        corpus(lines, rule="given")
    (tmp_path / "a.jsonl").write_text('{"words": ["a"]}\n')
    with pytest.raises(InputError, match=r"rule must be given for .*a\.jsonl, but got 'whitespace'"):
        corpus(tmp_path / "a.jsonl", rule="whitespace")
    with pytest.raises(UnknownNameError, match="rule must be one of given, whitespace, but got 'moses'"):
        corpus(lines, rule="moses")


# What cannot be opened


@pytest.mark.parametrize("source", ["", None, 3, b"a.txt"])
def test_sources_that_are_none(source: object) -> None:
    with pytest.raises(InputError, match="source must be a path or hub:NAME, but got"):
        corpus(source)  # pyright: ignore[reportArgumentType]


def test_files_that_are_missing_or_empty(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"source must be a file or a folder that exists, or hub:NAME, but got .*none\.txt"
    ):
        corpus(tmp_path / "none.txt")
    for name, content in {
        "a.txt": "",
        "b.txt": " \n\n",
        "c.conllu": "\n",
        "d.mrg": "\n",
        "e.jsonl": "",
    }.items():
        (tmp_path / name).write_text(content)
        with pytest.raises(InputError, match=f"{name} must hold at least one example, but it holds none"):
            corpus(tmp_path / name)


# Memory


def peak(path: Path) -> int:
    """Kilobytes that a process needs at most to go through a corpus."""
    script = (
        "import pathlib, re, sys\n"
        "from microtome.corpora.opening import corpus\n"
        "len(corpus(sys.argv[1]))\n"
        "assert not {'torch', 'datasets', 'pyarrow'} & set(sys.modules)\n"
        "print(re.search(r'VmHWM:\\s*(\\d+)', pathlib.Path('/proc/self/status').read_text())[1])\n"
    )
    done = subprocess.run([sys.executable, "-c", script, path], check=True, capture_output=True, timeout=120)
    return int(done.stdout)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peak memory")
def test_a_long_corpus_needs_no_more_memory_than_a_short_one(tmp_path: Path) -> None:
    line = "a line of text that is neither long nor short, as lines of text are " * 5 + "\n"
    record = json.dumps({"id": "document-%07d", "text": line}) + "\n"
    peaks = {}
    for count in (1000, 200_000):  # the longer ones unpack to 70 MB
        with gzip.open(tmp_path / f"{count}.txt.gz", "wt", compresslevel=1) as file:
            file.writelines(line for _ in range(count))
        with gzip.open(tmp_path / f"{count}.jsonl.gz", "wt", compresslevel=1) as file:
            file.writelines(record % i for i in range(count))
        for kind in ("txt", "jsonl"):
            peaks[kind, count] = peak(tmp_path / f"{count}.{kind}.gz")
    assert peaks["txt", 200_000] - peaks["txt", 1000] < 3_000
    assert peaks["jsonl", 200_000] - peaks["jsonl", 1000] < 15_000  # ids must be told apart


def test_corpora_are_values_of_their_type(lines: Path) -> None:
    assert isinstance(corpus(lines), Corpus)
