from __future__ import annotations

import io
import json
import pickle
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microtome.corpora.examples import Example, Reader, ReaderOption
from microtome.corpora.files import File
from microtome.corpora.opening import corpus
from microtome.corpora.table import CORPORA
from microtome.errors import InputError, UnknownNameError

# For each reader one small file with two examples.
SAMPLES = {
    "conllu": "1\ta\t_\t_\t_\t_\t0\t_\t_\t_\n\n1\tb\t_\t_\t_\t_\t0\t_\t_\t_\n",
    "ptb": "(S (NN a)) (S (NN b))",
    "text": "a\nb\n",
    "jsonl": '{"text": "a"}\n{"text": "b"}\n',
    "tsv": "text\na\nb\n",
    "csv": 'text\na\n"b"\n',
}
CASES = [(name, suffix) for name in SAMPLES for suffix in CORPORA[name].suffixes]


def write(folder: Path, name: str, suffix: str, stem: str = "a") -> Path:
    path = folder / f"{stem}{suffix}"
    path.write_text(SAMPLES[name])
    return path


# What the entries declare


def test_the_table_cannot_be_changed() -> None:
    with pytest.raises(TypeError):
        CORPORA["mine"] = CORPORA["text"]  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize("name", CORPORA)
def test_declarations(name: str) -> None:
    reader = CORPORA[name]
    assert reader.name == name
    assert reader.summary.endswith(".")
    assert all(suffix == suffix.lower() and suffix.startswith(".") for suffix in reader.suffixes)
    for option in reader.options.values():
        assert option.meaning
        assert not option.meaning.endswith(".")
        assert option.read("it", option.default) == option.default
    described = reader.describe()
    assert list(described) == ["name", "suffixes", "summary", "options"]
    assert json.loads(json.dumps(described)) == described
    assert pickle.loads(pickle.dumps(reader)).describe() == described


def test_no_suffix_has_two_readers() -> None:
    suffixes = [suffix for reader in CORPORA.values() for suffix in reader.suffixes]
    assert len(set(suffixes)) == len(suffixes)


@pytest.mark.parametrize("name, suffix", CASES)
def test_every_reader_is_found_and_reads(tmp_path: Path, name: str, suffix: str) -> None:
    opened = corpus(write(tmp_path, name, suffix))
    assert opened.reader == name
    first, second = opened
    assert first.id != second.id
    assert (first.text, second.text) == ("a", "b")
    assert (first.group, second.group) == (first.id, second.id)


@pytest.mark.parametrize("name, suffix", CASES)
def test_every_reader_reads_folders_and_archives(tmp_path: Path, name: str, suffix: str) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for stem in ("x1", "x2"):
            archive.add(write(folder, name, suffix, stem), f"inside/{stem}{suffix}")
    opened = corpus(folder)
    assert opened.reader == name
    assert [e.id for e in opened] == ["x1/1", "x1/2", "x2/1", "x2/2"]
    assert list(opened) == list(corpus(tmp_path / "a.tar"))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_reader_reads_any_name_when_it_is_named(tmp_path: Path, name: str) -> None:
    assert corpus(write(tmp_path, name, ".dat"), reader=name).reader == name


@pytest.mark.parametrize("name", CORPORA)
def test_options_that_a_reader_does_not_have(tmp_path: Path, name: str) -> None:
    (tmp_path / "a.txt").write_text("a")
    known = ", ".join(sorted(CORPORA[name].options))
    words = f"option of the reader {name} must be one of {known}, but got 'color'"
    with pytest.raises(UnknownNameError, match=words):
        corpus(tmp_path / "a.txt", reader=name, color="red")


@pytest.mark.parametrize("name", SAMPLES)
@settings(deadline=None)
@given(st.data())
def test_broken_files_are_read_or_refused_in_a_sentence(tmp_path_factory, name: str, data) -> None:
    content = bytearray(SAMPLES[name].encode())
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(content)))
        old = data.draw(st.integers(0, 3))
        content[place : place + old] = data.draw(
            st.binary(max_size=3) | st.sampled_from([b"\n", b"\t", b'"', b"("])
        )
    path = tmp_path_factory.mktemp("broken") / f"a{CORPORA[name].suffixes[0]}"
    path.write_bytes(content)
    try:
        ids = [example.id for example in corpus(path)]
    except InputError as problem:
        sentence = str(problem)
    else:
        assert len(set(ids)) == len(ids) > 0
        return
    assert " must " in sentence
    assert ", but " in sentence


# Who reads what


def test_suffixes_that_nobody_reads(tmp_path: Path) -> None:
    (tmp_path / "a.docx.gz").write_bytes(b"PK")
    words = r"must end in .conllu, .*\.csv, packed as .gz, .*, or have its reader named, but got 'a.docx.gz'"
    with pytest.raises(InputError, match=words):
        corpus(tmp_path / "a.docx.gz")


def test_readers_that_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(
        UnknownNameError, match=r"reader must be one of conllu, csv, .* but got 'conll'. Did you mean conllu"
    ):
        corpus(tmp_path / "a.txt", reader="conll")
    with pytest.raises(InputError, match="reader must be hub for 'hub:a/b', but got 'text'"):
        corpus("hub:a/b", reader="text")


def test_folders_of_several_kinds(tmp_path: Path) -> None:
    write(tmp_path, "conllu", ".conllu")
    write(tmp_path, "text", ".txt", "license")
    with pytest.raises(
        InputError, match=r"reader must be named for .*, but got none, and there are files for conllu, text"
    ):
        corpus(tmp_path)
    assert [e.id for e in corpus(tmp_path, reader="conllu")] == ["a/1", "a/2"]


def test_folders_and_archives_of_no_kind(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.addfile(tarfile.TarInfo("readme.md"), io.BytesIO())
    for path in (tmp_path, tmp_path / "a.tar"):
        with pytest.raises(InputError, match=r"must hold .conllu, .* or .csv files, but there is none"):
            corpus(path)
    with pytest.raises(InputError, match=r"must hold .jsonl or .ndjson files, but there is none"):
        corpus(tmp_path, reader="jsonl")
    with pytest.raises(InputError, match="must hold at least one example, but it holds none"):
        corpus(tmp_path / "a.tar", reader="text")


# Readers of one's own


def read_codes(files: Sequence[File], options: Mapping[str, Any]) -> Iterator[Example]:
    for file in files:
        for code in file.path.read_bytes():
            yield Example(id=str(code), text=options["sign"] * code)


def test_a_reader_of_one_s_own(tmp_path: Path) -> None:
    (tmp_path / "a.codes").write_bytes(bytes([1, 3]))
    mine = Reader(
        name="codes",
        suffixes=(".codes",),
        summary="One example a byte.",
        read=read_codes,
        options={"sign": ReaderOption(default="x", meaning="what is repeated")},
    )
    for source in (tmp_path / "a.codes", tmp_path):
        opened = pickle.loads(pickle.dumps(corpus(source, reader=mine, sign="y")))
        assert [(e.id, e.text) for e in opened] == [("1", "y"), ("3", "yyy")]
        assert opened.reader == "codes"


def test_a_reader_without_suffixes() -> None:
    with pytest.raises(
        InputError, match=r"suffixes of the reader mine must be at least one, such as .txt, but got"
    ):
        Reader(name="mine", suffixes=(), summary="", read=read_codes)
