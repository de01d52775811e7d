"""How far are the values from the truth? Within what is promised, on every kind of layer."""

from __future__ import annotations

import hashlib
import math
import warnings
from functools import cache, partial
from typing import Any

import numpy as np
import pytest
import torch

import microtome as mt
import reference as ref
from cases import ACCURACY, CASES, make, related
from microtome.errors import SmallSampleWarning
from microtome.randomness import generator

pytestmark = pytest.mark.slow

NAMES = {
    "linear_cka": "linear_cka",
    "debiased_cka": "debiased_cka",
    "cca": "cca",
    "cca_squared": "cca:statistic=mean_rho2",
    "svcca": "svcca",
    "svcca_wu": "svcca:scaling=standardize:inclusive=False",
    "pwcca": "pwcca",
    "pwcca_svcca": "pwcca:variant=svcca",
    "pwcca_wu": "pwcca:variant=wu",
    "neuron_correlation": "neuron_correlation",
    "neuron_matching": "neuron_correlation:match=one_to_one",
    "mixed_regression": "mixed_regression",
    "linear_regression": "linear_regression",
    "nbs": "procrustes",
}
EXACT, FAST = 1e-10, 1e-6
LOOSER = {"exact": {"pwcca": 1e-8}, "fast": {"cca": 1e-4, "pwcca": 1e-4}}
# Cases in which nothing is defined, and why there would be more ranks than rows.
UNDEFINED = ("constant right layer", "two constant layers")
TOO_MANY_RANKS = ("fewer rows than features", "four rows", "one row more than features")


def promised(name: str, precision: str) -> float:
    return LOOSER[precision].get(name.split("_")[0], EXACT if precision == "exact" else FAST)


