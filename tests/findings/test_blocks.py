from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike
from scipy import stats

from microtome.errors import InputError
from microtome.findings.blocks import block_structure, split_all
from microtome.randomness import generator


def chain(steps: ArrayLike) -> np.ndarray:
    """The population map of a Markov chain of layers: similarities multiply along the way."""
    at = np.concatenate([[0], np.cumsum(np.log1p(-np.asarray(steps, dtype=float)))])
    return np.exp(-np.abs(at[:, None] - at))


def jump(layers: int, border: int, size: float) -> np.ndarray:
    steps = np.full(layers - 1, 0.05)
    steps[border - 1] = size
    return chain(steps)


def blocks(layers: int, border: int, shared: float) -> np.ndarray:
    side = np.arange(layers) < border
    return ((1 - shared) * np.sqrt(chain(np.full(layers - 1, 0.05))) + shared * (side[:, None] == side)) ** 2


def noisy(values: np.ndarray, seed: int, *, sd: float = 0.002, groups: int = 10) -> list[np.ndarray]:
    """Two halves, and replicates of the second whose jackknife error is about sd."""
    rng = generator(seed, "noise")

    def noise(scale: float) -> np.ndarray:
        upper = np.triu(rng.normal(0, scale, values.shape), 1)
        return upper + upper.T

    second = values + noise(sd)
    around = np.stack([second + noise(sd / np.sqrt(groups - 1)) for _ in range(groups)])
    return [values + noise(sd), second, around]


def random_maps(layers: int, seed: int, groups: int = 4) -> list[np.ndarray]:
    rng = generator(seed, "maps")
    return [
        rng.uniform(0, 0.9, size) for size in ((layers, layers), (layers, layers), (groups, layers, layers))
    ]


def contrast_by_hand(values: np.ndarray, border: int) -> float:
    """The contrast in gaps, pair by pair; `border` layers lie below."""
    layers = len(values)
    s = (values + values.T) / 2
    pairs = list(itertools.combinations(range(layers), 2))
    y = np.array([s[p] for p in pairs])
    columns = []
    for a, b in pairs:
        m, d = (a + b) / 2, b - a
        columns.append([float(d == k) for k in range(1, layers)] + [m, m * m, m * d, m * m * d])
    design = np.array(columns)
    residual = y - design @ np.linalg.lstsq(design, y, rcond=1e-12)[0]
    top = bottom = 0.0
    for d in range(1, layers):
        groups: dict[bool, list[float]] = {True: [], False: []}
        for (a, b), r in zip(pairs, residual, strict=True):
            if b - a == d:
                groups[(a < border) == (b < border)].append(float(r))
        within, between = groups[True], groups[False]
        if within and between:
            weight = len(within) * len(between) / (len(within) + len(between))
            top += weight * (np.mean(within) - np.mean(between))
            bottom += weight
    gap = np.mean([1 - s[i, i + 1] for i in range(layers - 1)])
    return float(top / bottom / gap)


@settings(max_examples=15, deadline=None)
@given(layers=st.integers(6, 11), seed=st.integers(0, 999))
def test_contrast_error_and_interval_equal_the_definition(layers: int, seed: int) -> None:
    select, evaluate, jackknife = random_maps(layers, seed)
    found = block_structure(select, evaluate, jackknife, level=0.9)
    ends = range(3, layers - 2)
    by_hand = [contrast_by_hand(evaluate, b) for b in ends]
    assert found.borders == tuple(b - 1 for b in ends)
    np.testing.assert_allclose(found.contrasts, by_hand, rtol=1e-6, atol=1e-9)
    assert found.border == max(ends, key=lambda b: contrast_by_hand(select, b)) - 1
    assert found.border_other == max(ends, key=lambda b: contrast_by_hand(evaluate, b)) - 1
    assert found.border is not None
    assert found.interval is not None
    replicates = [contrast_by_hand(m, found.border + 1) for m in jackknife]
    error = np.sqrt(3 / 4 * sum((r - np.mean(replicates)) ** 2 for r in replicates))
    assert found.standard_error == pytest.approx(error, rel=1e-6)
    assert found.z == pytest.approx(found.contrast / error, rel=1e-6)
    low, high = stats.t.interval(0.9, 3, loc=found.contrast, scale=error)
    assert (found.interval.low, found.interval.high) == pytest.approx((low, high), rel=1e-6)


