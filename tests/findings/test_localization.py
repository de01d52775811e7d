from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from microtome.errors import InputError, UnknownNameError
from microtome.findings.localization import localization, localization_rotation, localizations
from microtome.randomness import generator


def maps(layers: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    rng = generator(seed, "maps")
    neuron, svcca = rng.uniform(size=(2, layers, layers))
    return neuron, (svcca + svcca.T) / 2


@settings(max_examples=20, deadline=None)
@given(
    layers=st.integers(3, 9),
    seed=st.integers(0, 999),
    direction=st.sampled_from(["in", "out"]),
    zscore=st.booleans(),
)
def test_scores_equal_the_definition(
    layers: int, seed: int, direction: Literal["in", "out"], zscore: bool
) -> None:
    neuron, svcca = maps(layers, seed)

    def series(values: np.ndarray) -> np.ndarray:
        means = []
        for this in range(layers):
            others = [o for o in range(layers) if o != this]
            means.append(np.mean([values[o, this] if direction == "in" else values[this, o] for o in others]))
        return np.asarray(stats.zscore(means, ddof=1)) if zscore else np.array(means)

    found = localization(neuron, svcca, direction=direction, zscore=zscore)
    np.testing.assert_allclose(found.scores, series(neuron) - series(svcca), atol=1e-12)
    if zscore:
        assert found.scores.mean() == pytest.approx(0, abs=1e-9)


def test_in_reads_the_side_in_which_neurons_are_looked_for() -> None:
    neuron, svcca = np.full((4, 4), 0.3), np.full((4, 4), 0.5)
    neuron[:, 2] = 0.9  # everybody's neurons are found in layer 2
    neuron[1, :] = 0.1  # the neurons of layer 1 are found nowhere
    inward = localization(neuron, svcca, direction="in", zscore=False)
    assert int(np.argmax(inward.scores)) == 2
    outward = localization(neuron, svcca, direction="out", zscore=False)
    assert int(np.argmin(outward.scores)) == 1
    assert outward.scores[1] == pytest.approx(0.1 - 0.5)
    said = inward.sentence(["a/0", "a/1", "b/0", "b/1"])
    assert said.startswith("Localization (in, not z-scored) is highest in layer b/0 (")
    assert "depend on the set of 4 layers compared" in said


def test_the_diagonal_is_not_read() -> None:
    neuron, svcca = maps(5, 0)
    before = localization(neuron, svcca).scores
    np.fill_diagonal(neuron, 100.0)
    np.fill_diagonal(svcca, np.nan)
    np.testing.assert_array_equal(localization(neuron, svcca).scores, before)


def test_an_undefined_layer_has_no_score_and_changes_no_other() -> None:
    neuron, svcca = maps(6, 1)
    neuron[0], neuron[:, 0] = np.nan, np.nan
    found = localization(neuron, svcca)
    assert np.isnan(found.scores[0])
    assert found.compared == 5
    np.testing.assert_allclose(found.scores[1:], localization(neuron[1:, 1:], svcca[1:, 1:]).scores)


def test_scores_change_with_the_set() -> None:
    neuron, svcca = maps(6, 2)
    fewer = localization(neuron[:5, :5], svcca[:5, :5]).scores
    assert np.abs(localization(neuron, svcca).scores[:5] - fewer).max() > 0.01


def test_bad_input_is_told() -> None:
    neuron, svcca = maps(4, 0)
    with pytest.raises(UnknownNameError, match="direction must be one of in, out"):
        localization(neuron, svcca, direction="inn")  # pyright: ignore[reportArgumentType]
    with pytest.raises(InputError, match="of one shape"):
        localization(neuron, svcca[:3, :3])
    with pytest.raises(InputError, match="at least two layers"):
        localization(np.full((4, 4), np.nan), svcca)
    with pytest.raises(InputError, match="different between layers"):
        localization(np.full((4, 4), 0.5), svcca)


def neuron_similarity(x: np.ndarray, y: np.ndarray) -> float:
    both = np.abs(np.corrcoef(x.T, y.T)[: x.shape[1], x.shape[1] :])
    return float(both.max(axis=1).mean())


def test_neurons_in_common_stand_out_of_rotations_and_common_directions_do_not() -> None:
    rng = generator(3, "layers")
    x = rng.normal(size=(400, 8))
    rotations = [[stats.ortho_group.rvs(8, random_state=rng) for _ in range(2)] for _ in range(20)]
    y = x[:, rng.permutation(8)] + 0.3 * rng.normal(size=x.shape)
    for other, local in ((y, True), (y @ stats.ortho_group.rvs(8, random_state=rng), False)):
        rotated = [neuron_similarity(x @ q, other @ r) for q, r in rotations]
        found = localization_rotation(neuron_similarity(x, other), rotated)
        assert found.standard_error == pytest.approx(stats.sem(rotated))
        assert float(found.value) == pytest.approx(neuron_similarity(x, other) - np.mean(rotated))
        assert (float(found.value) > 0.3) == local
        assert abs(float(found.value)) < 4 * float(found.rotated_sd) or local


def test_rotation_takes_whole_maps() -> None:
    rng = generator(4, "maps")
    value, rotated = rng.uniform(size=(3, 4)), rng.uniform(size=(7, 3, 4))
    found = localization_rotation(value, rotated)
    assert found.rotations == 7
    one = localization_rotation(value[1, 2], rotated[:, 1, 2])
    assert found.value[1, 2] == pytest.approx(float(one.value))
    assert found.standard_error[1, 2] == pytest.approx(float(one.standard_error))
    with pytest.raises(InputError, match="shape of rotated_values"):
        localization_rotation(value, rotated[0])
    with pytest.raises(InputError, match="at least two rotations"):
        localization_rotation(value, rotated[:1])


def test_published_scores_stand_beside_one_that_rotations_correct() -> None:
    rng = generator(5, "beside")
    neuron, svcca, standardized = rng.uniform(size=(3, 5, 5))
    rotated = rng.uniform(size=(6, 5, 5))
    rotation = localization_rotation(neuron, rotated)
    found = localizations(svcca, standardized, rotation)
    np.testing.assert_allclose(found.coded.scores, localization(neuron, standardized).scores)
    np.testing.assert_allclose(found.described.scores, localization(neuron, svcca, zscore=False).scores)
    beyond = neuron - rotated.mean(axis=0)
    for layer in range(5):
        others = [k for k in range(5) if k != layer]
        assert found.beyond[layer] == pytest.approx(beyond[others, layer].mean())
        out = localizations(svcca, standardized, rotation, direction="out")
        assert out.beyond[layer] == pytest.approx(beyond[layer, others].mean())
        assert out.described.neuron[layer] == pytest.approx(neuron[layer, others].mean())
        assert out.coded.scores[layer] == found.coded.scores[layer], "the code knows one direction"
    assert found.agreement == pytest.approx(stats.spearmanr(found.beyond, found.coded.scores)[0])
    assert found.agreement_described == pytest.approx(
        stats.spearmanr(found.beyond, found.described.scores)[0]
    )


def test_adding_layers_does_not_change_what_two_of_them_have_beyond_rotations() -> None:
    rng = generator(6, "set")
    neuron, rotated = rng.uniform(size=(6, 6)), rng.uniform(size=(4, 6, 6))
    whole = localization_rotation(neuron, rotated)
    part = localization_rotation(neuron[:3, :3], rotated[:, :3, :3])
    np.testing.assert_allclose(whole.value[:3, :3], part.value)
    rotation = localization_rotation(neuron[:2, :2], rotated[:, :2, :2])
    two = localizations(neuron[:2, :2], neuron[:2, :2], rotation)
    # Two layers have no ranks worth correlating.
    assert np.isnan(two.agreement)
