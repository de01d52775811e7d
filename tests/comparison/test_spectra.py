"""The spectrum of a layer is that of its rows, whichever way the map was computed, and it is kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import microtome as mt
from microtome.comparison import routes
from microtome.findings.record import from_json, to_json


def layers(rows: int, width: int, count: int = 3) -> list[np.ndarray]:
    rng = np.random.default_rng(rows + width)
    found = [rng.normal(size=(rows, width)) @ np.diag(np.linspace(3, 0.1, width)) + k for k in range(count)]
    # A first token that is the same everywhere: layer 0 does not vary.
    return [np.full((rows, width), 2.0), *found]


def shares(x: np.ndarray) -> np.ndarray:
    values = np.linalg.svd(x - x.mean(axis=0), compute_uv=False) ** 2
    return values / values.sum()


@pytest.mark.parametrize(
    ("rows", "width", "measures", "more"),
    [
        (200, 20, ["linear_cka"], {}),
        (200, 20, ["svcca", "debiased_cka"], {"certainty": True, "halves": 4}),
        (200, 90, ["debiased_cka"], {"clusters": np.repeat(np.arange(50), 4)}),
        # Few rows: Gram matrices, and layers turned to as many features as there are rows.
        (40, 100, ["debiased_cka"], {}),
        (40, 100, ["procrustes"], {}),
        (120, 100, ["linear_cka"], {"memory": "1GB"}),
    ],
)
def test_shares_of_variance(rows: int, width: int, measures: list[str], more: dict[str, Any]) -> None:
    stack = layers(rows, width)
    maps = mt.similarity_matrix(stack, measures=measures, spectra=True, **more)
    for one in maps.values():
        for side in one.layers:
            found = side["spectrum"]
            assert found.shape == (4, min(64, rows, width))
            assert np.isnan(found[0]).all()
            for k in range(1, 4):
                expected = shares(stack[k])
                np.testing.assert_allclose(found[k], expected[: found.shape[1]], atol=2e-6)
                assert side["participation"][k] == pytest.approx(1 / (expected**2).sum(), rel=1e-4)


def test_two_sides_and_widths() -> None:
    left, right = layers(80, 6), layers(80, 10)
    one = mt.similarity_matrix(left, right, "linear_cka", spectra=True)["linear_cka"]
    assert one.layers.left["spectrum"].shape == (4, 6)
    assert one.layers.right["spectrum"].shape == (4, 10)
    mixed = mt.similarity_matrix([left[1], right[1]], measures="linear_cka", spectra=True)["linear_cka"]
    found = mixed.layers.left["spectrum"]
    np.testing.assert_allclose(found[0, :6], shares(left[1]), atol=2e-6)
    assert np.isnan(found[0, 6:]).all()
    np.testing.assert_allclose(found[1], shares(right[1]), atol=2e-6)


def test_they_are_worked_out_where_they_are_asked_for_only(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "spectrum" not in mt.similarity_matrix(layers(60, 5))["debiased_cka"].layers.left
    asked: list[bool] = []
    plain = routes._run

    def counted(*given: Any) -> Any:
        asked.append(given[3] if len(given) > 3 else False)
        return plain(*given)

    monkeypatch.setattr(routes, "_run", counted)
    mt.similarity_matrix(layers(60, 5), measures="neuron_correlation", certainty=True, halves=4, spectra=True)
    # Half-samples are for intervals, and need none.
    assert asked == [True, False, False, False, False]


def test_they_are_kept_and_files_without_them_still_open(tmp_path: Path) -> None:
    maps = mt.similarity_matrix(layers(60, 5), spectra=True)
    back = from_json(to_json(maps))["debiased_cka"]
    spectrum = maps["debiased_cka"].layers.left["spectrum"]
    np.testing.assert_array_equal(back.layers.left["spectrum"], spectrum)
    document = json.loads(to_json(maps))
    for side in document["maps"][0]["layers"].values():
        del side["spectrum"]
    (tmp_path / "result.json").write_text(json.dumps(document))
    old = mt.open(tmp_path)["debiased_cka"]
    assert "spectrum" not in old.layers.left
    np.testing.assert_array_equal(old.values, back.values)
