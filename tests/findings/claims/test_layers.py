"""Claims about maps agree with the profile of change, the matching and the cells behind them."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import microtome as mt
from microtome.findings.claims.claim import Claim
from microtome.findings.claims.render import evidence, headline
from microtome.findings.maps import Map
from microtome.findings.record import Maps
from microtome.randomness import generator

NAMES = [f"a/{k}" for k in range(3)], [f"b/{k}" for k in range(3)]
BLOCK = np.array([[1.0, 0.4, 0.3], [0.5, 0.9, 0.6], [0.7, 0.4, 0.5]])


def make_map(values: np.ndarray, names: list[str]) -> Map:
    rows = generator(0, "rows").normal(size=(40, 3))
    similarity_map = mt.similarity_matrix([rows] * len(names), names=names)["debiased_cka"]
    return replace(similarity_map, values=np.asarray(values, dtype=np.float64))


def claims_of(
    block: Any, first: list[str], second: list[str], tuned_from: dict[str, str] | None = None
) -> dict[str, Claim]:
    """Claims about two models whose block of one with the other is given, by their kind."""
    block = np.asarray(block, dtype=np.float64)
    values = np.block([[np.eye(len(first)), block], [block.T, np.eye(len(second))]])
    models = [
        {"name": name, "tuned": {"model": base} if (base := (tuned_from or {}).get(name)) else None}
        for name in (first[0].rpartition("/")[0], second[0].rpartition("/")[0])
    ]
    similarity_map = make_map(values, [*first, *second])
    provenance = MappingProxyType({**similarity_map.provenance, "models": models})
    claims = Maps([replace(similarity_map, provenance=provenance)]).claims
    return {claim.kind: claim for claim in claims}


def test_change_and_matching_are_those_of_the_block() -> None:
    claims = claims_of(BLOCK, *NAMES, {"b": "a"})
    profile, matching = mt.analysis.change_profile(BLOCK), mt.analysis.layer_matching(BLOCK)
    changed = claims["changed layer"]
    assert (changed.facts["center"], changed.facts["top_third"]) == (profile.center, profile.top_third)
    assert headline(changed) == "Fine-tuning changed layer 2 of b most in this sample: debiased CKA 0.500."
    share = claims["matching layers"].estimate
    assert share is not None
    assert (share.value, share.low, share.high) == (
        matching.accuracy,
        matching.interval.low,
        matching.interval.high,
    )
    assert headline(claims["matching layers"]) == (
        "67 % of the layers of a are most similar to the layer of b at their own depth (chance: 33 %)."
    )


@pytest.mark.parametrize("tuned_from", [{}, {"a": "base", "b": "base"}])
def test_models_differ_unless_one_is_known_to_be_the_other_after_training(tuned_from: dict[str, str]) -> None:
    """Two unrelated models, and two seeds of one base."""
    changed = claims_of(BLOCK, *NAMES, tuned_from)["changed layer"]
    assert headline(changed) == "Layer 2 differs most between a and b in this sample: debiased CKA 0.500."
    assert "chang" not in evidence(changed)


def test_a_model_may_stand_before_the_one_that_it_was_tuned_from() -> None:
    changed = claims_of(BLOCK, *NAMES, {"a": "b"})["changed layer"]
    assert headline(changed).startswith("Fine-tuning changed layer 2 of a most")


def test_rounding_is_no_change() -> None:
    block = np.full((3, 3), 0.2) + np.diag([0.8 + 2e-16, 0.8 - 2e-8, 0.8 + 3e-8])
    changed = claims_of(block, *NAMES, {"b": "a"})["changed layer"]
    assert headline(changed) == (
        "No layer differs more between b and a than another: debiased CKA 1.000 at all of them."
    )
    assert "center" not in evidence(changed)


def test_layers_keep_their_depth_where_the_first_is_left_out() -> None:
    block = [[0.9, 0.1], [0.2, 0.5]]
    assert "(layers 1 to 2)" in evidence(claims_of(block, ["a/1", "a/2"], ["b/1", "b/2"])["changed layer"])


def test_a_name_may_hold_a_slash_and_a_norm_has_no_depth() -> None:
    block = [[0.9, 0.1, 0.0], [0.2, 0.5, 0.0]]
    claims = claims_of(block, ["org/a/0", "org/a/1"], ["b/0", "b/1", "b/norm"], {"b": "org/a"})
    assert headline(claims["changed layer"]).startswith("Fine-tuning changed layer 1 of b most")
    assert "of 2 layers" in evidence(claims["matching layers"])


def test_models_of_unequal_depth_have_no_profile_of_change() -> None:
    block = [[0.9, 0.1, 0.0], [0.2, 0.5, 0.0]]
    claims = claims_of(block, ["a/0", "a/1"], ["b/0", "b/1", "b/2"])
    assert "changed layer" not in claims
    assert "of 2 layers" in evidence(claims["matching layers"])


def test_change_is_not_counted_from_values_above_1() -> None:
    claims = claims_of([[3.0, 0.1], [0.2, 0.5]], ["a/0", "a/1"], ["b/0", "b/1"])
    assert list(claims) == ["matching layers"]


def test_undefined_cells_are_named_and_never_counted() -> None:
    block = [[np.nan, 0.1, 0.2], [0.2, 0.5, 0.4], [0.1, 0.2, 0.6]]
    claims = claims_of(block, *NAMES)
    assert "matching layers" not in claims
    assert "Left out as undefined: layer 0." in evidence(claims["changed layer"])


def test_one_model_has_nothing_to_be_compared_with() -> None:
    claims = Maps([make_map(np.eye(3), ["a/0", "a/1", "a/2"])]).claims
    assert [claim.kind for claim in claims] == ["no alike layers"]
