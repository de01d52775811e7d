"""The benchmark of tuned layers says what the library does, goes on where it was, and can judge any way."""

from __future__ import annotations

import importlib
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType, ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from curve_agreement import curve_agreement

import microtome as mt
from microtome.findings.change import change_profile
from microtome.inference.answers import Answers
from microtome.inference.pairing import compare_scores
from microtome.probes.dataset import Probed
from microtome.scores.table import find_score
from microtome.tasks.task import Item, Split, Task
from tiny import save_checkpoint

Load = Callable[[str], ModuleType]
WORDS = (
    ("the", "DET"),
    ("cat", "NOUN"),
    ("mat", "NOUN"),
    ("reader", "NOUN"),
    ("long", "ADJ"),
    ("short", "ADJ"),
)
WORDS += (("sit", "VERB"), ("likes", "VERB"), ("knows", "VERB"), ("books", "NOUN"))
RELATIONS = {"DET": "det", "NOUN": "obj", "ADJ": "amod", "VERB": "conj"}


def conllu(sentences: int, seed: int) -> str:
    """Sentences whose words hang on the one before them."""
    rng, lines = np.random.default_rng(seed), []
    for number in range(sentences):
        if number % 3 == 0:
            lines.append(f"# newdoc id = doc{seed}-{number}")
        chosen = [WORDS[int(place)] for place in rng.integers(len(WORDS), size=int(rng.integers(3, 9)))]
        lines += [f"# sent_id = s{seed}-{number}", f"# text = {' '.join(word for word, _ in chosen)}"]
        for place, (word, tag) in enumerate(chosen):
            relation = RELATIONS[tag] if place else "root"
            lines.append(f"{place + 1}\t{word}\t{word}\t{tag}\t_\t_\t{place}\t{relation}\t_\t_")
        lines.append("")
    return "\n".join([*lines, ""])


