"""The demonstration from end to end on tiny encoders: what it writes, says and exports agrees with itself."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import microtome as mt
from drawn_zoo import draw_zoo
from microtome.context import Context
from microtome.demonstration.plan import DemoPlan
from microtome.demonstration.running import Demonstration, demonstrate
from microtome.errors import InputError
from microtome.report.collecting import collect

pytestmark = pytest.mark.slow

PLAN = DemoPlan(
    encoders=("masked", "replaced"),
    seeds=(1, 2),
    train=500,
    rest=200,
    validation=160,
    test=200,
    head_examples=100,
    steps=24,
    rate=4e-3,
    max_drop=8.0,
)
COMMAND = "microtome demo --out there"


@pytest.fixture(scope="module", autouse=True)
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    place = draw_zoo(tmp_path_factory.mktemp("encoders"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MICROTOME_ZOO", str(place))
        patch.setenv("HF_HUB_OFFLINE", "1")
        yield place
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def steps() -> list[str]:
    return []


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory, steps: list[str]) -> Demonstration:
    out = tmp_path_factory.mktemp("out") / "demo"
    return demonstrate(out, PLAN, tell=steps.append, context=Context(command=COMMAND))


def read(done: Demonstration, what: str) -> dict[str, Any]:
    return json.loads((done.page.parent / what / "result.json").read_text())


def test_every_step_is_told_and_has_a_result(done: Demonstration, steps: list[str]) -> None:
    first, picture, *others = steps
    assert [step.split(",")[0] for step in (first, *others)] == [f"[{k}/11" for k in range(1, 12)]
    assert str(done.page.parent / "picture.svg") in picture
    assert str(done.page) in picture
    assert "seeds 1 and 2, 24 updates" in others[0]
    for name in PLAN.encoders:
        for what in ("finetune", "compare", "truncate", "skip", "prune"):
            assert read(done, f"{what}/{name}")["format"].startswith("microtome/")
        assert [run["seed"] for run in read(done, f"finetune/{name}")["runs"]] == [1, 2]
        models = [model["name"] for model in read(done, f"compare/{name}")["provenance"]["models"]]
        assert models == [name, f"{name}-seed1", f"{name}-seed2", f"{name}-random0"]


def test_a_picture_and_a_report_are_there_before_anything_is_tuned(tmp_path: Path) -> None:
    out = tmp_path / "demo"

    def stop(sentence: str) -> None:
        if "fine-tuning on" in sentence:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        demonstrate(out, PLAN, tell=stop)
    assert "masked, before fine-tuning, and randomly initialized" in (out / "picture.svg").read_text()
    assert "masked-random0" in (out / "report.html").read_text()
    assert not (out / "finetune").exists()


def test_the_report_is_what_report_makes_of_the_folder(done: Demonstration) -> None:
    again = collect(done.page.parent, date=done.document["made"])
    assert json.dumps(again) == json.dumps(done.document)
    text = done.page.read_text(encoding="utf-8")
    assert "microtome/report/1" in text
    assert not [one for one in again["provenance"] if "problem" in dict(one["facts"])]
    commands = {one["command"] for one in again["provenance"] if not one["file"].startswith("finetune/")}
    assert commands == {COMMAND}


def test_what_is_told_of_each_encoder_stands_in_its_results(done: Demonstration) -> None:
    known = {text for one in done.document["sections"] for text in one["sentences"]}
    assert [told.name for told in done.findings] == list(PLAN.encoders)
    for told in done.findings:
        assert set(told.sentences) <= known
        score, first, second, cut, prune = told.sentences
        mean = read(done, f"finetune/{told.name}")["mean"]
        assert f"Mean accuracy of 2 seeds on validation is {mean['value']:.3f}" in score
        assert first.startswith(f"{told.name}-seed1: ")
        assert second.startswith(f"{told.name}-seed2: ")
        weak = "not_above_baseline" in read(done, f"truncate/{told.name}")["more"]
        assert ("Nothing is concluded about truncation: " in cut) == weak
        assert "over examples)" in cut or weak
        pruned = read(done, f"prune/{told.name}")
        if prune.startswith("Nothing is concluded about pruning: "):
            tested = [pruned["comparison"], *pruned["sequence"]]
            assert next(one["full"] for one in tested if one) <= pruned["guess"]
            continue
        assert ("can be removed" in prune) == pruned["certified"]
        assert ("Nothing can be removed safely" in prune) == (not pruned["certified"])


def test_exported_models_are_those_that_were_certified(done: Demonstration) -> None:
    exported = [one.name for one in done.unseen]
    assert exported == [name for name in PLAN.encoders if read(done, f"prune/{name}")["certified"]]
    assert exported, "the tiny encoders of this test must have blocks that can go"
    for name in PLAN.encoders:
        assert (done.page.parent / "prune" / name / "config.json").is_file() == (name in exported)
        assert (done.page.parent / "evaluate" / name).is_dir() == (name in exported)


def test_an_exported_model_gives_the_same_answers_without_this_package(done: Demonstration) -> None:
    task = mt.task("polarity", sizes=dict(PLAN.sizes))
    split = task.split("test")
    for one in done.unseen:
        tokenizer: Any = transformers.AutoTokenizer.from_pretrained(one.folder)
        net, report = transformers.AutoModelForSequenceClassification.from_pretrained(
            one.folder, output_loading_info=True
        )
        assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys"))
        assert net.config.num_hidden_layers == one.kept < one.depth
        inputs = tokenizer(
            [item.texts[0] for item in split],
            return_tensors="pt",
            padding=True,
            truncation=True,
            max_length=PLAN.longest,
        )
        with torch.inference_mode():
            answers = net.eval()(**inputs).logits.argmax(-1).tolist()
        ours = mt.evaluate(one.folder, task, split="test")
        assert [task.labels.index(net.config.id2label[k]) for k in answers] == list(ours.predictions)
        assert list(one.evaluation.predictions) == list(ours.predictions)
        right = np.mean([item.target == said for item, said in zip(split, ours.predictions, strict=True)])
        assert one.drop.cut == pytest.approx(right)
        assert f"has accuracy {right:.3f} on 200 examples" in one.sentence()
        # Pruning looked at the same examples, in its own way.
        confirmed = read(done, f"prune/{one.name}")["confirmed"]
        assert confirmed["upper"] == pytest.approx(one.drop.upper)
        assert ("points is kept there" in one.sentence()) == one.drop.safe == confirmed["safe"]


def test_a_second_call_reads_from_the_store(done: Demonstration) -> None:
    entries = done.page.parent / ".store" / "entries"
    before = sorted(path.name for path in entries.rglob("*"))
    said: list[tuple[str, int, int]] = []
    context = Context(command=COMMAND, progress=lambda *what: said.append(what))
    again = demonstrate(done.page.parent, PLAN, context=context)
    assert sorted(path.name for path in entries.rglob("*")) == before
    assert not [what for what, _, _ in said if "training" in what]
    assert again.findings == done.findings
    assert [one.sentence() for one in again.unseen] == [one.sentence() for one in done.unseen]


def test_encoders_that_learned_nothing_are_told_and_not_pruned(tmp_path: Path) -> None:
    plan = replace(PLAN, encoders=("every",), seeds=(3,), steps=1, rate=1e-9, rest=40, validation=40, test=40)
    done = demonstrate(tmp_path / "demo", plan)
    (told,) = done.findings
    assert "The only run failed (seed 3: collapsed" in told.sentences[0]
    assert not done.unseen
    assert not (tmp_path / "demo" / "prune").exists()


def test_what_is_missing_is_said_before_anything_is_done(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MICROTOME_ZOO", str(draw_zoo(tmp_path / "some", ["masked"])))
    with pytest.raises(
        InputError,
        match=r"must find the encoders masked, replaced in .*, but there is "
        r"only masked\. They come with the package, unless MICROTOME_ZOO names",
    ):
        demonstrate(tmp_path / "demo", PLAN)
    monkeypatch.setenv("MICROTOME_ZOO", str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match=r"but there is none\. They come with the package"):
        demonstrate(tmp_path / "demo")
    assert not (tmp_path / "demo").exists()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"encoders": ()}, "encoders must be one or more, each once"),
        ({"seeds": (10**30,)}, "seeds must be within 64 bits"),
        ({"seeds": (1, 1)}, "seeds must be one or more, each once"),
        ({"test": 0}, "test must be at least 1"),
        ({"head_examples": 9_999}, "head_examples must be at most the 2,000 examples of train"),
    ],
)
def test_a_plan_that_cannot_work_is_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        DemoPlan(**values)
