"""A border is found as `find_blocks` finds it, and the doubt of it can be shared between models."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from microtome.comparison.structure import find_blocks
from microtome.encoders.loading import load
from microtome.experiments.borders import find_border
from microtome.experiments.layerwise import record_models
from microtome.extraction.texts import make_texts
from moving import parted, saved, sentences


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("base"), depth=8)


def test_a_planted_border_is_that_of_find_blocks(place: Path, tmp_path: Path) -> None:
    models = {"flat": parted(place, 1.0), "parted": parted(place, 30.0)}
    recorded = record_models(models, make_texts(sentences(100)), store=tmp_path)
    flat, high = (find_border(recorded, name) for name in models)
    assert not flat.stands
    assert high.stands
    assert high.finding is not None
    assert high.finding.border == 4
    assert high.finding.verdict == "two blocks"
    assert high.contrast > 1 > flat.contrast
    blocks = find_blocks(recorded.stack("parted"), clusters=recorded.clusters)
    assert high.contrast == blocks.contrast
    se = np.sqrt(10 / 9 * (high.errors**2).sum())
    assert se == pytest.approx(blocks.standard_error)
    assert high.map.shape == (9, 9)
    assert high.map[0, 8] < high.map[0, 4]
    # Rows of the first token have no layer 0, and layers keep their numbers.
    alone = record_models(models, make_texts(sentences(100)), rows="cls", store=tmp_path)
    assert alone.layers[0] == 1
    found = find_border(alone, "parted")
    assert found.finding is not None
    assert found.finding.border == 4
    assert found.finding.used == tuple(range(1, 9))


def test_what_cannot_be_tested_says_why(place: Path, tmp_path: Path) -> None:
    few = record_models({"a": load(place)}, make_texts(sentences(12)), store=tmp_path / "s")
    assert find_border(few, "a").reason == "a border needs at least 22 sentences, and there are 12"
    shallow = load(saved(tmp_path / "m"))
    small = record_models({"a": shallow}, make_texts(sentences(60)), store=tmp_path / "s")
    found = find_border(small, "a")
    assert found.reason == "a border needs at least 6 layers, and there are 4"
    assert found.finding is None
    assert np.isnan(found.contrast)
    assert found.map.shape == (4, 4)


def test_layers_that_do_nothing_have_no_border(place: Path, tmp_path: Path) -> None:
    still = parted(place, 1.0)
    for part in (still.base.embeddings.LayerNorm, *still.blocks):
        for name, parameter in part.named_parameters():
            parameter.data[:] = 1.0 if name in ("weight",) or name.endswith("LayerNorm.weight") else 0.0
    recorded = record_models({"still": still}, make_texts(sentences(60)), store=tmp_path)
    found = find_border(recorded, "still")
    assert not found.stands
    assert found.contrast == 0
    assert found.reason is not None
    assert "adjacent layers do not differ" in found.reason
