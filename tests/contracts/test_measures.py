"""Does every measure of the table keep its contract, with its defaults and with its other options?"""

from __future__ import annotations

import math

import pytest

import microtome as mt
from microtome.measures.citations import CITATIONS
from microtome.measures.declare import Chosen
from microtome.measures.table import MEASURES, chosen
from microtome.randomness import generator
from microtome.testing.measures import Check, Reference, contract, variants
from reference import (
    VALUES,
    mixed_regression,
    neuron_correlation,
    procrustes_angle,
    pwcca,
    rbf_cka,
    rsa,
    svcca,
)

OF_ROWS = [measure for measure in MEASURES.values() if measure.needs != "attention"]
CHOICES: list[Chosen] = [
    *(choice for measure in OF_ROWS for choice in variants(measure)),
    chosen("svcca:threshold=0.9"),
    chosen("svcca:scaling=standardize:inclusive=False"),
    chosen("svcca:top=0.5"),
    chosen("pwcca:variant=svcca:top=0.5"),
    chosen("mixed_regression:top=0.5"),
    chosen("neuron_correlation:top=0.5"),
    chosen("linear_regression:estimator=cross_validated:ridge=0.1"),
    chosen("rsa:inner=euclidean:outer=spearman"),
]
TRUTHS: dict[str, Reference] = {
    "linear_cka": VALUES["linear_cka"],
    "debiased_cka": VALUES["debiased_cka"],
    "rbf_cka": VALUES["rbf_cka"],
    "rbf_cka:t=0.4": lambda x, y: rbf_cka(x, y, 0.4),
    "cca": VALUES["cca"],
    "cca:statistic=mean_rho2": VALUES["cca_squared"],
    "svcca": VALUES["svcca"],
    "svcca:threshold=0.9": lambda x, y: svcca(x, y, threshold=0.9),
    "svcca:scaling=standardize:inclusive=False": VALUES["svcca_wu"],
    "svcca:top=0.5": lambda x, y: svcca(x, y, top=0.5),
    "svcca:scaling=standardize:inclusive=False:top=0.1": lambda x, y: svcca(
        x, y, "standardize", 0.99, False, 0.1
    ),
    "pwcca": VALUES["pwcca"],
    "pwcca:top=0.5": lambda x, y: pwcca(x, y, top=0.5)[0],
    "pwcca:variant=svcca:top=0.3": lambda x, y: pwcca(x, y, "svcca", top=0.3)[0],
    "pwcca:variant=wu:top=0.5": lambda x, y: pwcca(x, y, "wu", top=0.5)[0],
    "pwcca:variant=svcca": VALUES["pwcca_svcca"],
    "pwcca:variant=wu": VALUES["pwcca_wu"],
    "neuron_correlation": VALUES["neuron_correlation"],
    "neuron_correlation:match=one_to_one": VALUES["neuron_matching"],
    "neuron_correlation:top=0.5": lambda x, y: neuron_correlation(x, y, top=0.5),
    "mixed_regression": VALUES["mixed_regression"],
    "mixed_regression:top=0.5": lambda x, y: mixed_regression(x, y, top=0.5),
    "linear_regression": VALUES["linear_regression"],
    "rsa": VALUES["rsa"],
    "rsa:inner=pearson": lambda x, y: rsa(x, y, "correlation"),
    "rsa:inner=euclidean:outer=spearman": lambda x, y: rsa(x, y, "euclidean", "spearman"),
    "procrustes": VALUES["nbs"],
    "procrustes:statistic=angular": lambda x, y: 1 - 2 * procrustes_angle(x, y) / math.pi,
    "mutual_knn": VALUES["mutual_knn"],
}


@pytest.mark.parametrize(
    "check",
    [pytest.param(c, id=f"{choice.label} {c}") for choice in CHOICES for c in contract(choice)],
)
def test_contract(check: Check) -> None:
    check.run()


@pytest.mark.parametrize("label", TRUTHS)
def test_agrees_with_the_definition(label: str) -> None:
    *_, last = contract(label, reference=TRUTHS[label])
    assert last.name == "agrees with the reference"
    last.run()


def test_every_measure_has_a_paper() -> None:
    for measure in MEASURES.values():
        assert measure.citations
        assert set(measure.citations) <= set(CITATIONS)


def test_every_measure_of_rows_has_a_second_implementation() -> None:
    assert {measure.name for measure in OF_ROWS} == {label.split(":")[0] for label in TRUTHS}


def test_a_kernel_that_is_too_narrow_says_so() -> None:
    x, y = generator(0, "contracts", "narrow kernel").standard_normal((2, 300, 12))
    found = mt.similarity(x, y, "rbf_cka", t=0.01, debiased=True)
    assert math.isfinite(found.value) or found.reason
