from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from scipy.linalg import subspace_angles

from microtome.moments.bank import Bank
from microtome.moments.crossing import cross
from microtome.moments.stack import make_stack
from microtome.moments.strip import Debiasing, Strip, Subspace, basis
from microtome.randomness import generator

CUT: Subspace = ("center", 0.9, True)


def layers(*widths: int, n: int = 200) -> list[np.ndarray]:
    rng = generator(0, "test_strip")
    shared = rng.normal(size=(n, 4))
    return [
        (shared @ rng.normal(size=(4, w)) + rng.normal(size=(n, w))) * np.linspace(1, 0.5, w) for w in widths
    ]


def strip(left: np.ndarray, right: list[np.ndarray], dtype: torch.dtype = torch.float64) -> Strip:
    """One left layer against right layers of one width, as the engine makes it."""
    found = cross(make_stack([left]), make_stack(right), dtype=dtype, device=torch.device("cpu"))

    def bank(places: list[int]) -> Bank:
        return Bank(
            n=found.n,
            names=tuple(found.names[p] for p in places),
            mean=torch.stack([found.mean[p] for p in places]),
            scatter=torch.stack([block for p in places if (block := found.diagonal[p]) is not None]),
            norms2=found.products.diagonal()[places],
            dtype=dtype,
            input_eps=float(torch.finfo(dtype).eps),
        )

    count = len(right)
    return Strip(
        left=bank([0]),
        row=0,
        right=bank([*range(1, count + 1)]),
        columns=slice(0, count),
        flat=found.strips[0],
        debiasing=Debiasing(
            correction=torch.zeros(count, dtype=torch.float64),
            left=torch.ones((), dtype=torch.float64),
            right=torch.ones(count, dtype=torch.float64),
        ),
        both=False,
    )


def centered(x: np.ndarray) -> np.ndarray:
    return x - x.mean(axis=0)


def principal(x: np.ndarray, threshold: float) -> np.ndarray:
    u, s, _ = np.linalg.svd(centered(x), full_matrices=False)
    return u[:, : int((np.cumsum(s**2) < threshold * (s**2).sum()).sum()) + 1]


def test_products_of_one_layer_with_several() -> None:
    x, *others = layers(7, 5, 5, 5)
    found = strip(x, others)
    assert len(found) == 3
    for k, y in enumerate(others):
        expected = centered(x).T @ centered(y)
        np.testing.assert_allclose(found.cross[k], expected, atol=1e-10)
        np.testing.assert_allclose(found.small[k], expected, atol=1e-10)
        assert float(found.frob2[k]) == pytest.approx(np.linalg.norm(expected) ** 2)


def test_correlations_of_whole_layers_and_of_cuts() -> None:
    x, *others = layers(7, 5, 5)
    found = strip(x, others)
    for k, y in enumerate(others):
        whole = np.sort(np.cos(subspace_angles(centered(x), centered(y))))[::-1]
        np.testing.assert_allclose(found.correlations("full")[k], whole, atol=1e-10)
        assert float(found.correlation_sum("full")[k]) == pytest.approx(whole.sum(), abs=1e-10)
        cut = np.sort(np.cos(subspace_angles(principal(x, 0.9), principal(y, 0.9))))[::-1]
        kept = int(found.count(CUT)[k])
        assert kept == len(cut)
        np.testing.assert_allclose(found.correlations(CUT)[k, :kept], cut, atol=1e-10)


def touch_whitened(one: Strip) -> Any:
    return one.whitened("full")


def touch_left(one: Strip) -> Any:
    return one.on_left("full")


def touch_right(one: Strip) -> Any:
    return one.on_right("full")


def touch_canonical(one: Strip) -> Any:
    return one.canonical("full"), one.canonical(CUT)


@pytest.mark.parametrize("before", [touch_whitened, touch_left, touch_right, touch_canonical])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
def test_what_was_asked_before_changes_nothing(before: Any, dtype: torch.dtype) -> None:
    x, *others = layers(7, 5, 5)
    fresh, used = strip(x, others, dtype), strip(x, others, dtype)
    basis(used.left, "full")
    basis(used.right, "full")
    assert used.left.shares_spectrum
    assert used.right.shares_spectrum
    before(used)
    within = 1e-12 if dtype == torch.float64 else 1e-5
    for subspace in ("full", CUT):
        for a, b in (
            (fresh.correlation_sum(subspace), used.correlation_sum(subspace)),
            (fresh.whitened(subspace).abs(), used.whitened(subspace).abs()),
        ):
            np.testing.assert_allclose(b, a, atol=within)


def test_layers_of_different_rank_share_a_strip() -> None:
    x, y, z = layers(6, 5, 5)
    z[:, 4] = z[:, 0] - z[:, 2]
    flat = np.full_like(z, 0.37)
    found = strip(x, [y, z, flat])
    assert found.kept("full") == (6, (5, 4, 0))
    assert found.count("full").tolist() == [5, 4, 0]
    for k, other in enumerate((y, z[:, :4])):
        rho = np.cos(subspace_angles(centered(x), centered(other)))
        assert float(found.correlation_sum("full")[k]) == pytest.approx(rho.sum(), abs=1e-10)
        assert float(found.canonical("full")[0][k].sum()) == pytest.approx(rho.sum(), abs=1e-10)
    assert float(found.correlation_sum("full")[2]) == 0
    assert float(found.cross[2].abs().max()) == 0


def test_things_are_made_once() -> None:
    x, y = layers(4, 3)
    found = strip(x, [y])
    made: list[int] = []
    for _ in range(3):
        assert found.once("mine", lambda: made.append(1) or len(made)) == 1
    assert made == [1]
    assert found.whitened("full") is found.whitened("full")


def test_wide_layers_are_solved_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    from microtome.moments import strip as module

    x, y, z = layers(6, 5, 5)
    z[:, 4] = z[:, 0] - z[:, 2]
    batched = strip(x, [y, z])
    expected = batched.correlations("full"), batched.correlation_sum("full")
    monkeypatch.setattr(module, "BATCH_WIDTH", 1)
    single = strip(x, [y, z])
    np.testing.assert_allclose(single.correlation_sum("full"), expected[1], atol=1e-12)
    np.testing.assert_allclose(single.correlations("full"), expected[0], atol=1e-12)
