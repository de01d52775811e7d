"""Claims are judged by where the whole interval lies, and answers are composed of their numbers."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from paired_settings import Effect, Setting
from phang_claims import COMPARED, Claim, answer, claims, effects, said

TASKS = ("a", "b", "c", "d", "e")


def models(tasks: tuple[str, ...] = TASKS, **of_design: float) -> list[Setting]:
    """Margins as given, a bonus of 0.3 for each dense stage, and a little noise."""
    rng = np.random.default_rng(0)
    return [
        Setting(
            design=design,
            head=head,
            task=task,
            rate=rate,
            seed=seed,
            values={
                "second_margin": margin + 0.3 * stages + rng.normal(0, 0.02),
                "cost_third": 0.2 + rng.normal(0, 0.02),
                "share_2": 0.8 + rng.normal(0, 0.02),
                "flat_from": 6.0 + (design == "masked") + rng.normal(0, 0.1),
            },
        )
        for design, margin in of_design.items()
        for stages, head in ((1, "cls1"), (2, "cls2"))
        for task in tasks
        for rate in (1e-4, 3e-4)
        for seed in (1, 2, 3)
    ]


def by_name(found: list[Claim]) -> dict[str, Claim]:
    return {one.name: one for one in found}


def test_planted_claims_are_judged_rightly() -> None:
    found = by_name(claims(models(masked=1.0, shared=0.9, replaced=-0.9)))
    assert len(found) == 14
    assert found["C3"].verdict == "holds"
    assert found["C5"].parts[0].verdict == "holds"
    assert found["C5"].verdict == "inconclusive", "the similarity of the last two layers is not known"
    assert found["P-E2 a"].verdict == "holds"
    assert found["P-E2 c"].verdict == "holds"
    assert found["P-E2 e"].verdict == "holds"
    turned = by_name(claims(models(masked=-1.5, shared=-1.5, replaced=1.0)))
    assert turned["C3"].verdict == "does not hold"
    assert turned["C5"].verdict == "does not hold", "one part that fails is enough"
    assert turned["C1"].verdict == "inconclusive"
    assert turned["C1"].parts[0].effect.n == 0


def test_one_task_tells_nothing_of_others_but_something_of_itself() -> None:
    found = by_name(claims(models(tasks=("a",), masked=1.0, shared=1.0)))
    assert found["C3"].verdict == "inconclusive"
    assert found["C3"].verdict_here == "holds"


def test_the_published_difference_is_the_sum_of_objective_and_head() -> None:
    settings = models(masked=1.0, replaced=0.4)
    found = effects(settings, ("second_margin",))
    whole, objective, head = (found[COMPARED[place][0]]["second_margin"] for place in (8, 9, 10))
    assert whole.value == pytest.approx(objective.value + head.value)
    assert objective.value == pytest.approx(-0.6, abs=0.02)
    assert head.value == pytest.approx(-0.3, abs=0.02)
    assert found["rate: 0.0003 minus 0.0001"]["second_margin"].low < 0
    assert "sharing: one block minus twelve" not in found, "there is no such encoder"


def test_answers_say_what_the_interval_says() -> None:
    clear = Effect(value=0.5, low=0.2, high=0.8, here_low=0.4, here_high=0.6, n=10, tasks=5, seeds=3, draws=1)
    assert answer("Do they?", "x minus y", clear, "contrast").startswith(
        "Do they? Yes, it is larger (x minus y): contrast 0.50 [0.20, 0.80]; on these tasks alone 0.50 ["
    )
    here = replace(clear, value=-0.5, low=-0.9, high=0.1, here_low=-0.6, here_high=-0.4)
    assert "Yes on these tasks, it is smaller" in answer("Do they?", "x", here, "contrast")
    open_ = replace(clear, value=0.0, low=-0.9, high=0.1, here_low=-0.6, here_high=0.4)
    assert "Inconclusive" in answer("Do they?", "x", open_, "contrast")
    assert "Not measured" in answer("Do they?", "x", Effect(value=float("nan")), "contrast")
    assert said(Effect(value=1.0, n=1)) == "1.00"
