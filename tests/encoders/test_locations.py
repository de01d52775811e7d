"""Only what begins with "zoo:" is looked for in the package, and only where its encoders lie."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

import microtome
from microtome.encoders.locations import find_folder, shipped_names, weights_digest, zoo_folder
from microtome.errors import InputError


def test_encoders_lie_in_the_package_unless_the_user_says_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MICROTOME_ZOO", raising=False)
    assert zoo_folder() == Path(microtome.__file__).parent / "zoo" / "encoders"
    monkeypatch.setenv("MICROTOME_ZOO", str(tmp_path))
    assert shipped_names() == ()
    for name in ("b", "a", "no model"):
        (tmp_path / name).mkdir()
    for name in ("a", "b"):
        (tmp_path / name / "config.json").write_text("{}")
    assert shipped_names() == ("a", "b")
    assert find_folder("zoo:b") == tmp_path / "b"
    assert find_folder("b") is None


def test_weights_are_hashed_whole(tmp_path: Path) -> None:
    content = bytes(range(256)) * 5_000
    (tmp_path / "model.safetensors").write_bytes(content)
    assert weights_digest(tmp_path) == hashlib.sha256(content).hexdigest()
    with pytest.raises(InputError, match=r"must hold model.safetensors, but got"):
        weights_digest(tmp_path / "absent")