@pytest.fixture(autouse=True)
def decompose_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second implementation works out the same decompositions for every measure: remember them."""
    known: dict[tuple[Any, ...], Any] = {}
    directions = ref._directions

    def remembered(z: np.ndarray, tau: float) -> Any:
        key = (hashlib.blake2b(np.ascontiguousarray(z).tobytes()).digest(), z.shape, tau)
        if key not in known:
            known[key] = directions(z, tau)
        return known[key]

    monkeypatch.setattr(ref, "_directions", remembered)


def values(x: Any, y: Any, precision: str) -> dict[str, tuple[float, str | None]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        maps = mt.similarity_matrix([x], [y], list(NAMES.values()), precision=precision)
    return {name: (maps[label][0, 0].value, maps[label][0, 0].reason) for name, label in NAMES.items()}


@cache
def pair(case: str) -> tuple[np.ndarray, np.ndarray]:
    return make(case)


def truth(x: np.ndarray, y: np.ndarray) -> dict[str, float]:
    return {name: ref.VALUES[name](x.astype(np.float64), y.astype(np.float64)) for name in NAMES}


def check(x: Any, y: Any, true: dict[str, float]) -> None:
    for precision in ("exact", "fast"):
        for name, (found, reason) in values(x, y, precision).items():
            assert math.isnan(found) == math.isnan(true[name]), (name, precision, found, true[name])
            assert (reason is not None) == math.isnan(found), (name, precision, reason)
            error = abs(found - true[name])
            assert not error > promised(name, precision), (name, precision, error)


@pytest.mark.parametrize("case", ACCURACY)
def test_every_kind_of_layer(case: str) -> None:
    x, y = pair(case)
    true = truth(x, y)
    undefined = {name for name, value in true.items() if math.isnan(value)}
    # The component that crosses the threshold is the first: without it nothing is left.
    assert undefined <= ({"svcca_wu", "pwcca_wu"} if case.startswith("one component") else set())
    check(x, y, true)


@pytest.mark.parametrize("case", TOO_MANY_RANKS)
def test_few_rows(case: str) -> None:
    x, y = pair(case)
    true = truth(x, y)
    assert {name for name, value in true.items() if math.isnan(value)} == {"pwcca", "pwcca_svcca", "pwcca_wu"}
    check(x, y, true)
    assert "add up to more than n - 1" in str(values(x, y, "fast")["pwcca"][1])


@pytest.mark.parametrize("case", UNDEFINED)
def test_constant_layers(case: str) -> None:
    x, y = make(case, n=300, d=16)
    true = truth(x, y)
    assert all(math.isnan(value) for value in true.values())
    check(x, y, true)
    check(y, x, true)


def test_all_cases_are_covered() -> None:
    assert {*ACCURACY, *TOO_MANY_RANKS, *UNDEFINED} == set(CASES)


@pytest.mark.parametrize("kind", [torch.float16, torch.bfloat16])
def test_half_precision_input(kind: torch.dtype) -> None:
    x, y = (torch.from_numpy(z).to(kind) for z in make("plain power law", n=1000, d=32))
    check(x, y, truth(x.float().numpy(), y.float().numpy()))


@pytest.mark.parametrize("rows", [12, 40])
@pytest.mark.parametrize("case", ["sd range 1e5", "layer norm", "dead neuron", "scales 1e-6 to 1e6"])
def test_fewer_rows_than_features(case: str, rows: int) -> None:
    x, y = (z[:rows] for z in make(case, n=100, d=48))
    check(x, y, truth(x, y))


def test_a_large_mean_under_a_small_spread() -> None:
    # Float32 leaves such values on a coarse grid, and squares of whole numbers do not round evenly.
    rng = generator(0, "accuracy", "grid")
    a = rng.standard_normal((3000, 80))
    b = 0.7 * a + 0.7 * rng.standard_normal((3000, 80))
    x, y = ((3000 + 0.1 * z).astype(np.float32) for z in (a, b))
    check(x, y, truth(x, y))


@pytest.mark.parametrize("draw", range(4))
def test_a_canonical_correlation_of_zero(draw: int) -> None:
    # Its direction on the other side is lost in rounding, unless it is told from those of the others.
    x, y = related(generator(draw, "accuracy", "zero"), 700, 6, 6, sd=lambda d: np.linspace(1, 0.5, d))
    h, rho, g = ref._correlations(ref.basis(x), ref.basis(y))
    away = g[:, -1] - rho[-1] * h[:, -1]
    y = y + np.outer(away / np.linalg.norm(away) - g[:, -1], g[:, -1] @ y)
    assert ref.cca(x, y)[-1] < 1e-12
    true = ref.pwcca(x, y)
    for precision in ("exact", "fast"):
        one = mt.similarity_matrix([x, y], None, "pwcca", precision=precision)["pwcca"].values
        for found, expected in zip((one[0, 1], one[1, 0]), true, strict=True):
            assert abs(found - expected) <= promised("pwcca", precision), (precision, found - expected)


@pytest.mark.parametrize("share", [1e-2, 1e-3, 1e-4, 3e-5])
def test_narrow_layers_of_uneven_spectra(share: float) -> None:
    # With few directions, the error of the one that rounding blurs most is not averaged away.
    for draw in range(3):
        x, y = related(generator(draw, "narrow"), 2000, 6, 6, sd=lambda d: np.geomspace(1, share**0.5, d))
        x, y = x.astype(np.float32), y.astype(np.float32)
        check(x, y, truth(x, y))
        check(x, x.copy(), truth(x, x))


def test_tiny_numbers() -> None:
    x, y = make("plain power law", n=500, d=80)
    x = (x.astype(np.float64) * 1e-25).astype(np.float32)
    check(x, y, truth(x, y))


@pytest.mark.parametrize("n, d", [(50, 4), (300, 80), (50, 80)])
def test_one_row_that_differs_leaves_nothing_to_debias(n: int, d: int) -> None:
    # All off-diagonal entries of a centered Gram matrix are then explained by row effects.
    y = make("plain power law", n=n, d=d)[1]
    x, other = np.ones((n, d), dtype=np.float32), np.ones((n, d), dtype=np.float32)
    x[0, 0], other[1, 1] = 2, 3
    for a, b in ((x, y), (y, x), (x, other), (x, x)):
        for precision in ("exact", "fast"):
            cell = mt.similarity(a, b, "debiased_cka", precision=precision)
            assert math.isnan(cell.value), (precision, cell.value)
            assert cell.reason is not None


@pytest.mark.parametrize("precision", ["exact", "fast"])
def test_clusters(precision: str) -> None:
    x, y = make("plain power law", n=60, d=8)
    ids = generator(0, "accuracy", "clusters").integers(0, 14, 60)
    found = mt.similarity(x, y, "debiased_cka", clusters=ids, precision=precision)
    true = ref.debiased_cka(x.astype(np.float64), y.astype(np.float64), ids.tolist())
    assert abs(found.value - true) < promised("debiased_cka", precision)


def test_a_map_of_many_widths_in_both_directions() -> None:
    rng = generator(0, "accuracy", "widths")
    base = rng.standard_normal((400, 12))
    stack = [base @ rng.standard_normal((12, w)) + rng.standard_normal((400, w)) for w in (5, 9, 9, 16, 5)]
    maps = mt.similarity_matrix(stack, None, list(NAMES.values()), precision="exact")
    for name, label in NAMES.items():
        true = [[ref.VALUES[name](x, y) for y in stack] for x in stack]
        np.testing.assert_allclose(maps[label].values, true, atol=promised(name, "exact"), err_msg=name)
    apart = mt.similarity_matrix(stack[:2], stack, list(NAMES.values()), precision="exact")
    for label in NAMES.values():
        np.testing.assert_allclose(apart[label].values, maps[label].values[:2], atol=1e-12)


def test_row_measures_do_not_depend_on_the_precision() -> None:
    x, y = make("plain power law", n=200, d=12)
    for label, true in (
        ("rsa", ref.rsa),
        ("rsa:inner=pearson", partial(ref.rsa, inner="correlation")),
        ("rbf_cka", ref.rbf_cka),
        ("mutual_knn", ref.mutual_knn),
    ):
        for precision in ("exact", "fast"):
            found = mt.similarity(x, y, label, precision=precision)
            assert abs(found.value - true(x.astype(np.float64), y.astype(np.float64))) < EXACT, label


def test_precision_switches_where_rounding_would_decide() -> None:
    x, y = make("plain power law", n=120, d=80)
    with pytest.warns(SmallSampleWarning):
        one = mt.similarity_matrix([x], [y], ["cca", "linear_cka"])
    assert one["cca"].precision == "exact (switched: fewer than twice as many rows as features)"
    assert mt.similarity_matrix([x], [y], "linear_cka")["linear_cka"].precision == "fast"
