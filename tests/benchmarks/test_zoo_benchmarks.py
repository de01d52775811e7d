"""The benchmarks of small encoders run on tiny ones, go on where they were stopped, and fill their page."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from zoo_cards import check_card, write_card

import microtome as mt
from microtome.zoo.designs import find_design
from microtome.zoo.objectives import Learner
from microtome.zoo.shipped import save_encoder
from microtome.zoo.text import read_text

Load = Callable[[str], ModuleType]
SIZES = {"train": 64, "validation": 80}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Encoders of six layers with drawn weights."""
    folder = tmp_path_factory.mktemp("zoo")
    lines = tmp_path_factory.mktemp("text") / "text.txt"
    lines.write_text("\n".join(item.texts[0] for item in mt.task("polarity").split("train")))
    text = read_text(lines, vocabulary=300)
    shape: dict[str, Any] = {
        "layers": 6,
        "width": 16,
        "heads": 2,
        "inner": 32,
        "length": 40,
        "generator": (1, 16),
    }
    for name in ("masked", "replaced", "causal"):
        design = find_design(name, **shape)
        entries = len(json.loads(text.tokenizer)["model"]["vocab"])
        save_encoder(Learner(design, entries, seed=0), text.tokenizer, folder / name)
        write_card(folder / name, design=design, seed=0)
    return folder


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch, zoo: Path) -> Load:
    """Import a benchmark, with a small task for those that it would make large."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    monkeypatch.setenv("MICROTOME_ZOO", str(zoo))
    here = importlib.import_module("zoo_job")
    here._HERE.clear()
    here._HERE["task", "polarity"] = mt.task("polarity", sizes=SIZES)
    torch.set_num_threads(1)
    return importlib.import_module


def options(folder: Path, **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "data": None,
        "seeds": (1, 2),
        "epochs": 10,
        "updates": 12,
        "batch": 16,
        "train_size": 40,
        "head_epochs": 1,
        "device": "cpu",
        "precision": "float32",
        "bucket": False,
        "vectorized": 1,
        "store": str(folder / "store"),
        "out": str(folder / "out"),
        "keep_models": False,
        "command": "",
    }
    return told | changes


def test_a_job_writes_what_the_library_says(benchmark: Load, tmp_path: Path) -> None:
    job = benchmark("zoo_job")
    one = job.Job(encoder="masked", head="mean", task="polarity", rate=1e-2)
    given = options(tmp_path, keep_models=True)
    (told,) = job.do([one], given)
    assert "error" not in told, told
    found = json.loads((tmp_path / "out" / f"{one.name}.json").read_text())
    assert set(found["maps"]) == {"cls", "mean"}, "a head that reads the mean has rows of both kinds"
    for run in found["runs"]:
        assert found["truncation"]["scores"]["UNTUNED"][str(run["seed"])][-1] == pytest.approx(run["score"])
    task = job.open_task("polarity", None)
    encoder = mt.load("zoo:masked")
    tuned = mt.finetune(
        encoder,
        task,
        head=job.head_of("mean", encoder),
        seed=1,
        store=given["store"],
        rate=1e-2,
        **job.recipe_values(given),
    )
    assert tuned.course["seconds"] == found["runs"][0]["seconds"], "it is taken from the store"
    texts = [item.texts[0] for item in task.split(task.validation)]
    for kind in ("cls", "mean"):
        square = np.array(found["maps"][kind]["ft-ft"]["1"]["values"])
        oracle = mt.compare([tuned.encoder], on=texts, rows=kind, store=given["store"])["debiased_cka"].values
        assert np.allclose(square, oracle[-6:, -6:], atol=2e-4), "layers are counted from 1"
        cross = np.array(found["maps"][kind]["ft-ft2"]["1|2"]["values"])
        assert not np.allclose(cross, cross.T)


@pytest.mark.parametrize("encoder", ["causal", "replaced"])
def test_jobs_of_two_encoders_can_be_compared(encoder: str, benchmark: Load, tmp_path: Path) -> None:
    job, question = benchmark("zoo_job"), benchmark("zoo_question")
    plan = {"encoders": ("masked", encoder), "heads": ("cls0",), "tasks": ("polarity",), "rates": (1e-2,)}
    jobs, given = question.jobs(plan), options(tmp_path)
    for one in jobs:
        assert "error" not in job.do([one], given)[0]
    assert not list((tmp_path / "store").rglob("model.safetensors")), "weights are not kept"
    ((group, names),) = question.crossings(jobs, given)
    assert names == sorted(["masked", encoder])
    job.across(group, names, given)
    assert question.crossings(jobs, given) == [], "it is done"
    files, asked = benchmark("job_files"), job.asked(given)
    out, kept = tmp_path / "out", tmp_path / "kept.jsonl"
    assert set(files.finished_jobs(out, job.FORMAT, asked)) == {
        *(one.name for one in jobs),
        "across_cls0_polarity_0.01",
    }
    with pytest.raises(mt.MicrotomeError, match="differs in updates; give another one"):
        files.finished_jobs(out, job.FORMAT, asked | {"updates": 5})
    page = tmp_path / "page.md"
    marks = benchmark("zoo_tables").MARKS
    page.write_text("".join(f"# {name}\n<!-- {name} -->\nstale text\n<!-- /{name} -->\n" for name in marks))
    assert question.main(["--load", str(out), "--markdown", str(page), "--keep", str(kept)]) == 0
    filled = page.read_text()
    assert "stale text" not in filled
    page.write_text(filled.replace("jobs", "stale"))
    assert question.main(["--load", str(kept), "--markdown", str(page)]) == 0
    assert page.read_text() == filled, "what is kept makes the same page"
    assert kept.stat().st_size < 0.7 * sum(one.stat().st_size for one in out.glob("*.json"))
    known = files.finished_jobs(tmp_path / "new", job.FORMAT, asked, known=kept)
    assert set(known) == set(files.finished_jobs(out, job.FORMAT, asked)), "and is not done again"
    assert filled.count("| P-E2") == 6
    assert "2 jobs, 4 fine-tunings of 48 updates" in filled


def test_a_job_that_fails_is_told(benchmark: Load, tmp_path: Path) -> None:
    job = benchmark("zoo_job")
    (told,) = job.do([job.Job(encoder="absent", head="cls1", task="polarity", rate=1e-3)], options(tmp_path))
    assert "encoder of the zoo" in told["error"]
    assert not (tmp_path / "out").exists()


def test_jobs_that_most_questions_need_come_first(benchmark: Load) -> None:
    question = benchmark("zoo_question")
    costs = {"stsb": 9.0, "mrpc": 5.0, "cola": 20.0, "rte": 1.0, "sst2": 30.0}
    found = question.ordered(question.jobs(question.PLANS["wide"]), costs)
    assert len(found) == 9 * 4 * 5 * 2
    assert set(found[:12]) == set(question.jobs(question.PLANS["minimal"]))
    assert [one.task for one in found[:6]] == ["stsb"] * 6
    # Then what differs from these in one thing: the rate, the task, the encoder, the head.
    assert {one.rate for one in found[12:24]} == {3e-5}
    assert {one.rate for one in found[24:78]} == {1e-4}
    assert {one.task for one in found[24:42]} == {"cola", "rte", "sst2"}
    assert len({one.encoder for one in found[42:66]}) == 6
    assert {one.head for one in found[66:78]} == {"cls0", "mean"}


def test_jobs_are_vectorized_where_shapes_and_rates_are_one(benchmark: Load) -> None:
    question, job = benchmark("zoo_question"), benchmark("zoo_job").Job
    shapes = {"masked": "a", "every": "a", "masked-1": "a", "causal": "b"}
    waiting = [
        job(encoder=name, head="cls1", task="stsb", rate=rate) for name in shapes for rate in (1e-4, 3e-5)
    ]
    waiting.remove(job(encoder="masked-1", head="cls1", task="stsb", rate=1e-4))
    waiting.append(job(encoder="masked", head="cls2", task="stsb", rate=1e-4))

    def told(place: int, most: int) -> list[tuple[str, float]]:
        found = question.group_of(waiting[place], waiting, shapes, most)
        return [(one.encoder, one.rate) for one in found]

    wanted = [(name, rate) for name in ("masked", "every") for rate in (3e-5, 1e-4)]
    assert told(0, 8) == wanted
    assert told(0, 3) == wanted[:2], "two encoders are too many"
    assert told(0, 1) == [("masked", 1e-4)]
    assert told(4, 8) == [("masked-1", 3e-5)]
    assert told(5, 8) == [("causal", 3e-5), ("causal", 1e-4)]


def test_vectorized_jobs_write_what_jobs_alone_write(benchmark: Load, zoo: Path, tmp_path: Path) -> None:
    question = benchmark("zoo_question")
    plan = ["--encoders", "masked", "--heads", "cls1", "--tasks", "polarity", "--rates", "1e-3,1e-2"]
    plan += ["--seeds", "1,2", "--updates", "3", "--train-size", "40", "--zoo", str(zoo)]
    for name, more in {"alone": [], "vectorized": ["--vectorized", "4"]}.items():
        place = tmp_path / name
        assert question.main([*plan, *more, "--store", str(place / "store"), "--out", str(place)]) == 0
    for path in (tmp_path / "alone").glob("*.json"):
        one, other = (
            json.loads((tmp_path / name / path.name).read_text()) for name in ("alone", "vectorized")
        )
        assert one["options"] == other["options"]
        losses = [[run["loss"] for run in each["runs"]] for each in (one, other)]
        assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def scored(encoder: str, twin: bool, scores: dict[int, float], **more: Any) -> list[dict[str, Any]]:
    told = {"encoder": encoder, "twin": twin, "task": "stsb", "rate": 1e-3, "epochs": 3.0, "failure": None}
    return [{**told, "seed": seed, "score": score, **more} for seed, score in scores.items()]


def test_the_best_cell_is_trained_with_more_seeds(benchmark: Load) -> None:
    scores = benchmark("zoo_scores")
    plan = {"rates": [1e-4, 1e-3], "epochs": [3.0], "seeds": [1, 2]}
    place = ("masked", False, "stsb")
    assert [(run.rate, run.seed) for run in scores.next_runs(place, [], plan)] == [(1e-4, 0), (1e-3, 0)]
    known = [*scored("masked", False, {0: 0.5}), *scored("masked", False, {0: 0.9}, rate=1e-4)]
    known[1]["failure"] = "collapsed: every example got the same answer"
    assert [(run.rate, run.seed) for run in scores.next_runs(place, known, plan)] == [(1e-3, 1), (1e-3, 2)]
    known += scored("masked", False, {1: 0.5, 2: 0.6})
    assert scores.next_runs(place, known, plan) == []


def test_twins_are_shared_by_shape_and_cards_are_filled(
    benchmark: Load, zoo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    scores = benchmark("zoo_scores")
    twins = scores.twins_of(["masked", "replaced", "causal"])
    assert twins == {"masked": "masked", "replaced": "replaced", "causal": "causal"}
    given = {"data": None, "device": "cpu", "store": str(tmp_path), "updates": 3, "bucket": False}
    run = {"encoder": "masked", "task": "polarity", "rate": 1e-3, "epochs": 1.0, "seed": 1}
    model, twin, other = (
        scores.do(scores.Run(**{**run, "twin": is_twin, "seed": seed}), given)
        for is_twin, seed in ((False, 1), (True, 1), (True, 2))
    )
    assert all(one["updates"] == 2 for one in (model, twin, other))
    plan = {
        "encoders": ["masked", "replaced"],
        "twins": {"masked": "masked", "replaced": "masked"},
        "tasks": ["stsb", "mrpc"],
        "rates": [1e-3],
        "epochs": [3.0],
        "seeds": [1, 2, 3],
        "updates": 10,
    }
    high, low = {0: 0.8, 1: 0.81, 2: 0.82, 3: 0.8}, {0: 0.1, 1: 0.12, 2: 0.11, 3: 0.1}
    results = []
    for task in ("stsb", "mrpc"):
        results += scored("masked", False, high, task=task) + scored("masked", True, low, task=task)
        results += scored("replaced", False, low, task=task)
    document = {"plan": plan, "results": results}
    file = tmp_path / "scores.json"
    file.write_text(json.dumps(document))
    page = tmp_path / "page.md"
    page.write_text("<!-- twins -->\n<!-- /twins -->")
    assert scores.main(["--load", str(file), "--zoo", str(zoo), "--cards", "--markdown", str(page)]) == 0
    told = page.read_text()
    assert "masked clearly beats its random baseline: the interval lies above 0 on stsb, mrpc" in told
    assert "replaced does not clearly beat its random baseline: it does on no task" in told
    card = check_card(zoo / "masked")
    assert card["scores"]["stsb"]["model"]["mean"] == pytest.approx(0.81)
    assert card["scores"]["stsb"]["difference"]["low"] > 0.6
    assert "best at epochs 3.0, rate 0.001" in (zoo / "masked" / "README.md").read_text()


@pytest.mark.slow
def test_a_run_in_processes_goes_on_where_it_was(benchmark: Load, zoo: Path, tmp_path: Path) -> None:
    question = benchmark("zoo_question")
    given = ["--zoo", str(zoo), "--encoders", "masked", "--heads", "cls0,cls1", "--tasks", "polarity"]
    given += [
        "--rates",
        "1e-3",
        "--seeds",
        "1,2",
        "--updates",
        "2",
        "--train-size",
        "40",
        "--head-epochs",
        "1",
    ]
    given += ["--out", str(tmp_path / "out"), "--store", str(tmp_path / "store")]
    assert question.main([*given, "--time-limit", "0"]) == 1, "nothing fits into no time"
    assert question.main(given) == 0
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "out").glob("*.json")}
    assert len(files) == 2
    assert question.main(given) == 0
    assert {path: path.stat().st_mtime_ns for path in files} == files


def test_the_page_says_what_is_kept(benchmark: Load, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    kept, page = root / "benchmarks" / "results" / "zoo-question.jsonl", tmp_path / "zoo.md"
    told = (root / "docs" / "zoo.md").read_text()
    page.write_text(told)
    benchmark("zoo_tables").fill(kept, page)
    assert page.read_text() == told


def test_pictures_have_a_panel_for_every_map_and_cut(benchmark: Load) -> None:
    kept = Path(__file__).parents[2] / "benchmarks" / "results" / "zoo-question.jsonl"
    pictures, (documents, _) = benchmark("zoo_picture"), benchmark("zoo_tables").read(kept)
    maps = pictures.draw_maps(documents, "sst2")
    assert len(maps.axes) == 5 * 4 + 1, "and the scale"
    one = next(each for each in documents if each["job"]["task"] == "sst2")
    seeds = one["maps"]["cls"]["ft-ft"].values()
    mean = np.mean([each["values"] for each in seeds], axis=0)
    assert pictures._mean(one, "ft-ft") == pytest.approx(mean)
    cuts = pictures.draw_cuts(documents, ("sst2", "stsb"))
    assert len(cuts.axes) == 2 * 5
    with pytest.raises(mt.MicrotomeError, match="a picture of qqp must have jobs with the head cls1"):
        pictures.draw_maps(documents, "qqp")
