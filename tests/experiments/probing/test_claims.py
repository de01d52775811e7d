"""Do sentences about probes name the right models, and say where there is no interval and why?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import microtome as mt
from experiments.probing.test_probing import write_corpus
from microtome.experiments.probing.claims import layer_findings, length_findings
from microtome.experiments.probing.task_claims import task_findings
from microtome.findings.results import Curve
from microtome.scores.table import find_score

WHY = "each of 2 documents has one answer"


def curve(name: str, values: Sequence[float], arm: float = 0.01, **more: Any) -> Curve:
    found, count = np.array(values), len(values)
    ends = {"low": found - arm, "high": found + arm, "band_low": found - arm, "band_high": found + arm}
    told: dict[str, Any] = {"axis": "layer", "level": 0.95, "unit": "document", "n": 40}
    told |= {"x": tuple(range(count)), "seeds": (1,) * count, "reasons": (None,) * count}
    if name.startswith("difference"):
        model, against = name.removeprefix("difference, ").split(" from ")
        told |= {"role": "difference", "model": model, "against": against}
    return Curve(name=name, values=found, **{**ends, **told, **more})


def said(differences: Sequence[Curve], values: Sequence[float] = (0.5, 0.7, 0.6)) -> list[str]:
    """Sentences after the first, which is of the best layer of the first model."""
    curves = [curve("bert", values), curve("tuned", values), *differences]
    return list(layer_findings(curves, ["bert"], find_score("accuracy"), "upos")[1:])


def test_models_may_be_called_by_any_words(encoder_of: Callable[..., Any], tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "small.conllu", 30)
    given = encoder_of("bert").source.given
    first, other = mt.load(given, name="bert from its layer 0"), mt.load(given, name="b from a from c")
    found = mt.probe([first, other], corpus, random_baselines=0, store=tmp_path / "store")
    about = [one for one in found.findings if " against " in one]
    assert len(about) == 1
    assert about[0].startswith(f"{other.name} against {first.name}: no difference is shown at any layer")


@pytest.mark.parametrize("probe", ["edge", "linear"])
def test_the_article_fits_the_probe(encoder_of: Callable[..., Any], tmp_path: Path, probe: str) -> None:
    corpus = write_corpus(tmp_path / "small.conllu", 30)
    steps = 2 if probe == "edge" else None
    found = mt.probe(
        encoder_of("bert"), corpus, probe=probe, random_baselines=0, store=tmp_path / "store", steps=steps
    )
    assert f" by {'an edge' if probe == 'edge' else 'a linear'} probe " in found.methods


def test_layers_at_which_models_differ_are_listed() -> None:
    told = said([curve("difference, tuned from bert", [-0.1, -0.2, 0.0])])
    assert told == [
        "tuned against bert: less is read at layers 0 and 1 by the 95% band of all layers, most so at layer "
        "1: -20.0 points [-21.0, -19.0] (95 %, unit: document)."
    ]


def test_where_lower_is_better_less_of_the_score_is_more_that_is_read() -> None:
    score = replace(find_score("accuracy"), higher_is_better=False)
    gain = curve("difference, bert from its layer 0", [0.0, -0.2, -0.1])
    curves = [curve("bert", [0.7, 0.5, 0.6]), curve("tuned", [0.7, 0.4, 0.6])]
    curves += [gain, curve("difference, tuned from bert", [0.0, -0.1, 0.0])]
    best, apart = layer_findings(curves, ["bert"], score, "upos", lines={"a guess": 0.4})
    assert best.startswith(
        "bert: nothing of upos is read out, since no layer is shown to be below what needs"
    )
    assert "no layer (a guess: 0.400); the best, layer 1, has accuracy 0.500 [0.490, 0.510]" in best
    near, _ = layer_findings(curves, ["bert"], score, "upos", lines={"a guess": 0.495})
    assert near.startswith("bert: nothing of upos is read out")
    read, _ = layer_findings(curves, ["bert"], score, "upos", lines={"a guess": 0.6})
    assert read.startswith("bert: upos is read best at layer 1, accuracy 0.500 [0.490, 0.510]")
    assert read.endswith("-20.0 points [-21.0, -19.0] (95 %, unit: document) from layer 0.")
    assert apart.startswith("tuned against bert: more is read at layer 1 by the 95% band of all layers, ")


def test_a_curve_without_values_is_no_error() -> None:
    undefined = curve("bert", [np.nan] * 3, reasons=("no probe is sound",) * 3)
    found = layer_findings([undefined], ["bert"], find_score("accuracy"), "upos")
    assert found == ("bert: nothing can be said of upos, since no probe is sound.",)


def test_a_difference_without_an_interval_says_so_and_why() -> None:
    unknown = curve("difference, tuned from bert", [0.0, 1.0, 0.0], np.nan, reasons=(WHY,) * 3)
    assert said([unknown]) == [
        f"tuned against bert: there is no interval at any layer ({WHY}), so that no difference can be shown; "
        "the largest is 100.0 points at layer 1."
    ]
    assert said([replace(unknown, reasons=(None,) * 3)]) == [
        "tuned against bert: there is no interval at any layer, so that no difference can be shown; the "
        "largest is 100.0 points at layer 1."
    ]
    undefined = replace(unknown, values=np.full(3, np.nan))
    assert said([undefined]) == [
        f"tuned against bert: there is no interval at any layer ({WHY}), so that no difference can be shown."
    ]


def test_layers_without_an_interval_are_told_apart_from_those_with_one() -> None:
    arm: Any = np.array([0.01, np.nan, 0.01])
    some = curve("difference, tuned from bert", [0.0, 1.0, 0.005], arm, reasons=(None, WHY, None))
    assert said([some]) == [
        "tuned against bert: no difference is shown at layers 0 and 2 by the 95% band of all layers; the "
        "largest is 0.5 points [-0.5, 1.5] (95 %, unit: document) at layer 2; there is no interval at layer "
        f"1 ({WHY}), where it is 100.0 points."
    ]
    shown = curve("difference, tuned from bert", [0.2, 1.0, 0.005], arm, reasons=(None, WHY, None))
    assert said([shown]) == [
        "tuned against bert: more is read at layer 0 by the 95% band of all layers, most so at layer 0: 20.0 "
        f"points [19.0, 21.0] (95 %, unit: document); there is no interval at layer 1 ({WHY}), where it is "
        "100.0 points."
    ]


def test_reasons_of_points_with_an_interval_are_not_why_there_is_none() -> None:
    told = said([curve("difference, tuned from bert", [0.0] * 3, reasons=("seed 2 was left out",) * 3)])
    start = "tuned against bert: no difference is shown at any layer by the 95% band of all layers; "
    assert told[0].startswith(f"{start}the largest is 0.0")


def test_one_place_is_said_without_a_layer() -> None:
    mixed = curve("difference, tuned from bert", [-0.1], x=(3,))
    assert said([mixed], [0.7]) == ["tuned against bert: -10.0 points [-11.0, -9.0] (95 %, unit: document)."]
    assert said([curve("difference, tuned from bert", [-0.1], 0.2, x=(3,))], [0.7])[0].endswith(
        ", not significant by the 95% interval."
    )
    unknown = curve("difference, tuned from bert", [-0.1], np.nan, x=(3,), reasons=(WHY,))
    assert said([unknown], [0.7]) == [
        f"tuned against bert: -10.0 points, for which there is no interval ({WHY})."
    ]


def test_a_gain_without_an_interval_is_not_called_unsure() -> None:
    gain = curve("difference, bert from its layer 0", [0.0, 0.2, 0.1], np.nan, reasons=(WHY,) * 3)
    found = layer_findings([curve("bert", [0.5, 0.7, 0.6]), gain], ["bert"], find_score("accuracy"), "upos")
    assert found[0].endswith(f", 20.0 points from layer 0, for which there is no interval ({WHY}).")


def test_answers_of_a_task_are_said_in_the_same_words() -> None:
    models = {"model": "c from d", "against": "a from b (converged)", "role": "difference"}
    score, found = find_score("accuracy"), curve("d", [0.0, 1.0], np.nan, reasons=(WHY, WHY), **models)
    told = task_findings(
        [curve("a (converged)", [np.nan] * 2), curve("b (converged)", [0.6, 0.7])],
        [found],
        score,
        {"majority baseline": 0.5},
        "cats",
    )
    assert told == (
        "a (converged): nothing can be said of cats, since all heads diverged.",
        "b (converged): cats is read best at layer 1, accuracy 0.700 [0.690, 0.710] (95 %, unit: "
        "document); the band does not overlap the majority baseline at layers 0 and 1.",
        f"c from d against a from b (converged): there is no interval at any layer ({WHY}), so that no "
        "difference can be shown; the largest is 100.0 points at layer 1.",
        "Without any layer: majority baseline 0.500.",
    )


@pytest.mark.parametrize("what, noun", [("distance", "distances"), ("depth", "depths")])
def test_the_best_layer_by_length_is_said_of_models_that_were_given(what: str, noun: str) -> None:
    means = {
        "masked": [0.2, 0.652, 0.6],
        "random baseline": [0.1, 0.2, 0.1],
        "tuned": [float("nan"), 0.1, 0.3],
    }
    facts = {
        f"{what}_spearman": {name: {"mean": mean, "lengths": [7, 9]} for name, mean in means.items()},
        "else": 1,
    }
    shared = f"correlation of {noun} by length (Spearman, mean over lengths 5 to 50 that occur) is highest at"
    assert length_findings(facts, ["masked", "tuned"]) == [
        f"masked: {shared} layer 1, 0.652.",
        f"tuned: {shared} layer 2, 0.300.",
    ]


def test_nothing_is_said_of_lengths_that_do_not_occur() -> None:
    nothing = {"distance_spearman": {"masked": {"mean": [float("nan")] * 2, "lengths": [6]}}}
    assert length_findings({}, ["masked"]) == length_findings(nothing, ["masked", "other"]) == []
