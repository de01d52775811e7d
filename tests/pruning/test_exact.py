"""Does the exact test keep its level wherever the truth lies, and agree with what is known?"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import multinomial

from microtome.errors import InputError
from microtome.pruning.exact import GAMMA, exact_p, score_statistic


def outcomes(n: int) -> list[tuple[int, int]]:
    return [(lost, gained) for lost in range(n + 1) for gained in range(n + 1 - lost)]


@pytest.mark.parametrize("n,drop", [(20, 0.1), (30, 0.05), (30, 0.2)])
def test_the_level_is_kept_at_every_share_of_disagreement(n: int, drop: float) -> None:
    every = outcomes(n)
    p = np.array([exact_p(lost, gained, n, drop) for lost, gained in every])
    for gained in (0.0, 0.005, 0.02, 0.1, 0.3, (1 - drop) / 2):
        shares = [gained + drop, gained, max(0.0, 1 - 2 * gained - drop)]
        chance = multinomial.pmf([(a, b, n - a - b) for a, b in every], n, shares)
        for alpha in (0.01, 0.05, 0.2):
            assert chance[p <= alpha].sum() <= alpha + 1e-9


def test_no_disagreement_is_a_matter_of_counting() -> None:
    for n, drop in ((50, 0.05), (299, 0.01), (1000, 0.002)):
        assert exact_p(0, 0, n, drop) == pytest.approx((1 - drop) ** n + GAMMA, abs=1e-6)


def test_the_usual_interval_claims_more_than_it_may() -> None:
    # Bonett and Price at 230 examples without disagreement: (1 / 232) sqrt(2) 1.645 is below one point.
    assert np.sqrt(2) / 232 * 1.645 < 0.0101
    assert exact_p(0, 0, 230, 0.01) > 0.09


@settings(max_examples=25, deadline=None)
@given(st.integers(5, 300), st.data(), st.sampled_from([0.01, 0.05, 0.3]))
def test_more_losses_are_never_safer(n: int, data: st.DataObject, drop: float) -> None:
    gained = data.draw(st.integers(0, n - 1))
    lost = data.draw(st.integers(0, n - 1 - gained))
    fewer, more = exact_p(lost, gained, n, drop), exact_p(lost + 1, gained, n, drop)
    assert 0 < fewer <= 1
    # The interval for the share of disagreements moves a little too.
    assert more > 0.05 or fewer <= 0.055


def test_the_statistic_is_that_of_a_plain_z_test_where_many_disagree() -> None:
    n, lost, gained, drop = 100_000, 12_000, 11_000, 0.005
    difference = (lost - gained) / n
    plain = (difference - drop) / np.sqrt(((lost + gained) / n - difference**2) / n)
    assert float(score_statistic(lost, gained, n, drop)) == pytest.approx(plain, rel=0.01)


@pytest.mark.parametrize(
    "given_,words",
    [
        ((1, 1, 10, 0.0), "drop must be between 0 and 1"),
        ((6, 6, 10, 0.1), "lost and gained examples must be at least 0 and together at most 10"),
        ((-1, 0, 10, 0.1), "lost and gained examples must be at least 0"),
    ],
)
def test_wrong_numbers(given_: tuple[int, int, int, float], words: str) -> None:
    with pytest.raises(InputError, match=words):
        exact_p(*given_)
