"""Does the contract reject measures that are broken, and say which clause they break?"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from defects import DEFECTS
from microtome.measures.cka import LINEAR_CKA
from microtome.measures.declare import Measure, MeasureOption, invariant
from microtome.measures.neurons import NEURON_CORRELATION
from microtome.measures.table import chosen
from microtome.testing import ContractError, check_measure
from microtome.testing.measures import Check, Reference, contract, failures
from reference import VALUES

TABLE = {"cca_squared": "cca:statistic=mean_rho2"}

# One clause that each mistake breaks. Some keep every property that is declared, and only a second
# implementation tells them from the truth.
REFERENCE = "agrees with the reference"
BROKEN = {
    "Gram matrix of uncentered float32": "large means",
    "Gram matrix of uncentered float32, clamped to [0, 1]": "large means",
    "Gram matrix of uncentered float32, biased": "large means",
    "raw float32 moments minus the means": "large means",
    "not centered": "ignores translation on the left",
    "only the last batch counts": "order of rows",
    "sum over batches, not divided": "self value",
    "mean of the batches' biased values": "order of rows",
    "last batch under four rows": "order of rows",
    "unbiased is ignored": "null mean",
    "unbiased HSIC over biased norms": "self value",
    "rows of the two sides differ": "self value",
    "writes the centered data back": "input untouched",
    "kernel width fixed at 1": "ignores isotropic_scale on the right",
    "mean correlation called mean square": REFERENCE,
    "mean over 98 % of the sum": REFERENCE,
    "dead direction counts as 0": "constant neurons",
    "inverse root without a rank": "self value",
    "inverse root with a fixed ridge": "ignores isotropic_scale on the left",
    "rounding counts as a direction": "ignores orthogonal on the left",
    "rank from the covariance": "ignores neuron_scale on the left",
    "NaN for one constant neuron": "constant neurons",
    "CCA not centered": "ignores translation on the right",
    "orthonormal before the cut": "self value",
    "cut on the sum, not on squares": REFERENCE,
    "cut before centering": "ignores translation on the left",
    "ten dimensions, always": REFERENCE,
    "one component fewer": REFERENCE,
    "z-scored without saying so": "notices neuron_scale on the left",
    "weights without whitening": REFERENCE,
    "weights with the mean added back": "ignores translation on the left",
    "weights under the other side's mask": "symmetry",
    "coefficients made orthonormal, not variates": "ignores translation on the left",
    "weights over null directions": "constant neurons",
    "weights after a cut, from other scales": "ignores invertible_linear on the right",
    "dead neuron is noise over 1e-7": "constant neurons",
    "dead neuron is regressed noise": "constant neurons",
    "regression on rounding": "ignores isotropic_scale on the right",
}


def wrapped(function: Reference, name: str) -> Measure:
    """A function of two arrays as a measure that declares what the measure of that name declares."""
    like = chosen(TABLE.get(name, name))

    def compute(left: Any, right: Any, options: Mapping[str, Any]) -> tuple[float, str | None]:
        found = float(function(left.numpy(), right.numpy()))
        return found, "undefined" if math.isnan(found) else None

    return Measure(
        name="mine",
        title="mine",
        summary="A measure of one's own.",
        formula="f(X, Y)",
        citations=(),
        range=like.declared("range"),
        symmetric=like.declared("symmetric"),
        invariances=like.declared("invariances"),
        needs="rows",
        prepare=lambda x, options: x,
        compute=compute,
        null="zero" if name == "debiased_cka" else None,
    )


def clause(name: str, function: Reference, measure: str) -> Check:
    found = contract(wrapped(function, measure), reference=VALUES[measure])
    return next(check for check in found if check.name == name)


def test_every_defect_is_tried() -> None:
    assert set(BROKEN) == set(DEFECTS)


@pytest.mark.parametrize("defect", DEFECTS)
def test_a_broken_measure_is_rejected(defect: str) -> None:
    measure, function = DEFECTS[defect]
    with np.errstate(all="ignore"), pytest.raises(ContractError, match=f"^mine, {BROKEN[defect]}: "):
        clause(BROKEN[defect], function, measure).run()


@pytest.mark.parametrize("name, measure", sorted({(BROKEN[d], m) for d, (m, _) in DEFECTS.items()}))
def test_the_true_measure_passes_where_its_broken_twin_does_not(name: str, measure: str) -> None:
    clause(name, VALUES[measure], measure).run()


@pytest.mark.parametrize("measure", ["linear_cka", "pwcca"])
def test_a_function_of_two_arrays_can_keep_the_whole_contract(measure: str) -> None:
    check_measure(wrapped(VALUES[measure], measure), reference=VALUES[measure])


def wrong_value(change: Callable[[float], float]) -> Measure:
    truth = VALUES["linear_cka"]
    return wrapped(lambda x, y: change(truth(x, y)), "linear_cka")


FALSE: dict[str, tuple[Measure, str]] = {
    "symmetric": (replace(LINEAR_CKA, symmetric=False), "symmetry"),
    "not symmetric": (replace(NEURON_CORRELATION, symmetric=True, varying={}), "symmetry"),
    "too narrow a range": (replace(LINEAR_CKA, range=(0.0, 0.5)), "range"),
    "no range": (replace(LINEAR_CKA, range=(1.0, 0.0)), "documented"),
    "another self value": (replace(LINEAR_CKA, self_value=0.0), "self value"),
    "an invariance too many": (
        replace(LINEAR_CKA, invariances=invariant(*LINEAR_CKA.invariances.left, left=("neuron_scale",))),
        "ignores neuron_scale on the left",
    ),
    "an invariance too few": (
        replace(LINEAR_CKA, invariances=invariant("isotropic_scale", "translation", "neuron_permutation")),
        "notices orthogonal on the right",
    ),
    "another null": (replace(LINEAR_CKA, null="debiased"), "null mean"),
    "no summary": (replace(LINEAR_CKA, summary=" "), "documented"),
    "an unknown paper": (replace(LINEAR_CKA, citations=("nobody1999",)), "documented"),
    "an option without a meaning": (
        replace(LINEAR_CKA, options=MappingProxyType({"k": MeasureOption(default=1, low=0, meaning="")})),
        "documented",
    ),
    "a distance": (wrong_value(lambda v: 1 - v), "closer is higher"),
    "NaN where it is defined": (wrong_value(lambda v: math.nan if v > 0.3 else v), "symmetry"),
    "a number where it is not defined": (
        wrong_value(lambda v: 0.0 if math.isnan(v) else v),
        "undefined",
    ),
}


@pytest.mark.parametrize("declaration", FALSE)
def test_a_false_declaration_is_found(declaration: str) -> None:
    measure, name = FALSE[declaration]
    check = next(check for check in contract(measure) if check.name == name)
    with pytest.raises(ContractError, match=f"^{measure.name}, {name}: .*[.)]$"):
        check.run()


def test_an_option_that_breaks_the_measure_is_found() -> None:
    def compute(left: Any, right: Any, options: Mapping[str, Any]) -> tuple[float, str | None]:
        return VALUES["linear_cka"](left.numpy(), right.numpy()) * options["factor"], None

    options = MappingProxyType({"factor": MeasureOption(default=1.0, low=0.0, high=9.0, meaning="a factor")})
    mine = replace(wrapped(VALUES["linear_cka"], "linear_cka"), compute=compute, options=options)
    check = next(check for check in contract(mine) if check.name == "options")
    with pytest.raises(ContractError, match=r"mine:factor=9.0 must lie between 0 and 1"):
        check.run()


def test_all_broken_clauses_come_in_one_error() -> None:
    def function(x: np.ndarray, y: np.ndarray) -> float:
        raise ZeroDivisionError("no rows")

    mine = wrapped(function, "cca")
    found = failures(mine)
    assert "self value" in found
    assert "documented" not in found
    assert found["range"] == "mine, range: it raised ZeroDivisionError: no rows"
    with pytest.raises(ContractError) as caught:
        check_measure(mine)
    assert str(caught.value).splitlines() == list(found.values())
    assert isinstance(caught.value, AssertionError)
