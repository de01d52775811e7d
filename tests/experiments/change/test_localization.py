"""Neurons that models share count beyond rotations, and those of a rotated model do not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import reference
import tiny
from microtome.comparison.structure import find_localization
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.experiments.change.localization import localize
from microtome.experiments.similarity.extraction import extract
from microtome.figures.curves import draw_curves
from microtome.figures.panels import save_figures
from microtome.findings.claims.claim import overlapping
from microtome.interventions.applying import apply
from microtome.interventions.blocks import Truncate
from moving import moved, saved, sentences

TEXT = sentences(70, seed=1)


def test_scores_of_all_layers_with_their_doubt(tmp_path: Path) -> None:
    place = saved(tmp_path / "m")
    base, tuned = load(place), moved(place, 3, by=1.0)
    given: dict[str, Any] = {"rotations": 3, "halves": 5, "store": tmp_path / "s"}
    found = localize({"base": base, "tuned": tuned}, TEXT, **given)
    assert [one.name for one in found.curves] == [
        "base: beyond rotations",
        "tuned: beyond rotations",
        "base: published, as described",
        "tuned: published, as described",
        "base: published, as coded",
        "tuned: published, as coded",
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
    assert found.findings[0].startswith("Beyond random rotations, single neurons (in) count most in layer")
    # The extremes are named by the rule of all claims: no interval of another layer overlaps theirs.
    names, values, low, high = (
        [point for curve in found.curves[:2] for point in line(curve)]
        for line in (
            lambda curve: [f"{curve.model}/{layer}" for layer in curve.x],
            lambda curve: curve.values,
            lambda curve: curve.low,
            lambda curve: curve.high,
        )
    )
    (claim,) = found.claims
    for extreme, near in zip(claim.facts["extremes"], claim.facts["overlapping"], strict=True):
        assert near == [names[k] for k in overlapping(values, low, high, names.index(extreme)) or ()]
    # Only the moved layer lies apart from all others.
    assert (claim.verdict, claim.facts["extremes"][1]) == ("inconclusive", "tuned/3")
    assert " (not shown: the intervals of " in found.findings[0]
    mine, described, coded = (
        [row[name] for row in found.rows]
        for name in ("beyond rotations", "published, as described", "published, as coded")
    )
    assert found.more["agreement_described"] == pytest.approx(stats.spearmanr(mine, described)[0])
    assert found.more["agreement"] == pytest.approx(stats.spearmanr(mine, coded)[0])
    again = localize([load(place, name="base"), moved(place, 3, by=1.0)], TEXT, **given)
    assert again.rows[0]["beyond rotations"] == found.rows[0]["beyond rotations"], "models may be a list"
    with pytest.raises(InputError, match="models must be one or more, named differently"):
        localize([base, base], TEXT, **given)
    with pytest.raises(
        InputError, match="layers to localize must be at least 3, of all models together, but got 2"
    ):
        localize(apply(base, Truncate(keep=1)), TEXT, **given)
    with pytest.raises(TypeError, match="localize: got an unexpected keyword argument 'speed'"):
        localize({"base": base}, TEXT, speed=1, store=tmp_path / "s")


def published(layers: list[np.ndarray], *, coded: bool) -> np.ndarray:
    """Wu et al. 2020 as the paper describes it, or as its code computes it, one pair of layers at a time."""
    neurons, directions = [], []
    for this, y in enumerate(layers):
        others = [x for other, x in enumerate(layers) if other != this]
        neurons.append(np.mean([reference.neuron_correlation(x, y) for x in others]))
        given: tuple[Any, ...] = ("standardize", 0.99, False) if coded else ("center", 0.99, True)
        directions.append(np.mean([reference.svcca(x, y, *given) for x in others]))
    if coded:
        return np.asarray(stats.zscore(neurons, ddof=1)) - np.asarray(stats.zscore(directions, ddof=1))
    return np.subtract(neurons, directions)


def test_both_published_readings_for_models_of_other_tokenizers_and_depths(tmp_path: Path) -> None:
    small = tiny.save_checkpoint(tmp_path / "small", "bert")
    deep = tiny.save_checkpoint(tmp_path / "deep", "roberta", num_hidden_layers=4)
    models = {"small": load(small), "deep": load(deep)}
    given: dict[str, Any] = {"rotations": 2, "halves": 3, "store": tmp_path / "s"}
    found = localize(models, TEXT, rows="word", **given)
    curves = {one.name: one for one in found.curves}
    coded = curves["deep: published, as coded"]
    assert [curves[f"{m}: published, as coded"].x for m in models] == [(0, 1, 2, 3), (0, 1, 2, 3, 4)]
    acts = [extract(one, TEXT, rows="word", store=tmp_path / "s") for one in models.values()]
    layers = [np.asarray(one.layers[k], np.float64) for one in acts for k in range(len(one.layers))]
    for name, own in (("published, as described", False), ("published, as coded", True)):
        expected = published(layers, coded=own)
        np.testing.assert_allclose([row[name] for row in found.rows], expected, atol=2e-4)
    # The two differ by more than a scale.
    assert np.corrcoef(published(layers, coded=False), published(layers, coded=True))[0, 1] < 0.999
    assert (coded.low < coded.values).all()
    assert coded.note == "both means z-scored over the 9 layers of all models"
    with pytest.raises(InputError, match="rows of tokens must come from models with one tokenizer"):
        localize(models, TEXT, **given)
    drawn = draw_curves(found, curves=[name for name in curves if name.endswith("as coded")])
    assert drawn.get_ylabel() == "localization: published, as coded"
    legend = drawn.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["small", "deep"]
    files = {path.name for path in save_figures(found, tmp_path / "figures", ["png"])}
    assert files == {
        "scores_beyond_rotations.png",
        "scores_published_as_described.png",
        "scores_published_as_coded.png",
    }


def test_the_setting_of_the_paper(tmp_path: Path) -> None:
    place = saved(tmp_path / "m")
    given: dict[str, Any] = {"rotations": 2, "halves": 3, "store": tmp_path / "s"}
    found = localize({"base": load(place)}, [*TEXT, TEXT[0]], published="wu", **given)
    assert found.more["published"] == "wu"
    acts = extract(
        load(place, name="base"), [*TEXT, TEXT[0]], rows="word", published="wu", store=tmp_path / "s"
    )
    layers = [np.asarray(acts.layers[k], np.float64) for k in range(4)]
    assert len(layers[0]) == sum(len(text.split()) for text in dict.fromkeys(TEXT)), "every word, once"
    for name, own in (("published, as described", False), ("published, as coded", True)):
        scores = [row[name] for row in found.rows]
        np.testing.assert_allclose(scores, published(layers, coded=own), atol=2e-4)
    with pytest.raises(InputError, match=r"^direction must be 'in' with published='wu', but got 'out'\.$"):
        localize({"base": load(place)}, TEXT, published="wu", direction="out", **given)
    with pytest.raises(InputError, match="rows must be 'word' with published='wu', but got 'cls'"):
        localize({"base": load(place)}, TEXT, published="wu", rows="cls", **given)


@pytest.mark.parametrize("count", [2, 7])
def test_too_few_rows_are_refused(count: int, tmp_path: Path) -> None:
    models: dict[str, Any] = {"base": load(saved(tmp_path / "m"))}
    said = f"localization must have at least 8 rows, 4 in every half, but got {count}"
    with pytest.raises(InputError, match=said):
        localize(models, TEXT[:count], rows="mean", store=tmp_path / "s")


def test_halves_with_too_few_rows_are_refused(tmp_path: Path) -> None:
    models: dict[str, Any] = {"base": load(saved(tmp_path / "m"))}
    uneven = ["cat", "tea", "cat sit on", "who likes it", "sit"]
    said = "localization must have at least 4 rows in every half of its sentences, but got 2 of 9 in one"
    with pytest.raises(InputError, match=said):
        localize(models, uneven, store=tmp_path / "s")
