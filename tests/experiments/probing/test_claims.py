"""Do claims about probes name the right models and layers, and say where there is no interval and why?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import microtome as mt
from experiments.probing.test_probing import write_corpus
from microtome.experiments.probing.claims import (
    baseline_claims,
    length_claims,
    mix_claims,
    reading_claims,
)
from microtome.findings.claims.claim import Claim
from microtome.findings.claims.render import evidence, headline, render
from microtome.findings.results import Curve
from microtome.scores.table import find_score

WHY = "each of 2 documents has one answer"
ACCURACY = find_score("accuracy")


def curve(name: str, values: Sequence[float], arm: Any = 0.01, **more: Any) -> Curve:
    found, count = np.array(values), len(values)
    ends = {"low": found - arm, "high": found + arm, "band_low": found - arm, "band_high": found + arm}
    told: dict[str, Any] = {"axis": "layer", "level": 0.95, "unit": "document", "n": 40}
    told |= {"x": tuple(range(count)), "seeds": (1,) * count, "reasons": (None,) * count}
    if name.startswith("difference"):
        model, against = name.removeprefix("difference, ").split(" from ")
        told |= {"role": "difference", "model": model, "against": against}
    return Curve(name=name, values=found, **{**ends, **told, **more})


def difference(values: Sequence[float], arm: Any = 0.01, **more: Any) -> Claim:
    """The claim of the difference of a second model from the first."""
    apart = curve("difference, tuned from bert", values, arm, **more)
    scores = [curve(name, [0.5] * len(values), x=apart.x) for name in ("bert", "tuned")]
    _, claim = reading_claims([*scores, apart], ["bert"], ACCURACY, "upos", {})
    return claim


def test_models_may_be_called_by_any_words(encoder_of: Callable[..., Any], tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "small.conllu", 30)
    given = encoder_of("bert").source.given
    first, other = mt.load(given, name="bert from its layer 0"), mt.load(given, name="b from a from c")
    found = mt.probe([first, other], corpus, random_baselines=0, store=tmp_path / "store")
    (claim,) = (one for one in found.claims if one.kind == "model difference")
    assert (claim.subject, claim.facts["against"]) == (other.name, first.name)
    assert headline(claim).startswith(
        f"{other.name} against {first.name}: no difference is shown at any layer"
    )


@pytest.mark.parametrize("probe", ["edge", "linear"])
def test_the_article_fits_the_probe(encoder_of: Callable[..., Any], tmp_path: Path, probe: str) -> None:
    corpus = write_corpus(tmp_path / "small.conllu", 30)
    steps = 2 if probe == "edge" else None
    found = mt.probe(
        encoder_of("bert"), corpus, probe=probe, random_baselines=0, store=tmp_path / "store", steps=steps
    )
    assert f" by {'an edge' if probe == 'edge' else 'a linear'} probe " in found.methods


def test_layers_at_which_models_differ_are_listed() -> None:
    claim = difference([-0.1, -0.2, 0.0])
    assert (claim.verdict, claim.layers, claim.facts["less"]) == ("holds", (1,), [0, 1])
    assert headline(claim) == (
        "tuned against bert: less is read at layers 0 and 1; the largest is -20.0 points of "
        "accuracy at layer 1."
    )
    assert evidence(claim) == "Difference: -20.00 points [-21.00, -19.00] (95 %, over documents); n = 40."
    both = difference([0.1, -0.2, 0.0])
    assert (both.facts["more"], both.facts["less"]) == ([0], [1])


def test_where_lower_is_better_less_of_the_score_is_more_that_is_read() -> None:
    score = replace(ACCURACY, higher_is_better=False)
    gain = curve("difference, bert from its layer 0", [0.0, -0.2, -0.1])
    curves = [curve("bert", [0.7, 0.5, 0.6]), curve("tuned", [0.7, 0.4, 0.6])]
    curves += [gain, curve("difference, tuned from bert", [0.0, -0.1, 0.0])]
    for guess, verdict in ((0.4, "inconclusive"), (0.495, "inconclusive"), (0.6, "holds")):
        best, apart = reading_claims(curves, ["bert"], score, "upos", {"a guess": guess})
        assert (best.verdict, best.layers, apart.facts["more"]) == (verdict, (1,), [1])
        assert ("-20.0 points from layer 0" in headline(best)) == (verdict == "holds")
    nothing, _ = reading_claims(curves, ["bert"], score, "upos", {"a guess": 0.4})
    assert headline(nothing) == (
        "bert: upos is not shown to be read at any layer, since none beats what needs no layer (a guess "
        "0.400); the best, layer 1, has accuracy 0.500."
    )


def test_a_curve_without_values_is_no_error() -> None:
    undefined = curve("bert", [np.nan] * 3, reasons=("no probe is sound",) * 3)
    (claim,) = reading_claims([undefined], ["bert"], ACCURACY, "upos", {"majority baseline": 0.5})
    assert render(claim) == "bert: nothing is concluded about upos: no probe is sound."


def test_a_difference_without_an_interval_says_so_and_why() -> None:
    unknown = difference([0.0, 1.0, 0.0], np.nan, reasons=(WHY,) * 3)
    assert unknown.verdict == "inconclusive"
    assert headline(unknown) == (
        "tuned against bert: no difference is shown at any layer, and none has an interval; the largest is "
        "100.0 points of accuracy at layer 1."
    )
    assert evidence(unknown).endswith(f" There is no interval at layers 0 to 2 ({WHY}).")
    assert evidence(difference([0.0, 1.0, 0.0], np.nan)).endswith(" There is no interval at layers 0 to 2.")
    assert "the largest is undefined" in headline(difference([np.nan] * 3, reasons=(WHY,) * 3))


def test_layers_without_an_interval_are_told_apart_from_those_with_one() -> None:
    arm, reasons = np.array([0.01, np.nan, 0.01]), (None, WHY, None)
    some = difference([0.0, 1.0, 0.005], arm, reasons=reasons)
    assert headline(some) == (
        "tuned against bert: no difference is shown at any layer with an interval; the largest is 0.5 "
        "points of accuracy at layer 2."
    )
    assert evidence(some).endswith(f" There is no interval at layer 1 ({WHY}).")
    shown = difference([0.2, 1.0, 0.005], arm, reasons=reasons)
    assert (shown.facts["more"], shown.facts["without"], shown.layers) == ([0], [1], (0,))


def test_reasons_of_points_with_an_interval_are_not_why_there_is_none() -> None:
    claim = difference([0.0] * 3, reasons=("seed 2 was left out",) * 3)
    assert claim.facts["reasons"] == []
    assert "seed 2" not in render(claim)


def test_one_place_is_said_without_a_layer() -> None:
    start = "tuned against bert: -10.0 points of accuracy"
    assert headline(difference([-0.1], x=(3,))) == f"{start}."
    assert headline(difference([-0.1], 0.2, x=(3,))) == f"{start} (not significant)."
    assert headline(difference([-0.1], np.nan, x=(3,), reasons=(WHY,))) == f"{start}."


def test_the_best_layer_is_claimed_beside_layer_0_and_the_control_task() -> None:
    gain = curve("difference, bert from its layer 0", [0.0, 0.2, 0.1])
    others: dict[str, Any] = {"model": "bert", "role": "control"}
    control = curve("control, bert", [0.5, 0.3, 0.3], **others)
    others |= {"role": "difference", "against": "the control task"}
    apart = curve("selectivity", [0, 0.4, 0.3], **others)
    curves = [curve("bert", [0.5, 0.7, 0.6]), gain, control, apart]
    (claim,) = reading_claims(curves, ["bert"], ACCURACY, "upos", {"majority baseline": 0.5})
    assert headline(claim) == (
        "bert: upos is read best at layer 1, accuracy 0.700, 20.0 points from layer 0; control task 0.300, "
        "selectivity 40.0 points."
    )
    assert "Without any layer: majority baseline 0.500; the band is better at layers 1 and 2." in evidence(
        claim
    )
    (bare,) = baseline_claims({"majority baseline": 0.5, "undefined": float("nan")}, ACCURACY)
    assert render(bare) == "Without any layer: majority baseline 0.500."
    # A gain without an interval is not called unsure.
    unknown = curve("difference, bert from its layer 0", [0.0, 0.2, 0.1], np.nan, reasons=(WHY,) * 3)
    (claim,) = reading_claims([curves[0], unknown], ["bert"], ACCURACY, "upos", {})
    assert headline(claim).endswith("20.0 points from layer 0.")
    assert evidence(claim).endswith(f"No interval: {WHY}.")
    unsure = curve("difference, bert from its layer 0", [0.0, 0.2, 0.1], 0.3)
    (claim,) = reading_claims([curves[0], unsure], ["bert"], ACCURACY, "upos", {})
    assert headline(claim).endswith("from layer 0 (not significant).")


def test_the_best_layer_is_not_shown_where_the_bands_of_others_reach_as_far() -> None:
    gain = curve("difference, bert from its layer 0", [0.0, 0.2, 0.19])
    scores = curve("bert", [0.5, 0.7, 0.69])
    (claim,) = reading_claims([scores, gain], ["bert"], ACCURACY, "upos", {"majority baseline": 0.4})
    assert (claim.verdict, claim.layers, claim.facts["overlapping"]) == ("inconclusive", (1,), [2])
    assert headline(claim) == (
        "bert: from which layer upos is read best is not shown: layer 1 has the best score, accuracy 0.700, "
        "20.0 points from layer 0; the intervals of layer 2 reach as far."
    )
    assert "the band is better at layers 0 to 2." in evidence(claim)
    mixes = replace(scores, arm="upto")
    (claim,) = reading_claims([mixes], ["bert"], ACCURACY, "upos", {})
    assert headline(claim).startswith("bert: up to which layer upos is read best is not shown")
    unbounded = curve("bert", [0.5, 0.7, 0.6], np.array([0.01, 0.01, np.nan]))
    (claim,) = reading_claims([unbounded], ["bert"], ACCURACY, "upos", {})
    assert headline(claim) == "bert: upos is read best in this sample at layer 1, accuracy 0.700."


def test_the_largest_difference_is_not_shown_where_the_bands_of_others_reach_as_far() -> None:
    claim = difference([-0.2, 0.195, 0.0])
    assert (claim.layers, claim.facts["overlapping"]) == ((0,), [1])
    assert headline(claim).endswith("at layer 0, and the intervals of layer 1 reach as far.")


def test_mixes_of_layers_have_a_center_and_an_expected_layer() -> None:
    mix = {"shares": [0.1, 0.2, 0.7], "center": 1.6}
    for expected, words in (
        (1.24, "; the expected layer, by what each further layer adds, is 1.2."),
        (3.5, "."),
    ):
        (claim,) = mix_claims({"bert": {**mix, "expected_layer": expected}}, ["bert", "other"], ACCURACY)
        assert render(claim) == (
            "bert: the center of gravity of the mix of all layers is layer 1.6; layer 2 has the largest "
            f"weight, 70 % (an even mix has 33 %){words}"
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
    shared = (
        f"correlation of {noun} by length (Spearman, mean over lengths 5 to 50 that occur) is highest in "
        "this sample at"
    )
    assert [render(claim) for claim in length_claims(facts, ["masked", "tuned"])] == [
        f"masked: {shared} layer 1, 0.652.",
        f"tuned: {shared} layer 2, 0.300.",
    ]


def test_nothing_is_said_of_lengths_that_do_not_occur() -> None:
    nothing = {"distance_spearman": {"masked": {"mean": [float("nan")] * 2, "lengths": [6]}}}
    assert length_claims({}, ["masked"]) == length_claims(nothing, ["masked", "other"]) == []
