"""Neurons that models share count beyond rotations, and those of a rotated model do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from microtome.comparison.structure import find_localization
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.experiments.localizing import localized
from microtome.extraction.extracting import extract
from microtome.interventions.applying import apply
from microtome.interventions.truncate import Truncate
from moving import moved, saved, sentences

TEXT = sentences(70, seed=1)


def test_scores_of_all_layers_with_their_doubt(tmp_path: Path) -> None:
    place = saved(tmp_path / "m")
    base, tuned = load(place), moved(place, 3, by=1.0)
    given: dict[str, Any] = {"rotations": 3, "halves": 5, "store": tmp_path / "s"}
    found = localized({"base": base, "tuned": tuned}, TEXT, **given)
    assert [one.name for one in found.curves] == [
        "base: beyond rotations",
        "tuned: beyond rotations",
        "base: published, as described",
        "tuned: published, as described",
    ]
    mine, theirs = found.curves[:2]
    # Layers 0 to 2 are the same in both models, and neurons of the same layers are each other's best match.
    np.testing.assert_allclose(mine.values[:3], theirs.values[:3], atol=0.05)
    assert (mine.low < mine.values).all()
    assert (mine.values < mine.high).all()
    assert mine.values[3] > theirs.values[3]
    assert len(found.more["layers"]) == len(found.rows) == 8
    layers = [
        extract(one, TEXT, rows="token", store=tmp_path / "s").layers[k]
        for one in (base, tuned)
        for k in range(4)
    ]
    turned = find_localization(layers, rotations=3)
    off = ~np.eye(8, dtype=bool)
    expected = np.where(off, turned.value, 0).sum(0) / 7
    np.testing.assert_allclose([row["beyond rotations"] for row in found.rows], expected, atol=1e-6)
    assert found.findings[0].startswith("Beyond rotations, single neurons (in) count most in layer")
    mine, described, coded = (
        [row[name] for row in found.rows]
        for name in ("beyond rotations", "published, as described", "published, as coded")
    )
    assert found.more["agreement_described"] == pytest.approx(stats.spearmanr(mine, described)[0])
    assert found.more["agreement"] == pytest.approx(stats.spearmanr(mine, coded)[0])
    again = localized([load(place, name="base"), moved(place, 3, by=1.0)], TEXT, **given)
    assert again.rows[0]["beyond rotations"] == found.rows[0]["beyond rotations"], "models may be a list"
    with pytest.raises(InputError, match="models must be one or more, named differently"):
        localized([base, base], TEXT, **given)
    with pytest.raises(
        InputError, match="layers to localize must be at least 3, of all models together, but got 2"
    ):
        localized(apply(base, Truncate(keep=1)), TEXT, **given)
    with pytest.raises(InputError, match="options must be among precision, memory, threads, but got 'speed'"):
        localized({"base": base}, TEXT, speed=1, store=tmp_path / "s")


@pytest.mark.parametrize("count", [2, 7])
def test_too_few_rows_are_refused(count: int, tmp_path: Path) -> None:
    models: dict[str, Any] = {"base": load(saved(tmp_path / "m"))}
    said = f"localization must have at least 8 rows, 4 in every half, but got {count}"
    with pytest.raises(InputError, match=said):
        localized(models, TEXT[:count], rows="mean", store=tmp_path / "s")


def test_halves_with_too_few_rows_are_refused(tmp_path: Path) -> None:
    models: dict[str, Any] = {"base": load(saved(tmp_path / "m"))}
    uneven = ["cat", "tea", "cat sit on", "who likes it", "sit"]
    said = "localization must have at least 4 rows in every half of its sentences, but got 2 of 9 in one"
    with pytest.raises(InputError, match=said):
        localized(models, uneven, store=tmp_path / "s")