@pytest.mark.parametrize("border", range(3, 11))
@pytest.mark.parametrize("planted", [jump, blocks])
def test_planted_borders_are_found(planted, border: int) -> None:
    found = block_structure(*noisy(planted(13, border, 0.3), border))
    assert found.verdict == "two blocks"
    assert found.border is not None
    assert abs(found.border + 1 - border) <= 1


@pytest.mark.parametrize(
    "steps",
    [
        np.full(12, 0.05),
        np.geomspace(0.02, 0.06, 12),
        np.geomspace(0.13, 0.013, 12),
        0.03 * (1 + np.sin(np.linspace(0, np.pi, 12)) ** 2),
        0.02 * (1 + 3 * np.sin(np.linspace(0, np.pi, 12)) ** 2),
    ],
    ids=["equal", "trend 3", "trend 10", "hump 2", "hump 4"],
)
def test_smooth_stacks_have_no_blocks(steps: np.ndarray) -> None:
    for seed in range(5):
        found = block_structure(*noisy(chain(steps), seed))
        assert found.verdict == "none"
        assert found.plain_contrast > 0.05  # what the plain contrast would have said
        assert found.sentence().startswith("No step stands out: at the chosen border, between layers ")


def test_the_verdict_is_graded_by_size() -> None:
    small = block_structure(*noisy(jump(13, 6, 0.15), 0))
    assert 0.5 < small.contrast < 1
    assert small.sentence().startswith("A step stands out between layers 5 and 6: the contrast is 0.")
    large = block_structure(*noisy(jump(13, 6, 0.3), 0), unit="sentence")
    assert large.contrast >= 1
    assert large.sentence(names=[f"m/{i}" for i in range(13)]).startswith(
        "Two blocks, layers m/0 to m/5 and layers m/6 to m/12: the contrast is 1."
    )
    assert "(95%, unit: sentence)" in large.sentence()
    assert "both halves of the examples choose this border" in large.sentence()


def test_the_sentence_names_its_rule_and_a_gap_that_points_the_other_way() -> None:
    found = block_structure(*noisy(jump(13, 6, 0.15), 0))
    rule = "(the rule: a step has a contrast above 0.5 and z above 1.64, two blocks one from 1 on)"
    assert f"z = {found.z:.1f} {rule}, the gap there is" in found.sentence()
    against = "(which decides nothing: the contrast is of all pairs across the border), both"
    for verdict, ratio, told in (
        ("step", 3.2, False),
        ("step", 0.9, True),
        ("two blocks", 0.9, True),
        ("none", 3.2, True),
        ("none", 0.9, False),
    ):
        one = replace(found, verdict=verdict, gap_ratio=ratio)
        assert f"the gap there is {ratio} times the median of the others" in one.sentence()
        assert (against in one.sentence()) == told


def test_a_large_contrast_that_is_unsure_is_no_step() -> None:
    values = jump(13, 6, 0.3)
    select, evaluate, jackknife = noisy(values, 0)
    # Half of the replicates are of equal steps: their contrast is near 0.
    jackknife[::2] = chain(np.full(12, 0.05))
    found = block_structure(select, evaluate, jackknife)
    assert found.contrast > 1
    assert found.z < 1.64
    assert found.verdict == "none"


def test_halves_that_disagree_say_so() -> None:
    _, evaluate, jackknife = noisy(jump(13, 6, 0.3), 0)
    found = block_structure(jump(13, 9, 0.3), evaluate, jackknife)
    assert (found.border, found.border_other, found.agree) == (8, 5, False)
    assert "the other half of the examples chooses between layers 5 and 6" in found.sentence()
    other = block_structure(jump(13, 9, 0.3), evaluate, jackknife, select_other=jump(13, 4, 0.3))
    assert (other.border, other.border_other) == (8, 3)
    assert other.contrast == found.contrast


