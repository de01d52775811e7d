from __future__ import annotations

import importlib
import math
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from microtome.errors import InputError
from microtome.inference.scoring import ScoredExamples, score_interval, standard_error, wilson
from microtome.randomness import generator
from microtome.scores.table import SCORES, find_score

ROOT = Path(__file__).parents[2]
BINARY = ("no", "yes")


@pytest.fixture(scope="module")
def benchmark() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(ROOT / "benchmarks"))
        yield importlib.import_module("score_coverage")


@given(st.integers(0, 30), st.integers(1, 30), st.sampled_from([0.8, 0.95]))
def test_wilson_equals_scipy(right: int, wrong: int, level: float) -> None:
    for k in (right, wrong):
        expected = stats.binomtest(k, right + wrong).proportion_ci(level, method="wilson")
        assert wilson(k / (right + wrong), right + wrong, level) == pytest.approx(
            (expected.low, expected.high)
        )


def test_accuracy_of_independent_examples() -> None:
    found = score_interval("accuracy", [1] * 60 + [0] * 10, [1] * 70, BINARY)
    assert found.interval is not None
    assert found.value == 60 / 70
    assert (found.low, found.high) == wilson(60 / 70, 70)
    assert (found.interval.method, found.interval.unit) == ("Wilson", "example")
    assert found.interval.target == "score on other examples of the same kind"
    assert found.details["points"] == pytest.approx(100 * 60 / 70)
    assert found.details["se"] == pytest.approx(math.sqrt(60 / 70 * 10 / 70 / 69))


def test_a_mean_over_examples_has_the_textbook_standard_error() -> None:
    rng = generator(0, "spans")
    nll = np.column_stack([rng.gamma(3, size=50), np.ones(50)])
    examples = ScoredExamples(score=SCORES["perplexity"], labels=(), n=50, clusters=None)
    se = standard_error(examples.influence(nll, [None] * 50))
    assert se / np.exp(nll[:, 0].mean()) == pytest.approx(stats.sem(nll[:, 0]), rel=0.05)


def test_pearson_of_normal_pairs_has_fishers_interval() -> None:
    rng = generator(1, "pearson")
    y = rng.standard_normal(4000)
    x = y + rng.standard_normal(4000)
    found = score_interval("pearson", x, y)
    expected = stats.pearsonr(x, y).confidence_interval()
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), abs=2e-3)
    assert found.interval is not None
    assert found.interval.method == "jackknife, t on the logit scale"
    both = score_interval(("pearson", "spearman"), x, y).interval
    assert both is not None
    assert both.method == "jackknife and influence function, t on the logit scale"


def test_copies_of_a_group_tell_nothing_new() -> None:
    rng = generator(2, "copies")
    p, t = rng.integers(0, 2, 60), rng.integers(0, 2, 60)
    for name in ("accuracy", "f1", "mcc", ("accuracy", "f1")):
        alone = score_interval(name, p, t, BINARY)
        copied = score_interval(name, np.tile(p, 4), np.tile(t, 4), BINARY, groups=np.tile(np.arange(60), 4))
        assert copied.value == pytest.approx(alone.value)
        assert copied.details["se"] == pytest.approx(alone.details["se"])
        assert copied.interval is not None
        assert copied.interval.unit == "group of examples"
        blind = score_interval(name, np.tile(p, 4), np.tile(t, 4), BINARY)
        assert blind.details["se"] < 0.55 * alone.details["se"]
    texts = rng.standard_normal((2, 60))
    alone = score_interval("spearman", *texts)
    copied = score_interval("spearman", *np.tile(texts, 4), groups=np.tile(np.arange(60), 4))
    assert copied.details["se"] == pytest.approx(alone.details["se"])


def test_groups_of_one_are_examples() -> None:
    p, t = [0, 1, 1, 0, 1], [0, 1, 0, 0, 1]
    assert score_interval("accuracy", p, t, groups=list("abcde")) == score_interval("accuracy", p, t)


