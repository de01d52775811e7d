"""What is said of an exported model follows from its answers, whichever way they come out."""

from __future__ import annotations

from pathlib import Path

import pytest

from microtome.demonstration.unseen import Unseen
from microtome.pruning.margin import judge_drop
from microtome.tasks.generated.grammar import build
from microtome.tasks.generated.polarity import POLARITY
from microtome.training.evaluating import score_answers

TASK = build(POLARITY, sizes={"test": 400})


def unseen(lost: int, margin: float) -> Unseen:
    """A whole model that is always right, and one that errs on the first examples."""
    split = TASK.split("test")
    right = [item.target for item in split]
    wrong = [1 - said if place < lost else said for place, said in enumerate(right)]
    whole, cut = (score_answers(TASK, split, said) for said in (right, wrong))
    drop = judge_drop("accuracy", whole.answers(), cut.answers(), TASK.labels, max_drop=margin)
    return Unseen(
        name="masked", folder=Path("demo/prune/masked"), kept=3, depth=12, drop=drop, evaluation=cut
    )


@pytest.mark.parametrize(
    ("lost", "verdict"),
    [
        (0, "The margin of 5 points is kept there: 0.00 points were lost ("),
        (16, "That the margin of 5 points is kept is not shown there: 4.00 points were lost ("),
        (40, "The margin of 5 points is not kept there: 10.00 points were lost ("),
    ],
)
def test_the_verdict_follows_the_test(lost: int, verdict: str) -> None:
    one = unseen(lost, 5.0)
    said = one.sentence()
    assert verdict in said
    assert one.drop.safe == ("is kept there" in said)
    assert said.startswith(
        "demo/prune/masked: masked with 3 of 12 blocks, loaded again with transformers alone"
    )
    assert f"has accuracy {1 - lost / 400:.3f} on 400 examples" in said
    assert "the whole model has 1.000." in said
    limit = float(said.split("points were lost (")[1].split(" at most, 95 %, one-sided)")[0])
    assert one.drop.upper <= limit < one.drop.upper + 0.01