def pairs() -> Task:
    """How many words two texts share."""

    def split(name: str, seed: int) -> Split:
        rng, items = np.random.default_rng(seed), []
        for number in range(40):
            sizes = rng.integers(3, 9, size=2)
            texts = [[WORDS[int(place)][0] for place in rng.integers(len(WORDS), size=k)] for k in sizes]
            shared = float(len(set(texts[0]) & set(texts[1])))
            items.append(Item(id=f"{name}{number}", texts=tuple(map(" ".join, texts)), target=shared))
        return Split(name=name, items=tuple(items))

    splits = {"train": lambda: split("train", 5), "validation": lambda: split("validation", 6)}
    scores = ("pearson", "spearman")
    return Task(
        name="stsb",
        title="stsb",
        kind="regression",
        labels=(),
        scores=scores,
        main=scores,
        readers=MappingProxyType(splits),
        source="tests",
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    trees = folder / "UD_English-EWT"
    trees.mkdir()
    for seed, (split, count) in enumerate((("train", 40), ("dev", 90), ("test", 30))):
        (trees / f"en_ewt-ud-{split}.conllu").write_text(conllu(count, seed))
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(save_checkpoint(tmp_path_factory.mktemp("models") / "tinybert", "bert"))


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Iterator[Load]:
    """Import a benchmark, with small tasks for those that it would make large."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    here = importlib.import_module("zoo_job")._HERE
    here.clear()
    here["task", "polarity"] = mt.task("polarity", sizes={"train": 40, "validation": 40})
    here["task", "stsb"] = pairs()
    torch.set_num_threads(1)
    yield importlib.import_module
    here.clear()


def options(folder: Path, data: Path, **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "data": str(data),
        "treebank": str(data / "UD_English-EWT"),
        "jobs": ("base", "change", "probe", "domains", "curves"),
        "pair": "stsb",
        "seeds": (1, 2),
        "updates": 4,
        "rate": 1e-3,
        "batch": 8,
        "precision": "float32",
        "device": "cpu",
        "sentences": 90,
        "rows": 100,
        "halves": 6,
        "train": 20,
        "judged": 15,
        "schemes": ("library",),
        "sizes": (10, 20),
        "reinit_task": "polarity",
        "reinit_updates": 3,
        "reinit_rate": 1e-3,
        "reinit_seeds": (1, 2),
        "reads": 30,
        "store": str(folder / "store"),
        "out": str(folder / "out"),
        "keep_models": False,
        "at_once": 1,
        "command": "",
    }
    return told | changes


def test_jobs_measure_go_on_and_fill_a_page(
    benchmark: Load, data: Path, checkpoint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job, question = benchmark("tuned_layers_job"), benchmark("tuned_layers")
    given = options(tmp_path, data)
    jobs = question.plan([f"tiny={checkpoint}"], given)
    by_name = {one.name: one for one in jobs}
    tuning = [one for one in jobs if one.kind == "tune"]
    assert jobs[: len(tuning)] == tuning, "what is measured is tuned first"
    assert len(tuning) == 3 * 2, "each task with each seed"
    pair, parsing, base = (by_name[f"tiny_{name}"] for name in ("task_stsb", "task_ewt-parsing", "base"))
    curves = [by_name["tiny_reads"], by_name["tiny_redrawn_library_10"]]
    few = given | {"jobs": ("change",)}
    for one, how in (
        (pair, few),
        (pair, given),
        (parsing, few),
        (base, given),
        *((c, given) for c in curves),
    ):
        told = job.do(one, how)
        assert "error" not in told, told
    out = tmp_path / "out"
    found = json.loads((out / f"{pair.name}.json").read_text())
    assert {"change", "probe", "domains"} <= set(found), "parts that were missing are added"
    assert job.missing(pair, given, found) == []
    assert job.missing(parsing, given, json.loads((out / f"{parsing.name}.json").read_text())) == ["probe"]
    assert not list((tmp_path / "store").rglob("model.safetensors")), "weights are not kept"
    assert not list((tmp_path / "store" / "rows").iterdir()), "neither are rows"

    # The whole model, nothing redrawn, is the plain fine-tuning; what is read has a score for every layer.
    redrawn = json.loads((out / f"{curves[1].name}.json").read_text())["curves"]
    encoder: Any = mt.load(checkpoint)
    task = benchmark("zoo_job").open_task("polarity", None)
    head = benchmark("zoo_job").head_of("cls1", encoder)
    values: dict[str, Any] = {"rate": 1e-3, "batch": 8, "steps": 3, "epochs": None}
    plain = mt.finetune(
        encoder, task, "tamkin2020", seed=1, train_size=10, head=head, store=tmp_path / "again", **values
    )
    assert redrawn["runs"][0]["scores"][-1] == pytest.approx(plain.score.value)
    assert len(redrawn["means"]) == encoder.depth + 1
    reads = json.loads((out / f"{curves[0].name}.json").read_text())["curves"]
    assert np.shape(reads["base"]["published"]) == (2, encoder.depth)

    with pytest.raises(mt.MicrotomeError, match="differs in updates; give another one"):
        benchmark("job_files").finished_jobs(out, job.FORMAT, job.asked(given | {"updates": 5}))
    assert question.run(jobs, given, limit=0.0, zoo=None) == 7, "what is left has to be tuned again"
    assert "7 jobs were not started" in capsys.readouterr().out
    page, marks = tmp_path / "page.md", benchmark("tuned_layers_tables").MARKS
    page.write_text("".join(f"<!-- {name} -->\nstale\n<!-- /{name} -->\n" for name in marks))
    picture = tmp_path / "layers.svg"
    assert question.main(["--load", str(out), "--markdown", str(page), "--figure", str(picture)]) == 0
    said = "".join(re.findall(r"<!-- (.*?) -->", picture.read_text()))
    assert "tuned on stsb" in said
    assert "tuned on ewt-parsing" not in said, "its readouts are not there yet"
    filled = page.read_text()
    assert "stale" not in filled
    assert "M1, large changes" in filled
    assert "above re-initialized (library), 10 examples" in filled
    kept = tmp_path / "kept.jsonl"
    assert question.main(["--load", str(out), "--keep", str(kept)]) == 0
    page.write_text(filled.replace("holds", "stale"))
    assert question.main(["--load", str(kept), "--markdown", str(page)]) == 0
    assert page.read_text() == filled, "what is kept makes the same page"
    page.write_text("no marks")
    with pytest.raises(mt.MicrotomeError, match="must have the marks"):
        question.main(["--load", str(out), "--markdown", str(page)])


def test_the_page_says_what_is_kept(benchmark: Load, tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    kept, page = root / "benchmarks" / "results" / "tuned-layers.jsonl", tmp_path / "probes.md"
    told = (root / "docs" / "probes.md").read_text()
    page.write_text(told)
    benchmark("tuned_layers_tables").fill(kept, page)
    assert page.read_text() == told


def test_what_is_kept_stays_when_more_comes(benchmark: Load, tmp_path: Path) -> None:
    files, path = benchmark("job_files"), tmp_path / "kept.jsonl"
    files.keep_jobs({"a": {"format": "f", "is": 1}, "b": {"format": "f", "is": 2}}, path)
    files.keep_jobs({"b": {"format": "f", "is": 3}, "c": {"format": "f", "is": 4}}, path)
    assert {name: one["is"] for name, one in files.read_jobs(path, "f").items()} == {"a": 1, "b": 3, "c": 4}


def test_a_job_that_fails_is_told(benchmark: Load, data: Path, tmp_path: Path) -> None:
    job = benchmark("tuned_layers_job")
    told = job.do(job.Job(kind="base", model="no", source=str(tmp_path / "absent")), options(tmp_path, data))
    assert "absent" in told["error"]
    assert not (tmp_path / "out").exists()


def test_of_a_passage_the_sentence_with_the_answer_is_read(
    benchmark: Load, data: Path, tmp_path: Path
) -> None:
    job, here = benchmark("tuned_layers_job"), benchmark("zoo_job")._HERE
    folder = tmp_path / "SQuAD"
    folder.mkdir()
    passage = "One cat sat. Two cats ran away! Did they?"
    for name in ("train", "dev"):
        answers = [
            {"text": "Two", "answer_start": passage.index("Two")},
            {"text": "One", "answer_start": 0},
            {"text": "they?", "answer_start": passage.index("they?")},
        ]
        asked = [{"id": f"{name}{k}", "question": "Who?", "answers": [one]} for k, one in enumerate(answers)]
        told = {
            "version": "1.1",
            "data": [{"title": "t", "paragraphs": [{"context": passage, "qas": asked}]}],
        }
        (folder / f"{name}-v1.1.json").write_text(json.dumps(told))
    here["task", "squad"] = mt.task("squad", data=folder)
    change = benchmark("tuned_layers_change")
    found = change.inside_texts(
        job.Job(kind="task", model="m", source="m", what="squad"), options(tmp_path, data)
    )
    assert [one.pair for one in found] == ["Two cats ran away!", "One cat sat.", "Did they?"]
    asked_of = here["task", "squad"].split("validation")
    assert [one.group for one in found] == [item.group for item in asked_of]
    assert len({one.group for one in found}) == 1, "questions about one passage are not independent"
    nothing = SimpleNamespace(evaluation=SimpleNamespace(baseline={"span_f1": 0.0}))
    first = job.guess_of(here["task", "squad"], nothing)
    # One of three words is the answer to one of three questions.
    assert first >= 0.5 / 3, "who always answers with the first sentence has some of them half right"


def test_a_mean_over_one_layer_is_the_paired_comparison(benchmark: Load) -> None:
    probes = benchmark("tuned_layers_probes")
    rng = np.random.default_rng(0)
    targets = rng.integers(3, size=60)
    ids, groups = [str(k) for k in range(60)], [k // 4 for k in range(60)]

    def drawn(right: float, seeds: int) -> Probed:
        answers = []
        for _ in range(2):
            noise = rng.integers(3, size=(seeds, 60))
            given = np.where(rng.random((seeds, 60)) < right, targets, noise)
            answers.append(
                Answers(
                    ids=ids,
                    targets=targets,
                    predictions=list(given),
                    groups=groups,
                    seeds=tuple(range(seeds)),
                )
            )
        return Probed(answers=tuple(answers), score=find_score("accuracy"), labels=("a", "b", "c"))

    one, other = drawn(0.8, 3), drawn(0.6, 3)
    oracle = compare_scores("accuracy", one.answers[1], other.answers[1], ("a", "b", "c"), pair_seeds=True)
    found = probes.mean_difference(one, other, [1])
    assert oracle.interval is not None
    assert found["value"] == pytest.approx(oracle.difference)
    assert found["low"] == pytest.approx(oracle.interval.low)
    assert found["high"] == pytest.approx(oracle.interval.high)
    both = [probes.mean_difference(one, other, [layer])["value"] for layer in (0, 1)]
    assert probes.mean_difference(one, other)["value"] == pytest.approx(np.mean(both))


def test_agreement_changes_by_the_difference_of_both(benchmark: Load) -> None:
    claims = benchmark("tuned_layers_claims")
    rng = np.random.default_rng(1)
    reads = np.linspace(0, 1, 6) + 0.02 * rng.normal(size=(4, 6))
    small, large = reads[:3] + 0.01 * rng.normal(size=(3, 6)), rng.normal(size=(3, 6))
    found = claims.closer(reads, small, large)
    oracle = curve_agreement(reads, small).value - curve_agreement(reads, large).value
    assert found.value == pytest.approx(oracle)
    assert found.low <= found.value <= found.high
    failed = np.array(small)
    failed[0, 2] = np.nan
    assert claims.closer(reads, failed, large).value == claims.closer(reads, small[1:], large).value
    assert np.isnan(claims.closer(reads, failed[:1], large).value), "no seed is whole"


def test_the_share_of_the_upper_third_has_an_interval(checkpoint: str, data: Path, tmp_path: Path) -> None:
    base, other = mt.load(checkpoint), mt.load(checkpoint, random_init=True, seed=3, name="other")
    on = str(data / "UD_English-EWT" / "en_ewt-ud-dev.conllu")
    found = mt.change(base, other, on, random_baselines=0, measures=["debiased_cka"], store=tmp_path)
    told = found.more["change"]["debiased_cka"]
    curve = next(one for one in found.curves if one.name == "debiased_cka: base to tuned")
    values = np.minimum(curve.values, 1)
    assert told["top_share"]["value"] == pytest.approx(change_profile(values).top_third, abs=1e-6)
    assert told["top_share"]["low"] < told["top_share"]["value"] < told["top_share"]["high"]


def near(value: float, reach: float = 0.01) -> dict[str, float]:
    return {"value": value, "low": value - reach, "high": value + reach}


def tuned(
    task: str,
    *,
    last: float,
    mean: float,
    share: float,
    probe: float,
    domain: float,
    score: float,
    top: float = 0.0,
    middle: float = 0.7,
) -> Any:
    ends = {"last": near(last), "middle": near(middle), "top_share": near(share)}
    measures = {name: {**ends, "mean": {"tuned": near(mean)}} for name in ("rsa", "debiased_cka")}
    average = {name: {"difference": near(domain)} for name in measures}
    found = {
        "job": {"kind": "task", "model": "m", "what": task},
        "depth": 6,
        "tuned": {"guess": 0.3, "mean": near(score)},
        "change": {"measures": measures},
        "probe": {"upos": {"mean": near(probe, 0.001), "top": near(top, 0.001), "points": 100.0}},
    }
    return found if task == "ewt-parsing" else {**found, "domains": {"average": average}}


def documents(middle: float = 0.7, **changes: Any) -> list[Any]:
    """What a model would say that is as published; changes are of the pair task, but for the middle layer."""
    pair = {"last": 0.5, "mean": 0.9, "share": 0.8, "probe": 0.0, "domain": 0.1, "score": 0.7}
    parsing = {"last": 0.3, "mean": 0.6, "share": 0.45, "probe": 0.0, "domain": 0.0, "score": 0.7}
    return [tuned("stsb", **(pair | changes)), tuned("ewt-parsing", **parsing, middle=middle)]


@pytest.mark.parametrize(
    ("changes", "claim", "verdict"),
    [
        ({}, "M1", "holds"),
        ({"last": 0.9}, "M1", "does not hold"),
        ({"probe": -0.1}, "M1", "does not hold"),
        ({"probe": -0.02}, "M1", "inconclusive"),
        ({"top": -0.06}, "M1", "does not hold"),  # what the upper layers lose is not hidden by the others
        ({"probe": -0.0212}, "M1", "inconclusive"),  # wholly beyond, but one of six
        ({}, "M2", "holds"),
        ({"share": 0.2}, "M2", "does not hold"),
        ({"share": 0.72}, "M2", "inconclusive"),  # .585 with parsing, where equal steps have .587
        ({}, "M3", "holds"),
        ({"middle": 0.99}, "M3", "does not hold"),  # only the top of the model is changed
        ({"mean": 0.5}, "M3", "does not hold"),
        ({"share": 0.45}, "M3", "inconclusive"),
        ({}, "M4", "holds"),
        ({"domain": -0.1}, "M4", "does not hold"),
        ({"domain": 0.0}, "M4", "inconclusive"),
        ({"score": 0.3}, "M3", "inconclusive"),
        ({"score": 0.3}, "M4", "inconclusive"),
    ],
)
def test_claims_can_come_out_any_way(benchmark: Load, changes: Any, claim: str, verdict: str) -> None:
    found = [
        one for one in benchmark("tuned_layers_claims").claims(documents(**changes)) if one.name == claim
    ]
    assert [one.verdict for one in found] == [verdict, verdict]
    if claim == "M1" and verdict == "does not hold":
        assert sorted(found[0].by_group.values()) == ["does not hold", "holds"], "what fails is told apart"
    if "score" in changes:
        assert found[0].parts == (), "a task that was not learned is left out"
        assert "learned" in found[0].why


@pytest.mark.parametrize(
    ("turn", "verdict", "low"),
    [(False, "holds", 0.6), (True, "does not hold", 0.6), (False, "inconclusive", 0.4)],
)
def test_the_claim_about_few_examples(benchmark: Load, turn: bool, verdict: str, low: float) -> None:
    reads = [[0.5, 0.6, 0.7, 0.8], [0.5, 0.61, 0.7, 0.81], [0.5, 0.62, 0.7, 0.8]]
    like, unlike = [[0.5, *row] for row in reads], [[0.5, 0.8, 0.7, 0.6, at] for at in (0.5, 0.53, 0.55)]
    given: list[Any] = [
        {
            "job": {"kind": "reads", "model": "m"},
            "curves": {"base": {"published": reads, "converged": reads[:1]}},
        }
    ]
    for size, rows in ((500, unlike if turn else like), (5000, like if turn else unlike)):
        runs = [{"scores": row, "low": low} for row in rows]
        told = {"kind": "redrawn", "model": "m", "what": "library", "size": size}
        given.append({"job": told, "curves": {"guess": 0.5, "runs": runs}})
    found = [one for one in benchmark("tuned_layers_claims").claims(given) if one.name == "T"]
    assert [one.verdict for one in found] == [verdict, verdict]
    assert ("not learned from 500, 5,000 examples" in found[0].why) == (low < 0.5)
