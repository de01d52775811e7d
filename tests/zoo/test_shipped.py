"""Encoders that come with the package are found, listed and loaded by their names, wherever they lie."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file

import microtome as mt
from drawn_zoo import write_card
from microtome.cli import main
from microtome.encoders.encoder import digest_weights
from microtome.encoders.locations import WEIGHTS, weights_digest
from microtome.errors import InputError, MicrotomeError
from microtome.extraction.recording import describe
from microtome.zoo.designs import DESIGNS, find_design
from microtome.zoo.objectives import Learner
from microtome.zoo.shipped import save_encoder, shipped
from microtome.zoo.text import CLS, Text, read_text
from zoo.test_text import written

SHAPE = {"layers": 2, "width": 32, "heads": 2, "inner": 64, "length": 24}
SCORES = {"stsb": {"model": {"mean": 0.58}, "random": {"mean": 0.15}}}
COLORS, HOW = ("red", "blue", "green"), ("slowly", "never", "often")
FACTS: dict[str, Any] = {
    "tokens": 1_500_000,
    "loss": 3.725,
    "held_out": {"accuracy": 0.352, "unigram": 0.04},
    "scores": SCORES,
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Text:
    return read_text(written(tmp_path_factory.mktemp("text")), vocabulary=60)


@pytest.fixture(scope="module")
def made(text: Text, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder as the package has it: every design in half precision, and one more seed."""
    place = tmp_path_factory.mktemp("encoders")
    entries = len(json.loads(text.tokenizer)["model"]["vocab"])
    for name, seed in [*((name, 0) for name in DESIGNS), ("masked", 2)]:
        design = find_design(name, **SHAPE, generator=(1, 32))
        folder = place / (f"{name}-{seed}" if seed else name)
        save_encoder(Learner(design, entries, seed=seed), text.tokenizer, folder)
        halved = {key: tensor.half() for key, tensor in load_file(folder / WEIGHTS).items()}
        save_file(halved, folder / WEIGHTS, metadata={"format": "pt"})
        facts = FACTS if name == "masked" else {}
        write_card(folder, title=design.title, objective=design.objective, seed=seed, **facts)
    return place


