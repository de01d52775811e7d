"""Permutation: orders of the blocks, and correlations of the same orders between tasks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats

import cats
from microtome.context import Context
from microtome.encoders.encoder import digest_weights
from microtome.errors import InputError, UnknownNameError
from microtome.experiments.run_curves import welch_reach
from microtome.experiments.runs import Run
from microtome.experiments.surgery.permutation import Permutation, correlate, permute
from microtome.interventions.applying import apply
from microtome.training.request import ask

Encoders = Callable[..., Any]


def grid(encoder: Any, **options: Any) -> list[Run]:
    return Permutation(model=encoder, task=cats.cats_task(), **options).grid(encoder)


def order_of(encoder: Any, run: Any) -> tuple[int, ...]:
    """Which of the blocks of an encoder run, one after the other."""
    known = {digest_weights(block): number for number, block in enumerate(encoder.blocks, start=1)}
    return tuple(known[digest_weights(block)] for block in apply(encoder, *run.interventions).blocks)


def test_every_kind_of_order(encoder_of: Encoders) -> None:
    encoder = encoder_of("bert")
    runs = grid(
        encoder, kinds=("random", "swap", "reverse", "move"), order_seeds=(1, 2), orders=[(2, 3, 1)], seeds=4
    )
    found = {(run.arm, run.x): order_of(encoder, run) for run in runs if run.arm != "scratch"}
    drawn = {("random", p): tuple(np.random.RandomState(p).permutation(3) + 1) for p in (1, 2)}
    assert found == {
        ("full", 0): (1, 2, 3),
        **drawn,
        ("swap", 1): (2, 1, 3),
        ("swap", 2): (1, 3, 2),
        ("reverse", 1): (3, 2, 1),
        ("move", 1): (2, 3, 1),
        ("move", 2): (1, 3, 2),
        ("given", 1): (2, 3, 1),
    }
    assert [run.x for run in runs if run.arm == "scratch"] == [0]


def test_two_tasks_over_the_same_orders(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder = encoder_of("bert")
    tasks = [cats.cats_task(name=name, seed=seed) for seed, name in enumerate(("cats", "more"))]
    given: dict[str, Any] = {"store": tmp_path, "order_seeds": (1, 2), "orders": [(1, 2, 3)], **cats.QUICK}
    found = permute(encoder, tasks, **given)
    assert found.task == "cats, more"
    assert [curve.name for curve in found.curves][:2] == ["cats: random", "cats: difference random"]
    plain = ask(encoder, tasks[0], "tamkin2020", seed=1, **cats.QUICK).address
    same = [row for row in found.rows if row["order"] == "1 2 3" and row["task"] == "cats"]
    # The blocks in their own order are the model itself; with all of them re-initialized it is another one.
    assert {row["address"] for row in same if row["arm"] in ("full", "given")} == {plain}
    assert found.lines["cats: full"] > 0.9
    assert {"cats: scratch", "more: scratch"} <= set(found.lines)
    assert {row["order"]: row["inversions"] for row in found.rows}["1 2 3"] == 0
    record = found.more["correlations"][0]
    assert record["tasks"] == ["cats", "more"]
    # Orders of blocks cannot matter alike to a model that learned nothing.
    failed = {name.split(":")[0] for name in found.more.get("not_above_baseline", {})}
    assert failed <= {"more"}
    assert any("Pearson's correlation of cats and more over" in said for said in found.findings) is not bool(
        failed
    )
    nothing = "more: Nothing is concluded about permutation: "
    assert any(said.startswith(nothing) for said in found.findings) is bool(failed)
    heard: list[str] = []
    alone = permute(encoder, tasks[0], progress=lambda what, *_: heard.append(what), **given)
    assert not any("training" in what for what in heard)
    np.testing.assert_array_equal(alone["random"].values, found["cats: random"].values)


def test_correlations_are_those_of_scipy() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=20)
    y = x + rng.normal(size=20)
    means = {
        name: {("random", place): float(value) for place, value in enumerate(values)}
        for name, values in (("one", x), ("two", y))
    }
    found = correlate(means, Context(level=0.9))[0]
    known: Any = stats.pearsonr(x, y)
    ranked: Any = stats.spearmanr(x, y)
    bounds = known.confidence_interval(0.9)
    assert found["n"] == 20
    assert found["pearson"]["value"] == pytest.approx(known.statistic)
    assert (found["pearson"]["low"], found["pearson"]["high"]) == pytest.approx(tuple(bounds))
    assert found["spearman"]["value"] == pytest.approx(ranked.statistic)
    assert found["spearman"]["low"] < found["spearman"]["value"] < found["spearman"]["high"]
    flat = correlate({"one": dict.fromkeys(means["one"], 0.5), "two": means["two"]}, Context())[0]
    assert flat["pearson"]["reason"] == "all scores of a task are the same"
    few = {name: dict(list(values.items())[:3]) for name, values in means.items()}
    assert correlate(few, Context())[0]["spearman"]["reason"] == "fewer than 4 orders"


def test_what_orders_change_is_said_with_its_unit(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder, task = encoder_of("bert"), cats.cats_task()
    given: dict[str, Any] = {"store": tmp_path, "order_seeds": np.array([1, 2]), "kinds": ("random", "swap")}
    one, two = (permute(encoder, task, seeds=s, **given, **cats.QUICK) for s in (1, (1, 2)))
    assert [claim.kind for claim in one.claims[:2]] == ["orders", "orders"]
    assert one.claims[0].subject == "random"
    assert [str(found.claims[0].estimate.unit) for found in (one, two)] == ["order", "order and seed"]  # pyright: ignore
    assert "Other seeds of the original order are not covered." in one.findings[0]
    assert "Other seeds" not in two.findings[0]
    assert one.findings[0].endswith("by the 95 % band of all of them, over examples.")
    assert two.findings[0].endswith("by the 95 % band of all of them, over examples and seeds.")
    # All swaps there are were made: they are no sample of others.
    assert "over orders" not in one.findings[1]
    assert {claim.kind for claim in one.claims[2:]} == {"swap"}
    more = cats.cats_task(name="more", seed=1)
    own = permute(encoder, [task, more], store=tmp_path, kinds=(), orders=[(3, 2, 1)], **cats.QUICK)
    assert [curve.name for curve in own.curves if "difference" not in curve.name] == [
        "cats: given",
        "more: given",
    ]
    assert own.more["correlations"][0]["pearson"]["reason"] == "fewer than 4 orders"


def test_the_interval_over_orders_is_that_of_welch() -> None:
    rng = np.random.default_rng(1)
    orders, seeds = rng.normal(size=9), 0.5 * rng.normal(size=4)
    known: Any = stats.ttest_ind(orders, seeds, equal_var=False)
    bounds = known.confidence_interval(0.95)
    assert welch_reach(orders, seeds, 0.95) == pytest.approx((bounds.high - bounds.low) / 2)


def test_wrong_options_are_refused(encoder_of: Encoders, tmp_path: Path) -> None:
    encoder = encoder_of("bert")
    with pytest.raises(UnknownNameError, match="kinds must be one of"):
        grid(encoder, kinds="shuffle")
    with pytest.raises(InputError, match=r"kinds must be one or more of random, .*, or orders of your own"):
        grid(encoder, kinds=())
    with pytest.raises(InputError, match="order_seeds must be one or more, each once"):
        grid(encoder, order_seeds=(1, 1))
    with pytest.raises(InputError, match=r"orders must be all of the 3 blocks of .* in some order"):
        grid(encoder, orders=[(1, 2)])
    with pytest.raises(InputError, match="blocks must have weights of their own to be permuted"):
        grid(encoder_of("albert"))
    with pytest.raises(InputError, match=r"the reversed order must be one that .*: block 1 of ModernBERT"):
        grid(encoder_of("modernbert"), kinds="reverse")
    task = cats.cats_task()
    with pytest.raises(InputError, match="task must be one or more, each once"):
        permute(encoder, [task, task], store=tmp_path)
