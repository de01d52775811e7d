"""Does what leaves load with stock libraries, answer the same, and carry its evidence?"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

import tiny
from microtome.context import Context
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.experiments.tuning.pruning import prune
from microtome.pruning.exporting import RECORD
from microtome.tasks.task import Item, Task
from microtome.training.cut_store import cut_answers
from microtome.training.evaluating import evaluate
from microtome.training.inputs import collate, encode
from microtome.training.models.modeling import build
from microtome.training.tuned import Tuned
from pruning.idle import task_with, texts

LABELS = ("no", "yes", "maybe")
ANY = 99.9  # a margin that every cut keeps


def labeled(count: int = 40) -> Task:
    items = tuple(Item(id=str(i), texts=(text,), target=i % 3) for i, text in enumerate(texts(count)))
    return task_with("classification", {"validation": items, "train": items}, LABELS)


def named() -> dict[str, Any]:
    return {
        "id2label": dict(enumerate(LABELS)),
        "label2id": {name: number for number, name in enumerate(LABELS)},
        "pad_token_id": 0,
    }


def with_head(encoder: Any, task: Task) -> Any:
    """The encoder with the head of the library, drawn."""
    model = build(encoder, task, "stock")
    return type(encoder)(
        name=encoder.name,
        family=encoder.family,
        model=model.net,
        tokenizer=encoder.tokenizer,
        source=encoder.source,
    )


@pytest.mark.parametrize("model_type", tiny.CONFIGS)
def test_stock_transformers_give_the_same_logits(model_type: str, checkpoint_of: Any, tmp_path: Path) -> None:
    task = labeled()
    encoder = load(checkpoint_of(model_type))
    if build(encoder, task, "stock").reader is not None:  # pyright: ignore[reportArgumentType]
        pytest.skip("the library has no classifier of this family")
    found = prune(with_head(encoder, task), task, ANY, speed=False, store=tmp_path / "shelf")
    assert found.certified
    assert len(found.kept) == 1
    place = found.export(tmp_path / "out")
    loaded: Any = transformers.AutoModelForSequenceClassification.from_pretrained(place).eval()
    assert loaded.config.num_hidden_layers == 1
    assert found.model is not None
    features = encode(task.split("validation").items[:6], task, found.whole.encoder.tokenizer, longest=32)
    batch = collate(features)
    with torch.inference_mode():
        ours = found.model(batch)
        inputs = found.model._inputs(batch)
        theirs = loaded(**inputs, **found.model.family.arguments).logits
    assert float((ours - theirs).abs().max()) <= 1e-5
    tokenizer = transformers.AutoTokenizer.from_pretrained(place)
    text = task.split("validation").items[0].texts[0]
    assert tokenizer(text)["input_ids"] == list(features[0].tokens[0].ids)


@pytest.fixture(scope="module")
def pruned(classifier: Path, solved: Callable[..., Task], tmp_path_factory: pytest.TempPathFactory) -> Any:
    return prune(
        classifier, solved(200), 8.0, store=tmp_path_factory.mktemp("shelf"), command="microtome prune it"
    )


def test_the_card_and_the_record_carry_the_evidence(pruned: Any, tmp_path: Path) -> None:
    place = pruned.export(tmp_path / "deep" / "out")
    card = (place / "README.md").read_text()
    assert card.startswith("---\nlibrary_name: transformers\n")
    for words in (
        "margin 8 points, declared before any score of the examples that certify was seen",
        "100 examples of validation",
        "never used to choose",
        "| parameters |",
        "microtome prune it",
        "Test: exact unconditional test of paired shares",
        pruned.findings[0],
    ):
        assert words in card
    record = json.loads((place / RECORD).read_text())
    assert record["format"] == "microtome/prune/1"
    assert record["kept"] == list(pruned.kept)
    assert record["sequence"][-1]["p"] == pytest.approx(pruned.steps[-1].found.p)
    assert record["speed"]["parameters"][0] > record["speed"]["parameters"][1]
    assert not list(tmp_path.rglob(".*"))  # nothing half-made is left


def test_the_exported_model_scores_what_was_promised(
    pruned: Any, solved: Callable[..., Task], tmp_path: Path
) -> None:
    place = pruned.export(tmp_path / "out")
    whole = evaluate(pruned.whole.folder, solved(200))
    small = evaluate(place, solved(200))
    lost = 100 * (whole.score.value - small.score.value)
    halves = [pruned.comparison.drop, pruned.steps[-1].candidate.cost]
    assert lost == pytest.approx(np.mean(halves), abs=8)
    assert len(small.predictions) == 200


def test_only_an_earlier_export_is_replaced(pruned: Any, tmp_path: Path) -> None:
    place = pruned.export(tmp_path / "out")
    record = json.loads((place / RECORD).read_text())
    assert {RECORD, *record["files"]} == {path.name for path in place.iterdir()}
    (place / "notes.txt").write_text("mine")
    record["files"].append("stale.safetensors")
    (place / RECORD).write_text(json.dumps(record))
    (place / "stale.safetensors").write_text("old")
    pruned.export(place)
    assert not (place / "stale.safetensors").exists()
    assert (place / "notes.txt").read_text() == "mine"
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.txt").write_text("mine")
    with pytest.raises(InputError, match=r"must hold no file of others .* but .*other holds thesis\.txt"):
        pruned.export(other)
    assert (other / "thesis.txt").read_text() == "mine"
    with pytest.raises(InputError, match=r"but got .*txt: it is a file"):
        pruned.export(other / "thesis.txt")


def test_a_head_of_our_own_lies_beside(tmp_path: Path, checkpoint_of: Any) -> None:
    from microtome.training.finetuning import finetune
    from microtome.training.heads.head import Head

    task = labeled()
    tuned: Tuned = finetune(
        load(checkpoint_of("electra")),
        task,
        "wu2020",
        head=Head(reads="mean", dense=1),
        steps=2,
        batch=8,
        longest=32,
        store=tmp_path / "shelf",
    )
    found = prune(tuned, task, ANY, speed=False, store=tmp_path / "shelf")
    place = found.export(tmp_path / "out")
    assert (place / "head.safetensors").is_file()
    card = (place / "README.md").read_text()
    assert "would draw another head at random" in card
    assert "microtome evaluate FOLDER" in card
    again = evaluate(place, task)
    assert found.comparison is not None
    assert len(again.predictions) == 40
    with pytest.raises(InputError, match=r"must have a head of the library, but .* has a head of its own"):
        prune(tuned, task, ANY, recover=1, store=tmp_path / "shelf")


def test_a_head_beside_the_model_leaves_as_the_librarys_where_that_is_the_same(
    tmp_path: Path, checkpoint_of: Any
) -> None:
    from microtome.training.finetuning import finetune
    from microtome.training.heads.head import Head

    task = labeled()
    tuned = finetune(
        load(checkpoint_of("roberta")),
        task,
        "wu2020",
        head=Head(reads="pooler", dense=0, pooler="fresh"),
        steps=2,
        batch=8,
        longest=32,
        store=tmp_path / "shelf",
    )
    found = prune(tuned, task, ANY, speed=False, store=tmp_path / "shelf")
    place = found.export(tmp_path / "out")
    net, report = transformers.AutoModelForSequenceClassification.from_pretrained(
        place, output_loading_info=True
    )
    assert not report["missing_keys"]
    assert found.model is not None
    batch = collate(encode(task.split("validation").items[:6], task, found.whole.encoder.tokenizer))
    with torch.inference_mode():
        theirs = net.eval()(**found.model._inputs(batch)).logits
        assert float((found.model(batch) - theirs).abs().max()) <= 1e-5
    assert "## The head" not in (place / "README.md").read_text()


def sentence_encoder(folder: Path, pooling: str = "mean", inside: str = "") -> Path:
    """A tiny sentence encoder in the form of sentence-transformers."""
    tiny.save_checkpoint(folder / inside, "bert")
    kinds = [("Transformer", inside), ("Pooling", "1_Pooling"), ("Normalize", "2_Normalize")]
    modules = [
        {"idx": n, "name": str(n), "path": path, "type": f"sentence_transformers.models.{kind}"}
        for n, (kind, path) in enumerate(kinds)
    ]
    (folder / "modules.json").write_text(json.dumps(modules))
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text(
        json.dumps({"word_embedding_dimension": 32, f"pooling_mode_{pooling}_tokens": True})
    )
    (folder / inside / "sentence_bert_config.json").write_text('{"max_seq_length": 32}')
    (folder / "README.md").write_text("the old card")
    return folder


def pairs(count: int = 60) -> Task:
    drawn = texts(2 * count)
    items = tuple(
        Item(id=str(i), texts=(drawn[2 * i], drawn[2 * i + 1]), target=float(i % 5)) for i in range(count)
    )
    return task_with("regression", {"validation": items})


@pytest.mark.parametrize("inside", ["", "0_Transformer"])
def test_a_sentence_encoder_stays_one(inside: str, tmp_path: Path) -> None:
    folder = sentence_encoder(tmp_path / "sentence", inside=inside)
    task = pairs()
    found = prune(folder, task, 150.0, store=tmp_path / "shelf")
    assert found.certified
    assert found.score == "pearson"
    place = found.export(tmp_path / "out")
    for name in ("modules.json", "1_Pooling/config.json", f"{inside}/sentence_bert_config.json".strip("/")):
        assert (place / name).read_bytes() == (folder / name).read_bytes()
    assert "library_name: sentence-transformers" in (place / "README.md").read_text()
    assert (place / inside / "tokenizer.json").is_file()

    # Embeddings by hand with the library alone, and their cosines against what was certified.
    loaded: Any = transformers.AutoModel.from_pretrained(place / inside).eval()
    assert loaded.config.num_hidden_layers == len(found.kept)
    tokenizer: Any = transformers.PreTrainedTokenizerFast(
        tokenizer_file=str(place / inside / "tokenizer.json"), pad_token="[PAD]"
    )

    def embed(text: str) -> torch.Tensor:
        given = tokenizer(text, return_tensors="pt", truncation=True, max_length=32)
        with torch.inference_mode():
            states = loaded(**given).last_hidden_state[0]
        return torch.nn.functional.normalize(states.mean(0), dim=0)

    split = task.split("validation")
    (ours,) = cut_answers(found.whole, task, split, [found.kept], context=Context(store=tmp_path / "shelf"))
    theirs = [float(embed(item.texts[0]) @ embed(item.texts[1])) for item in split]
    np.testing.assert_allclose(ours, theirs, atol=1e-5)
    again: Any = load(place)
    assert again.source.facts["pooling"] == "mean"
    assert again.depth == len(found.kept)


def test_what_a_sentence_encoder_cannot_be_judged_by(tmp_path: Path) -> None:
    folder = sentence_encoder(tmp_path / "sentence")
    with pytest.raises(InputError, match="must be judged by a task of similar texts"):
        prune(folder, labeled())
    alone = tuple(Item(id=str(i), texts=(text,), target=0.5 * i) for i, text in enumerate(texts(20)))
    with pytest.raises(InputError, match=r"must be judged by pairs of texts, but '.*' of validation has 1"):
        prune(folder, task_with("regression", {"validation": alone}), store=tmp_path / "shelf")
    with pytest.raises(InputError, match="must have a head of the library, but sentence has a sentence enc"):
        prune(folder, pairs(), recover=2)
    modules = json.loads((folder / "modules.json").read_text())
    modules.append({"idx": 3, "name": "3", "path": "3_Dense", "type": "sentence_transformers.models.Dense"})
    (folder / "modules.json").write_text(json.dumps(modules))
    with pytest.raises(InputError, match=r"must end with its pooling to be cut, but .* goes on with Dense"):
        prune(folder, pairs())
    shutil.rmtree(folder)