@pytest.fixture
def zoo(made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MICROTOME_ZOO", str(made))
    return made


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MICROTOME_ZOO", str(tmp_path / "none"))
    return tmp_path / "none"


def test_they_are_found_in_the_order_of_the_designs(zoo: Path) -> None:
    found = shipped()
    assert list(found) == [*DESIGNS, "masked-2"]
    masked = found["masked"]
    assert (masked["tokens"], masked["loss"], masked["objective"]) == (1_500_000, 3.725, "masked")
    assert masked["scores"] == SCORES
    assert (found["masked-2"]["seed"], found["replaced"]["loss"]) == (2, None)
    for name, card in found.items():
        assert card["name"] == name
        assert card["sha256"] == weights_digest(zoo / name)


@pytest.mark.parametrize("name", DESIGNS)
def test_one_is_loaded_by_its_name_with_ours_and_with_the_library(zoo: Path, name: str) -> None:
    encoder: Any = mt.load(f"zoo:{name}")
    assert encoder.name == name
    assert encoder.source.given == f"zoo:{name}"
    assert encoder.source.facts["sha256"] == shipped()[name]["sha256"]
    assert encoder.layers == ("0", "1", "2")
    assert {p.dtype for p in encoder.model.parameters()} == {torch.float32}
    # Matched designs cut texts alike, at the length that they were made for.
    assert encoder.tokenizer.longest == SHAPE["length"]
    assert encoder.digest == mt.load(zoo / name).digest
    net, report = transformers.AutoModel.from_pretrained(
        zoo / name, dtype=torch.float32, output_loading_info=True
    )
    assert not [key for key in report["missing_keys"] if "pooler" not in key]
    tokenizer = transformers.AutoTokenizer.from_pretrained(zoo / name)
    inputs = tokenizer(["the red cat runs", "never"], return_tensors="pt", padding=True)
    assert inputs["input_ids"][:, 0].eq(CLS).all()
    batch = encoder.texts([("the red cat runs", None), ("never", None)])
    seen: dict[int, torch.Tensor] = {}
    encoder.run(batch, lambda layer, states: seen.update({layer: states.clone()}))
    with torch.inference_mode():
        expected = net.eval()(**inputs).last_hidden_state
    for row, tokens in enumerate(batch):
        torch.testing.assert_close(seen[2][row, : len(tokens)], expected[row, : len(tokens)])


def test_only_the_causal_one_is_blind_to_what_follows(zoo: Path) -> None:
    causal = {name: mt.load(f"zoo:{name}").family.causal for name in DESIGNS}
    assert [name for name, blind in causal.items() if blind] == ["causal"]
    assert mt.load("zoo:causal").family.reads == "last"


def test_twins_names_and_tokenizers(zoo: Path) -> None:
    twin: Any = mt.load("zoo:shared", random_init=True, seed=3)
    assert twin.name == "shared-random3"
    assert twin.source.given == "zoo:shared"
    # A twin is drawn in full, though the weights it is drawn for lie in half precision.
    drawn = [p for p in twin.model.parameters() if p.ndim > 1]
    assert any(not torch.equal(p, p.half().float()) for p in drawn)
    assert mt.load("zoo:masked", name="mine").name == "mine"
    other = mt.load(zoo / "every", tokenizer="zoo:masked")
    assert other.cuts == mt.load("zoo:masked").cuts


def test_results_never_name_the_installation(zoo: Path, tmp_path: Path) -> None:
    encoders: Any = [mt.load("zoo:masked"), mt.load("zoo:replaced")]
    told = [describe(encoder) for encoder in encoders]
    assert [(one["name"], one["source"]) for one in told] == [
        ("masked", "zoo:masked"),
        ("replaced", "zoo:replaced"),
    ]
    texts = ["the red cat runs", "a blue dog sleeps often", "never", "green dog runs slowly"] * 3
    found: Any = mt.compare(encoders, on=texts, rows="mean", measures="linear_cka", store=tmp_path / "store")
    found.save(tmp_path / "out")
    encoders[0].model.save_pretrained(tmp_path / "out")
    for file in (f for f in tmp_path.rglob("*") if f.is_file()):
        assert str(zoo).encode() not in file.read_bytes(), file


def test_one_is_fine_tuned_by_its_name(zoo: Path, tmp_path: Path) -> None:
    from microtome.training.multi_seed import finetune_seeds

    table = tmp_path / "mine.csv"
    texts = [(f"{color} {who} runs {how}", who) for color in COLORS for who in ("cat", "dog") for how in HOW]
    table.write_text("text,label\n" + "".join(f"{said},{label}\n" for said, label in texts))
    task = mt.task(str(table), text="text", label="label")
    runs = finetune_seeds(
        mt.load("zoo:causal"),
        task,
        [1],
        recipe="phang2021",
        steps=2,
        epochs=None,
        store=tmp_path / "store",
    )
    assert runs[0].encoder.name.startswith("causal-")
    assert runs[0].encoder.family.name == "roberta-decoder"
    record = json.loads((Path(runs[0].folder) / "run.json").read_text())
    assert any("the first" in note and "sees only itself" in note for note in record["head"])


def test_what_is_not_there_is_told(zoo: Path, tmp_path: Path) -> None:
    for wrong in ("zoo:maskd", "zoo:", "zoo:../encoders/masked"):
        with pytest.raises(MicrotomeError, match=r"encoder of the zoo must be one of causal, every, masked"):
            mt.load(wrong)
    with pytest.raises(InputError, match="revision must be left out for zoo:masked"):
        mt.load("zoo:masked", revision="main")
    with pytest.raises(InputError, match="but zoo:masked is one encoder of the package"):
        mt.series("zoo:masked")


def test_an_installation_without_encoders_says_so(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert shipped() == {}
    with pytest.raises(InputError, match="zoo:masked must be an encoder that comes with the package, but"):
        mt.load("zoo:masked")
    assert main(["ls", "zoo"]) == 0
    assert "No encoder comes with this installation" in capsys.readouterr().out
    assert main(["ls", "zoo", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {"format": "microtome/zoo/1", "zoo": []}


def test_the_list_holds_each_number_beside_what_it_is_held_against(
    zoo: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["ls", "zoo"]) == 0
    lines = capsys.readouterr().out.splitlines()
    masked = next(line for line in lines if line.startswith("masked "))
    assert re.search(r"Masked language model +[\d,]+ +0\.\d MB +1\.5 M +3\.725 +0\.352 \(0\.040\)", masked)
    assert masked.rstrip().endswith("0.580 (0.150)")
    assert next(line for line in lines if line.startswith("causal ")).count("not measured") == 4
    assert main(["ls", "zoo", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in document["zoo"]] == list(shipped())
    first = document["zoo"][0]
    assert (first["sha256"], first["scores"]) == (shipped()["masked"]["sha256"], SCORES)
    assert str(zoo) not in json.dumps(document)


def test_the_list_needs_no_torch(zoo: Path) -> None:
    code = (
        "import sys; from microtome.cli import main; assert main(['ls', 'zoo', '--json']) == 0; "
        "sys.exit(bool({'torch', 'transformers', 'matplotlib'} & set(sys.modules)) * 3)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], env=dict(os.environ), capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()


def test_a_folder_without_a_card_is_told(tmp_path: Path, made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "bare"
    place.mkdir()
    for file in (made / "masked").iterdir():
        if file.suffix != ".md":
            (place / file.name).write_bytes(file.read_bytes())
    monkeypatch.setenv("MICROTOME_ZOO", str(tmp_path))
    card = json.loads((place / "card.json").read_text())
    del card["loss"]
    (place / "card.json").write_text(json.dumps(card))
    with pytest.raises(InputError, match=r"card.json must tell loss, but it does not"):
        shipped()
    (place / "card.json").unlink()
    with pytest.raises(InputError, match=r"card.json must be a readable JSON file"):
        shipped()
    same: Any = mt.load("zoo:bare")
    assert digest_weights(same.model) == digest_weights(mt.load(made / "masked").model)  # pyright: ignore[reportAttributeAccessIssue]
