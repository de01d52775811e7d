"""Every sentence of a report agrees with the numbers behind it, whichever way they come out."""

from __future__ import annotations

import math
import re
import tempfile
from itertools import combinations
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from figures.resulting import make_curve, make_result
from microtome.experiments.surgery.claims import baseline_claim
from microtome.findings.blocks import Block, BlockFinding
from microtome.findings.claims.claim import Claim, Quantity
from microtome.findings.claims.render import render
from microtome.findings.claims.tuning import difference_claim
from microtome.findings.maps import Map
from microtome.findings.record import Maps
from microtome.findings.results import Result
from microtome.findings.stackblocks import StackBlocks
from microtome.findings.words import at_least, at_most
from microtome.inference.estimate import Interval
from microtome.inference.pairing import Comparison
from microtome.inference.seeds import Standing
from microtome.report.collecting import collect
from report.samples import drop, estimate, finetuning, pruned, write_json

QUICK = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NUMBER = r"(-?\d+\.?\d*)"
BAND = rf"\[{NUMBER}, {NUMBER}\]"
# As a user's numbers are: mostly defined, some not, some exactly at the margin.
LOSSES = st.one_of(st.floats(-0.6, 0.6), st.sampled_from([0.0, 0.01, -0.01, 0.0001, math.nan]))
WIDTHS = st.one_of(st.floats(0.0, 0.3), st.sampled_from([0.0, 0.001, math.nan]))


def told(found: Any) -> dict[str, Any]:
    """Save a result as a user does, and collect what is said of it."""
    with tempfile.TemporaryDirectory() as folder:
        found.save(Path(folder) / "one") if hasattr(found, "save") else write_json(found, Path(folder))
        return collect(folder)


def sentences(document: dict[str, Any]) -> list[str]:
    assert not [p for p in document["provenance"] if "problem" in dict(p["facts"])]
    return [text for section in document["sections"] for text in section["sentences"]]


def sure(document: dict[str, Any], text: str) -> bool:
    full = {f"{one['text']} {one['evidence']}".rstrip(): one["sure"] for one in document["findings"]}
    return next(mark for written, mark in full.items() if written.endswith(text)) == "shown"


def close(text: str, value: float, digits: int) -> bool:
    """Whether a printed number is a value, rounded."""
    return abs(float(text) - value) <= 0.5 * 10**-digits + 1e-9


def is_bound(text: str, value: float, digits: int, side: int) -> bool:
    """Whether a printed bound is a value rounded outward: up for side 1, down for side -1."""
    beyond = side * (float(text) - value)
    # Beyond ten decimals an end is noise of arithmetic.
    return -1e-10 <= beyond < 10**-digits + 1e-9


@pytest.mark.parametrize("value", [0.0, 0.005, -0.005, 1.0, 0.1 + 0.2, 2 / 3, -1e-9, 99.999])
def test_bounds_are_rounded_away_from_the_claim(value: float) -> None:
    assert float(at_least(value)) <= value <= float(at_most(value))
    assert float(at_most(value)) - float(at_least(value)) <= 0.01 + 1e-12


