"""Is an ELMo recognized and read, and is everything else refused in one sentence?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from encoders.elmo.written import (
    lstm_options,
    transformer_config,
    write_lstm,
    write_transformer,
)
from microtome.encoders.elmo.encoder import is_elmo, read_elmo
from microtome.errors import InputError


def refused(path: Path, sentence: str) -> None:
    with pytest.raises(InputError) as caught:
        read_elmo(path)
    assert str(caught.value) == sentence


# What is recognized


def test_either_kind_is_recognized(tmp_path: Path) -> None:
    lstm, transformer = write_lstm(tmp_path / "lstm"), write_transformer(tmp_path / "transformer")
    for path in (lstm, str(lstm), lstm / "options.json", transformer, str(transformer)):
        assert is_elmo(path)
        read_elmo(path)


def test_released_names(tmp_path: Path) -> None:
    write_lstm(tmp_path, name="elmo_2x7_5_12cnn_")
    assert is_elmo(tmp_path)
    assert read_elmo(tmp_path).layers == 2
    write_lstm(tmp_path, lstm_options(lstm__n_layers=3), name="elmo_3x7_5_12cnn_")
    assert not is_elmo(tmp_path)
    refused(
        tmp_path,
        f"{tmp_path} must hold one file of options (options.json), but there are 2: "
        "elmo_2x7_5_12cnn_options.json, elmo_3x7_5_12cnn_options.json.",
    )
    assert read_elmo(tmp_path / "elmo_2x7_5_12cnn_options.json").layers == 2
    assert read_elmo(tmp_path / "elmo_3x7_5_12cnn_options.json").layers == 3


def test_weights_of_any_name(tmp_path: Path) -> None:
    write_lstm(tmp_path)
    (tmp_path / "weights.hdf5").rename(tmp_path / "model.hdf5")
    assert is_elmo(tmp_path)
    assert read_elmo(tmp_path).layers == 2
    (tmp_path / "states.hdf5").write_bytes(b"")
    assert not is_elmo(tmp_path)
    refused(
        tmp_path,
        f"{tmp_path} must hold one file of weights (.hdf5), but there are 2: model.hdf5, states.hdf5.",
    )
    (tmp_path / "model.hdf5").rename(tmp_path / "lm_weights.hdf5")
    assert is_elmo(tmp_path)
    assert read_elmo(tmp_path).layers == 2


@pytest.mark.parametrize("kind", ["bidirectional-language-model", "bidirectional_language_model"])
def test_the_types_of_older_releases(tmp_path: Path, kind: str) -> None:
    config = transformer_config(model__type=kind, model__bidirectional=...)
    write_transformer(tmp_path, config)
    embedder = config["model"]["text_field_embedder"]
    config["model"]["text_field_embedder"] = {"allow_unmatched_keys": True, **embedder["token_embedders"]}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert is_elmo(tmp_path)
    assert read_elmo(tmp_path).layers == 3


def test_what_is_not_an_elmo(tmp_path: Path) -> None:
    for name, content in {
        "config.json": '{"model_type": "bert", "model": "a string"}',
        "model.tar.gz": "not an archive",
        "notes.txt": "",
    }.items():
        (tmp_path / name).write_text(content)
    assert not is_elmo(tmp_path)
    (tmp_path / "weights.th").write_bytes(b"")
    for path in (tmp_path, tmp_path / "config.json", tmp_path / "model.tar.gz", tmp_path / "notes.txt"):
        assert not is_elmo(path)
    for config in ("", "[]", "{", '{"model": []}', '{"model": {"type": "crf_tagger"}}', "[" * 100_000):
        (tmp_path / "config.json").write_text(config)
        assert not is_elmo(tmp_path)
    assert not is_elmo("")
    assert not is_elmo("roberta-base")
    assert not is_elmo(tmp_path / "nowhere")
    (tmp_path / "options.json").mkdir()
    assert not is_elmo(tmp_path / "options.json")


def test_recognizing_imports_neither_torch_nor_h5py(tmp_path: Path) -> None:
    lstm, transformer = write_lstm(tmp_path / "lstm"), write_transformer(tmp_path / "transformer")
    script = (
        "import sys\n"
        "from microtome.encoders.elmo import characters, model\n"
        "from microtome.encoders.elmo.encoder import is_elmo\n"
        "assert all(map(is_elmo, sys.argv[1:]))\n"
        "assert not {'torch', 'h5py'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", script, lstm, transformer], check=True, timeout=60)


# What is refused


def test_paths_without_an_elmo(tmp_path: Path) -> None:
    refused(tmp_path / "none", f"path must be a file or a folder that exists, but got '{tmp_path / 'none'}'.")
    with pytest.raises(InputError, match=r"exists, but got ''\.$"):
        read_elmo("")
    (tmp_path / "a.txt").write_text("")
    for path in (tmp_path, tmp_path / "a.txt"):
        refused(
            path,
            "path must be an ELMo, options.json with weights.hdf5 or config.json with weights.th, but got "
            f"'{path}'.",
        )


@pytest.mark.skipif(os.geteuid() == 0, reason="the superuser may read everything")
def test_weights_that_may_not_be_read(tmp_path: Path) -> None:
    write_transformer(tmp_path)
    (tmp_path / "weights.th").chmod(0)
    with pytest.raises(InputError, match=r"weights\.th must be a readable file, but got: .*\.$"):
        read_elmo(tmp_path)


def test_missing_weights(tmp_path: Path) -> None:
    lstm, transformer = write_lstm(tmp_path / "lstm"), write_transformer(tmp_path / "transformer")
    (lstm / "weights.hdf5").unlink()
    (transformer / "weights.th").unlink()
    assert not is_elmo(lstm)
    assert not is_elmo(transformer)
    for path in (lstm, lstm / "options.json"):
        refused(path, f"{lstm} must hold one file of weights (.hdf5), but there are none.")
    refused(transformer, f"{transformer} must hold weights.th, but it is missing.")


@pytest.mark.skipif(not Path("/proc/self/mem").exists(), reason="the system has no file that cannot be read")
@pytest.mark.parametrize("name", ["options.json", "config.json"])
def test_files_that_cannot_be_read(tmp_path: Path, name: str) -> None:
    (write_lstm if name == "options.json" else write_transformer)(tmp_path)
    (tmp_path / name).unlink()
    (tmp_path / name).symlink_to("/proc/self/mem")
    with pytest.raises(InputError, match=rf"{name} must be a readable file, but got: .*\.$"):
        read_elmo(tmp_path)


@pytest.mark.parametrize(
    "content, words",
    [
        (b"{", "must be JSON, but it cannot be read as such."),
        (b"\xff\xfe", "must be JSON, but it cannot be read as such."),
        (b"[" * 100_000, "must be JSON, but it cannot be read as such."),
        (b"[1]", "must hold a JSON object, but it holds a list."),
    ],
)
def test_json_that_is_none(tmp_path: Path, content: bytes, words: str) -> None:
    lstm, transformer = write_lstm(tmp_path / "lstm"), write_transformer(tmp_path / "transformer")
    (lstm / "options.json").write_bytes(content)
    (transformer / "config.json").write_bytes(content)
    refused(lstm, f"{lstm / 'options.json'} {words}")
    refused(transformer, f"config.json in {transformer} {words}")