@settings(max_examples=15, deadline=None)
@given(layers=st.integers(6, 12), seed=st.integers(0, 999))
def test_smooth_courses_are_taken_out_and_units_do_not_matter(layers: int, seed: int) -> None:
    maps = random_maps(layers, seed)
    found = block_structure(*maps)
    raw = np.array(found.contrasts) * found.gap
    rng = generator(seed, "course")
    index = np.arange(layers)
    m, d = (index[:, None] + index) / 2, np.abs(index[:, None] - index)
    a, b, c, e = rng.normal(0, 0.01, 4)
    course = rng.normal(0, 0.1, layers)[d] + a * m + b * m**2 + c * m * d + e * m**2 * d
    moved = block_structure(*(values - 5 + course for values in maps))
    np.testing.assert_allclose(np.array(moved.contrasts) * moved.gap, raw, atol=1e-8)
    assert moved.border == found.border

    halved = block_structure(*(1 - (1 - values) / 2 for values in maps))
    np.testing.assert_allclose(halved.contrasts, found.contrasts, atol=1e-9)
    assert halved.z == pytest.approx(found.z)

    turned = block_structure(*(values[..., ::-1, ::-1] for values in maps))
    assert turned.border == layers - 2 - (found.border or 0)
    assert turned.contrast == pytest.approx(found.contrast)
    assert turned.gap_ratio == pytest.approx(found.gap_ratio)

    swapped = block_structure(*(np.swapaxes(values, -1, -2) for values in maps))
    assert swapped.contrast == pytest.approx(found.contrast)


def widen(values: np.ndarray) -> np.ndarray:
    """Put an undefined layer below the stack."""
    wide = np.full((*values.shape[:-2], values.shape[-1] + 1, values.shape[-1] + 1), np.nan)
    wide[..., 1:, 1:] = values
    return wide


def test_an_undefined_layer_keeps_its_place() -> None:
    maps = noisy(jump(12, 6, 0.3), 1)
    plain, found = block_structure(*maps), block_structure(*(widen(values) for values in maps))
    assert found.left_out == (0,)
    assert found.used == tuple(range(1, 13))
    assert plain.border is not None
    assert found.border == plain.border + 1 == 6
    assert (found.contrast, found.z, found.gap_ratio) == pytest.approx(
        (plain.contrast, plain.z, plain.gap_ratio)
    )
    assert found.sentence().startswith("Two blocks, layers 1 to 6 and layers 7 to 12:")
    assert found.sentence().endswith("Left out as undefined: layer 0.")


def test_a_hole_in_the_middle_does_not_move_the_other_layers() -> None:
    maps = noisy(jump(14, 9, 0.3), 2)
    maps[0][4, 7] = np.nan  # one cell of one map: one of its layers has to go
    maps[2][3, 4, 10] = np.nan
    found = block_structure(*maps)
    assert found.left_out == (4,)
    assert found.verdict == "two blocks"
    assert found.border == 8
    beside = noisy(jump(14, 9, 0.3), 2)
    for values in beside:
        values[..., 9, :] = np.nan
    missing = block_structure(*beside)
    assert missing.border == 8
    assert np.isnan(missing.gap_ratio)
    assert "the gap there is undefined" in missing.sentence()
    assert missing.sentence().startswith("Two blocks, layers 0 to 8 and layers 10 to 13:")


def test_at_least_three_layers_on_each_side() -> None:
    with pytest.raises(
        InputError, match=r"at least 6 layers with defined similarities, 3 on each side.*got 5"
    ):
        block_structure(*noisy(chain(np.full(4, 0.05)), 0))
    with pytest.raises(InputError, match="got 5"):
        block_structure(*(widen(values) for values in noisy(chain(np.full(4, 0.05)), 0)))
    six = block_structure(*noisy(jump(6, 3, 0.3), 0))
    assert six.borders == (2,)
    assert "With 6 layers only this one border can be tested." in six.sentence()
    assert "only this one border" not in block_structure(*noisy(jump(7, 3, 0.3), 0)).sentence()


def test_layers_that_do_not_differ_have_no_blocks_to_find() -> None:
    ones = np.ones((8, 8))
    found = block_structure(ones, ones, np.stack([ones] * 3))
    assert found.verdict == "undefined"
    assert found.border is None
    assert np.isnan(found.contrast)
    assert "adjacent layers do not differ" in found.sentence()
    # Equal but distant layers do have a unit, and no contrast.
    even = np.full((8, 8), 0.5)
    assert block_structure(even, even, np.stack([even] * 3)).verdict == "none"


