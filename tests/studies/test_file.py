"""Study files are read strictly, and a mistake is told in one sentence with a suggestion."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import microtome as mt
from microtome.errors import MicrotomeError
from microtome.studies.file import SIZES, shipped_studies

SMALL: dict[str, Any] = {
    "models": ["zoo:masked"],
    "tasks": ["polarity"],
    "finetune": {"seeds": [1, 2], "set": {"steps": 3}},
    "experiments": {"truncate": {"head_seeds": [0]}},
}


def changed(**tables: Any) -> dict[str, Any]:
    return {**SMALL, **tables}


def test_a_list_of_names_stands_for_tables() -> None:
    study = mt.study(SMALL)
    assert study.models["masked"].source == "zoo:masked"
    assert study.tasks["polarity"].task == "polarity"
    assert study.finetune is not None
    assert study.finetune.seeds == (1, 2)
    assert study.finetune.options["changes"] == {"steps": 3}


@pytest.mark.parametrize(
    ("table", "message"),
    [
        (changed(modles={}), "Did you mean models"),
        (changed(models={"masked": {"sourc": "zoo:masked"}}), "Did you mean source"),
        (changed(models={"masked": {}}), "models.masked in the study must have a source"),
        (changed(tasks={"polarity": {"train_sise": 3}}), "Did you mean train_size"),
        (changed(tasks=["polarty"]), "Did you mean polarity"),
        (changed(finetune={"recipee": "wu2020"}), "Did you mean recipe"),
        (changed(finetune={"seeds": [-1]}), "a seed must be"),
        (changed(experiments={"truncat": {}}), "Did you mean truncate"),
        (changed(experiments={"a": {"verb": "skp"}}), "Did you mean skip"),
        (changed(experiments={"truncate": {"arm": ["TUNED"]}}), "Did you mean arms"),
        (changed(experiments={"truncate": {"models_only": ["maskd"]}}), "Did you mean masked"),
        (changed(experiments={"extract": {}}), "must have a result in the store"),
        (changed(resources={"gpu": 1}), "Did you mean gpus"),
        (changed(resources={"finetun": {"gpus": 1}}), "Did you mean finetune"),
        (changed(level=95), "level must be"),
        (changed(device="gpu"), "device must be one of"),
        (changed(models=["a/best", "b/best"]), "names of models in the study must be different ones"),
        (changed(models={"a/../b": "zoo:masked"}), "names of models in the study must be"),
        (changed(models=["./no-such"]), "or a folder that exists"),
        (
            changed(tasks={"polarity": {"column": "x"}}),
            "tasks.polarity.column in the study must be a table",
        ),
        (changed(finetune=3), "finetune in the study must be a table"),
        (changed(finetune={"seeds": []}), "finetune.seeds must be one or more"),
        (changed(resources={"memory": 4}), "resources.memory in the study must be a string"),
        (changed(resources={"minutes": float("nan")}), "resources.minutes in the study must be a whole"),
        (changed(resources={"gpus": float("inf")}), "resources.gpus in the study must be a number"),
        (changed(resources=3), "resources in the study must be a table"),
        (changed(threads=0), "threads must be"),
        (changed(threads=999_999), "threads must be"),
        (changed(data="not-there"), "data must be a folder that exists"),
        (changed(data=3), "data in the study must be a path"),
        (changed(data="\0"), "data in the study must have no zero byte"),
        (changed(name=3), "name in the study must be a string"),
        (changed(title=["a"]), "title in the study must be a string"),
        (changed(claims=3), "claims of a study must be a name, a file or a list"),
        (changed(models={1: "zoo:masked"}), "names of models in the study must be"),
        (changed(models={"a": {"source": "zoo:masked", "revision": 3}}), "models.a.revision in the study"),
        (changed(tasks={"polarity": {"held_out": 1.5}}), "tasks.polarity.held_out in the study must be"),
        (changed(tasks={"polarity": {"column": {"text": 3}}}), "polarity.column.text in the study must be"),
        (changed(tasks={"polarity": {"train_size": -1}}), "train_size of polarity must be"),
        (changed(tasks=["a" * 300]), "the task of tasks.aaa"),
        (changed(experiments={"a": {"verb": []}}), "the verb of experiments.a in the study must be one of"),
        (changed(experiments={"skip": {"tasks_only": [["polarity"]]}}), "tasks_only of experiments.skip"),
        (changed(experiments={"change": {"on": 3}}), "experiments.change.on in the study must be"),
        (changed(experiments={"compare": {"models": {"a": 1}}}), "the key experiments.compare.models.a"),
        ({"models": ["zoo:masked"]}, "must have models, and experiments or fine-tunings"),
        (changed(models=3), "models in the study must be tables or a list of names"),
    ],
)
def test_mistakes_are_one_sentence(table: dict[str, Any], message: str) -> None:
    with pytest.raises(MicrotomeError, match=message) as caught:
        mt.study(table)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("source", "size", "message"),
    [
        ("phang2012", None, "Did you mean phang2021"),
        ("phang2021", "tiny", "size of phang2021 must be one of"),
        ("no/such/file.toml", None, "must be a file that exists"),
    ],
)
def test_studies_that_are_not_there(source: str, size: str | None, message: str) -> None:
    with pytest.raises(MicrotomeError, match=message):
        mt.study(source, size=size)


@pytest.mark.parametrize("content", ["models = [", "models = " + "[" * 100_000, "level = 1" + "0" * 5_000])
def test_a_file_that_is_no_toml(content: str, tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(content)
    with pytest.raises(MicrotomeError, match="must be a file in TOML"):
        mt.study(tmp_path / "a.toml")


def test_another_source_of_a_model_is_not_empty() -> None:
    with pytest.raises(MicrotomeError, match="the source of masked must be a hub id, a folder or zoo:NAME"):
        mt.study(SMALL, models={"masked": ""})


def test_a_link_to_itself_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to("loop")
    for table in (changed(data=str(tmp_path / "loop")), changed(data=tmp_path / "loop")):
        with pytest.raises(MicrotomeError, match="data must be a folder that exists"):
            mt.study(table)
    mt.study(changed(tasks={"polarity": {"data": str(tmp_path / "loop")}}))


@pytest.mark.parametrize("name", ["a" * 300, "a" * 300 + ".toml"])
def test_a_name_that_is_too_long_for_a_file(name: str) -> None:
    with pytest.raises(MicrotomeError, match="must be"):
        mt.study(name)


def test_measures_are_checked_before_anything_runs(tmp_path: Path) -> None:
    compare = {"models": ["{model}"], "on": "{text}", "rows": "cls", "measures": ["nope"]}
    with pytest.raises(MicrotomeError, match="measure must be one of"):
        mt.study(changed(experiments={"compare": compare})).plan(tmp_path)


def test_relative_paths_start_from_the_file(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "mine.csv").write_text("words,mood\na,0\n")
    (tmp_path / "a.toml").write_text(
        'models = ["model"]\n[tasks.mine]\ntask = "mine.csv"\n[experiments.finetune]\nseeds = [0]\n'
    )
    study = mt.study(tmp_path / "a.toml")
    assert study.models["model"].source == str(tmp_path / "model")
    assert study.tasks["mine"].task == str(tmp_path / "mine.csv")


def test_models_are_replaced_by_name() -> None:
    assert mt.study(SMALL, models={"masked": "zoo:causal"}).models["masked"].source == "zoo:causal"
    with pytest.raises(MicrotomeError, match="model of the study must be one of masked"):
        mt.study(SMALL, models={"mask": "zoo:causal"})


@pytest.mark.parametrize(("name", "size"), [(n, s) for n, sizes in shipped_studies().items() for s in sizes])
def test_shipped_studies_are_read(name: str, size: str) -> None:
    assert size in SIZES
    assert mt.study(name, size=size).paper == name
