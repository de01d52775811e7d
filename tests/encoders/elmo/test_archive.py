"""Is an archive read as its folder would be, and does nothing in it reach anything outside it?"""

from __future__ import annotations

import io
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

import pytest
import torch

from encoders.elmo.written import write_transformer
from microtome.encoders.elmo.characters import character_ids
from microtome.encoders.elmo.encoder import is_elmo, read_elmo
from microtome.errors import InputError, WorkError

Member = tuple[tarfile.TarInfo, bytes]


@pytest.fixture
def parts(tmp_path: Path) -> dict[str, bytes]:
    folder = write_transformer(tmp_path / "folder")
    return {name: (folder / name).read_bytes() for name in ("config.json", "weights.th")}


def member(name: str, content: bytes = b"", kind: bytes = tarfile.REGTYPE, link: str = "") -> Member:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.linkname = len(content), kind, link
    return info, content


def pack(path: Path, *members: Member) -> Path:
    with tarfile.open(path, "w:gz" if path.suffix in (".gz", ".tgz") else "w") as archive:
        for info, content in members:
            archive.addfile(info, io.BytesIO(content))
    return path


def refused(path: Path, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_elmo(path)
    assert str(caught.value) == sentence


@pytest.mark.parametrize("name", ["model.tar.gz", "model.tgz", "MODEL.TAR"])
@pytest.mark.parametrize("prefix", ["", "./"])
@pytest.mark.parametrize("turned", [False, True])
def test_an_archive_is_its_folder(
    tmp_path: Path, parts: dict[str, bytes], name: str, prefix: str, turned: bool
) -> None:
    members = [member(prefix + key, content) for key, content in parts.items()]
    members.insert(1, member(prefix + "vocabulary/tokens.txt", b"a\nb\n"))
    path = pack(tmp_path / name, *(members[::-1] if turned else members))
    assert is_elmo(path)
    ids = character_ids([["a", "slice"]])
    layers, expected = read_elmo(path)(ids), read_elmo(tmp_path / "folder")(ids)
    assert all(torch.equal(x, y) for x, y in zip(layers, expected, strict=True))


def test_recognizing_an_archive_imports_no_torch(tmp_path: Path, parts: dict[str, bytes]) -> None:
    path = pack(tmp_path / "model.tar.gz", *(member(name, content) for name, content in parts.items()))
    script = (
        "import sys\n"
        "from microtome.encoders.elmo.encoder import is_elmo\n"
        "assert is_elmo(sys.argv[1]) and 'torch' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", script, path], check=True, timeout=60)


def test_nothing_gets_a_name_on_the_disk(
    tmp_path: Path, parts: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    outside = tmp_path / "outside"
    path = pack(
        tmp_path / "model.tar.gz",
        member("../outside", b"x"),
        member(str(outside), b"x"),
        member("vocabulary", kind=tarfile.SYMTYPE, link=str(tmp_path)),
        member("vocabulary/outside", b"x"),
        *(member(name, content) for name, content in parts.items()),
    )
    before = sorted(tmp_path.rglob("*"))
    assert read_elmo(path).layers == 3
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("name", ["config.json", "weights.th"])
@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.DIRTYPE, tarfile.FIFOTYPE])
def test_links_are_not_followed(tmp_path: Path, parts: dict[str, bytes], name: str, kind: bytes) -> None:
    real = tmp_path / "folder" / name
    members = [member(key, content) for key, content in parts.items() if key != name]
    path = pack(tmp_path / "model.tar.gz", member(name, kind=kind, link=str(real)), *members)
    assert not is_elmo(path)
    refused(path, f"{name} in {path} must be a plain file, but it is a link or something else.")


def test_sparse_files_are_not_filled(tmp_path: Path, parts: dict[str, bytes]) -> None:
    path = pack(
        tmp_path / "model.tar",
        member("config.json", parts["config.json"]),
        member("weights.th", kind=tarfile.GNUTYPE_SPARSE),
    )
    refused(path, f"weights.th in {path} must be a plain file, but it is a link or something else.")


@pytest.mark.parametrize("name", ["config.json", "weights.th"])
@pytest.mark.parametrize("place", ["../", "/", "model/", "a/../"])
def test_files_at_other_places_are_not_found(
    tmp_path: Path, parts: dict[str, bytes], name: str, place: str
) -> None:
    members = [member(place + key if key == name else key, content) for key, content in parts.items()]
    path = pack(tmp_path / "model.tar.gz", *members)
    assert not is_elmo(path)
    refused(path, f"{path} must hold {name}, but it is missing.")


def test_two_files_of_one_name(tmp_path: Path, parts: dict[str, bytes]) -> None:
    members = [member(name, content) for name, content in parts.items()]
    path = pack(tmp_path / "model.tar.gz", *members, member("./config.json", b"{}"))
    refused(path, f"{path} must hold config.json once, but it holds several.")


def test_a_large_configuration(tmp_path: Path, parts: dict[str, bytes]) -> None:
    path = pack(
        tmp_path / "model.tar.gz",
        member("weights.th", parts["weights.th"]),
        member("config.json", b" " * 10_000_001),
    )
    assert not is_elmo(path)
    refused(path, f"config.json in {path} must be at most 10000000 bytes long, but it has 10000001.")


def test_archives_that_are_broken(tmp_path: Path, parts: dict[str, bytes]) -> None:
    path = pack(tmp_path / "model.tar.gz", *(member(name, content) for name, content in parts.items()))
    whole = path.read_bytes()
    wrong = bytearray(whole)
    wrong[len(whole) // 2] ^= 255
    for content in (b"", b"text", whole[:100], whole[: len(whole) // 2], whole[:-4], bytes(wrong)):
        path.write_bytes(content)
        with pytest.raises(
            InputError, match=r"model\.tar\.gz must (be a whole tar archive, but it|hold) .*\.$"
        ):
            read_elmo(path)


def test_no_place_for_a_temporary_file(
    tmp_path: Path, parts: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = pack(tmp_path / "model.tar.gz", *(member(name, content) for name, content in parts.items()))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "nowhere"))
    with pytest.raises(
        WorkError, match=r"model\.tar\.gz must be unpacked to a temporary file, but got: .*\.$"
    ):
        read_elmo(path)


def test_no_room_for_a_temporary_file(tmp_path: Path, parts: dict[str, bytes]) -> None:
    resource = pytest.importorskip("resource")
    path = pack(tmp_path / "model.tar.gz", *(member(name, content) for name, content in parts.items()))
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, before[1]))
    try:
        with pytest.raises(WorkError, match=r"must be unpacked to a temporary file, but got: .*too large\.$"):
            read_elmo(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_pickle_in_an_archive(tmp_path: Path, parts: dict[str, bytes]) -> None:
    flag = tmp_path / "flag"

    class Trap:
        def __reduce__(self):
            return (Path.touch, (flag,))

    saved = io.BytesIO()
    torch.save({"x": Trap()}, saved)
    path = pack(
        tmp_path / "model.tar.gz",
        member("config.json", parts["config.json"]),
        member("weights.th", saved.getvalue()),
    )
    assert is_elmo(path)
    with pytest.raises(InputError, match="must hold tensors and nothing else, but it asks to run"):
        read_elmo(path)
    assert not flag.exists()