def test_scattered_layers_leave_nothing_to_compare() -> None:
    values = noisy(chain(np.full(23, 0.05)), 0)
    gone = [i for i in range(24) if i not in (0, 1, 2, 21, 22, 23)]
    for array in values:
        array[..., gone, :] = np.nan
    found = block_structure(*values)
    assert found.verdict == "undefined"
    assert found.sentence().startswith("Blocks are undefined: too many layers are left out")


@settings(max_examples=20, deadline=None)
@given(layers=st.integers(6, 12), seed=st.integers(0, 999))
def test_plain_contrast_sharpness_and_gap_ratio(layers: int, seed: int) -> None:
    maps = random_maps(layers, seed)
    found = block_structure(*maps)
    s = (maps[1] + maps[1].T) / 2
    best, most = -1, -np.inf
    for b in range(3, layers - 2):
        inside = [s[i, j] for i, j in itertools.combinations(range(layers), 2) if (i < b) == (j < b)]
        across = [s[i, j] for i, j in itertools.combinations(range(layers), 2) if (i < b) != (j < b)]
        if np.mean(inside) - np.mean(across) > most:
            best, most = b - 1, float(np.mean(inside) - np.mean(across))
    assert found.plain_border == best
    assert found.plain_contrast == pytest.approx(most)
    sharp = s[best - 1, best] + s[best + 1, best + 2] - 2 * s[best, best + 1]
    assert found.plain_sharpness == pytest.approx(sharp)
    gaps = [1 - s[i, i + 1] for i in range(layers - 1)]
    assert found.border is not None
    here = gaps.pop(found.border)
    assert found.gap_ratio == pytest.approx(here / np.median(gaps))
    assert found.gap == pytest.approx(np.mean([*gaps, here]))


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"level": 1.0}, "level must be between 0 and 1"),
        ({"select": np.ones((3, 4))}, r"the shape of select must be \[layers, layers\]"),
        ({"select": np.ones((7, 7))}, "the maps must be all of select's shape"),
        ({"jackknife": np.ones((1, 8, 8))}, "at least two groups"),
        ({"jackknife": np.ones((8, 8))}, r"\[groups, layers, layers\]"),
    ],
)
def test_bad_input_is_told(change: dict, sentence: str) -> None:
    maps = dict(zip(("select", "evaluate", "jackknife"), noisy(jump(8, 4, 0.3), 0), strict=True))
    with pytest.raises(InputError, match=sentence):
        block_structure(**{**maps, **change})


@settings(max_examples=20, deadline=None)
@given(layers=st.integers(6, 11), k=st.integers(1, 4), least=st.integers(1, 3), seed=st.integers(0, 999))
def test_split_all_is_the_best_of_all_cuts(layers: int, k: int, least: int, seed: int) -> None:
    # Layers as unit vectors, so that the scatter around the blocks' centers can be computed on the points.
    points = np.cumsum(generator(seed, "points").normal(size=(layers, 6)), axis=0)
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    if k * least > layers:
        with pytest.raises(InputError, match=f"{layers} defined layers make k blocks of at least {least}"):
            split_all(points @ points.T, k, least=least)
        return

    def scatter(cut: tuple[int, ...]) -> float:
        return sum(((p - p.mean(axis=0)) ** 2).sum() for p in np.split(points, cut))

    cuts = [
        cut
        for cut in itertools.combinations(range(1, layers), k - 1)
        if min(np.diff([0, *cut, layers])) >= least
    ]
    found = split_all(points @ points.T, k, least=least)
    assert [i for block in found for i in block] == list(range(layers))
    assert scatter(tuple(block[0] for block in found[1:])) == pytest.approx(min(map(scatter, cuts)))


def test_split_all_leaves_undefined_layers_out() -> None:
    steps = np.full(11, 0.02)
    steps[[3, 7]] = 0.4
    assert split_all(widen(chain(steps)), 3) == ((1, 2, 3, 4), (5, 6, 7, 8), (9, 10, 11, 12))
