"""Statistics of hand-made results have the values that numpy alone gives."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

from microtome.findings.claims.claim import Claim, Quantity
from microtome.studies.results import StudyResult
from microtome.studies.statistics import pairs
from microtome.studies.statistics.table import STATISTICS
from microtome.studies.statistics.values import Coverage, Value
from studies.board_samples import curve, maps, result, spans, study

DEPTH = 6
OVER = Coverage(0.95)
KEPT = tuple(range(1, DEPTH + 1))
RNG = np.random.default_rng(0)


def measured(tmp_path: Path, statistic: str, content: Any, *beside: Any, **arguments: Any) -> Value:
    place = study(
        tmp_path,
        {("t", "v", "m", "task"): content, **{("b", "v", "m", str(k)): b for k, b in enumerate(beside)}},
    )
    value = STATISTICS[statistic].compute(*place, **arguments)
    return value[0] if isinstance(value, list) else value


@pytest.fixture
def truncated() -> Any:
    untuned = np.array([0.5, 0.52, 0.6, 0.8, 0.895, 0.9])
    costs = {
        name: (untuned - 0.9 + shift).tolist()
        for name, shift in (
            ("values", 0),
            ("low", -0.004),
            ("high", 0.004),
            ("band_low", -0.008),
            ("band_high", 0.008),
        )
    }
    return result(
        curve("UNTUNED", untuned, KEPT, 0.02),
        curve("TUNED", untuned + np.array([0.2, 0.2, 0.1, 0.05, 0.0, 0.0]), KEPT, 0.02),
        curve("TUNEDORIG", np.full(6, 0.55), KEPT, 0.01),
        more={"cost": {"x": list(KEPT), **costs}},
    )


def spearman(x: Any, y: Any) -> float:
    return float(np.corrcoef(stats.rankdata(x), stats.rankdata(y))[0, 1])


def ends(value: Value) -> list[float]:
    return [value.value, value.low, value.high]


def test_score_at_a_point(tmp_path: Path, truncated: Any) -> None:
    value = measured(tmp_path, "score", truncated, point={"arm": "UNTUNED", "x": -2})
    assert ends(value) == pytest.approx([80, 78, 82])
    assert (value.n, value.seeds, value.task) == (200, 2, "task")


def test_cost_of_a_cut_has_the_paired_interval(tmp_path: Path, truncated: Any) -> None:
    full, cut = {"arm": "UNTUNED", "x": "last"}, {"arm": "UNTUNED", "x": -0.34}
    value = measured(tmp_path, "score difference", truncated, first=full, second=cut)
    assert ends(value) == pytest.approx([10, 9.6, 10.4])
    value = measured(tmp_path, "score difference", truncated, first=cut, second=full)
    assert ends(value) == pytest.approx([-10, -10.4, -9.6])
    value = measured(tmp_path, "score difference", truncated, first=full, second=cut, of="room")
    assert ends(value) == pytest.approx([0.25, 0.24, 0.26])


def test_difference_of_arms_at_a_point_is_never_too_narrow(tmp_path: Path, truncated: Any) -> None:
    sides = {"first": {"arm": "TUNED", "x": 1}, "second": {"arm": "UNTUNED", "x": 1}}
    assert ends(measured(tmp_path, "score difference", truncated, **sides)) == pytest.approx([20, 16, 24])


def test_difference_of_arms_over_points(tmp_path: Path, truncated: Any) -> None:
    gaps = 100 * (truncated["TUNED"].values - 0.55)
    value = measured(tmp_path, "arm difference", truncated, first="TUNED", second="TUNEDORIG")
    assert ends(value) == pytest.approx([gaps.mean(), gaps.mean() - 3, gaps.mean() + 3])
    value = measured(tmp_path, "arm difference", truncated, first="TUNED", second="TUNEDORIG", reduce="min")
    assert ends(value) == pytest.approx([gaps.min(), gaps.min() - 6, gaps.min() + 6])


def test_removable_share(tmp_path: Path, truncated: Any) -> None:
    value = measured(tmp_path, "removable share", truncated)
    assert ends(value) == pytest.approx([1 / 6, 0, 1 / 6])
    value = measured(tmp_path, "removable share", truncated, margin=100.0)
    assert ends(value) == pytest.approx([5 / 6, 5 / 6, 5 / 6])


def test_grid_points_are_compared_with_their_reference_in_pairs(tmp_path: Path) -> None:
    scores, ks = np.array([0.9, 0.88, 0.8]), (0, 4, 6)
    line = curve(
        "difference bottom", scores - 0.9, ks, role="difference", arm="bottom", against="nothing frozen"
    )
    low = np.array([0, -0.03, -0.12])
    fields = {name: getattr(line, name) for name in line.__dataclass_fields__}
    line = type(line)(**{**fields, "low": low, "high": -low + 2 * (scores - 0.9)})
    content = result(curve("bottom", scores, ks, 0.1, arm="bottom"), line, experiment="freezing")
    sides = {"first": {"arm": "bottom", "x": 6}, "second": {"arm": "bottom", "x": 0}}
    assert ends(measured(tmp_path, "score difference", content, **sides)) == pytest.approx([-10, -12, -8])
    swapped = {"first": sides["second"], "second": sides["first"]}
    assert ends(measured(tmp_path, "score difference", content, **swapped)) == pytest.approx([10, 8, 12])
    apart = {"first": {"arm": "bottom", "x": 6}, "second": {"arm": "bottom", "x": 4}}
    assert ends(measured(tmp_path, "score difference", content, **apart)) == pytest.approx([-8, -28, 12])


def test_difference_of_two_tables(tmp_path: Path, truncated: Any) -> None:
    sides = {"first": {"arm": "UNTUNED"}, "second": {"arm": "UNTUNED", "x": 1}}
    other = result(curve("UNTUNED", np.linspace(0.8, 0.9, 6), KEPT, 0.01))
    value = measured(tmp_path, "score difference of two tables", truncated, other, **sides)
    assert ends(value) == pytest.approx([30, 39.6 - 12, 40.4 - 8])


def test_models_that_do_not_beat_the_baseline_are_not_measured(tmp_path: Path, truncated: Any) -> None:
    from dataclasses import replace

    weak = replace(truncated, more={**truncated.more, "not_above_baseline": {"UNTUNED": {}}})
    place = study(tmp_path, {("t", "v", "m", "task"): weak})
    values, reasons = STATISTICS["score"].values(place, {"point": {"arm": "TUNED"}})
    assert not values
    assert reasons == ["task: the fine-tuned model does not beat the majority baseline"]


def test_weak_arms_of_a_grid_are_left_out_alone(tmp_path: Path) -> None:
    arms = ["progressive, library, 80 examples", "progressive, library, 800 examples"]
    content = result(
        *(curve(arm, [0.8, 0.9], (0, 2), arm=arm) for arm in arms),
        *(curve(f"difference {arm}", [0, 0], (0, 2), arm=arm, role="difference") for arm in arms),
        more={"not_above_baseline": {f"difference {arms[0]}": {}}},
        experiment="reinitialization",
    )
    value = measured(tmp_path, "score", content, point={"arm": "progressive*", "pick": "first"})
    assert value.value == pytest.approx(90)
    place = study(tmp_path / "b", {("t", "v", "m", "task"): content})
    assert STATISTICS["score"].values(place, {"point": {"arm": arms[0]}})[0] == []


def span_costs() -> np.ndarray:
    costs = np.full((DEPTH, DEPTH), np.nan)
    for first, last in itertools.combinations_with_replacement(range(DEPTH), 2):
        costs[first, last] = 0.01 * (last - first + 1) + (0.1 if first == 0 else 0) + 0.001 * RNG.random()
    return costs


def test_span_costs(tmp_path: Path) -> None:
    costs = span_costs()
    seeds = [spans(costs + 0.001 * k, f"cost, seed {k}", f"seed {k}") for k in (1, 2)]
    content = result(experiment="skipping", spans=(spans(costs, reach=0.01), *seeds))
    single = np.diagonal(costs)
    value = measured(tmp_path, "span cost", content, spans={"longest": 1, "but": 1}, reduce="max")
    assert ends(value) == pytest.approx(100 * (single[1:].max() + np.array([0, -0.02, 0.02])))
    one = {"first": 1, "longest": 1}
    value = measured(tmp_path, "span cost", content, spans=one, minus={"longest": 1, "but": 1})
    assert ends(value) == pytest.approx(100 * (single[0] - single[1:].mean() + np.array([0, -0.02, 0.02])))
    assert dict(value.by_seed) == pytest.approx({1: value.value, 2: value.value})
    value = measured(tmp_path, "span cost", content, spans={"within": [0.667, 1.0]})
    assert value.value == pytest.approx(100 * np.nanmean(costs[4:, 4:]))
    value = measured(tmp_path, "span growth", content)
    first, last = np.nonzero(np.isfinite(costs))
    assert value.value == pytest.approx(spearman(last - first, costs[first, last]))


def test_trend_and_agreement(tmp_path: Path) -> None:
    y = RNG.random((2, 12))
    names = [f"{name}: published" for name in "ab"]
    content = result(*(curve(n, v, range(12), role="score") for n, v in zip(names, y, strict=True)))
    expected = [spearman(range(12), line) for line in y]
    assert measured(tmp_path, "trend", content, arm="*published").value == pytest.approx(expected[0])
    assert measured(tmp_path, "trend", content, arm="*published", models="all").value == pytest.approx(
        np.mean(expected)
    )
    top = spearman(range(8, 12), y[0, 8:])
    assert measured(tmp_path, "trend", content, arm=names[0], within=[0.667, 1.0]).value == pytest.approx(top)
    other = result(curve("probe (published)", y[1, ::-1], range(11, -1, -1)))
    value = measured(
        tmp_path, "curve agreement", content, other, first={"arm": names[0]}, second={"arm": "*(published)"}
    )
    assert value.value == pytest.approx(spearman(*y))


def test_quantities_that_results_have(tmp_path: Path) -> None:
    more = {"change": {"top_share": {"value": 0.5, "low": 0.4, "high": 0.6}, "even": 0.2}}
    claim = Claim(
        kind="orders",
        verdict="holds",
        score="accuracy",
        subject="random",
        task="x",
        estimate=Quantity(value=3.0, low=1.0, high=5.0, unit="order", seeds=4),
        facts={"orders": 5, "worse": 4, "unit": "example"},
    )
    cost = [{"part": "bottom", "blocks": 6, "backward_ratio": 0.4}]
    content = result(curve("a", [1.0], (0,)), more={**more, "cost": cost}, claims=(claim,))
    paths = {"path": ["change", "top_share"], "minus": ["change", "even"]}
    assert ends(measured(tmp_path, "stored quantity", content, **paths)) == pytest.approx([0.3, 0.2, 0.4])
    value = measured(tmp_path, "estimate", content, kind="orders", subject="random")
    assert (*ends(value), value.task) == (3.0, 1.0, 5.0, "x")
    assert measured(tmp_path, "saving", content, part="bottom", k=6).value == pytest.approx(0.6)


def test_probes_of_other_models(tmp_path: Path) -> None:
    lines = {
        "base": [0.5, 0.9, 0.7],
        "tuned 1": [0.5, 0.8, 0.6],
        "tuned 2": [0.5, 0.6, 0.7],
        "random baseline": [0, 0, 0],
    }
    content = result(
        *(curve(name, line, (0, 1, 2), 0.01) for name, line in lines.items()), experiment="probing"
    )
    assert ends(measured(tmp_path, "model difference", content)) == pytest.approx([-15, -17, -13])


TUNED = [{"name": "base"}, *({"name": f"x{s}", "tuned": {"task": "t", "seed": s}} for s in (1, 2))]


def symmetric(size: int) -> np.ndarray:
    table = RNG.random((size, size))
    table = (table + table.T) / 2
    np.fill_diagonal(table, 1)
    return table


@pytest.fixture
def compared() -> tuple[Any, np.ndarray]:
    values = symmetric(3 * DEPTH)
    return maps(values, TUNED, (DEPTH,) * 3, reach=0.05), values


def part(values: np.ndarray, a: int, b: int) -> np.ndarray:
    table = values[DEPTH * a : DEPTH * (a + 1), DEPTH * b : DEPTH * (b + 1)].copy()
    if a == b:
        np.fill_diagonal(table, np.nan)
    return table


def test_similarity_of_regions(tmp_path: Path, compared: Any) -> None:
    content, values = compared
    base = part(values, 0, 0)
    near = np.mean([base[k, k + 1] for k in range(DEPTH - 1)])
    value = measured(tmp_path, "similarity", content, first={"between": "base", "region": "adjacent"})
    assert ends(value) == pytest.approx([near, near - 0.05, near + 0.05])
    minus = {"between": "tuned-base", "region": "late rows"}
    late = [part(values, k, 0)[4:].mean() for k in (1, 2)]
    value = measured(
        tmp_path, "similarity", content, first={"between": "base", "region": "adjacent"}, minus=minus
    )
    assert ends(value) == pytest.approx(
        [near - np.mean(late), near - np.mean(late) - 0.1, near - np.mean(late) + 0.1]
    )
    value = measured(tmp_path, "similarity", content, first=minus)
    assert dict(value.by_seed) == pytest.approx({1: late[0], 2: late[1]})
    value = measured(tmp_path, "similarity", content, first={"between": "tuned", "region": "last pair"})
    assert value.value == pytest.approx(np.mean([part(values, k, k)[-1, -2] for k in (1, 2)]))


def test_contrast_of_blocks(tmp_path: Path, compared: Any) -> None:
    content, values = compared
    sides = {"first": {"between": "tuned", "region": "early or late"}, "minus": {"region": "across"}}
    tables = [part(values, k, k) for k in (1, 2)]
    expected = np.mean(
        [np.nanmean([t[:2, :2], t[4:, 4:]]) - np.mean([t[:2, 4:], t[4:, :2].T]) for t in tables]
    )
    assert measured(tmp_path, "similarity", content, **sides).value == pytest.approx(expected)


def test_best_match(tmp_path: Path, compared: Any) -> None:
    content, values = compared
    tables = [part(values, k, 0) for k in (1, 2)]
    expected = np.mean([t[4:].max(axis=1).mean() for t in tables])
    value = measured(tmp_path, "best match", content, between="tuned-base", region="late")
    wide = 0.05 * stats.norm.ppf(1 - 0.025 / DEPTH) / stats.norm.ppf(0.975)
    assert ends(value) == pytest.approx([expected, expected - wide, expected + wide])


def test_decay(tmp_path: Path, compared: Any) -> None:
    content, values = compared
    base, (i, j) = part(values, 0, 0), np.indices((DEPTH, DEPTH))
    off = i != j
    expected = spearman(np.abs(i - j)[off], base[off])
    assert measured(tmp_path, "decay", content).value == pytest.approx(expected)


def margins(table: np.ndarray) -> dict[tuple[int, int], float]:
    """Margin of every run of at least three layers that is not all of them."""
    out = {}
    for first, last in itertools.combinations(range(len(table)), 2):
        if 2 <= last - first < len(table) - 1:
            inside = np.zeros(len(table), dtype=bool)
            inside[first : last + 1] = True
            own = table[np.ix_(inside, inside)][~np.eye(inside.sum(), dtype=bool)]
            out[first, last] = own.min() - table[np.ix_(inside, ~inside)].max()
    return out


@pytest.mark.parametrize("blocks", [False, True])
def test_margins_of_blocks(tmp_path: Path, blocks: bool) -> None:
    values = symmetric(DEPTH)
    if blocks:
        values = np.full((DEPTH, DEPTH), 0.2) + 0.01 * values
        values[:3, :3] += 0.6
        values[3:, 3:] += 0.5
    content = maps(values, [{"name": "base"}], (DEPTH,), reach=0.01)
    runs = margins(values)
    value = measured(tmp_path, "block margin", content, between="base")
    wide = 0.02 * stats.norm.ppf(1 - 0.025 / DEPTH**2) / stats.norm.ppf(0.975)
    assert ends(value) == pytest.approx(max(runs.values()) + np.array([0, -wide, wide]))
    second = max(min(runs[a], runs[b]) for a, b in itertools.product(runs, runs) if a[1] < b[0])
    value = measured(tmp_path, "block margin", content, between="base", count=2)
    assert value.value == pytest.approx(second)
    assert (value.value > 0) == blocks


def test_models_are_left_out_in_turn(tmp_path: Path) -> None:
    """The interval over three models or more is a jackknife over them."""
    values = symmetric(12)
    content = maps(values, [{"name": name} for name in "abcd"], (3,) * 4)
    means = {
        (i, j): values[3 * i : 3 * i + 3, 3 * j : 3 * j + 3].mean()
        for i, j in itertools.permutations(range(4), 2)
    }
    whole = np.mean(list(means.values()))
    pseudo = [4 * whole - 3 * np.mean([v for k, v in means.items() if m not in k]) for m in range(4)]
    arm = stats.t.ppf(0.975, 3) * np.std(pseudo, ddof=1) / 2
    value = measured(tmp_path, "similarity", content, first={"between": "encoders"})
    assert ends(value) == pytest.approx([whole, whole - arm, whole + arm])
    assert value.unit == "model"


def test_two_maps_of_the_same_models(tmp_path: Path) -> None:
    models = [{"name": name} for name in "abc"]
    tables = [symmetric(9) for _ in range(2)]
    off = ~np.eye(9, dtype=bool)
    expected = spearman(*(table[off] for table in tables))
    first, second = (maps(table, models, (3,) * 3) for table in tables)
    assert measured(tmp_path, "map agreement", first, second).value == pytest.approx(expected)
    assert measured(tmp_path / "same", "map agreement", first, first).value == pytest.approx(1)


def test_every_region_and_kind_has_cells(tmp_path: Path) -> None:
    models = [
        *TUNED,
        {"name": "other"},
        {"name": "again", "changes": ["all weights re-initialized (seed 0)"]},
    ]
    place = study(tmp_path, {("t", "v", "", ""): maps(symmetric(30), models, (DEPTH,) * 5)})[0]
    similarity_map = place.content["debiased_cka"]
    for between in pairs.KINDS:
        for pair in pairs.pairs_of(place, similarity_map, between):
            for region in pairs.REGIONS:
                # The diagonal of a model with itself is no similarity.
                same = pair.left is pair.right
                empty = same and ("matched" in region or region == "last")
                assert pairs.region_of(pair, region).any() != empty, (between, region)


def values_of(tasks: dict[str, float], **facts: Any) -> list[Value]:
    return [Value(value=value, task=task, n=100, **facts) for task, value in tasks.items()]


def test_mean_over_tasks_has_a_t_interval() -> None:
    scores = {"a": 1.0, "b": 2.0, "c": 4.0}
    found = OVER.over_tasks(values_of(scores, low=-9, high=9, level=0.95))
    low, high = stats.t.interval(0.95, 2, np.mean(list(scores.values())), stats.sem(list(scores.values())))
    assert (found.value, found.low, found.high) == pytest.approx((7 / 3, low, high))
    assert (found.unit, found.tasks) == ("task", ("a", "b", "c"))


def test_one_task_has_its_own_interval_or_one_over_seeds_or_none() -> None:
    own = OVER.over_tasks([Value(value=1, task="a", low=0, high=2, level=0.95, unit="example")])
    assert (own.low, own.high, own.unit) == (0, 2, "example")
    assert np.isnan(OVER.over_tasks([Value(value=1, task="a", low=0, high=2, level=0.9)]).low)
    seeds = OVER.over_tasks([Value(value=2, task="a", by_seed={1: 1.0, 2: 2.0, 3: 3.0})])
    low, high = stats.t.interval(0.95, 2, 2, stats.sem([1, 2, 3]))
    assert (seeds.low, seeds.high, seeds.unit) == (pytest.approx(low), pytest.approx(high), "seed")
    alone = OVER.over_tasks([Value(value=2, task="a", by_seed={1: 2.0})])
    assert np.isnan(alone.low)
    assert "one seed of one task" in alone.note
    assert "same value" in OVER.over_tasks(values_of({"a": 1.0, "b": 1.0})).note


def test_shares_over_tasks_are_exact() -> None:
    found = OVER.over_tasks(values_of({"a": 1.0, "b": 1.0, "c": 0.0, "d": 0.5}), share=True)
    low, high = stats.binomtest(2, 4).proportion_ci(0.95, method="exact")
    assert (found.value, found.low, found.high) == pytest.approx((0.5, low, high))


def test_adding_a_statistic_is_a_function_and_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from microtome.studies import claims, scoreboard
    from microtome.studies.statistics.values import Statistic

    def points(result: StudyResult, *, scale: float = 1.0) -> Value:
        return Value(value=scale * len(result.content.curves), low=0, high=3, level=0.95, task=result.task)

    table = {**STATISTICS, "curves": Statistic(name="curves", compute=points)}
    monkeypatch.setattr(claims, "STATISTICS", table)
    monkeypatch.setattr(scoreboard, "STATISTICS", table)
    claim = {
        "id": "a",
        "statement": "There are curves.",
        "experiment": "t",
        "statistic": "curves",
        "least": -1,
    }
    results = study(
        tmp_path,
        {("t", "v", "m", "x"): result(curve("a", [1.0], (0,)))},
        claims=[{**claim, "arguments": {"scale": 2.0}}],
    )
    (row,) = scoreboard.scoreboard(results).rows
    assert (row.measured.value, row.verdict) == (2.0, "holds")