@pytest.mark.parametrize("right", [True, False])
@pytest.mark.parametrize("name", ["accuracy", "f1", "macro_f1", "mcc", ("accuracy", "f1")])
def test_all_right_or_all_wrong_is_not_certain(name: str | tuple[str, ...], right: bool) -> None:
    targets = np.repeat([0, 1], 35)
    found = score_interval(name, targets if right else 1 - targets, targets, BINARY)
    assert found.low is not None
    assert found.high is not None
    bottom, top = find_score(name).range
    assert found.value == (top if right else bottom)
    if right:
        assert found.high == top
        assert top - 0.25 < found.low < top - 0.02
    else:
        assert found.low == bottom
        assert bottom + 0.02 < found.high < bottom + 0.25
    pairs = np.arange(70) // 2
    grouped = score_interval(name, targets if right else 1 - targets, targets, BINARY, groups=pairs)
    assert grouped.interval is not None
    assert grouped.interval.width > 1.5 * (found.high - found.low)


def test_few_positives_all_found_leave_f1_open() -> None:
    targets = [1] * 5 + [0] * 65
    found = score_interval("f1", targets, targets, BINARY)
    assert found.low is not None
    assert found.low < 0.75  # five of five, whatever the 65 others say


@pytest.mark.parametrize(
    "name,predictions,targets,words",
    [
        (
            "mcc",
            [1] * 20,
            [0, 1] * 10,
            "mcc is undefined and counts as 0: every prediction is the same class.",
        ),
        ("mcc", [0, 1] * 10, [1] * 20, "every example has the same class"),
        ("f1", [0] * 20, [0] * 20, "no example is positive"),
        ("spearman", [2.5] * 20, list(range(20)), "every prediction is the same number"),
        (("pearson", "spearman"), [2.5] * 20, list(range(20)), "pearson: every prediction"),
    ],
)
def test_an_undefined_score_is_0_and_says_why(
    name: str, predictions: list[float], targets: list[float], words: str
) -> None:
    found = score_interval(name, predictions, targets, BINARY)
    assert (found.value, found.interval, found.low) == (0, None, None)
    assert words in found.warnings[0]


def test_what_cannot_have_an_interval_says_so() -> None:
    assert score_interval("accuracy", [1], [1]).warnings == ("one example gives no interval.",)
    line = np.arange(9.0)
    found = score_interval("pearson", line, line)
    assert found.interval is None
    assert "the same outcome" in found.warnings[0]
    few = score_interval("accuracy", [0, 1, 1, 0], [0, 1, 0, 0], groups=[0, 0, 1, 1])
    assert "2 groups are few" in few.warnings[0]
    with pytest.raises(InputError, match="groups must be at least 2 for an interval, but all 4 examples"):
        score_interval("accuracy", [0, 1, 1, 0], [0, 1, 0, 0], groups=["a"] * 4)
    with pytest.raises(InputError, match="groups must be one for each of the 4 examples"):
        score_interval("accuracy", [0, 1, 1, 0], [0, 1, 0, 0], groups=["a"])
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        score_interval("accuracy", [0, 1], [0, 1], level=95)


@pytest.mark.parametrize("grouped", [False, True])
@pytest.mark.parametrize(
    "name", ["accuracy", "f1", "mcc", "macro_f1", "pearson", "spearman", "perplexity", ("accuracy", "f1")]
)
def test_intervals_cover(benchmark: ModuleType, name: str | tuple[str, ...], grouped: bool) -> None:
    datasets = 300
    true = benchmark.truth(name, 0, 30_000)
    row = benchmark.cell(name, 100, grouped=grouped, datasets=datasets, seed=7, true=true)
    error = math.sqrt(0.05 * 0.95 / datasets)
    assert 0.91 - 2 * error < row["covered"] < 0.99 + 2 * error


def test_examples_of_a_group_taken_as_independent_do_not_cover() -> None:
    hits = 0
    for number in range(200):
        rng = generator(3, "blind", number)
        common = np.repeat(rng.random(20), 20)
        wrong = rng.random(400) < common**2
        found = score_interval("accuracy", np.where(wrong, 0, 1), np.ones(400, dtype=int), BINARY)
        assert found.low is not None
        assert found.high is not None
        hits += found.low <= 2 / 3 <= found.high
    assert hits < 160


def test_the_benchmark_judges_and_prints(benchmark: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    code = benchmark.main(["--datasets", "20", "--only", "mcc,f1", "--many", "2000"])
    text = capsys.readouterr().out
    assert text.count("\n| mcc | ") == text.count("\n| f1 | ") == 6
    assert code == int("All promises were kept." not in text)
    narrow = benchmark.cell("mcc", 70, grouped=False, datasets=20, seed=0, true=0.9)
    assert not narrow["kept"]
    with pytest.raises(SystemExit):
        benchmark.main(["--only", "nothing"])
