"""Is a fine-tuning repeated to the bit, taken up after a kill, and told truthfully?"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import microtome as mt
import tiny
from microtome.context import Context
from microtome.encoders.encoder import digest_weights
from microtome.errors import InputError, UnknownNameError
from microtome.experiments.tuning.finetuning import FineTuning
from microtome.randomness import generator
from microtome.tasks.generated.table import GENERATED
from microtome.tasks.subset import subset
from microtome.tasks.task import Item, Split, Task
from microtome.training.optimization.progress import STATE
from microtome.training.tuned import TunedRuns, over_seeds

SIZES = {"train": 96, "validation": 40, "test": 8, "held_out": 8}
QUICK: dict[str, Any] = {"steps": 6, "batch": 8, "rate": 1e-3, "longest": 32}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(tiny.save_checkpoint(tmp_path_factory.mktemp("model") / "bert", "bert"))


@pytest.fixture(scope="module")
def task() -> Any:
    return GENERATED["polarity"](sizes=SIZES)


def tuned(folder: Path, task: Any, store: Path, **options: Any) -> Any:
    return mt.finetune(mt.load(folder), task, "wu2020", store=store, **{**QUICK, **options})


def opened(folder: Path) -> Any:
    return mt.load(folder)


def weights(run: Any) -> str:
    return digest_weights(run.model)


def test_the_same_seed_gives_the_same_bits_and_another_one_others(
    folder: Path, task: Any, tmp_path: Path
) -> None:
    one, two = (tuned(folder, task, tmp_path / place, seed=3) for place in ("a", "b"))
    assert weights(one) == weights(two)
    assert one.predictions == two.predictions
    assert one.address == two.address
    others = [
        tuned(folder, task, tmp_path / "c", seed=3, seeds={name: 4}, train_size=80)
        for name in ("init", "order", "subset")
    ]
    assert len({weights(run) for run in (one, *others)}) == 4


@pytest.mark.usefixtures("heeding")
def test_an_interrupted_run_keeps_what_it_had_learned(folder: Path, task: Any, tmp_path: Path) -> None:
    """An interrupt in the middle of an update is heard after it: no state is written of half an update."""
    whole = tuned(folder, task, tmp_path / "whole", state_seconds=1e9, checkpoints=[4])
    before = signal.getsignal(signal.SIGINT)
    seen = []

    def press(module: Any, *_: Any) -> None:
        if module.training:
            seen.append(module)
            if len(seen) == 4:
                os.kill(os.getpid(), signal.SIGINT)

    hook = torch.nn.modules.module.register_module_forward_hook(
        lambda module, *_: press(module) if type(module).__name__ == "BertForSequenceClassification" else None
    )
    try:
        with pytest.raises(KeyboardInterrupt):
            tuned(folder, task, tmp_path / "parts", state_seconds=1e9, checkpoints=[4])
    finally:
        hook.remove()
    assert len(seen) == 4
    assert signal.getsignal(signal.SIGINT) is before
    again = tuned(folder, task, tmp_path / "parts", state_seconds=1e9, checkpoints=[4])
    assert again.course["resumed"] == 4
    assert weights(again) == weights(whole)
    assert again.course["losses"] == whole.course["losses"]
    assert again.predictions == whole.predictions
    assert len(again.checkpoints) == len(whole.checkpoints) == 1


def test_a_run_that_is_known_is_not_made_again(folder: Path, task: Any, tmp_path: Path) -> None:
    first = tuned(folder, task, tmp_path)
    made = (first.folder / "model.safetensors").stat().st_mtime_ns
    again = tuned(folder, task, tmp_path)
    assert again.folder == first.folder
    assert (again.folder / "model.safetensors").stat().st_mtime_ns == made
    assert again.predictions == first.predictions
    assert again.score == first.score


def test_the_encoder_stays_as_it_is(folder: Path, task: Any, tmp_path: Path) -> None:
    encoder = mt.load(folder)
    before = encoder.digest
    run = mt.finetune(encoder, task, "wu2020", store=tmp_path, **QUICK)
    assert encoder.digest == before
    assert run.encoder.digest != before
    assert run.encoder.name == "bert-polarity"


def test_the_checkpoint_loads_anywhere_and_predicts_the_same(folder: Path, task: Any, tmp_path: Path) -> None:
    run = tuned(folder, task, tmp_path)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(run.folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(run.folder)
    assert model.config.id2label == dict(enumerate(task.labels))
    texts = [item.texts[0] for item in task.split("validation")]
    with torch.no_grad():
        logits = [
            model(**tokenizer(text, return_tensors="pt", truncation=True, max_length=32)).logits[0]
            for text in texts
        ]
    assert [int(one.argmax()) for one in logits] == list(run.predictions)
    assert mt.evaluate(run.folder, task).predictions == run.predictions
    assert mt.evaluate(run, task).score == run.score


def test_jiants_head_is_read_back(folder: Path, task: Any, tmp_path: Path) -> None:
    run = mt.finetune(mt.load(folder), task, "phang2021", store=tmp_path, **QUICK)
    assert (run.folder / "head.json").is_file()
    assert mt.evaluate(run.folder, task).predictions == run.predictions
    transformers.AutoModel.from_pretrained(run.folder)


def test_accumulation_changes_nothing_but_rounding(task: Any, tmp_path: Path) -> None:
    still: Any = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    folder = Path(tiny.save_checkpoint(tmp_path / "still", "bert", **still))
    whole, parts = (tuned(folder, task, tmp_path / "s", accumulate=count, epsilon=1e-3) for count in (1, 4))
    one, two = (run.model.state_dict() for run in (whole, parts))
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-6


def spans_task() -> Task:
    items = tuple(
        Item(
            id=str(k),
            texts=("who sleeps?", " ".join(["the cat sits on the mat and a reader sleeps"] * (2 + k % 4))),
            target=((4, "cat"),),
        )
        for k in range(24)
    )
    split = Split(name="train", items=items)
    return Task(
        name="spans",
        title="Spans",
        kind="span",
        scores=("exact_match", "span_f1"),
        main=("span_f1",),
        readers={"train": lambda: split, "validation": lambda: split},
        source="memory",
    )


def test_windows_are_the_same_when_a_model_is_evaluated_later(folder: Path, tmp_path: Path) -> None:
    asked = spans_task()
    run = tuned(
        folder, asked, tmp_path, steps=None, epochs=2, longest_span=24, stride=9, checkpoints="epochs"
    )
    assert mt.evaluate(run.folder, asked).predictions == run.predictions
    assert mt.evaluate(run, asked).predictions == run.predictions
    # An epoch is a pass over all windows, of which there are more than examples.
    assert run.course["planned"] > 6
    assert len(run.checkpoints) == 2
    assert mt.evaluate(run.checkpoints[1], asked).predictions == run.predictions


def test_parts_weigh_as_much_as_they_have_words(tmp_path: Path) -> None:
    still: Any = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    folder = Path(tiny.save_checkpoint(tmp_path / "still", "bert", **still))
    items = tuple(
        Item(id=str(k), words=("the", "cat", "sleeps")[: 1 + k % 3], target=(0, 1, 1)[: 1 + k % 3])
        for k in range(24)
    )
    split = Split(name="train", items=items)
    asked = Task(
        name="tags",
        title="Tags",
        kind="tagging",
        labels=("a", "b"),
        scores=("tag_accuracy",),
        main=("tag_accuracy",),
        readers={"train": lambda: split, "validation": lambda: split},
        source="memory",
    )
    whole, parts = (tuned(folder, asked, tmp_path / "s", accumulate=count, epsilon=1e-3) for count in (1, 4))
    one, two = (run.model.state_dict() for run in (whole, parts))
    assert max(float((one[name] - two[name]).abs().max()) for name in one) < 1e-6


def test_the_heads_dropout_is_the_recipes(folder: Path, task: Any, tmp_path: Path) -> None:
    little, much = (tuned(folder, task, tmp_path, dropout=share) for share in (0.1, 0.9))
    assert weights(little) != weights(much)


def words_task(count: int) -> Task:
    """Whether a text speaks of cats, in words that tiny tokenizers know."""
    rng = generator(0, "words_task")
    known = ["mat", "reader", "long", "books", "knows", "short", "one", "sleeps", "every", "the"]

    def made(name: str, size: int) -> Split:
        items = []
        for place in range(size):
            words = [known[i] for i in rng.integers(len(known), size=6)]
            label = int(rng.integers(2))
            words[int(rng.integers(6))] = "cat" if label else "tea"
            items.append(Item(id=f"{name}-{place}", texts=(" ".join(words),), target=label))
        return Split(name=name, items=tuple(items))

    splits = {name: made(name, size) for name, size in (("train", count), ("validation", 200))}
    return Task(
        name="cats",
        title="Cats",
        kind="classification",
        labels=("tea", "cat"),
        scores=("accuracy", "mcc"),
        main=("accuracy",),
        readers={name: partial(splits.__getitem__, name) for name in splits},
        source="memory",
    )


def test_a_guess_is_that_of_the_whole_training_split(folder: Path, tmp_path: Path) -> None:
    """All models of a task are held against one guess, whatever part of the split they were trained on."""
    # Two examples, one of each label: equals, of which the smaller number is taken.
    counted = (np.bincount([item.target for item in words_task(n).split("train")]) for n in range(41, 61))
    task = words_task(next(n for n, (few, many) in enumerate(counted, 41) if many > few))
    assert sorted(item.target for item in subset(task.split("train"), 2, seed=0)) == [0, 1]
    run = tuned(folder, task, tmp_path, train_size=2, steps=1)
    shares = [item.target == 1 for item in task.split("validation")]
    assert run.evaluation.baseline["accuracy"] == pytest.approx(np.mean(shares))
    assert mt.evaluate(run.folder, task).baseline == run.evaluation.baseline
    told = TunedRuns(runs=(run,)).document()["runs"][0]["evaluation"]
    assert told["baseline"] == dict(run.evaluation.baseline)


def test_it_learns_what_is_easy(folder: Path, tmp_path: Path) -> None:
    run = tuned(folder, words_task(800), tmp_path, steps=150, batch=16, rate=3e-3)
    assert run.score.value > 0.95
    assert run.score.low is not None
    assert run.evaluation.baseline["accuracy"] == pytest.approx(0.5, abs=0.1)
    assert run.failure is None
    losses = [loss for _, loss in run.course["losses"]]
    assert losses[-1] < losses[0]
    constant = tuned(folder, words_task(800), tmp_path, steps=1, rate=1e-9)
    test = run.evaluation.against(constant.evaluation)
    assert test.difference > 0.3
    assert test.p < 1e-6


def test_a_training_that_diverges_is_told(folder: Path, task: Any, tmp_path: Path) -> None:
    run = tuned(folder, task, tmp_path, rate=1e30, steps=20, clip=None)
    assert run.failure is not None
    assert run.failure.startswith(("diverged: the loss was no number at update", "collapsed"))
    mean = over_seeds([run])
    assert mean.reason == "all 1 runs failed"
    assert np.isnan(mean.value)


def test_checkpoints_along_the_way(folder: Path, task: Any, tmp_path: Path) -> None:
    run = tuned(folder, task, tmp_path, checkpoints=[2, 6])
    assert len(run.checkpoints) == 2
    early, last = (opened(place) for place in run.checkpoints)
    assert digest_weights(last.base) == digest_weights(run.encoder.base)
    assert digest_weights(early.base) != digest_weights(last.base)
    lines = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    scores = {line["update"]: line["score"] for line in lines if "score" in line}
    assert scores[6] == run.score.value
    assert mt.evaluate(run.checkpoints[0], task, longest=32).score.value == scores[2]
    epochs = tuned(folder, task, tmp_path, checkpoints="epochs", steps=None, epochs=2)
    assert len(epochs.checkpoints) == 2


@pytest.mark.parametrize("method", ["head", "bitfit", "lora"])
def test_other_ways_of_tuning(method: str, folder: Path, task: Any, tmp_path: Path) -> None:
    run = tuned(folder, task, tmp_path, method=method)
    base, before = run.encoder.base.state_dict(), opened(folder).base.state_dict()
    changed = {name for name in base if not torch.equal(base[name], before[name])}
    changed = {name for name in changed if not name.startswith("pooler")}
    if method == "head":
        assert not changed
    elif method == "bitfit":
        assert changed
        assert all(name.endswith("bias") for name in changed)
    else:
        assert changed
        assert all("query" in name or "value" in name for name in changed)
    assert mt.evaluate(run.folder, task).predictions == run.predictions


KILLED = """
import sys
import torch
import microtome as mt
torch.set_num_threads(1)
from microtome.tasks.generated.table import GENERATED
task = GENERATED["polarity"](sizes={"train": 96, "validation": 40, "test": 8, "held_out": 8})
run = mt.finetune(mt.load(sys.argv[1]), task, "wu2020", store=sys.argv[2], steps=400, batch=8, rate=1e-3,
                  longest=32, state_seconds=0.05)
