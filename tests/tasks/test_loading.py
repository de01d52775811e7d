from __future__ import annotations

import sys
from importlib.resources import files
from pathlib import Path

import pytest

from microtome.errors import InputError, UnknownNameError
from microtome.tasks.loading import task
from task_samples import write_files

HEADER = "index\tsentence1\tsentence2\tlabel\n"


def rte(folder: Path, **contents: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / f"{name}.tsv").write_text(content)
    return folder


# What is told


def test_a_sample_is_named_as_what_it_is(tmp_path: Path) -> None:
    folder = rte(tmp_path, train=HEADER + "0\ta\tb\tentailment\n")
    (tmp_path / "train.tsv").rename(tmp_path / "train.first10.tsv")
    split = task("rte", data=folder).split("train")
    assert split.notes == ("read from train.first10.tsv", "1 of 2,490 published examples")


def test_the_official_file_goes_first(tmp_path: Path) -> None:
    folder = rte(tmp_path, train=HEADER + "0\ta\tb\tentailment\n")
    (tmp_path / "train.other.tsv").write_text(HEADER + "0\tc\td\tentailment\n")
    assert task("rte", data=folder).split("train").items[0].texts == ("a", "b")
    (tmp_path / "train.tsv").unlink()
    (tmp_path / "train.more.tsv").write_text(HEADER)
    with pytest.raises(
        InputError, match=r"must have one file for a split, but it has train.more.tsv and train"
    ):
        task("rte", data=folder)


def test_where_a_task_comes_from(tmp_path: Path) -> None:
    local = task("rte", data=write_files("rte", tmp_path))
    assert local.source == str(tmp_path / "RTE")
    assert (local.train, local.validation) == ("train", "validation")
    hub = task("rte")  # nothing is asked of the hub before a split is
    assert hub.source == "hub:nyu-mll/glue/rte@main (unpinned)"
    assert not hub.card["pinned"]
    pinned = task("rte", revision="0123abc")
    assert pinned.source == "hub:nyu-mll/glue/rte@0123abc"
    assert pinned.card["revision"] == "0123abc"
    assert task("semeval", data=write_files("semeval2010-8", tmp_path)).validation == "test"


def test_examples_are_left_out_as_published(tmp_path: Path) -> None:
    mnli = task("mnli", data=write_files("mnli", tmp_path)).split("validation")
    assert "1 examples without an agreed label were left out, as published" in mnli.notes
    assert [item.id for item in mnli] == ["validation-0", "validation-1"]
    qqp = task("qqp", data=write_files("qqp", tmp_path)).split("train")
    assert "1 rows with a wrong number of columns were left out" in qqp.notes
    # Two pairs that share a question are of one group.
    assert len({item.group for item in qqp}) == 1


def test_any_treebank(tmp_path: Path) -> None:
    write_files("ewt-upos", tmp_path)
    for file in list((tmp_path / "UD_English-EWT").iterdir()):
        file.rename(tmp_path / file.name.replace("en_ewt", "fr_gsd"))
    split = task("ewt-parsing", data=tmp_path).split("train")
    assert split.notes == ("read from fr_gsd-ud-train.conllu",)
    assert [item.group.partition("-")[0] for item in split] == ["doc", "doc", "other"]


def test_local_files_need_no_other_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("datasets", "pandas", "sklearn", "conllu", "torch"):
        monkeypatch.setitem(sys.modules, name, None)
    for name in ("rte", "ewt-parsing", "cosmosqa"):
        assert len(task(name, data=write_files(name, tmp_path)).split("train"))


def test_a_card_of_ones_own(tmp_path: Path) -> None:
    content = files("microtome.tasks").joinpath("cards", "rte.toml").read_text(encoding="utf-8")
    lines = content.replace('name = "rte"', 'name = "mine"').split("\n")
    start, end = lines.index("[hub]"), lines.index("[local]")
    rte(tmp_path, train=HEADER + "0\ta\tb\tentailment\n")
    (tmp_path / "mine.toml").write_text("\n".join(lines[:start] + lines[end:]))
    mine = task(tmp_path / "mine.toml")
    assert (mine.name, mine.split("train").items[0].target) == ("mine", 0)
    with pytest.raises(InputError, match=r"a card must be a file that exists, but got 'none.toml'"):
        task("none.toml")


