"""A study runs what the store does not have, tells what failed, and goes on where it was stopped."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import microtome as mt
import tiny
from microtome.cli import main
from microtome.errors import MicrotomeError
from microtome.store.shelf import Shelf
from microtome.studies.results import open_results


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    place = tmp_path_factory.mktemp("study")
    (place / "moods").mkdir()
    for split, size in (("train", 24), ("validation", 40)):
        lines = [f"{('a dog never runs', 'the cat sleeps')[k % 2]} {k},{'du'[k % 2]}\n" for k in range(size)]
        (place / "moods" / f"{split}.csv").write_text(f"words,mood\n{''.join(lines)}")
    return {
        "name": "tiny",
        "models": {"bert": str(tiny.save_checkpoint(place / "bert", "bert"))},
        "tasks": {"moods": {"task": str(place / "moods"), "column": {"text": "words", "label": "mood"}}},
        "finetune": {"seeds": [1, 2], "set": {"steps": 3, "batch": 8, "longest": 16}},
        "experiments": {"truncate": {"arms": ["untuned"]}, "skip": {}},
    }


@pytest.fixture(scope="module")
def store(table: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    store = tmp_path_factory.mktemp("shelf") / "s"
    outcome = mt.study(table).run(store)
    assert (outcome.done, outcome.before, outcome.failures) == (4, 0, {})
    return store


def test_a_second_run_computes_nothing(table: dict[str, Any], store: Path) -> None:
    before = Shelf(store).addresses()
    outcome = mt.study(table).run(store)
    assert (outcome.done, outcome.before) == (0, 4)
    assert Shelf(store).addresses() == before


def test_status_and_results(table: dict[str, Any], store: Path, tmp_path: Path) -> None:
    study = mt.study(table)
    assert study.status(store).counts["done"] == 4
    fresh = study.status(tmp_path / "new").counts
    assert (fresh["ready"], fresh["waiting"]) == (2, 2)
    results = study.results(store)
    assert [result.name for result in results] == [
        "finetune/bert/moods/seed-1",
        "finetune/bert/moods/seed-2",
        "truncate/bert/moods",
        "skip/bert/moods",
    ]
    truncation = results.one(table="truncate")
    assert truncation is not None
    assert truncation.content.curves[0].x == tuple(range(1, len(truncation.content.curves[0].x) + 1))
    assert len(results.select(table="finetune", seed=(1, 2))) == 2


def test_one_fine_tuning_feeds_all_experiments(table: dict[str, Any], store: Path) -> None:
    kinds = [entry.kind for entry in Shelf(store).entries()]
    assert kinds.count("finetune") == 2


def test_an_edited_study_keeps_what_is_still_asked_for(table: dict[str, Any], store: Path) -> None:
    edited = {**table, "experiments": {"skip": {}, "truncate": {"arms": ["untuned", "tuned"]}}}
    counts = mt.study(edited).status(store).counts
    assert (counts["done"], counts["ready"]) == (3, 1)


def test_failures_are_listed_and_the_rest_goes_on(table: dict[str, Any], tmp_path: Path) -> None:
    # One label is too few, which is not found in the first line.
    single = {"task": str(tmp_path / "single.csv"), "column": {"text": "a", "label": "b"}}
    (tmp_path / "single.csv").write_text("a,b\n" + "a dog,yes\n" * 40)
    tasks, notes = {**table["tasks"], "empty": single}, []
    outcome = mt.study({**table, "tasks": tasks}).run(tmp_path / "s", note=notes.append)
    assert outcome.done == 4
    results = [f"finetune/bert/empty/seed-{k}" for k in (1, 2)] + ["skip/bert/empty", "truncate/bert/empty"]
    assert sorted(outcome.failures) == results
    status = mt.study({**table, "tasks": tasks}).status(tmp_path / "s")
    assert status.counts["failed"] == 4
    # They were not started, and the reason was said before the others were.
    (note,) = notes
    assert note.startswith(
        "empty cannot be had, so that finetune/bert/empty/seed-1, finetune/bert/empty/seed-2,"
    )
    assert "must have two labels or more in 'b'" in note
    assert all("two labels or more" in message for message in outcome.failures.values())
    assert [record.attempts for record in Shelf(tmp_path / "s").failures().values()] == [1] * 4
    assert all("\n" not in entry.message for entry in status.jobs)


def test_a_model_that_is_not_there_fails_alone(table: dict[str, Any], tmp_path: Path) -> None:
    models = {**table["models"], "other": "nobody/nothing"}
    study = mt.study({**table, "models": models, "experiments": {"truncate": {"arms": ["untuned"]}}})
    with pytest.warns(UserWarning, match="other cannot be had, so that finetune/other/moods/seed-1, "):
        outcome = study.run(tmp_path / "s")
    assert outcome.done == 3
    assert list(outcome.failures) == ["finetune/other/moods/seed-1", "finetune/other/moods/seed-2"]
    assert all("nobody/nothing" in message for message in outcome.failures.values())
    assert outcome.left_out == ("truncate/other/moods",)


def test_what_fails_in_a_call_is_tried_twice(table: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "config.json").write_text("{}")
    models = {**table["models"], "other": str(tmp_path / "broken")}
    outcome = mt.study({**table, "models": models, "experiments": {}}).run(tmp_path / "s")
    assert (outcome.done, len(outcome.failures)) == (2, 2)
    assert [record.attempts for record in Shelf(tmp_path / "s").failures().values()] == [2, 2]


def test_a_study_that_needs_more_than_there_is_is_refused_before_it_runs(
    table: dict[str, Any], tmp_path: Path
) -> None:
    study = mt.study({**table, "resources": {"skip": {"memory": "900TB"}}})
    with pytest.raises(
        MicrotomeError, match=r"must fit this machine, .* but it needs 1 CPUs, 0 GPUs and 900TB"
    ):
        study.run(tmp_path / "s", "processes")
    assert not Shelf(tmp_path / "s").addresses()


def test_status_tells_what_runs_elsewhere(table: dict[str, Any], tmp_path: Path) -> None:
    study = mt.study(table)
    job = study.status(tmp_path / "s").jobs[0].job
    with Shelf(tmp_path / "s").work(job.address, kind="result", specification={}):
        status = study.status(tmp_path / "s")
    assert [entry.job.name for entry in status.jobs if entry.state == "running"] == [job.name]
    assert status.document()["running"][0]["message"]


def test_a_store_of_another_version_is_refused(table: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text('{"format": "microtome/store/0"}')
    with pytest.raises(MicrotomeError, match="the format of the store"):
        mt.study(table).run(tmp_path)


def test_the_report_is_written_at_any_time(table: dict[str, Any], store: Path, tmp_path: Path) -> None:
    page = mt.study(table).report(tmp_path / "out", store)
    assert page.is_file()
    assert mt.open(tmp_path / "out" / "skip" / "bert" / "moods").experiment == "skipping"
    with pytest.raises(MicrotomeError, match="must have at least one result"):
        mt.study(table).report(tmp_path / "other", tmp_path / "new")
    # A result that is asked for no longer goes.
    mt.study({**table, "experiments": {"truncate": {"arms": ["untuned"]}}}).report(tmp_path / "out", store)
    assert not (tmp_path / "out" / "skip" / "bert" / "moods").exists()
    with pytest.raises(MicrotomeError, match="the study of the report in"):
        mt.study({**table, "name": "other"}).report(tmp_path / "out", store)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(MicrotomeError, match="new or empty folder"):
        mt.study(table).report(tmp_path / "mine", store)


def test_a_report_that_was_interrupted_is_written_again(
    table: dict[str, Any], store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("shutil.copyfile", interrupted)
        with pytest.raises(KeyboardInterrupt):
            mt.study(table).report(tmp_path / "out", store)
    assert mt.study(table).report(tmp_path / "out", store).is_file()


@pytest.mark.parametrize("folder", ["../mine", ".", "skip/../../mine", "link/mine", 3])
def test_a_report_removes_nothing_outside_of_it(
    folder: Any, table: dict[str, Any], store: Path, tmp_path: Path
) -> None:
    mt.study(table).report(tmp_path / "out", store)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "result.json").write_text("{}")
    (tmp_path / "out" / "link").symlink_to(tmp_path)
    index = json.loads((tmp_path / "out" / "study.json").read_text())
    index["results"][0]["folder"] = folder
    (tmp_path / "out" / "study.json").write_text(json.dumps(index))
    with pytest.raises(MicrotomeError, match=r"must be (below|as microtome)"):
        mt.study(table).report(tmp_path / "out", store)
    assert (tmp_path / "mine" / "result.json").is_file()


@pytest.mark.parametrize("change", [{"results": 3}, {"models": [[1]]}, {"name": None}, {"title": 3}])
def test_an_index_that_was_changed_is_refused(
    change: dict[str, Any], table: dict[str, Any], store: Path, tmp_path: Path
) -> None:
    mt.study(table).report(tmp_path / "out", store)
    index = json.loads((tmp_path / "out" / "study.json").read_text())
    (tmp_path / "out" / "study.json").write_text(json.dumps({**index, **change}))
    with pytest.raises(MicrotomeError, match="must be as microtome"):
        open_results(tmp_path / "out")


@pytest.mark.parametrize(
    ("method", "arguments", "words"),
    [
        ("plan", {"store": 3}, "store must be a path or None"),
        ("results", {"store": ""}, "store must not be empty"),
        ("run", {"on": 3}, "on must be a string"),
        ("run", {"context": 3}, "context must be a context or None"),
        ("run", {"workers": "x"}, "workers must be a whole number"),
        ("report", {"out": None}, "out must be a path"),
        ("report", {"out": "a" * 300}, "must be readable and writable"),
    ],
)
def test_bad_calls_are_refused_in_one_sentence(
    method: str, arguments: dict[str, Any], words: str, table: dict[str, Any], store: Path
) -> None:
    with pytest.raises(MicrotomeError, match=words):
        getattr(mt.study(table), method)(**{"store": store, **arguments})


def test_a_run_with_failures_ends_with_one_sentence(
    table: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "no-model").mkdir()
    (tmp_path / "no-model" / "config.json").write_text('{"model_type": "bert"}')
    text = f'models = {{ bad = "{tmp_path}/no-model" }}\ntasks = ["polarity"]\nfinetune = {{}}\n'
    (tmp_path / "mine.toml").write_text(text)
    assert main(["study", "run", str(tmp_path / "mine.toml"), "--store", str(tmp_path / "s")]) == 1
    said = capsys.readouterr().err.splitlines()
    assert said[-1].startswith("microtome: all results of mine must be computed, but 1 ")


def test_two_processes_give_the_same_results(table: dict[str, Any], store: Path, tmp_path: Path) -> None:
    study = mt.study(table)
    outcome = study.run(tmp_path / "s", "processes", workers=2)
    assert (outcome.done, outcome.failures) == (4, {})
    for one, other in zip(study.results(store), study.results(tmp_path / "s"), strict=True):
        assert one.name == other.name
        assert one.document.get("curves") == other.document.get("curves")