print("finished", run.course["resumed"])
"""


@pytest.mark.slow
def test_killed_and_taken_up_it_ends_with_the_same_weights(folder: Path, task: Any, tmp_path: Path) -> None:
    whole = tuned(folder, task, tmp_path / "whole", steps=400)
    command = [sys.executable, "-c", KILLED, str(folder), str(tmp_path / "shelf")]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while not list((tmp_path / "shelf").glob(f"**/{STATE}")):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)
    time.sleep(0.2)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    rest = tuned(folder, task, tmp_path / "shelf", steps=400)
    assert rest.course["resumed"] > 0
    assert weights(rest) == weights(whole)
    assert rest.course["losses"] == whole.course["losses"]
    assert rest.predictions == whole.predictions
    assert not list(rest.folder.glob(f"{STATE}*"))


@pytest.mark.slow
def test_seeds_side_by_side_are_those_one_after_the_other(folder: Path, tmp_path: Path) -> None:
    given: dict[str, Any] = {"recipe": "wu2020", "train_size": 64}
    lines = {"train": 96, "validation": 20}
    (tmp_path / "data").mkdir()
    for name, size in lines.items():
        rows = "".join(f"{'a cat runs' if k % 2 else 'the dogs sleep'} {k},{k % 2}\n" for k in range(size))
        (tmp_path / "data" / f"{name}.csv").write_text(f"text,label\n{rows}")
    given["column"] = {"text": "text", "label": "label"}
    given |= {"model": str(folder), "task": str(tmp_path / "data"), "seeds": (1, 2)}
    beside, after = (
        FineTuning(**given, changes=QUICK, at_once=count).execute(Context(store=tmp_path / str(count))).runs
        for count in (2, 1)
    )
    assert [weights(run) for run in beside] == [weights(run) for run in after]
    mean = over_seeds(after)
    assert mean.n == 20


def test_the_log_has_every_tenth_update(folder: Path, task: Any, tmp_path: Path) -> None:
    run = tuned(folder, task, tmp_path, steps=25)
    lines = [json.loads(line) for line in (run.folder / "log.jsonl").read_text().splitlines()]
    assert [line["update"] for line in lines] == [10, 20, 25]
    assert all(line["loss"] > 0 for line in lines)


def test_tensorboard_sees_the_same_losses(folder: Path, task: Any, tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    run = tuned(folder, task, tmp_path, steps=25, board=tmp_path / "board")
    events = EventAccumulator(str(tmp_path / "board"))
    events.Reload()
    shown = [(one.step, pytest.approx(one.value)) for one in events.Scalars("loss")]
    assert [tuple(one) for one in run.course["losses"]] == shown


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"seed": -1}, "seed must be a whole number of at least 0, but got -1."),
        ({"checkpoints": [9]}, "checkpoints must be updates between 1 and 6, but got 9."),
        ({"checkpoints": "sometimes"}, "checkpoints must be 'epochs' or numbers of updates"),
        ({"dtype": "int8"}, "dtype must be one of auto, float32, tf32, bfloat16, float16, but got 'int8'."),
        ({"dtype": "tf32"}, "dtype must be float32, bfloat16 or float16 on a CPU, but got 'tf32'."),
        ({"seeds": {"head": 3}}, "seeds must be for init, order and subset"),
    ],
)
def test_bad_requests(options: dict[str, Any], words: str, folder: Path, task: Any, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        tuned(folder, task, tmp_path, **options)
    assert words in str(caught.value)


def test_a_task_may_be_given_by_its_name(folder: Path, tmp_path: Path) -> None:
    options: dict[str, Any] = {"steps": 1, "train_size": 8, "store": tmp_path}
    by_name = mt.finetune(mt.load(folder), "polarity", **options)
    assert by_name.address == mt.finetune(mt.load(folder), mt.task("polarity"), **options).address
    with pytest.raises(UnknownNameError, match="task must be one of"):
        mt.finetune(mt.load(folder), "poetry", **options)
    wrong: Any = 3
    with pytest.raises(InputError, match=r"task must be a task of mt\.task or a path, but got 3"):
        mt.finetune(mt.load(folder), wrong, **options)


def test_unknown_names(folder: Path, task: Any, tmp_path: Path) -> None:
    with pytest.raises(UnknownNameError, match="recipe must be one of"):
        mt.finetune(mt.load(folder), task, "adam", store=tmp_path)
    with pytest.raises(UnknownNameError, match="method must be one of"):
        tuned(folder, task, tmp_path, method="soup")
    with pytest.raises(UnknownNameError, match="head must be one of"):
        tuned(folder, task, tmp_path, head="hydra")