def test_a_card_that_is_not_utf8_is_told(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_bytes(b'title = "caf\xe9"\n')
    with pytest.raises(InputError, match=r"mine\.toml must be a card in UTF-8, but got"):
        task(tmp_path / "mine.toml")


def test_generated_tasks_are_found_by_name() -> None:
    assert task("polarity", seed=3, sizes={"train": 10}).name == "polarity"
    with pytest.raises(
        InputError, match="data and revision must be left out for polarity, which is generated"
    ):
        task("polarity", data="x")


# What is refused


@pytest.mark.parametrize(
    "content, words",
    [
        (
            "index\tsentence1\tlabel\n0\ta\tentailment\n",
            r"line 2 of .*train.tsv must have the column 'sentence2', but its columns are index, sentence1",
        ),
        (
            HEADER + "0\ta\tb\tmaybe\n",
            r"line 2 of .*train.tsv must have one of the labels entailment, not_entailment, but got 'maybe'",
        ),
        (HEADER + "0\ta\tb\n", r"line 2 of .*train.tsv must have 4 columns, but it has 3"),
        (HEADER, r"rte/train must hold examples, but .* has none for it"),
        ("index\tindex\n", r"must name every column once, but got index, index"),
        (HEADER + "0\ta\tb\t-1\n", r"must have one of the labels entailment, not_entailment, but got '-1'"),
    ],
)
def test_wrong_files(tmp_path: Path, content: str, words: str) -> None:
    loaded = task("rte", data=rte(tmp_path, train=content))
    with pytest.raises(InputError, match=words):
        loaded.split("train")


def test_hidden_labels_that_are_asked_for(tmp_path: Path) -> None:
    loaded = task("rte", data=write_files("rte", tmp_path))
    assert not loaded.split("test").labeled
    with pytest.raises(InputError, match="rte/test must have labels to be learned or scored, but 2 of its 2"):
        loaded.split("test", labeled=True)


def test_wrong_folders(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    with pytest.raises(
        InputError,
        match=r"must be a folder with files of rte \(train.tsv, dev.tsv, test.tsv; packed or not\), or have "
        r"it as RTE, but .*empty has none of them",
    ):
        task("rte", data=tmp_path / "empty")
    with pytest.raises(InputError, match=r"data must be a folder that exists for rte, but got '.*nowhere'"):
        task("rte", data=tmp_path / "nowhere")
    with pytest.raises(UnknownNameError, match="split of rte must be one of train, but got 'validation'"):
        task("rte", data=rte(tmp_path / "part", train=HEADER)).split("validation")


def test_labels_in_a_file_of_their_own(tmp_path: Path) -> None:
    write_files("socialiqa", tmp_path)
    (tmp_path / "SocialIQA/train-labels.lst").write_text("3\n")
    with pytest.raises(
        InputError, match=r"train-labels.lst must have a label for each of 2 examples, but it has 1"
    ):
        task("socialiqa", data=tmp_path).split("train")
    (tmp_path / "SocialIQA/train-labels.lst").unlink()
    with pytest.raises(
        InputError, match=r"SocialIQA must have train-labels.lst with the labels, but it has not"
    ):
        task("socialiqa", data=tmp_path).split("train")


def test_words_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match=r"task must be one of .*, but got 'rtee'. Did you mean rte\?"):
        task("rtee")
    with pytest.raises(InputError, match="text, label must be left out for rte: a card says which columns"):
        task("rte", text="a", label="b")
    with pytest.raises(InputError, match="revision must be left out for local files, but got 'main'"):
        task("rte", data=tmp_path, revision="main")
    with pytest.raises(InputError, match="revision must be left out for a folder, but got 'main'"):
        task("rte", data=f"hub:{tmp_path}", revision="main")
