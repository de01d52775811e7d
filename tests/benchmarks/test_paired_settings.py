"""Effects that were planted come back, with intervals that cover them as often as they promise."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from paired_settings import (
    Setting,
    block_and_cut,
    encoder_parts,
    flat_from,
    mean_effect,
    paired_effect,
)
from scipy import stats

from microtome.errors import InputError, UnknownNameError

TASKS: tuple[str, ...] = ("a", "b", "c", "d", "e")
REPLACED, MASKED = {"design": "replaced"}, {"design": "masked"}


def grid(value: Callable[..., float], *, draws: int = 1, tasks: tuple[str, ...] = TASKS) -> list[Setting]:
    """One setting for each cell of a small design."""
    return [
        Setting(
            design=design,
            draw=draw,
            head=head,
            task=task,
            rate=1e-4,
            seed=seed,
            values={"contrast": value(design, draw, head, task, seed)},
        )
        for design in ("masked", "replaced")
        for draw in range(draws)
        for head in ("cls1", "cls2")
        for task in tasks
        for seed in (1, 2, 3)
    ]


def drawn(rng: np.random.Generator, *, effect: float, draws: int, of_draw: float) -> list[Setting]:
    """An effect that differs from task to task and from pretraining to pretraining, plus noise."""
    tasks = dict(zip(TASKS, rng.normal(0, 0.1, 5), strict=True))
    levels = dict(zip(TASKS, rng.normal(0, 1, 5), strict=True))
    draw_effects = rng.normal(0, of_draw, draws)

    def value(design: str, draw: int, head: str, task: str, seed: int) -> float:
        moved = (effect + tasks[task] + draw_effects[draw]) * (design == "replaced")
        return levels[task] + moved + (head == "cls2") + rng.normal(0, 0.1)

    return grid(value, draws=draws)


def test_a_planted_effect_is_found_whatever_the_level_of_each_task() -> None:
    settings = drawn(np.random.default_rng(1), effect=0.5, draws=1, of_draw=0.0)
    found = paired_effect(settings, "contrast", REPLACED, MASKED)
    assert found.value == pytest.approx(0.5, abs=0.15)
    assert found.low > 0
    assert (found.n, found.tasks, found.seeds, found.draws) == (30, 5, 3, 1)
    head = paired_effect(settings, "contrast", {"head": "cls2"}, {"head": "cls1"})
    assert head.low < 1 < head.high
    assert head.high - head.low < 0.3, "levels of tasks must not widen a paired interval"


def test_the_interval_is_students_over_the_means_of_tasks() -> None:
    settings = drawn(np.random.default_rng(2), effect=0.5, draws=1, of_draw=0.0)
    found = paired_effect(settings, "contrast", REPLACED, MASKED)
    means = np.array(list(found.by_task.values()))
    oracle = stats.t.interval(0.95, 4, means.mean(), stats.sem(means))
    assert (found.low, found.high) == pytest.approx(oracle)


@pytest.mark.parametrize(("draws", "of_draw"), [(1, 0.0), (3, 0.2)])
def test_intervals_cover_the_effect_on_other_tasks_and_pretrainings(draws: int, of_draw: float) -> None:
    rng = np.random.default_rng(draws)
    covered = 0
    for _ in range(200):
        found = paired_effect(
            drawn(rng, effect=0.3, draws=draws, of_draw=of_draw), "contrast", REPLACED, MASKED
        )
        covered += found.low < 0.3 < found.high
    assert covered >= 0.91 * 200


def test_one_pretraining_says_nothing_of_others() -> None:
    rng = np.random.default_rng(5)
    covered = 0
    for _ in range(100):
        found = paired_effect(drawn(rng, effect=0.3, draws=1, of_draw=0.5), "contrast", REPLACED, MASKED)
        covered += found.low < 0.3 < found.high
    assert covered < 60, "tasks alone cannot make up for it, which is why the number of pretrainings is told"


def test_seeds_alone_decide_on_the_tasks_at_hand() -> None:
    rng, covered, wider = np.random.default_rng(6), 0, 0
    for _ in range(200):
        effects = dict(zip(TASKS, rng.normal(0.3, 0.5, 5), strict=True))

        def value(
            design: str, draw: int, head: str, task: str, seed: int, effects: object = effects
        ) -> float:
            return effects[task] * (design == "replaced") + rng.normal(0, 0.1)  # pyright: ignore

        found = paired_effect(grid(value), "contrast", REPLACED, MASKED)
        truth = np.mean(list(effects.values()))
        covered += found.here_low < truth < found.here_high
        wider += found.high - found.low > found.here_high - found.here_low
    assert covered >= 0.9 * 200
    assert wider == 200


def test_settings_without_a_pair_do_not_count() -> None:
    settings = grid(lambda design, *_: 1.0 if design == "replaced" else 0.0)
    lonely = Setting(
        design="replaced", head="mean", task="a", rate=1e-4, seed=1, values={"contrast": 1_000.0}
    )
    broken = [
        Setting(design=d, head="cls0", task="a", rate=1e-4, seed=1, values={"contrast": v})
        for d, v in (("replaced", 500.0), ("masked", math.nan))
    ]
    assert paired_effect([*settings, lonely, *broken], "contrast", REPLACED, MASKED).value == 1.0


def test_one_task_has_no_interval_over_tasks() -> None:
    settings = grid(lambda design, d, h, t, seed: seed / 10 + (design == "replaced"), tasks=("a",))
    found = mean_effect(settings, "contrast")
    assert math.isnan(found.low)
    assert found.here_low < found.value < found.here_high
    assert math.isnan(mean_effect([], "contrast").value)


def test_values_that_are_all_alike_have_no_interval() -> None:
    settings = [
        Setting(design="m", head="h", task=task, rate=1.0, seed=seed, values={"fires": 1.0})
        for task in "abc"
        for seed in (1, 2, 3)
    ]
    found = mean_effect(settings, "fires")
    assert found.value == 1.0
    assert all(map(math.isnan, (found.low, found.high, found.here_low, found.here_high)))


def test_pairs_that_share_a_model_tell_nothing_of_other_seeds() -> None:
    rng = np.random.default_rng(0)
    settings: list[Any] = [
        Setting(design="m", head="h", task=t, rate=1.0, seed=pair, values={"contrast": rng.normal()})
        for t in "abc"
        for pair in ("1|2", "1|3", "2|3")
    ]
    found = mean_effect(settings, "contrast")
    assert math.isfinite(found.low)
    assert math.isnan(found.here_low)


def test_designs_count_alike_however_often_they_were_pretrained() -> None:
    settings = [
        Setting(
            design=design, draw=draw, head="cls1", task=task, rate=1.0, seed=1, values={"contrast": value}
        )
        for design, draws, value in (("masked", 3, 1.0), ("shared", 1, 0.0))
        for draw in range(draws)
        for task in TASKS
    ]
    assert mean_effect(settings, "contrast").value == 0.5


def test_what_is_compared_must_be_named_on_both_sides() -> None:
    with pytest.raises(InputError, match="must be the same factors on both sides"):
        paired_effect([], "contrast", {"design": "masked"}, {"head": "cls1"})
    with pytest.raises(UnknownNameError, match="factor must be one of design, draw"):
        paired_effect([], "contrast", {"color": 1}, {"color": 2})
    with pytest.raises(InputError, match="level must be between 0 and 1"):
        mean_effect([], "contrast", level=2)


@given(st.lists(st.integers(0, 100), min_size=1, max_size=12))
def test_from_the_flat_layer_on_nothing_is_lost_and_below_it_something_is(scores: list[int]) -> None:
    layer = int(flat_from([one / 100 for one in scores]))
    lost = [scores[-1] - one for one in scores]
    assert all(one < 1 for one in lost[layer - 1 :])
    assert layer == 1 or lost[layer - 2] >= 1


def test_flat_layers_of_scores_that_are_to_be_low() -> None:
    assert flat_from([9.0, 5.5, 5.0], points=1.0, higher_is_better=False) == 2.0
    assert math.isnan(flat_from([0.5, math.nan]))


def borders(flat: Callable[[float, np.random.Generator], float]) -> list[Setting]:
    rng = np.random.default_rng(3)
    found = []
    for task in TASKS:
        for head in ("cls0", "cls1", "cls2", "mean"):
            border = float(rng.integers(3, 10))
            for seed in (1, 2):
                values = {"top_block": border, "flat_from": flat(border, rng)}
                found.append(Setting(design="m", head=head, task=task, rate=1.0, seed=seed, values=values))
    return found


def test_cuts_that_follow_the_blocks_are_told_from_those_that_do_not() -> None:
    follows = block_and_cut(borders(lambda border, _: border))
    assert follows.value == pytest.approx(1.0)
    assert (follows.n, follows.tasks) == (20, 5)
    assert follows.distance.value == 0.0
    apart = block_and_cut(borders(lambda _, rng: float(rng.integers(1, 12))))
    assert apart.low < 0 < apart.high
    assert math.isnan(block_and_cut(borders(lambda *_: 4.0)).value)


def test_names_of_encoders_tell_their_pretraining() -> None:
    assert encoder_parts("masked-12") == ("masked", 12)
    assert encoder_parts("all-tokens") == ("all-tokens", 0)
