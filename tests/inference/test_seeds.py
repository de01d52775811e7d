from __future__ import annotations

import numpy as np
import pytest

from microtome.inference.answers import Answers
from microtome.inference.seeds import against_baseline
from microtome.randomness import generator


def answers(shares: list[float], n: int = 200, name: str = "answers") -> Answers:
    rng = generator(0, name)
    right = np.zeros(n, dtype=int)
    said = [np.where(rng.permutation(n) < round(share * n), 0, 1).tolist() for share in shares]
    return Answers(ids=[str(i) for i in range(n)], targets=right.tolist(), predictions=said)


@pytest.mark.parametrize(
    ("shares", "beats", "ahead"),
    [
        ([0.5], False, False),
        ([0.56], False, True),
        ([0.7], True, True),
        ([0.45, 0.4], False, False),
        # Wilson's lower ends are far above, though an interval over two seeds would reach from 0 to 1.
        ([0.7, 0.95], True, True),
    ],
)
def test_a_baseline_is_beaten_by_more_than_chance(shares: list[float], beats: bool, ahead: bool) -> None:
    found = against_baseline("accuracy", answers(shares), 0.52)
    assert found is not None
    assert (found.beats, found.ahead) == (beats, ahead)
    assert found.value == pytest.approx(np.mean(shares))


def test_a_share_is_held_against_wilsons_lower_end() -> None:
    share, n, z = 0.6, 200, 1.959964
    low = (share + z**2 / (2 * n) - z * np.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))) / (1 + z**2 / n)
    for baseline, beats in ((low - 1e-4, True), (low + 1e-4, False)):
        found = against_baseline("accuracy", answers([share]), float(baseline))
        assert found is not None
        assert found.beats == beats


def test_lower_is_better_for_some_scores_and_without_a_baseline_nothing_is_held_against_it() -> None:
    assert against_baseline("accuracy", answers([0.9]), float("nan")) is None


def test_chance_rarely_passes_for_skill() -> None:
    """A model that answers as often right as the baseline does is let through in at most 1 of 20 cases."""
    passed = 0
    for trial in range(200):
        right = generator(trial, "chance").random(150) < 0.55
        found = against_baseline(
            "accuracy",
            Answers(
                ids=[str(i) for i in range(150)], targets=[1] * 150, predictions=[right.astype(int).tolist()]
            ),
            0.55,
        )
        assert found is not None
        passed += found.beats
    assert passed <= 10