def spread(points: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    value, width = (np.array([one[k] for one in points]) for k in (0, 1))
    return value, width


def make_map(values: np.ndarray, width: np.ndarray | None, *, method: str, names: list[str]) -> Map:
    """A map of debiased CKA with the intervals that are handed in."""
    blank = np.full(values.shape, np.nan)
    known: dict[str, Any] = {}
    if width is not None:
        known = {"low": values - width, "high": values + width, "level": 0.95, "method": method}
    reasons = tuple(tuple(None if np.isfinite(v) else "a layer is constant" for v in row) for row in values)
    return Map(
        measure="debiased_cka",
        left=tuple(names),
        right=tuple(names),
        values=values,
        reasons=reasons,
        n=100,
        estimator="debiased CKA",
        null_mean=blank,
        z=blank,
        p=blank,
        unit="sentence",
        target="population value",
        symmetric=True,
        **known,
    )


@st.composite
def squares(draw: Any, size: int) -> tuple[np.ndarray, np.ndarray | None]:
    """Similarities of so many layers that are often high, some undefined, with intervals or without."""
    shape = (size, size)
    cells = size * size
    near = st.one_of(st.floats(0.85, 1.0), st.floats(0.98, 1.0), st.just(math.nan), st.floats(-0.1, 1.0))
    values = np.reshape(draw(st.lists(near, min_size=cells, max_size=cells)), shape)
    values = np.triu(values, 1) + np.triu(values, 1).T
    np.fill_diagonal(values, 1.0)
    if draw(st.booleans()):
        # The first token of every text is the same, so layer 0 is constant.
        values[0] = values[:, 0] = math.nan
    if draw(st.booleans()):
        return values, None
    small = st.one_of(st.floats(0.0, 0.02), st.floats(0.0, 0.2))
    width = np.reshape(draw(st.lists(small, min_size=cells, max_size=cells)), shape)
    return values, (width + width.T) / 2


def widened(values: np.ndarray, width: np.ndarray, cells: int, method: str) -> np.ndarray:
    """Half-widths that hold for all cells at once, by another library's quantiles."""
    if method != "influence function":
        return width
    return width * norm.ppf(1 - 0.05 / (2 * cells)) / norm.ppf(0.975)


METHODS = st.sampled_from(["influence function", "jackknife over groups of clusters"])


@QUICK
@given(st.integers(3, 6).flatmap(squares), METHODS)
def test_layers_that_are_alike(square: tuple[np.ndarray, np.ndarray | None], method: str) -> None:
    values, width = square
    size = len(values)
    names = [f"a/{k}" for k in range(size)]
    document = told(Maps([make_map(values, width, method=method, names=names)]))
    said = [text for text in sentences(document) if not text.startswith("Undefined")]
    tested = values
    if width is not None:
        tested = values - widened(values, width, size * (size - 1) // 2, method)
    least = {
        (a, b): min(tested[i, j] for i, j in combinations(range(a, b), 2))
        if np.isfinite([tested[i, j] for i, j in combinations(range(a, b), 2)]).all()
        else math.nan
        for a in range(size)
        for b in range(a + 3, size + 1)
    }
    runs = {run: worst for run, worst in least.items() if worst >= 0.9}
    for text in said:
        if match := re.match(
            rf"Layers (\d+) to (\d+) of a are alike.*at least {NUMBER} between any two", text
        ):
            run = int(match[1]), int(match[2]) + 1
            assert run in runs
            assert is_bound(match[3], runs[run], 2, -1)
            assert ("in this sample" in text) == (width is None)
            assert sure(document, text) == (width is not None)
            if width is not None:
                assert ("all pairs at once" in text) == (method == "influence function")
                assert ("each pair alone" in text) == (method != "influence function")
        else:
            assert text.startswith("No run of 3 layers of a")
            assert not runs
            if match := re.search(rf"Highest are layers (\d+) to (\d+), at least {NUMBER}", text):
                run = int(match[1]), int(match[2]) + 1
                triples = [worst for (a, b), worst in least.items() if b - a == 3]
                assert least[run] == pytest.approx(np.nanmax(triples))
                assert is_bound(match[3], least[run], 2, -1)
    if runs:
        longest = max(b - a for a, b in runs)
        match = re.match(r"Layers (\d+) to (\d+)", said[0])
        assert match is not None
        assert int(match[2]) - int(match[1]) + 1 == longest


@QUICK
@given(
    st.lists(
        st.tuples(st.one_of(st.floats(0.1, 1.0), st.just(math.nan)), st.floats(0.0, 0.1)),
        min_size=2,
        max_size=6,
    ),
    st.booleans(),
    METHODS,
)
def test_the_layer_that_changed_most(points: list[tuple[float, float]], known: bool, method: str) -> None:
    same, width = spread(points)
    size = len(same)
    names = [f"{model}/{k}" for model in ("b", "a") for k in range(size)]
    values = np.full((2 * size, 2 * size), math.nan)
    wide = np.full(values.shape, math.nan)
    for k in range(size):
        values[k, size + k] = values[size + k, k] = same[k]
        wide[k, size + k] = wide[size + k, k] = width[k]
    one = make_map(values, wide if known else None, method=method, names=names)
    document = told(Maps([one]))
    said = [text for text in sentences(document) if "differs" in text]
    same = np.where(abs(same - 1) <= 1e-6, 1.0, same)
    defined = np.flatnonzero(np.isfinite(same))
    if len(defined) < 2:
        assert not said
        return
    text = said[0]
    reach = widened(same, width, len(defined), method)
    low, high = same - reach, same + reach
    if text.startswith("No layer differs more"):
        assert len(set(same[defined])) == 1
        return
    layer = re.search(r"[Ll]ayer (\d+) (?:is lowest|differs)", text)
    assert layer is not None
    k = int(layer[1])
    assert same[k] == np.nanmin(same)
    value = re.search(rf"debiased CKA {NUMBER}", text)
    assert value is not None
    digits = len(value[1].partition(".")[2])
    assert 3 <= digits <= 6
    assert close(value[1], same[k], digits)
    others = [i for i in defined if i != k]
    if not known:
        assert "in this sample" in text
        assert "has no interval" in text
        assert not sure(document, text)
        return
    band = re.search(BAND, text)
    assert band is not None
    assert is_bound(band[1], low[k], digits, -1)
    assert is_bound(band[2], high[k], digits, 1)
    clear = all(low[i] > high[k] for i in others)
    assert sure(document, text) == clear
    assert ("is not shown" in text) == (not clear)
    if clear:
        match = re.search(rf"every other layer at least {NUMBER}", text)
        assert match is not None
        assert is_bound(match[1], low[others].min(), digits, -1)
    else:
        named = re.search(r"intervals of layers? (.*) reach", text)
        assert named is not None
        expected = [i for i in others if low[i] <= high[k]]
        assert numbers_of(named[1]) == expected


def numbers_of(text: str) -> list[int]:
    """Read "2 to 4 and 6" as the numbers it names."""
    found: list[int] = []
    for part in re.split(r", | and ", text):
        ends = [int(one) for one in part.split(" to ")]
        found += range(ends[0], ends[-1] + 1)
    return found


@QUICK
@given(
    st.lists(st.one_of(st.floats(0.2, 1.0), st.just(math.nan)), min_size=1, max_size=4),
    st.one_of(st.none(), st.floats(0.0, 0.3)),
    st.one_of(st.none(), st.floats(-0.4, 0.4)),
    st.data(),
)
def test_scores_over_seeds(values: list[float], half: float | None, away: float | None, data: Any) -> None:
    failures = [data.draw(st.sampled_from([None, None, "collapsed: one answer"])) for _ in values]
    ends = [(None, None) if half is None else (v - half, v + half) for v in values]
    scores = [
        estimate(v, low, high, unit="example", n=277) for v, (low, high) in zip(values, ends, strict=True)
    ]
    sound = [v for v, failed in zip(values, failures, strict=True) if failed is None]
    middle = float(np.mean(sound)) if sound else math.nan
    known = half is not None and math.isfinite(middle)
    # Near the score, where it matters on which side of the interval a guess lies.
    guess = None if away is None or math.isnan(middle) else middle + away
    bounds = (middle - half, middle + half) if half is not None and known else (None, None)
    mean = estimate(middle, *bounds, unit="example and seed", n=277)
    document = told(finetuning(scores, mean, guess=guess, failures=failures))
    said = sentences(document)
    failed = len(values) - len(sound)
    some = "The only run" if len(values) == 1 else f"{failed} of {len(values)} runs"
    assert any(text.startswith(f"{some} failed (") for text in said) == bool(failed)
    reached = [text for text in said if "on validation is" in text]
    if not math.isfinite(middle):
        assert not reached
        return
    [text] = reached
    start = "Accuracy" if len(sound) == 1 else f"Mean accuracy of {len(sound)} seeds"
    value = re.match(rf"{start} on validation is (\d+\.\d{{3}})", text)
    assert value is not None
    assert close(value[1], middle, 3)
    assert ("Other seeds are not covered" in text) == (len(sound) == 1)
    band = re.search(BAND, text)
    if half is None:
        assert band is None
        return
    assert band is not None
    assert is_bound(band[1], middle - half, 3, -1)
    assert is_bound(band[2], middle + half, 3, 1)
    if guess is not None:
        same = "not significantly different from"
        side = "above" if guess < middle - half else "below" if guess > middle + half else same
        assert side in text
        assert sure(document, text) == (side != same)


@QUICK
@given(st.floats(-0.5, 0.5), st.one_of(st.none(), st.floats(0.001, 0.4)))
def test_one_model_against_another(difference: float, half: float | None) -> None:
    interval = None
    if half is not None:
        ends = {"low": difference - half, "high": difference + half}
        interval = Interval(**ends, level=0.95, method="t", unit="example", target="difference")
    given_scores = {"first": 0.7 + difference, "second": 0.7, "difference": difference}
    test: dict[str, Any] = {"p": 0.1, "test": "t test", "n": 277, "units": 277, "seeds": (1, 1)}
    test |= {"center": difference, "se": 0.1, "dof": 276.0, "points": 100.0}
    comparison = Comparison(score="accuracy", **given_scores, interval=interval, **test)
    [claim] = difference_claim(comparison, "two")
    text = render(claim)
    shown = half is not None and not difference - half <= 0 <= difference + half
    assert (claim.verdict == "holds") == shown
    assert ("not significantly different from that of two" in text) == (not shown)
    value = re.search(rf"Difference: {NUMBER} points", text)
    assert value is not None
    assert close(value[1], 100 * difference, 2)
    band = re.search(BAND, text)
    if half is None:
        assert band is None
        assert "without an interval" in text
        return
    assert band is not None
    assert is_bound(band[1], 100 * (difference - half), 2, -1)
    assert is_bound(band[2], 100 * (difference + half), 2, 1)


def test_a_table_has_the_bounds_of_the_sentence_above_it() -> None:
    score = estimate(0.6051, 0.5189, 0.6911, unit="example", n=277)
    document = told(finetuning([score], score))
    text = sentences(document)[0]
    assert text.startswith("Accuracy on validation is 0.605, above the majority baseline (0.510).")
    assert "Interval: [0.518, 0.692] (95 %, over examples); n = 277 examples." in text
    assert document["sections"][0]["rows"][0][1] == "0.605 [0.518, 0.692]"


def test_nothing_is_concluded_of_an_arm_whose_reference_is_a_guess() -> None:
    standing = Standing(score="accuracy", value=0.5, baseline=0.51, beats=False, ahead=False)
    claim = baseline_claim(standing, "freezing", "the model with nothing frozen", "difference top")
    arms = tuple(make_curve(f"difference {arm}", [0.0], axis="blocks frozen") for arm in ("bottom", "top"))
    result = make_result(experiment="freezing", curves=arms, claims=(claim, claim))
    assert sentences(told(result)) == [
        "Nothing is concluded about freezing: the model with nothing frozen does not beat the "
        "majority baseline (accuracy 0.500 against 0.510)."
    ]


def test_a_pruned_model_that_is_a_guess_is_not_promised() -> None:
    weak = Standing(score="accuracy", value=0.9, baseline=0.95, beats=False, ahead=False)
    [text] = sentences(told(pruned([drop(value=0.5, upper=0.681)], standing=weak).document()))
    assert text.startswith("Nothing is concluded about pruning: the whole model does not beat the majority")


def test_a_cut_that_did_not_pass_is_not_called_safe() -> None:
    [text] = sentences(told(pruned([drop(upper=3.0, p=0.4)]).document()))
    assert text.startswith(
        "Nothing can be removed safely: without block 6 a cost of 1 point of accuracy is not"
    )


def test_a_cut_stands_beside_the_majority_baseline() -> None:
    standing = Standing(score="accuracy", value=0.9, baseline=0.5271, beats=True, ahead=True)
    document = told(pruned([drop(value=0.5, upper=0.681)], standing=standing).document())
    [text] = sentences(document)
    scores = "accuracy 0.900 of the whole model, 0.895 of the smaller one, 0.527 of the majority baseline."
    assert text.endswith(scores)
    assert document["sections"][0]["rows"][0][3] == "0.69"


UPPER = st.one_of(st.floats(0.0, 5.0), st.just(math.inf))


@QUICK
@given(
    st.lists(st.tuples(st.floats(-1.0, 3.0), UPPER, st.floats(0.0, 1.0)), min_size=0, max_size=3),
    st.one_of(st.none(), st.floats(0.0, 1.0)),
)
def test_what_was_pruned(tested: list[tuple[float, float, float]], again: float | None) -> None:
    # A sequence ends with the first cut that does not pass.
    stop = next((k + 1 for k, (_, _, p) in enumerate(tested) if p > 0.05), len(tested))
    drops = [drop(value=value, upper=upper, p=p) for value, upper, p in tested[:stop]]
    confirmed = None if again is None else drop(p=again)
    found = pruned(drops, confirmed=confirmed)
    document = told(found.document())
    said = sentences(document)
    passed = [one for one in drops if one.p <= 1 - one.level]
    if passed:
        assert re.match(r"Blocks? ([\d to and]+) of 6 can be removed at a cost", said[0])
        named = re.match(r"Blocks? (.*?) of 6", said[0])
        assert named is not None
        assert numbers_of(named[1]) == list(found.removed)
        assert sure(document, said[0])
        limit = re.search(rf"cost of at most {NUMBER} points", said[0])
        if math.isfinite(passed[-1].upper):
            assert limit is not None
            assert is_bound(limit[1], passed[-1].upper, 2, 1)
        else:
            assert limit is None
            assert "less than 1 point" in said[0]
    else:
        assert said[0].startswith("Nothing can be removed safely: ")
        assert not sure(document, said[0])
    doubted = [text for text in said if "is not excluded" in text and "used for nothing else" not in text]
    assert bool(doubted) == (len(passed) < len(drops))
    last = [text for text in said if "used for nothing else" in text]
    assert len(last) == (again is not None and bool(passed))
    if last and again is not None:
        assert last[0].startswith("Not confirmed") == (again > 0.05)


@QUICK
@given(st.booleans(), st.integers(0, 4), st.floats(0.01, 0.4), st.floats(0, 1))
def test_layers_that_form_a_block(certain: bool, first: int, margin: float, half: float) -> None:
    low = margin - half if not certain else margin / 2
    interval = Interval(
        low=low, high=margin + half, level=0.95, method="influence function", unit="row", target="value"
    )
    block = Block(
        first=first,
        last=first + 3,
        inside=0.9,
        outside=0.9 - margin,
        margin=margin,
        interval=interval,
        certain=certain,
    )
    finding = BlockFinding(layers=9, used=tuple(range(9)), left_out=(), blocks=(block,), best=block, runs=27)
    names = tuple(f"a/{k}" for k in range(9))
    one = make_map(np.full((9, 9), 0.5), None, method="", names=list(names))
    blocks = StackBlocks(stack="a", measure="debiased_cka", names=names, finding=finding)
    document = told(Maps([one], (), [blocks]))
    [text] = [text for text in sentences(document) if text.startswith("a: ")]
    layers = f"{first}-{first + 3}"
    start = (
        f"Layers {layers} form a block." if certain else f"No block of layers is certain; layers {layers} may"
    )
    assert text.startswith(f"a: {start}")
    assert sure(document, text) == certain
    [drawn] = next(s for s in document["sections"] if s["kind"] == "map")["blocks"]
    assert drawn["runs"] == ([[first, first + 3]] if certain else []), "only certain blocks are drawn"
    number = re.search(rf"margin {NUMBER} {BAND}", text)
    assert number is not None
    assert close(number[1], margin, 2)


def test_a_measure_beside_what_unrelated_layers_would_give() -> None:
    values = np.full((3, 3), 0.95)
    one = make_map(values, None, method="", names=["a/0", "a/1", "a/2"])
    beside = Map(**{**_fields(one), "measure": "svcca", "null_mean": np.full((3, 3), 0.311)})
    [text, *_] = sentences(told(Maps([beside])))
    assert "SVCCA is at least 0.95" in text
    assert "Unrelated layers would give up to 0.32." in text


def _fields(one: Map) -> dict[str, Any]:
    return {name: getattr(one, name) for name in Map.__slots__}


def test_tasks_that_agree_on_orders_speak_for_themselves() -> None:
    one = {"value": 0.5, "low": 0.1, "high": 0.8, "reason": None}
    two = {"value": None, "low": None, "high": None, "reason": "fewer than 4 orders"}
    record = {"tasks": ["rte", "sst2"], "n": 9, "over": "random orders", "pearson": one, "spearman": two}
    orders = Claim(
        kind="orders",
        verdict="holds",
        score="accuracy",
        subject="reverse",
        task="sst2",
        estimate=Quantity(value=1.0),
        facts={"orders": 1, "worse": 1, "unit": "example"},
    )
    result = make_result(
        experiment="permutation",
        claims=(orders,),
        task="rte, sst2",
        curves=(make_curve("rte: difference random", [-0.1, 0.1], axis="seed of the order"),),
        findings=("rte: something.",),
        more={"correlations": [record]},
    )
    document = told(result)
    assert sentences(document) == [
        "sst2: The reversed order of the blocks costs 1.0 points of accuracy; it is significantly "
        "worse than the original order. Single orders by the 95 % band of all of them, over examples.",
        "rte: something.",
    ]
    [table] = [one for one in document["sections"] if one["kind"] == "scores"]
    assert table["rows"] == [["rte and sst2", "9 random orders", "0.50 [0.10, 0.80]", "undefined"]]


@pytest.mark.parametrize("experiment", ["probing", "change", "domains", "trajectory", "localization"])
def test_what_is_no_cost_speaks_for_itself(experiment: str) -> None:
    axis = "layers kept" if experiment == "trajectory" else "layer"
    curves = [make_curve(name, [0.5, 0.6], axis=axis) for name in ("rsa", "rsa: difference, from base")]
    result: Result = make_result(
        experiment=experiment,
        curves=tuple(curves),
        findings=("Layer 2 changed most.",),
        provenance=MappingProxyType({}),
    )
    document = told(result)
    assert sentences(document) == ["Layer 2 changed most."]
    assert document["sections"][0]["x_is_layer"]
