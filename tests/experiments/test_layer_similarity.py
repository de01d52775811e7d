"""Models are compared layer by layer on the same rows, each number with its error."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from microtome.comparison.similarity import similarity, similarity_matrix
from microtome.encoders.loading import load
from microtome.errors import InputError, SmallSampleWarning
from microtome.experiments.cell_errors import points_of
from microtome.experiments.layer_similarity import called, compare_layers, plan_text, random_copy
from microtome.extraction.texts import make_texts
from microtome.rows.selecting import row_options
from moving import moved, recorded_on, saved, sentences

TEXT = sentences(70, seed=1)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(tmp_path_factory.mktemp("base"))


def test_no_more_rows_than_asked_for_and_the_same_for_all(place: Path, tmp_path: Path) -> None:
    models = {"base": load(place), "twin": random_copy(load(place), 3)}
    found = recorded_on(models, TEXT, tmp_path, sample=50)
    assert len(found.rows) == 50
    assert [one.layers[0].shape for one in found.activations.values()] == [(50, 32), (50, 32)]
    assert found.layers == (0, 1, 2, 3)
    assert found.digests["base"] != found.digests["twin"]
    assert load(place).digest == found.digests["base"]


def test_every_cell_is_the_similarity_of_that_layer_in_two_models(place: Path, tmp_path: Path) -> None:
    moved(place, 2).model.save_pretrained(tmp_path / "moved")
    for file in place.glob("token*"):
        (tmp_path / "moved" / file.name).write_bytes(file.read_bytes())
    models = {"base": load(place), "again": load(place), "moved": tmp_path / "moved"}
    recorded = recorded_on(models, TEXT, tmp_path / "s")
    assert recorded.unit == "sentence"
    assert recorded.examples == 70
    found = compare_layers(recorded, ["debiased_cka", "rsa"], halves=4)
    one = found["debiased_cka"]
    assert one.values.shape == (4, 3, 3)
    assert one.errors.shape == (4, 3, 3, 70)
    np.testing.assert_array_equal(one.values[:, 0, 1], 1)
    np.testing.assert_array_equal(one.errors[:, 0, 1], 0)
    x, y = (recorded.activations[name].layers[3] for name in ("base", "moved"))
    expected = similarity(x, y, clusters=recorded.clusters)
    assert one.values[3, 0, 2] == pytest.approx(float(expected), abs=1e-6)
    some = one.sample([("base", "moved"), ("base", "again")])
    np.testing.assert_array_equal(some.values, [one.values[:, 0, 2], one.values[:, 0, 1]])
    assert found["rsa"].errors.shape == (4, 3, 3, 4)
    against = compare_layers(recorded, "debiased_cka", left=["base"], right=["moved"])["debiased_cka"]
    np.testing.assert_allclose(against.values[:, 0, 0], one.values[:, 0, 2])


def test_what_is_undefined_has_the_reason_of_its_map(place: Path, tmp_path: Path) -> None:
    models = {"base": load(place), "moved": moved(place, 2)}
    recorded = recorded_on(models, TEXT, tmp_path, sample=40)
    x, y = (recorded.activations[name].layers[3] for name in models)
    with pytest.warns(SmallSampleWarning):
        (expected,) = similarity_matrix([x], [y], "pwcca")["pwcca"].reasons[0]
    assert expected is not None
    assert "add up to more than" in expected
    one = compare_layers(recorded, "pwcca", halves=4)["pwcca"]
    assert one.reasons[3][0][1] == expected
    curve = recorded.curve("a", points_of(one.sample([("base", "moved")])))
    assert curve.reasons[3] == expected


def test_names_and_twins_leave_the_encoder_alone(place: Path) -> None:
    base: Any = load(place)
    other, before = called(base, "other"), base.digest
    assert (base.name, other.name) == (place.name, "other")
    assert other.model is base.model
    twins = [random_copy(base, seed) for seed in (1, 1, 2)]
    assert base.digest == before
    assert twins[0].digest == twins[1].digest != twins[2].digest
    assert "all weights re-initialized (seed 1)" in twins[0].source.changes
    with pytest.raises(InputError, match="models must be at least one"):
        plan_text({}, make_texts(TEXT), row_options("token"))
