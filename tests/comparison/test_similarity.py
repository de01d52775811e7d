"""Does a comparison give the same values however the layers come, and say plainly what is wrong with them?"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from safetensors.torch import save_file

import microtome as mt
from microtome.errors import InputError, MicrotomeError, SmallSampleWarning
from microtome.findings.record import Maps
from microtome.measures.cka import LINEAR_CKA
from microtome.measures.table import MEASURES
from microtome.randomness import generator
from microtome.testing.measures import variants

MOMENTS = ["linear_cka", "debiased_cka", "cca", "svcca", "pwcca", "neuron_correlation", "mixed_regression"]
MOMENTS += ["linear_regression", "procrustes"]
ROWS = ["rsa", "rbf_cka", "mutual_knn", "linear_regression:estimator=cross_validated"]
CHOICES = [c for m in MEASURES.values() if m.needs != "attention" for c in variants(m)]
X = generator(0, "test_similarity", "bad").standard_normal((20, 3))


def rng(name: str) -> np.random.Generator:
    return generator(0, "test_similarity", name)


def stack(*widths: int, n: int = 120) -> list[np.ndarray]:
    r = rng("stack")
    shared = r.standard_normal((n, 5))
    return [
        shared @ r.standard_normal((5, w)) + 2 * r.standard_normal((n, w)) + r.standard_normal(w)
        for w in widths
    ]


def same(one: Maps, two: Maps, within: float = 1e-12) -> None:
    assert list(one) == list(two)
    for label in one:
        np.testing.assert_allclose(one[label].values, two[label].values, atol=within, err_msg=label)
        np.testing.assert_allclose(one[label].null_mean, two[label].null_mean, atol=within, err_msg=label)


# What comes in


def test_layers_from_memory_and_from_files(tmp_path: Path) -> None:
    layers = [z.astype(np.float32) for z in stack(6, 4, 6)]
    right = np.stack(layers[::2])
    expected = mt.similarity_matrix(layers, right, MOMENTS, precision="exact")
    for k, z in enumerate(layers):
        np.save(tmp_path / f"layer{k}.npy", z)
    np.save(tmp_path / "cube.npy", right)
    save_file({f"l.{k}": torch.from_numpy(z) for k, z in enumerate(layers)}, tmp_path / "one.safetensors")
    folder = tmp_path / "folder"
    folder.mkdir()
    for k, z in enumerate(layers):
        np.save(folder / f"layer{k}.npy", np.asfortranarray(z))
    for source in (
        [torch.from_numpy(z) for z in layers],
        [z.tolist() for z in [z.astype(np.float64) for z in layers]],
        [tmp_path / f"layer{k}.npy" for k in range(3)],
        [np.load(tmp_path / f"layer{k}.npy", mmap_mode="r") for k in range(3)],
        str(tmp_path / "one.safetensors"),
        folder,
    ):
        same(mt.similarity_matrix(source, right, MOMENTS, precision="exact"), expected)
    same(mt.similarity_matrix(layers, tmp_path / "cube.npy", MOMENTS, precision="exact"), expected)
    by_file = mt.similarity_matrix(folder, tmp_path / "cube.npy", "linear_cka")["linear_cka"]
    assert by_file.left == ("layer0", "layer1", "layer2")
    assert by_file.right == ("cube/0", "cube/1")
    assert by_file["layer1", "cube/1"].value == by_file.values[1, 1]


def test_a_stack_with_itself_is_the_stack_twice() -> None:
    layers = stack(6, 4, 6, 5)
    once = mt.similarity_matrix(layers, None, MOMENTS + ROWS, precision="exact")
    twice = mt.similarity_matrix(layers, layers, MOMENTS + ROWS, precision="exact")
    same(once, twice, 1e-10)
    assert all(one.symmetric for one in once.values())


def test_one_pair_is_a_cell_of_the_map() -> None:
    x, y = stack(6, 4)
    for measure in MOMENTS + ROWS:
        one = mt.similarity_matrix([x], [y], measure, precision="exact")
        assert float(mt.similarity(x, y, measure)) == next(iter(one.values())).values[0, 0]


# How the work is cut up


@pytest.mark.parametrize("precision, within", [("exact", 1e-11), ("fast", 1e-5)])
def test_little_memory_gives_the_same_values(precision: str, within: float) -> None:
    layers = stack(6, 4, 6, 5, 3, 6, 4, n=700)
    seen: list[tuple[str, int, int]] = []

    def progress(what: str, done: int, total: int) -> None:
        seen.append((what, done, total))

    # The accuracy of PWCCA in fast arithmetic is another matter.
    some = [m for m in MOMENTS if precision == "exact" or m != "pwcca"]
    whole = mt.similarity_matrix(layers, None, some, precision=precision)
    cut = mt.similarity_matrix(layers, None, some, precision=precision, memory=1, progress=progress)
    same(whole, cut, within)
    assert seen[-1][1] == seen[-1][2] > 7 * 700  # the rows were read again and again
    assert [done for _, done, _ in seen] == sorted(done for _, done, _ in seen)
    same(
        mt.similarity_matrix(layers[:3], layers[3:], some, precision=precision),
        mt.similarity_matrix(layers[:3], layers[3:], some, precision=precision, memory="1KB"),
        within,
    )
    clusters = np.arange(700) // 5
    for right in (None, layers[4:]):
        maps = [
            mt.similarity_matrix(
                layers, right, "debiased_cka", clusters=clusters, memory=m, precision=precision
            )
            for m in ("2GB", 1)
        ]
        same(maps[0], maps[1], within)


def test_row_measures_fit_into_little_memory_or_say_so() -> None:
    layers = stack(6, 4, 6, n=100)
    for measure in ROWS:
        whole = mt.similarity_matrix(layers, None, measure)
        same(whole, mt.similarity_matrix(layers, None, measure, memory="120KB"), 1e-12)
    with pytest.raises(
        InputError, match=r"^rsa must fit two layers of 100 rows into memory=.*fewer rows \(sample=\)"
    ):
        mt.similarity_matrix(layers, None, "rsa", memory="1KB")


@pytest.mark.parametrize("n", [4999, 5000, 5001, 10_001])
def test_the_length_of_the_last_tile_does_not_matter(n: int) -> None:
    x, y = stack(4, 3, n=n)
    z, w = x - x.mean(axis=0), y - y.mean(axis=0)
    truth = np.linalg.norm(z.T @ w) ** 2 / np.linalg.norm(z.T @ z) / np.linalg.norm(w.T @ w)
    assert mt.similarity(x, y, "linear_cka").value == pytest.approx(truth, abs=1e-12)
    assert mt.similarity(x, y, "linear_cka", precision="fast").value == pytest.approx(truth, abs=1e-6)


def test_threads_are_used_and_put_back() -> None:
    layers = stack(6, 4)
    before = torch.get_num_threads()
    other = 1 if before > 1 else 2
    one = mt.similarity_matrix(layers, None, "linear_cka", threads=other)["linear_cka"]
    assert one.provenance["threads"] == other
    assert torch.get_num_threads() == before
    np.testing.assert_allclose(
        one.values, mt.similarity_matrix(layers)["debiased_cka"].details["biased"], atol=1e-6
    )
    with pytest.raises(InputError):
        mt.similarity_matrix(layers, None, "linear_cka", threads=other, memory="much")
    assert torch.get_num_threads() == before


# Which rows and neurons


def test_names() -> None:
    layers = stack(6, 4)
    one = mt.similarity_matrix(layers, layers[:1], names=["a/0", "a/1"], right_names=["b/0"])["debiased_cka"]
    assert (one.left, one.right) == (("a/0", "a/1"), ("b/0",))
    assert mt.similarity_matrix(layers, names=["a", "b"])["debiased_cka"].right == ("a", "b")


def test_rows_that_are_left_out() -> None:
    x, y = stack(6, 4)
    out = np.arange(120) % 3 == 0
    one = mt.similarity_matrix([x], [y], MOMENTS, precision="exact", leave_out=out)
    same(one, mt.similarity_matrix([x[~out]], [y[~out]], MOMENTS, precision="exact"))
    assert one["linear_cka"].n == 80
    assert "80 of 120 rows" in one["linear_cka"].estimator
    ids = np.arange(120) // 4
    clustered = mt.similarity_matrix([x], [y], leave_out=out, clusters=ids, precision="exact")
    same(clustered, mt.similarity_matrix([x[~out]], [y[~out]], clusters=ids[~out], precision="exact"))


def test_rows_that_are_drawn() -> None:
    x, y = stack(6, 4)
    place = np.arange(120.0)[:, None]  # a layer that tells which rows were drawn
    mean = mt.similarity_matrix([np.hstack([place, place**2])], [x], "linear_cka", sample=50, seed=3)
    again = mt.similarity_matrix([np.hstack([place, place**2])], [x], "linear_cka", sample=50, seed=3)
    same(mean, again, 0)
    assert mean["linear_cka"].n == 50
    other = mt.similarity_matrix([np.hstack([place, place**2])], [x], "linear_cka", sample=50, seed=4)
    assert other["linear_cka"].values != mean["linear_cka"].values
    assert mt.similarity_matrix([x], [y], sample=500)["debiased_cka"].n == 120
    ids = np.repeat(np.arange(24), 5)
    drawn = mt.similarity_matrix([x], [y], sample=52, clusters=ids)["debiased_cka"]
    assert drawn.n == 50  # whole clusters only


@pytest.mark.parametrize("precision, within", [("exact", 1e-10), ("fast", 1e-5)])
def test_controls_for_outlying_neurons(precision: str, within: float) -> None:
    x, y = stack(6, 5)
    x[:, 2] *= 100
    y[:, 0] *= 50
    names = ["linear_cka", "debiased_cka", "svcca", "procrustes"]
    z = [(side - side.mean(axis=0)) / side.std(axis=0) for side in (x, y)]
    scored = mt.similarity_matrix([x], [y], names, zscore=True, precision=precision)
    same(scored, mt.similarity_matrix(z[:1], z[1:], names, precision="exact"), within)
    fewer = mt.similarity_matrix([x], [y], names, remove_top=1, precision=precision)
    without = np.delete(x, 2, axis=1), np.delete(y, 0, axis=1)
    same(fewer, mt.similarity_matrix([without[0]], [without[1]], names, precision="exact"), within)
    assert "neurons standardized" in scored["svcca"].estimator
    assert "the 1 neurons of largest variance removed" in fewer["svcca"].estimator
    assert not np.allclose(scored["linear_cka"].values, fewer["linear_cka"].values, atol=1e-3)


def test_outlying_neurons_are_named() -> None:
    x, y = stack(20, 20)
    x[:, 4] *= 1000
    one = mt.similarity_matrix([x], [y], "linear_cka", names=["a/7"])["linear_cka"]
    assert any(
        "more than half of the variance of layer a/7; see zscore and remove_top" in w for w in one.warnings
    )
    assert one.layers.left["outlier"].tolist() == [True]
    assert one.layers.right["outlier"].tolist() == [False]


def test_a_biased_floor_is_named() -> None:
    r = rng("floor")
    one = mt.similarity(r.standard_normal((30, 40)), r.standard_normal((30, 40)), "linear_cka")
    assert any("linear_cka of unrelated rows would be up to 0.5" in w for w in one.warnings)
    assert mt.similarity_matrix(stack(3, 3), None, "linear_cka")["linear_cka"].warnings == ()


def test_too_few_rows_warn() -> None:
    x, y = stack(6, 4, n=20)
    for measure in ("cca", "svcca", "pwcca", "mixed_regression", "linear_regression"):
        with pytest.warns(SmallSampleWarning, match=f"{measure} compares up to 6 dimensions on 20 rows"):
            mt.similarity_matrix([x], [y], measure)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        mt.similarity_matrix(stack(6, 4, n=30), None, MOMENTS)


# What is wrong


def broken(value: float) -> np.ndarray:
    x = X.copy()
    x[13, 2] = value
    return x


NAN = broken(math.nan)
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"left": [X, NAN], "names": ["m/0", "m/1"]}, "layer m/1 is NaN at row 13, feature 2."),
    (
        {"right": [broken(math.inf)]},
        "every value must be finite, but layer 0 is infinite at row 13, feature 2.",
    ),
    (
        {"right": [NAN], "measures": "rsa,rbf_cka,mutual_knn:k=2", "right_names": ["b/9"]},
        "layer b/9 is NaN at row 13, feature 2.",
    ),
    ({"left": [np.tile(NAN, (1, 9))]}, "is NaN at row 13, feature 2."),
    ({"left": [NAN], "leave_out": np.arange(20) < 9}, "is NaN at row 13, feature 2."),
    ({"right": [X[:19]]}, "both sides must have the same rows, but the left has 20 and the right has 19."),
    ({"left": [X, X[:19]]}, "every layer of left must have the same rows, but got 0: 20, 1: 19."),
    ({"left": [X[:1]], "measures": "cca"}, "a comparison must have at least 2 rows, but got 1."),
    ({"left": [X[:3]]}, "debiased_cka must have at least 4 rows, but got 3."),
    (
        {"left": [X.astype(int)]},
        "left layer 0 must be of the type bfloat16, float16, float32, float64, but got",
    ),
    ({"left": "nowhere"}, "path must be a file or a folder that exists, but got 'nowhere'."),
    ({"precision": "high"}, "precision must be one of exact, fast, but got 'high'."),
    ({"device": "tpu9"}, "device must be a torch device such as 'cpu' or 'cuda', but got 'tpu9'."),
    ({"device": "meta"}, "device must be 'cpu' or 'cuda', but got 'meta'."),
    ({"memory": "much"}, "memory must be an amount such as '2GB' or '512MiB', but got 'much'."),
    ({"memory": 0}, "memory must be an amount such as '2GB' or '512MiB', but got 0."),
    ({"level": 1.0}, "level must be between 0 and 1, but got 1.0."),
    ({"threads": 0}, "threads must be a whole number above 0, but got 0."),
    ({"sample": 3}, "sample must be at least 4, but got 3."),
    ({"leave_out": np.zeros(19, bool)}, "leave_out must be a boolean array of length 20, but got"),
    ({"leave_out": np.ones(20, bool)}, "leave_out must keep some rows, but it leaves out all of them."),
    ({"remove_top": 3}, "remove_top must be below the narrowest layer's 3 features, but got 3."),
    ({"remove_top": -1}, "remove_top must be at least 0, but got -1."),
    ({"remove_top": True}, "remove_top must be a whole number of at least 0, but got True."),
    ({"left": [X, X], "names": [1, "1"]}, "names of the layers of left must differ, but '1' stands twice."),
    (
        {"measures": "linear_regression:ridge=0.1"},
        "option ridge must be 0 unless estimator is cross_validated, but got 0.1.",
    ),
    ({"clusters": "nowhere.npy"}, "clusters must be a readable .npy file, but got nowhere.npy: "),
    ({"names": ["a", "b"]}, "names must be 1 for left, one per layer, but got 2."),
    ({"clusters": [1, 2]}, "clusters must be one id for each of the 20 rows, but got '2 ids'."),
    (
        {"clusters": [0] * 10 + [*range(10)]},
        "every cluster must hold fewer than half of the rows, but 0 holds 11 of 20: give more clusters.",
    ),
    ({"measures": "cka"}, "measure must be one of"),
    ({"measures": []}, "measures must name at least one measure, but got none."),
    ({"measures": "mutual_knn:k=0"}, "option k must be at least 1, but got '0'."),
    (
        {"measures": "attention_js"},
        "not rows; use `microtome compare` on the shell, and attention_similarity_matrix in Python.",
    ),
    ({"measures": "procrustes", "certainty": True, "halves": 1}, "must be at least 2, but got 1."),
    ({"permutations": -1}, "must be"),
]


@pytest.mark.parametrize("asked, words", WRONG, ids=[words[:40] for _, words in WRONG])
def test_what_is_wrong_is_told_in_one_sentence(asked: dict[str, Any], words: str) -> None:
    with pytest.raises(MicrotomeError) as caught:
        mt.similarity_matrix(**{"left": [X], **asked})
    assert words in str(caught.value)
    assert str(caught.value)[-1] in ".?"


def test_a_pair_is_two_layers() -> None:
    with pytest.raises(
        InputError, match=r"^x must be an array \[rows, features\], but got '3 dimensions'\.$"
    ):
        mt.similarity(np.zeros((2, 4, 3)), X)
    with pytest.raises(
        InputError, match=r"^option threshold must be at least 0\.01 and at most 1, but got 2\.$"
    ):
        mt.similarity(X, X, "svcca", threshold=2)


def test_a_file_of_several_layers_is_no_layer(tmp_path: Path) -> None:
    np.save(tmp_path / "stack.npy", np.stack([X, X]))
    with pytest.raises(
        InputError, match=r"^x and y must be one layer each; use similarity_matrix, but got '2 "
    ):
        mt.similarity(tmp_path / "stack.npy", X)


def test_unequal_clusters_only_trouble_what_leaves_them_out() -> None:
    ids = [0] * 12 + [*range(1, 9)]
    found = mt.similarity_matrix([X], measures=["linear_cka", "svcca"], clusters=ids)
    assert float(found["linear_cka"].values[0, 0]) == pytest.approx(1)


# What comes out


def test_numbers_whose_fourth_powers_leave_float64_are_refused_and_those_below_are_right() -> None:
    x, y = stack(6, 5, n=60)
    with pytest.raises(InputError, match="every layer must have values whose squares fit the number format"):
        mt.similarity_matrix([x * 1e100, y])
    plain = mt.similarity_matrix([x, y], measures=MOMENTS)
    for label, one in mt.similarity_matrix([x * 1e60, y], measures=MOMENTS).items():
        np.testing.assert_allclose(one.values, plain[label].values, atol=1e-9, err_msg=label)


@pytest.mark.parametrize("precision", ["fast", "exact"])
@pytest.mark.parametrize("scale", [1e-30, 1e18])
def test_numbers_beyond_float32_products_are_compared_all_the_same(precision: str, scale: float) -> None:
    x, y = stack(80, 70, n=500)
    plain = mt.similarity_matrix([x], [y], MOMENTS, precision="exact")
    found = mt.similarity_matrix([x * scale], [y], MOMENTS, precision=precision)
    for label, one in found.items():
        assert one.values[0, 0] == pytest.approx(plain[label].values[0, 0], abs=1e-6)
        if precision == "fast":
            assert "exact (switched: values too small or too large for float32 products)" in one.precision


def test_steep_spectra_have_a_null() -> None:
    # Standard deviations over nine decades: no Cholesky factor in float32 survives that without care.
    x, y = stack(90, 90, n=500)
    axes = np.linalg.qr(rng("axes").standard_normal((90, 90)))[0]
    x = (x @ axes * np.geomspace(1, 1e-9, 90)) @ axes.T
    one = mt.similarity_matrix([x], [y], "mixed_regression")["mixed_regression"]
    assert 0 < float(one.null_mean[0, 0]) < 1


def test_a_measure_of_one_s_own() -> None:
    def compute(left: Any, right: Any, options: Any) -> tuple[float, str | None]:
        return float(abs(np.corrcoef(left.numpy()[:, 0], right.numpy()[:, 0])[0, 1])), None

    mine = replace(
        LINEAR_CKA,
        name="first_neuron",
        title="first neuron",
        needs="rows",
        prepare=lambda x, o: x,
        compute=compute,
        null=None,
        interval="halves",
    )
    x, y = stack(6, 4)
    maps = mt.similarity_matrix([x, y], None, [mine, "linear_cka"], certainty=True, halves=5)
    assert maps["first_neuron"].values[0, 1] == pytest.approx(abs(np.corrcoef(x[:, 0], y[:, 0])[0, 1]))
    assert maps["first_neuron"].low is not None
    assert float(mt.similarity(x, y, mine)) == pytest.approx(maps["first_neuron"].values[0, 1])
    assert "first" in maps["first_neuron"].title


# Anything at all


@st.composite
def a_layer(draw: Any, n: int) -> np.ndarray:
    width = draw(st.integers(1, 6))
    r = generator(draw(st.integers(0, 10**6)), "layer")
    kinds: dict[str, Callable[[], np.ndarray]] = {
        "normal": lambda: r.standard_normal((n, width)),
        "few values": lambda: r.integers(-1, 2, size=(n, width)).astype(float),
        "one direction": lambda: np.outer(r.standard_normal(n), r.standard_normal(width)),
        "one row differs": lambda: np.outer(np.arange(n) == 0, np.ones(width)),
        "two groups": lambda: np.outer(np.arange(n) % 2, np.ones(width)),
        "small spread": lambda: 1 + 1e-9 * r.standard_normal((n, width)),
        "zeros": lambda: np.zeros((n, width)),
    }
    x = kinds[draw(st.sampled_from(sorted(kinds)))]()
    x = x * 10.0 ** draw(st.integers(-3, 3)) + draw(st.sampled_from([0.0, 0.0, 0.37, 100.0]))
    if draw(st.booleans()):
        x[:, draw(st.integers(0, width - 1))] = 0.37
    return x.astype(draw(st.sampled_from(["float16", "float32", "float64"])))


@st.composite
def a_pair(draw: Any) -> list[np.ndarray]:
    n = draw(st.integers(2, 14))
    return [draw(a_layer(n)), draw(a_layer(n))]


@settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(layers=a_pair(), precision=st.sampled_from(["fast", "exact"]))
def test_every_value_is_a_number_in_its_range_or_has_a_reason(
    layers: list[np.ndarray], precision: str
) -> None:
    choices = [c for c in CHOICES if len(layers[0]) >= 4 or c.measure.name != "debiased_cka"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        maps = mt.similarity_matrix(layers, None, choices, precision=precision)
    for choice in choices:
        one, (low, high) = maps[choice.label], choice.declared("range")
        for value, reason in zip(one.values.flat, [r for row in one.reasons for r in row], strict=True):
            assert (reason is None) == math.isfinite(value), (choice.label, value, reason)
            assert reason is None or (reason and reason == reason.strip())
            assert reason is not None or low - 1e-9 <= value <= high + 1e-9, (choice.label, value)
