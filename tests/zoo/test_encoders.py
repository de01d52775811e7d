"""The encoders in the package are whole, small, better than chance, and go all the way through."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import microtome as mt
from microtome.encoders.locations import INSIDE, weights_digest
from microtome.tasks.corpus import split_corpus
from microtome.tasks.generated.table import GENERATED
from microtome.zoo.shipped import read_card

NAMES = ("causal", "every", "masked", "replaced")
KINDS = {"replaced": "AutoModelForPreTraining", "causal": "AutoModelForCausalLM"}
MIB = 2**20


@pytest.fixture(autouse=True)
def in_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MICROTOME_ZOO", raising=False)


@pytest.mark.parametrize("name", NAMES)
def test_files_are_those_of_the_card_and_the_card_says_what_they_are_worth(name: str) -> None:
    card = read_card(INSIDE / name)
    assert card["sha256"] == weights_digest(INSIDE / name)
    tokenizer = (INSIDE / name / "tokenizer.json").read_bytes()
    assert card["tokenizer"]["sha256"] == hashlib.sha256(tokenizer).hexdigest()
    assert card["license"] == "cc-by-sa-4.0"
    assert card["design"]["layers"] == 12
    if name != "replaced":  # which guesses no tokens
        low, _ = card["held_out"]["interval"]
        assert low > 5 * card["held_out"]["unigram"]
    better = [task for task, one in card["scores"].items() if one["difference"]["low"] > 0]
    assert "stsb" in better
    assert len(better) > 1, "an encoder that does not clearly beat its twin twice must not be shipped"
    for one in card["scores"].values():
        assert one["model"]["n"] >= 3 <= one["random"]["n"]


def test_they_are_small() -> None:
    sizes = {each.name: sum(file.stat().st_size for file in each.iterdir()) for each in INSIDE.iterdir()}
    assert set(sizes) == set(NAMES)
    assert max(sizes.values()) < 8 * MIB
    assert sum(sizes.values()) < 40 * MIB


ALONE = """
import sys, torch, transformers
folder, kind = sys.argv[1:]
tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
model = getattr(transformers, kind).from_pretrained(folder).eval()
assert "microtome" not in sys.modules
assert model.dtype == torch.float32, model.dtype
inputs = tokenizer(["The river flows into the [MASK].", "A short text."], return_tensors="pt", padding=True)
with torch.no_grad():
    logits = model(**inputs).logits
assert torch.isfinite(logits).all()
print(tokenizer.decode(logits[0, 6].argmax()) if logits.shape[-1] == 8000 else float(logits.std()))
"""


@pytest.mark.parametrize("name", NAMES)
def test_the_library_alone_loads_them(name: str, tmp_path: Path) -> None:
    shutil.copytree(INSIDE / name, tmp_path / name)
    kind = KINDS.get(name, "AutoModelForMaskedLM")
    done = subprocess.run(
        [sys.executable, "-I", "-W", "error::FutureWarning", "-c", ALONE, str(tmp_path / name), kind],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "newly initialized" not in done.stderr


def test_one_goes_all_the_way_through(tmp_path: Path) -> None:
    """Load, fine-tune a few updates, compare before with after, cut: what a user would do, for real."""
    before_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    task = GENERATED["polarity"](sizes={"train": 96, "validation": 60, "test": 8, "held_out": 8})
    encoder = mt.load("zoo:masked")
    run: Any = mt.finetune(
        encoder, task, "devlin2019", seed=0, steps=6, batch=16, rate=3e-4, longest=32, store=tmp_path
    )
    texts = split_corpus(task, "validation")
    maps = mt.compare([encoder, mt.load(run.folder, name="tuned")], on=texts, rows="cls", store=tmp_path)
    cut = mt.truncate(run, task, arms=("untuned",), store=tmp_path)
    torch.set_num_threads(before_threads)
    inside = [place for place, name in enumerate(maps["debiased_cka"].left) if not name.endswith("/0")]
    assert len(inside) == 24
    found = maps["debiased_cka"].values[np.ix_(inside, inside)]
    assert np.isfinite(found).all(), "the first token is the same in all examples only before the first block"
    assert list(cut.curves[0].x) == list(range(1, 13))
