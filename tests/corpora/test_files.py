"""Names, folders, archives and packed bytes: what a path stands for, whatever is inside."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import tarfile
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from microtome.corpora.files import split_name
from microtome.corpora.opening import corpus
from microtome.errors import InputError

PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".xz": lzma.compress,
    ".bz2": bz2.compress,
    ".XZ": lzma.compress,
}


def texts(path: Path, **options) -> list[str | None]:
    return [example.text for example in corpus(path, **options)]


def tar_of(path: Path, files: dict[str, bytes], mode: str = "w") -> Path:
    with tarfile.open(path, mode) as archive:  # pyright: ignore[reportCallIssue, reportArgumentType]
        for name, content in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return path


# What is read


@pytest.mark.parametrize(
    "name, expected",
    [
        ("a.conllu", ("a", ".conllu")),
        ("a.b.TSV.GZ", ("a.b", ".tsv")),
        ("train.xz", ("train", "")),
        ("a.tar.bz2", ("a", ".tar")),
        ("a.tgz", ("a", ".tgz")),
        ("README", ("README", "")),
        (".txt", (".txt", "")),
    ],
)
def test_names(name: str, expected: tuple[str, str]) -> None:
    assert split_name(name) == expected


@pytest.mark.parametrize("suffix", PACKERS)
def test_packed_files(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(PACKERS[suffix]("één\nzwei\n".encode()))
    assert texts(path) == ["één", "zwei"]


def test_packed_files_of_several_pieces(tmp_path: Path) -> None:
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(b"one\n") + lzma.compress(b"two\n"))
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"one\n") + gzip.compress(b"two\n"))
    assert texts(tmp_path / "a.txt.xz") == texts(tmp_path / "a.txt.gz") == ["one", "two"]


@pytest.mark.parametrize(
    "content", [b"one\ntwo\n", b"one\ntwo", b"one\r\ntwo\r\n", b"\xef\xbb\xbfone\ntwo\n"]
)
def test_line_ends_and_the_byte_order_mark(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.txt").write_bytes(content)
    assert texts(tmp_path / "a.txt") == ["one", "two"]


def test_only_line_feeds_end_lines(tmp_path: Path) -> None:
    lines = ["a\x0bb", "c\x0cd", "e\u2028f", "g\x85h", "i\x1cj", "k\rl", "\ufeffm"]
    (tmp_path / "a.txt").write_bytes("\n".join(lines).encode())
    assert texts(tmp_path / "a.txt") == lines


def test_unicode_stays_as_it_is(tmp_path: Path) -> None:
    lines = ["e\u0301", "\u00e9", "ﬁ", "\U0001f469\u200d\U0001f52c"]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    assert texts(tmp_path / "a.txt") == lines


def test_a_folder_in_natural_order(tmp_path: Path) -> None:
    for name in ("part10", "part9", "part1"):
        (tmp_path / f"{name}.txt").write_text(f"{name} a\n{name} b\n")
    (tmp_path / "part2.txt.gz").write_bytes(gzip.compress(b"packed\n"))
    (tmp_path / ".part3.txt").write_text("hidden")
    (tmp_path / "notes.md").write_text("not of this kind")
    (tmp_path / "deeper").mkdir()
    (tmp_path / "deeper" / "part4.txt").write_text("of another folder")
    ids = [example.id for example in corpus(tmp_path)]
    assert ids == ["part1/1", "part1/2", "part2/1", "part9/1", "part9/2", "part10/1", "part10/2"]
    assert [e.group for e in corpus(tmp_path)] == ids


def test_a_folder_of_trees_with_its_subfolders(tmp_path: Path) -> None:
    for name in ("01/wsj_0101", "00/wsj_0002", "00/wsj_0001", ".git/wsj_0003"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / f"{name}.mrg").write_text("(S (UH Yes))")
    (tmp_path / "readme.txt.old").write_text("")
    opened = corpus(tmp_path)
    assert opened.reader == "ptb"
    assert [e.id for e in opened] == ["wsj_0001/1", "wsj_0002/1", "wsj_0101/1"]
    assert [e.group for e in opened] == ["wsj_0001", "wsj_0002", "wsj_0101"]


@pytest.mark.parametrize(
    "name, mode", [("a.tar", "w"), ("a.tar.xz", "w:xz"), ("a.tgz", "w:gz"), ("a.tar.bz2", "w:bz2")]
)
def test_an_archive(tmp_path: Path, name: str, mode: str) -> None:
    files = {
        "top/b.txt": b"second\n",
        "top/README": b"no kind",
        "top/._b.txt": b"what a desktop leaves behind",
        "../../a.txt": b"first\n",
        "/etc/c.txt.gz": gzip.compress(b"packed\n"),
    }
    opened = corpus(tar_of(tmp_path / name, files, mode))
    assert [(e.id, e.text) for e in opened] == [("b/1", "second"), ("a/1", "first"), ("c/1", "packed")]
    assert opened.reader == "text"
    assert opened.name == "a"
    assert [p.name for p in tmp_path.iterdir()] == [name]  # nothing was extracted


def test_links_and_folders_of_an_archive_are_left_alone(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        for kind, name in [
            (tarfile.SYMTYPE, "s.txt"),
            (tarfile.LNKTYPE, "h.txt"),
            (tarfile.DIRTYPE, "d.txt"),
        ]:
            entry = tarfile.TarInfo(name)
            entry.type, entry.linkname = kind, "/etc/passwd"
            archive.addfile(entry)
        entry = tarfile.TarInfo("a.txt")
        entry.size = 2
        archive.addfile(entry, io.BytesIO(b"me"))
    assert texts(tmp_path / "a.tar") == ["me"]


# What is refused


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_every_cut_of_a_packed_file_is_refused(tmp_path: Path, suffix: str) -> None:
    whole = PACKERS[suffix](b"one\n" * 10 + os.urandom(20).hex().encode())
    path = tmp_path / f"a.txt{suffix}"
    for length in range(1, len(whole)):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match=r"a\.txt\..* must be a whole and readable file, but got"):
            texts(path)


@pytest.mark.parametrize("name, mode", [("a.tar", "w"), ("a.tar.xz", "w:xz"), ("a.tgz", "w:gz")])
def test_cuts_of_an_archive_are_refused(tmp_path: Path, name: str, mode: str) -> None:
    path = tar_of(tmp_path / name, {f"{i}.txt": b"some text.\n" * 46 + b"end..." for i in range(3)}, mode)
    whole = path.read_bytes()
    needed = 3 * 1024 + 1024 if mode == "w" else len(whole)  # a plain archive ends in more zeros than needed
    for length in range(1, needed, 100 if mode == "w" else 1):
        path.write_bytes(whole[:length])
        with pytest.raises(InputError, match="must be a whole"):
            texts(path, reader="text")


@pytest.mark.parametrize("suffix", [".gz", ".xz", ".bz2"])
def test_files_that_are_not_packed_as_their_names_say(tmp_path: Path, suffix: str) -> None:
    (tmp_path / f"a.txt{suffix}").write_bytes(b"plain\n")
    with pytest.raises(InputError, match="must be a whole and readable file, but got"):
        corpus(tmp_path / f"a.txt{suffix}")
    (tmp_path / f"a.tar{suffix}").write_bytes(PACKERS[suffix](b"no archive" * 100))
    with pytest.raises(InputError, match="must be a whole and readable file, but got"):
        corpus(tmp_path / f"a.tar{suffix}", reader="text")


def test_bytes_that_are_no_utf8(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes("fine\nfünf\n".encode() + "nä".encode("latin-1") + b"\n")
    with pytest.raises(InputError, match=r"line 3 of .*a\.txt must be UTF-8, but its byte 2 is 0xe4\."):
        texts(path)
    path.write_bytes("wide".encode("utf-16"))
    with pytest.raises(InputError, match=r"line 1 of .*a\.txt must be UTF-8, but its byte 1 is 0xff\."):
        corpus(path)


@settings(max_examples=200)
@given(st.binary(max_size=30))
def test_any_bytes_are_read_or_refused_as_python_does(tmp_path_factory, content: bytes) -> None:
    path = tmp_path_factory.mktemp("bytes") / "a.txt"
    path.write_bytes(content)
    try:
        expected = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        with pytest.raises(InputError, match="must be UTF-8"):
            texts(path, blank_lines="keep")
        return
    lines = [line.removesuffix("\r") for line in expected.removesuffix("\n").split("\n")]
    if not content:
        with pytest.raises(InputError, match="must hold at least one example"):
            corpus(path, blank_lines="keep")
    elif expected:
        assert texts(path, blank_lines="keep") == lines


def test_two_files_of_one_stem(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(b"two"))
    with pytest.raises(
        InputError, match=r"file names must differ before their suffix, but .*a\.txt and .*a\.txt\.gz do not"
    ):
        corpus(tmp_path)
    path = tar_of(tmp_path / "b.tar", {"x/a.txt": b"one", "y/a.txt": b"two"})
    with pytest.raises(
        InputError, match=r"file names must differ before their suffix, but x/a\.txt and y/a\.txt do not"
    ):
        texts(path)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="the system has no named pipes")
def test_what_is_neither_file_nor_folder(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.txt")
    with pytest.raises(InputError, match=r"a\.txt must be a plain file or a folder, but it is neither"):
        corpus(tmp_path / "a.txt")


def test_a_link_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / "b.txt").symlink_to(tmp_path / "lost.txt")
    with pytest.raises(InputError, match=r"b\.txt must be a readable file, but got"):
        corpus(tmp_path)
