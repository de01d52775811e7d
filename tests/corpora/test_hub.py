from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from microtome.corpora.opening import corpus
from microtome.errors import InputError, MissingExtraError, UnknownNameError, WorkError

datasets = pytest.importorskip("datasets")

CARD = """---
configs:
- config_name: pairs
  data_files:
  - split: train
    path: pairs/train-*
  - split: validation
    path: pairs/validation-*
- config_name: words
  data_files:
  - split: test
    path: words/test.parquet
dataset_info:
- config_name: pairs
  features:
  - name: sentence1
    dtype: string
  - name: sentence2
    dtype: string
  - name: label
    dtype:
      class_label:
        names:
          '0': entailment
          '1': not_entailment
- config_name: words
  features:
  - name: id
    dtype: string
  - name: tokens
    sequence: string
  - name: tags
    sequence:
      class_label:
        names:
          '0': NOUN
          '1': VERB
---
# Made for a test
"""
PAIRS = {"text": "sentence1", "pair": "sentence2"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def parquet(path: Path, **columns: list) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table(columns), path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A dataset as the hub has them, with two configurations."""
    made = tmp_path / "toys"
    made.mkdir()
    (made / "README.md").write_text(CARD)
    parquet(made / "pairs/train-00000-of-00001.parquet", sentence1=["A b"], sentence2=["c"], label=[1])
    parquet(
        made / "pairs/validation-00000-of-00002.parquet",
        sentence1=["It rains.", "e\u0301 “q”\n"],
        sentence2=["It is wet.", "none"],
        label=[0, -1],
    )
    parquet(made / "pairs/validation-00001-of-00002.parquet", sentence1=["Yes"], sentence2=["No"], label=[1])
    parquet(
        made / "words/test.parquet", id=["x", "y"], tokens=[["Dogs", "bark"], ["Run"]], tags=[[0, 1], [1]]
    )
    return made


# What is read


def test_a_folder_in_the_form_of_the_hub(folder: Path) -> None:
    opened = corpus(f"hub:{folder}", config="pairs", split="validation", columns=PAIRS)
    assert (opened.name, opened.reader, opened.rule) == ("toys", "hub", "whitespace")
    assert [(e.id, e.text, e.pair, dict(e.marks)) for e in opened] == [
        ("1", "It rains.", "It is wet.", {"label": "entailment"}),
        ("2", "e\u0301 “q”\n", "none", {}),
        ("3", "Yes", "No", {"label": "not_entailment"}),
    ]
    assert len(opened) == 3
    assert len(corpus(folder, reader="hub", config="pairs", columns=PAIRS)) == 1


def test_words_and_named_classes(folder: Path) -> None:
    columns = {"words": "tokens", "id": "id"}
    opened = corpus(f"hub:{folder}", config="words", split="test", columns=columns)
    assert opened.rule == "given"
    assert [(e.id, e.words, e.text, dict(e.marks)) for e in opened] == [
        ("x", ("Dogs", "bark"), None, {"tags": ("NOUN", "VERB")}),
        ("y", ("Run",), None, {"tags": ("VERB",)}),
    ]


def test_json_lines_without_a_card(tmp_path: Path) -> None:
    (tmp_path / "plain").mkdir()
    rows = [{"text": f"row {i}", "n": i, "more": {"a": [i]}} for i in range(2500)]
    (tmp_path / "plain/train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    opened = corpus(f"hub:{tmp_path}/plain")
    assert [(e.id, e.text) for e in opened] == [(str(i + 1), f"row {i}") for i in range(2500)]
    assert opened.head(1)[0].marks == {"n": "0", "more": '{"a": [0]}'}


def test_a_folder_whose_data_change(folder: Path) -> None:
    options = {"config": "pairs", "columns": PAIRS}
    before = corpus(f"hub:{folder}", **options)
    assert [e.text for e in before] == ["A b"]
    assert corpus(f"hub:{folder}", **options).digest == before.digest
    path = folder / "pairs/train-00000-of-00001.parquet"
    stamp = path.stat()
    parquet(path, sentence1=["B a"], sentence2=["c"], label=[1])
    os.utime(path, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    after = corpus(f"hub:{folder}", **options)
    assert [e.text for e in after] == ["B a"]
    assert after.digest != before.digest
    assert [e.text for e in before] == ["A b"]  # what was prepared stays


def test_splits_have_digests_of_their_own(folder: Path) -> None:
    splits = [
        corpus(f"hub:{folder}", config="pairs", split=s, columns=PAIRS) for s in ("train", "validation")
    ]
    assert splits[0].digest != splits[1].digest


# What is refused


def test_a_package_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "datasets", None)
    with pytest.raises(
        MissingExtraError, match="the reader hub must have the package datasets, but it is not installed"
    ):
        corpus("hub:owner/name")


def test_configurations_splits_and_columns(folder: Path) -> None:
    with pytest.raises(InputError, match="option config must be one of pairs, words, but got None"):
        corpus(f"hub:{folder}")
    with pytest.raises(
        UnknownNameError, match=r"option config must be one of pairs, words, but got 'pair'. Did you mean"
    ):
        corpus(f"hub:{folder}", config="pair")
    with pytest.raises(
        UnknownNameError, match="option split must be one of train, validation, but got 'test'"
    ):
        corpus(f"hub:{folder}", config="pairs", split="test")
    with pytest.raises(
        InputError,
        match="row 1 of the dataset must have the column 'premise' for text, but its columns are sentence1",
    ):
        corpus(f"hub:{folder}", config="pairs", columns={"text": "premise"})
    with pytest.raises(InputError, match="row 1 of the dataset must have a column for text or for words"):
        corpus(f"hub:{folder}", config="pairs")
    with pytest.raises(InputError, match="options config, split and revision must be names, but got 3"):
        corpus(f"hub:{folder}", config=3)
    with pytest.raises(InputError, match="option revision must be left out for a folder, but got 'main'"):
        corpus(f"hub:{folder}", config="pairs", revision="main")


def test_datasets_that_are_none(tmp_path: Path) -> None:
    for source in ("hub:", f"hub:{tmp_path}/none"):
        with pytest.raises(
            InputError, match="a dataset must be an id such as hub:owner/name, or a folder that exists"
        ):
            corpus(source)
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        WorkError, match=r"empty must be a dataset that can be loaded, but got: .*any data files"
    ):
        corpus(f"hub:{tmp_path}/empty")
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken/train.parquet").write_bytes(b"PAR1 and nothing more")
    with pytest.raises(WorkError, match="broken must be a dataset that can be loaded, but got: "):
        corpus(f"hub:{tmp_path}/broken")


def test_no_code_is_run(tmp_path: Path) -> None:
    flag = tmp_path / "flag"
    (tmp_path / "script").mkdir()
    (tmp_path / "script/script.py").write_text(f"open({str(flag)!r}, 'w').close()")
    with pytest.raises(WorkError, match="script must be a dataset that can be loaded, but got"):
        corpus(f"hub:{tmp_path}/script")
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards/train.tar").write_bytes(bytes(10240))
    with pytest.raises(
        InputError, match=r"a dataset must be made of parquet, json, .* files, but got 'webdataset'"
    ):
        corpus(f"hub:{tmp_path}/shards")
    assert not flag.exists()


def test_data_outside_of_the_folder(folder: Path, tmp_path: Path) -> None:
    parquet(tmp_path / "secret/train-1.parquet", sentence1=["mine"], sentence2=["mine"], label=[0])
    (folder / "README.md").write_text(CARD.replace("pairs/train-*", "../secret/train-*"))
    with pytest.raises(InputError, match=r"the data files of .*toys must be inside of it, but got .*secret"):
        corpus(f"hub:{folder}", config="pairs", columns=PAIRS)


def test_a_hub_that_cannot_be_reached(tmp_path: Path) -> None:
    script = (
        "from microtome.corpora.opening import corpus\n"
        "from microtome.errors import WorkError\n"
        "try:\n    corpus('hub:nyu-mll/glue', config='rte', split='validation', revision='main')\n"
        "except WorkError as problem:\n    print(problem)\n"
    )
    env = {**os.environ, "HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=env, timeout=120, check=True
    )
    assert done.stdout == (
        "a dataset must be a folder that exists or one on the hub, but there is no folder 'nyu-mll/glue', "
        "and the hub cannot be reached.\n"
    )
