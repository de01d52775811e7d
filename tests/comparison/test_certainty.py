"""Are intervals made of the right things: scores, leave-one-out values and halves of the right units?"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm, t

import cluster_grams
import microtome as mt
from microtome.comparison import units as scoring
from microtome.errors import InputError
from microtome.findings.maps import Map
from microtome.inference.clusters import Clusters
from microtome.inference.resampling import half_plan
from microtome.measures import cca
from microtome.moments import influence, whitened
from microtome.randomness import generator

N = 180
MEASURES = ["debiased_cka", "linear_cka"]


def rng(name: str) -> np.random.Generator:
    return generator(0, "test_certainty", name)


def unequal(clusters: int, name: str = "ids") -> np.ndarray:
    """Ids of shuffled rows in clusters of unequal sizes."""
    r = rng(name)
    ids = np.r_[np.arange(clusters), r.integers(0, clusters, N - clusters)]
    return r.permutation(ids)


def stack(*widths: int, ids: np.ndarray | None = None, n: int = N) -> list[np.ndarray]:
    r = rng("stack")
    shared = r.standard_normal((n, 4))
    if ids is not None:
        shared += r.standard_normal((int(ids.max()) + 1, 4))[ids]
    return [shared @ r.standard_normal((4, w)) + r.standard_normal((n, w)) + 2 for w in widths]


def codes_of(ids: np.ndarray | None, n: int = N) -> np.ndarray:
    return np.arange(n) if ids is None else Clusters.from_ids(ids).codes


def brute_scores(x: np.ndarray, y: np.ndarray, codes: np.ndarray) -> tuple[float, np.ndarray]:
    """Cluster-debiased CKA and its influence scores, from whole Gram matrices."""
    K, L = (cluster_grams.projected(z @ z.T, codes) for z in (x, y))
    xy, xx, yy = (cluster_grams.cluster_scores(*pair, codes) for pair in ((K, L), (K, K), (L, L)))
    theta = xy.sum() / math.sqrt(xx.sum() * yy.sum())
    psi = 2 * xy / math.sqrt(xx.sum() * yy.sum()) - theta * (xx / xx.sum() + yy / yy.sum())
    return theta, psi


def leave_one_out(x: np.ndarray, y: np.ndarray, codes: np.ndarray, measure: str) -> np.ndarray:
    def cka(keep: np.ndarray) -> float:
        a, b = x[keep], y[keep]
        if measure == "debiased_cka":
            return brute_scores(a, b, np.unique(codes[keep], return_inverse=True)[1])[0]
        a, b = a - a.mean(axis=0), b - b.mean(axis=0)
        return float(np.linalg.norm(a.T @ b) ** 2 / np.linalg.norm(a.T @ a) / np.linalg.norm(b.T @ b))

    return np.array([cka(codes != c) for c in range(codes.max() + 1)])


def ask(layers: Any, right: Any = None, measure: Any = "debiased_cka", **more: Any) -> Map:
    settings = {"certainty": True, "precision": "exact", "halves": 12, **more}
    return mt.similarity_matrix(layers, right, measure, **settings)[measure]


def half_width(one: Map, at: tuple[int, int] = (0, 1)) -> float:
    assert one.low is not None
    assert one.high is not None
    assert one.low[at] + one.high[at] == pytest.approx(2 * one.values[at], abs=1e-12)
    return float(one.high[at] - one.low[at]) / 2


@pytest.mark.parametrize("clustered_rows", [False, True])
@pytest.mark.parametrize("precision, within", [("exact", 1e-10), ("fast", 1e-6)])
def test_scores_are_those_of_whole_gram_matrices(clustered_rows: bool, precision: str, within: float) -> None:
    ids = unequal(70) if clustered_rows else None
    layers = stack(6, 4, 5, ids=ids)
    for one in (
        ask(layers, clusters=ids, precision=precision),
        ask(layers[:2], layers, clusters=ids, precision=precision),
        ask(layers, clusters=ids, precision=precision, memory=1),
    ):
        assert one.resamples is not None
        assert one.resamples.kind == "scores"
        for i in range(2):
            for j in range(3):
                theta, psi = brute_scores(layers[i], layers[j], codes_of(ids))
                assert one.values[i, j] == pytest.approx(theta, abs=within)
                np.testing.assert_allclose(one.resamples.array[i, j], psi, atol=within)


def test_fewer_rows_than_features() -> None:
    layers = stack(100, 110, n=80)
    one = ask(layers)
    theta, psi = brute_scores(layers[0], layers[1], codes_of(None, 80))
    assert one.values[0, 1] == pytest.approx(theta, abs=1e-10)
    assert one.resamples is not None
    np.testing.assert_allclose(one.resamples.array[0, 1], psi, atol=1e-10)


@pytest.mark.parametrize("measure", MEASURES)
@pytest.mark.parametrize("clusters", [None, 90])
def test_scores_agree_with_leaving_out(measure: str, clusters: int | None) -> None:
    ids = None if clusters is None else unequal(clusters)
    layers = stack(6, 4, ids=ids)
    one = ask(layers, clusters=ids, measure=measure)
    assert one.method == "influence function"
    values = leave_one_out(layers[0], layers[1], codes_of(ids), measure)
    count = len(values)
    jackknife = math.sqrt((count - 1) / count * ((values - values.mean()) ** 2).sum())
    assert half_width(one) / norm.ppf(0.975) == pytest.approx(jackknife, rel=0.12)


def test_the_interval_of_scores() -> None:
    layers = stack(6, 4)
    one = ask(layers)
    _, psi = brute_scores(layers[0], layers[1], codes_of(None))
    se = math.sqrt(N / (N - 1) * (psi**2).sum())
    assert half_width(one) == pytest.approx(norm.ppf(0.975) * se, rel=1e-9)
    assert half_width(ask(layers, level=0.8)) == pytest.approx(norm.ppf(0.9) * se, rel=1e-9)
    assert half_width(one, (0, 0)) == pytest.approx(0, abs=1e-9)  # a layer is surely like itself


@pytest.mark.parametrize("clusters", [None, 25])
def test_few_units_are_left_out_one_by_one(clusters: int | None) -> None:
    rows = 40 if clusters is None else N
    ids = None if clusters is None else unequal(clusters)
    layers = stack(6, 4, ids=ids, n=rows)
    one = ask(layers, clusters=ids)
    codes = codes_of(ids, rows)
    count, sizes = int(codes.max()) + 1, np.bincount(codes)
    assert one.method == ("jackknife" if clusters is None else "jackknife over groups of clusters")
    assert one.target == "population value"
    values = leave_one_out(layers[0], layers[1], codes, "debiased_cka")
    # The delete-m jackknife: pseudo-values weighted by the share of rows that was left out.
    weight = rows / sizes
    center = count * one.values[0, 1] - ((1 - 1 / weight) * values).sum()
    pseudo = weight * one.values[0, 1] - (weight - 1) * values
    se = math.sqrt(((pseudo - center) ** 2 / (weight - 1)).mean())
    assert half_width(one) == pytest.approx(t.ppf(0.975, count - 1) * se, rel=1e-6)


@pytest.mark.parametrize("measure", ["neuron_correlation", "rsa", "procrustes"])
@pytest.mark.parametrize("clusters", [None, 70])
def test_halves_speak_of_another_sample(measure: str, clusters: int | None) -> None:
    ids = None if clusters is None else unequal(clusters)
    x, y = stack(6, 4, ids=ids)
    one = ask([x], [y], measure, clusters=ids, seed=3)
    assert one.method == "half-sampling"
    assert one.target == "value of another sample of the same size"
    assert one.unit == ("row" if clusters is None else "cluster")
    units = Clusters.singletons(N) if ids is None else Clusters.from_ids(ids)
    plan = half_plan(units, 12, 3)
    values = [mt.similarity(x[rows], y[rows], measure).value for rows in plan]
    count, half = len(units), len(units) // 2
    se = math.sqrt(half / (count - half) * np.var(values, ddof=1))
    dof = 1 / (1 / 11 + 1 / (count - 1))
    assert half_width(one, (0, 0)) == pytest.approx(t.ppf(0.975, dof) * se, rel=1e-6)
    assert all(set(units.codes[rows]) & set(np.delete(units.codes, rows)) == set() for rows in plan)


CORRELATIONS = ["svcca", "svcca:scaling=standardize", "svcca:top=0.5", "pwcca", "pwcca:variant=svcca"]


@pytest.mark.parametrize("measure", CORRELATIONS)
def test_scores_are_derivatives_by_the_weight_of_a_row(measure: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cca, "NOISE", 0.0)
    layers = stack(8, 6, 8, n=120)
    one = ask(layers, None, measure)
    assert one.method == "influence function"
    assert one.target == "value of another sample of the same size"
    assert one.resamples is not None
    step, times = 2, 200
    for row in (0, 5):

        def values(extra: int, row: int = row) -> np.ndarray:
            rows = np.repeat(np.arange(120), times + extra * (np.arange(120) == row))
            return mt.similarity_matrix([z[rows] for z in layers], None, measure, precision="exact")[
                measure
            ].values

        slope = (values(step) - values(-step)) / (2 * step / times)
        np.testing.assert_allclose(one.resamples.array[:, :, row], slope, atol=2e-6)


@pytest.mark.parametrize("measure", ["svcca", "pwcca"])
def test_scores_of_two_sides_in_any_order_of_rows(measure: str) -> None:
    ids = np.arange(N) % 20
    layers = stack(8, 6, 8, ids=ids)
    one, two = ask(layers, None, measure, clusters=ids), ask(layers[:2], layers, measure, clusters=ids)
    order = rng("order").permutation(N)
    moved = ask([z[order] for z in layers], None, measure, clusters=ids[order], precision="fast", memory=1)
    for bound in ("low", "high"):
        np.testing.assert_allclose(getattr(two, bound), getattr(one, bound)[:2], atol=1e-10)
        np.testing.assert_allclose(getattr(moved, bound), getattr(one, bound), atol=1e-5)
    assert one.resamples is not None
    psi = one.resamples.array[0, 1]
    se = math.sqrt(20 / 19 * (psi**2).sum())
    assert half_width(one) == pytest.approx(t.ppf(0.975, 19) * se, rel=1e-9)


def test_large_clusters_by_their_moments(monkeypatch: pytest.MonkeyPatch) -> None:
    ids = unequal(12)
    layers = stack(8, 6, 8, ids=ids)
    for measure in ("svcca", "pwcca"):
        by_rows = ask(layers, None, measure, clusters=ids)
        monkeypatch.setattr(whitened, "LARGE_UNIT", 1)
        by_moments = ask(layers, None, measure, clusters=ids)
        monkeypatch.undo()
        np.testing.assert_allclose(np.asarray(by_moments.low), np.asarray(by_rows.low), atol=1e-10)


def test_a_larger_cluster_adds_rows_and_so_lowers_the_value() -> None:
    ids = unequal(40)
    x, y = stack(6, 4, ids=ids)
    sizes, half = np.bincount(codes_of(ids)), half_plan(Clusters.from_ids(ids), 2, 0)[0]
    one = ask([x], [y], "svcca", clusters=ids)
    # By the weight of single rows, which adds no rows.
    alone = ask([x], [y], "svcca", clusters=np.arange(N))
    assert one.resamples is not None
    assert alone.resamples is not None
    halved = mt.similarity(x[half], y[half], "svcca").value
    slope = (one.values[0, 0] - halved) / (1 / len(half) - 1 / N) / N**2
    by_rows = np.bincount(codes_of(ids), alone.resamples.array[0, 0])
    expected = by_rows + slope * (sizes - sizes.mean())
    np.testing.assert_allclose(one.resamples.array[0, 0], expected - expected.mean(), atol=1e-10)


def test_a_sample_of_the_units_stands_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = stack(6, 4, n=1200)
    one = ask(layers, None, "svcca")
    monkeypatch.setattr(scoring, "MOST_SCORED", 400)
    few = ask(layers, None, "svcca")
    assert few.resamples is not None
    assert few.resamples.array.shape == (2, 2, 400)
    assert half_width(few) == pytest.approx(half_width(one), rel=0.15)
    with pytest.raises(InputError, match="same rows in the same way"):
        ask(layers, None, "linear_cka").difference((0, 1), (0, 1), of=few)


@pytest.mark.filterwarnings("ignore::microtome.errors.SmallSampleWarning")
def test_more_features_than_rows_and_constant_neurons() -> None:
    x, y = stack(100, 8, n=60)
    x[:, 3] = 0.37
    for measure in ("svcca:threshold=0.5", "svcca:top=0.5"):
        one = ask([x, y], None, measure)
        assert one.low is not None
        assert np.isfinite(one.low).all()
    assert half_width(ask([x, y], None, "svcca:threshold=0.5")) > 0


def test_every_interval_names_its_unit_and_target() -> None:
    ids = unequal(70)
    layers = stack(6, 4, ids=ids)
    for clusters, unit in ((None, "row"), (ids, "cluster"), (np.arange(N), "row")):
        for measure, target in (
            ("debiased_cka", "population value"),
            ("linear_cka", "value of another sample of the same size"),
            ("svcca", "value of another sample of the same size"),
        ):
            interval = ask(layers, measure=measure, clusters=clusters)[0, 1].interval
            assert interval is not None
            assert (interval.unit, interval.target, interval.level) == (unit, target, 0.95)
    text = str(mt.similarity(layers[0], layers[1], "debiased_cka", clusters=ids, certainty=True))
    assert "(95 %, over clusters)" in text
    assert "cluster-debiased CKA (pairs within 70 clusters left out)" in ask(layers, clusters=ids).estimator


def test_rows_in_clusters_are_less_certain() -> None:
    ids = unequal(70)
    layers = stack(6, 4, ids=ids)
    r = rng("alike")
    alike = [z[np.argsort(ids)] for z in layers]
    alike = [0.3 * z + r.standard_normal((70, z.shape[1]))[np.sort(ids)] for z in alike]
    by_row, by_cluster = ask(alike), ask(alike, clusters=np.sort(ids))
    assert half_width(by_cluster) > 1.2 * half_width(by_row)
    assert by_cluster.values[0, 1] < by_row.values[0, 1]  # alike rows look like a relation


def test_how_clusters_are_given_does_not_matter(tmp_path: Any) -> None:
    ids = unequal(70)
    layers = stack(6, 4, ids=ids)
    one = ask(layers, clusters=ids)
    order = rng("order").permutation(N)
    np.save(tmp_path / "ids.npy", ids)
    for other in (
        ask(layers, clusters=[f"sentence {i}" for i in ids]),
        ask(layers, clusters=ids + 1000),
        ask(layers, clusters=tmp_path / "ids.npy"),
        ask([z[order] for z in layers], clusters=ids[order]),
    ):
        np.testing.assert_allclose(other.values, one.values, atol=1e-12)
        np.testing.assert_allclose(np.asarray(other.low), np.asarray(one.low), atol=1e-10)


def test_many_units_are_grouped_without_losing_width(monkeypatch: pytest.MonkeyPatch) -> None:
    layers = stack(4, 3, n=1200)
    one = ask(layers)
    monkeypatch.setattr(influence, "MOST_UNITS", 300)
    few = ask(layers)
    assert few.resamples is not None
    assert few.resamples.array.shape == (2, 2, 300)
    assert half_width(few) == pytest.approx(half_width(one), rel=0.25)


def test_an_undefined_cell_has_no_interval() -> None:
    x, y = stack(6, 4)
    flat = np.full((N, 3), 0.37)
    for measure in (*MEASURES, "svcca"):
        one = ask([x], [y, flat], measure)
        assert one.low is not None
        assert math.isfinite(one.low[0, 0])
        assert math.isnan(one.low[0, 1])
        assert one[0, 1].reason is not None
        assert one.rows()[1]["value"] is None


def test_without_certainty_there_is_none() -> None:
    one = mt.similarity_matrix(stack(6, 4))["debiased_cka"]
    assert one.low is None
    assert one.high is None
    assert one[0, 1].interval is None
    assert one.resamples is None


@pytest.mark.parametrize("measure", ["debiased_cka", "svcca"])
def test_differences_of_cells_and_of_maps(measure: str) -> None:
    one: Any = ask(stack(6, 4, 6), measure=measure)
    cell = one.difference((0, 1), (0, 2))
    assert cell.value == pytest.approx(one.values[0, 1] - one.values[0, 2], abs=1e-14)
    assert cell.low < cell.value < cell.high
    back = one.difference((0, 2), (0, 1))
    assert (back.low, back.high) == pytest.approx((-cell.high, -cell.low))
    assert one.difference((0, 1), (0, 1)).interval.width == 0
    whole = one.minus(one)
    assert np.abs(whole.values).max() == np.abs(whole.low).max() == 0
    alone = math.hypot(one[0, 1].interval.width, one[0, 2].interval.width)
    assert cell.interval.width != pytest.approx(alone, rel=1e-6)  # paired, not added up


@pytest.mark.parametrize("measure", ["debiased_cka", "svcca"])
def test_the_p_value_of_a_difference_goes_with_its_interval(measure: str) -> None:
    one: Any = ask(stack(6, 4, 6), measure=measure)
    kept = one.resamples
    if kept.kind == "scores":
        psi = kept.array[0, 1] - kept.array[0, 2]
        error, law = math.sqrt(len(psi) / (len(psi) - 1) * float(psi @ psi)), norm()
    else:
        drawn = kept.array[:, 0, 1] - kept.array[:, 0, 2]
        half = kept.units // 2
        error = math.sqrt(half / (kept.units - half) * drawn.var(ddof=1))
        law = t(1 / (1 / (len(drawn) - 1) + 1 / (kept.units - 1)))
    cell = one.difference((0, 1), (0, 2))
    assert cell.z == pytest.approx(cell.value / error, rel=1e-9)
    assert cell.p == pytest.approx(2 * law.sf(abs(cell.value) / error), rel=1e-9)
    assert (cell.p < 0.05) == (not cell.low <= 0 <= cell.high)
    assert one.difference((0, 2), (0, 1)).p == pytest.approx(cell.p)
    same = one.difference((0, 1), (0, 1))
    assert (same.z, same.p) == (0, 1)


def test_a_difference_needs_intervals_of_the_same_rows() -> None:
    bare = mt.similarity_matrix(stack(6, 4, 6))["debiased_cka"]
    with pytest.raises(InputError, match="a difference must be asked of maps computed with certainty=True"):
        bare.difference((0, 1), (0, 2))
    one, two = ask(stack(6, 4, 6)), ask(stack(6, 4, 6), leave_out=np.arange(N) < 10)
    with pytest.raises(InputError, match="whose intervals come from the same rows in the same way"):
        one.minus(two)
    with pytest.raises(InputError, match="come from the same rows in the same way, but got linear_cka by"):
        ask(stack(6, 4, 6), measure="linear_cka").minus(one)
    with pytest.raises(InputError, match="the other map must be of the shape"):
        one.minus(ask(stack(6)))


def test_a_difference_of_biased_values_speaks_of_another_sample() -> None:
    one = ask(stack(6, 4, 6), measure="linear_cka")
    interval = one.difference((0, 1), (0, 2)).interval
    assert interval is not None
    assert interval.target == "difference in another sample of the same size"
    population = ask(stack(6, 4, 6)).difference((0, 1), (0, 2)).interval
    assert population is not None
    assert population.target == "difference of the population values"


def test_saved_maps_keep_intervals_and_say_that_differences_are_gone(tmp_path: Path) -> None:
    found = mt.similarity_matrix(stack(6, 4, 6), certainty=True)
    found.save(tmp_path)
    one = mt.open(tmp_path)["debiased_cka"]
    assert one[0, 1].low == found["debiased_cka"][0, 1].low
    with pytest.raises(InputError, match="and not of saved ones"):
        one.difference((0, 1), (0, 2))


def test_values_between_floor_and_ceiling() -> None:
    layers = stack(6, 4, 6)
    one = mt.similarity_matrix(layers, None, "linear_cka")["linear_cka"]
    np.testing.assert_allclose(one.rescaled(), (one.values - one.null_mean) / (1 - one.null_mean))
    np.testing.assert_allclose(one.rescaled(floor=one, ceiling=2.0), np.zeros((3, 3)))
    assert np.isnan(one.rescaled(floor=0.9, ceiling=0.9)).all()
    bare = mt.similarity_matrix(layers, None, "procrustes")["procrustes"]
    with pytest.raises(InputError, match="procrustes must be given a floor"):
        bare.rescaled()
    np.testing.assert_allclose(bare.rescaled(floor=0.0), bare.values)


def test_orders_of_the_rows_really_tried() -> None:
    x, y = stack(6, 4)
    noise = rng("noise").standard_normal((N, 4))
    found = mt.similarity_matrix([x], [y, noise], ["linear_cka", "svcca", "procrustes"], permutations=99)
    for one in found.values():
        assert one.null_mean[0, 1] == pytest.approx(one.values[0, 1], abs=0.05)
        assert one.z[0, 0] > 4 > abs(one.z[0, 1])
        assert one.p_map is not None
        assert one.p[0, 0] == one.p_map[0, 0] == 0.01
        assert 0.01 < one.p[0, 1] <= one.p_map[0, 1] <= 1
        assert "from 99 orders of the rows of the right side" in one.null_note
    assert found["procrustes"].null_note.startswith("from 99")


def test_what_a_formula_gives_is_not_replaced_by_chance() -> None:
    x, y = stack(6, 4)
    names = ["linear_cka", "debiased_cka", "svcca", "procrustes"]
    plain = mt.similarity_matrix([x], [y], names)
    tried = mt.similarity_matrix([x], [y], names, permutations=19)
    for name in names[:3]:
        np.testing.assert_array_equal(tried[name].null_mean, plain[name].null_mean)
        assert tried[name].p[0, 0] == pytest.approx(0.05)
    for name in names[:2]:
        np.testing.assert_array_equal(tried[name].z, plain[name].z)
        assert tried[name].null_note.startswith("by formula, and p is from 19 orders of the rows")
    assert np.isnan(plain["svcca"].z).all()
    assert np.isfinite(tried["svcca"].z).all()
    assert tried["svcca"].null_note.startswith("by formula, and z and p are from 19 orders")
    assert np.isnan(plain["procrustes"].null_mean).all()
    assert np.isfinite(tried["procrustes"].null_mean).all()
    # The mean over orders of single rows is not what unrelated clusters give.
    ids = np.repeat(np.arange(N // 4), 4)
    x, y = stack(6, 4, ids=ids)
    single = mt.similarity_matrix([x], [y], names[:2], clusters=ids)
    whole = mt.similarity_matrix([x], [y], names[:2], clusters=ids, permutations=19)
    assert whole["linear_cka"].null_mean[0, 0] > 1.5 * single["linear_cka"].null_mean[0, 0]
    assert whole["linear_cka"].null_note.startswith("from 19 orders of the clusters")
    np.testing.assert_array_equal(whole["debiased_cka"].null_mean, single["debiased_cka"].null_mean)
    assert np.isfinite(whole["debiased_cka"].z).all()


def test_whole_clusters_are_permuted() -> None:
    # Two sides that share nothing, with rows that are alike within clusters.
    r = rng("clusters")
    ids = np.repeat(np.arange(30), 4)
    x, y = (r.standard_normal((30, w))[ids] + 0.2 * r.standard_normal((120, w)) for w in (5, 4))
    by_row = mt.similarity(x, y, "debiased_cka", permutations=99)
    by_cluster = mt.similarity(x, y, "debiased_cka", clusters=ids, permutations=99)
    assert by_row.p <= 0.02  # alike rows look like a relation
    assert by_cluster.p > 0.05
    one = mt.similarity_matrix([x], [y], clusters=ids)["debiased_cka"]
    assert np.isnan(one.z).all()
    assert one.null_note.startswith(
        "rows come in clusters, so the formula for independent rows does not hold"
    )
    odd = np.r_[ids[:-3], 30, 30, 31]  # the last clusters have no other of their size
    left_out = mt.similarity_matrix([x], [y], clusters=odd, permutations=9)["debiased_cka"]
    assert "2 % of the rows stayed out, whose clusters are the only ones of their size" in left_out.null_note


def test_the_same_request_gives_the_same_bits() -> None:
    layers = stack(6, 4, 6)
    given: dict[str, Any] = {"certainty": True, "halves": 4, "permutations": 3, "seed": 5}
    given["clusters"] = np.arange(N) // 3
    one, two = (mt.similarity_matrix(layers, None, ["debiased_cka", "rsa"], **given) for _ in range(2))
    for label in one:
        for name in ("values", "low", "high", "null_mean", "z", "p", "p_map"):
            np.testing.assert_array_equal(getattr(one[label], name), getattr(two[label], name))
    other = mt.similarity_matrix(layers, None, ["rsa"], **{**given, "seed": 6})
    assert not np.array_equal(np.asarray(other["rsa"].low), np.asarray(one["rsa"].low))


def test_a_cluster_of_half_of_the_rows_leaves_the_intervals_of_biased_measures() -> None:
    ids = np.r_[np.zeros(N // 2, dtype=int), np.arange(1, N // 2 + 1)]
    one = ask(stack(6, 4), measure="linear_cka", clusters=ids)
    assert one.method == "half-sampling"
    assert one.low is not None
    assert np.isfinite(one.low).all()
