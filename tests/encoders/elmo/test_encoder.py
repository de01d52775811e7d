"""Does an ELMo give rows beside other models?"""

from __future__ import annotations

import json
import os
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

import tiny
from microtome.corpora.examples import Example
from microtome.encoders.elmo.encoder import ElmoEncoder
from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.extraction.streaming import stream
from microtome.rows.planning import plan_rows
from microtome.rows.selecting import row_options

SHARED = Path(os.environ.get("MICROTOME_SHARED", Path(__file__).parents[4] / "shared")) / "oracles"
needs_oracles = pytest.mark.skipif(not SHARED.is_dir(), reason=f"there are no oracles in {SHARED}")


@needs_oracles
@pytest.mark.parametrize("name", ["elmo", "elmo4"])
def test_rows_of_words_are_the_expected_states(name: str) -> None:
    encoder = load(SHARED / name)
    assert isinstance(encoder, ElmoEncoder)
    assert encoder.layers == tuple(str(k) for k in range(5 if name == "elmo4" else 3))
    with h5py.File(SHARED / name / "states_stateless.hdf5") as file:
        items = sorted(file.items(), key=lambda item: int(item[0]))
        words = [json.loads(str(item.attrs["words"])) for _, item in items]
        expected = [np.asarray(item) for _, item in items]
    corpus = [Example(id=str(k), words=tuple(own)) for k, own in enumerate(words)]
    rows = plan_rows(corpus, [encoder], row_options("word"))
    assert len(rows) == sum(len(own) for own in words)
    for tokens in (1, 10_000):
        (window,) = stream([encoder], corpus, rows, tokens=tokens)
        for layer, found in enumerate(window.layers[0]):
            true = np.concatenate([one[layer, 1:-1] for one in expected])
            np.testing.assert_allclose(found.numpy(), true, atol=1e-5)


@needs_oracles
def test_a_transformer_elmo_has_the_raw_and_the_normed_last_layer() -> None:
    encoder = load(SHARED / "elmo-transformer")
    assert encoder.layers == ("0", "1", "2", "3", "norm")
    with h5py.File(SHARED / "elmo-transformer" / "states.hdf5") as file:
        one = file["single_0"]
        words, expected = json.loads(str(one.attrs["words"])), np.asarray(one)
    seen: dict[int, torch.Tensor] = {}
    encoder.run(encoder.words([words]), lambda layer, states: seen.__setitem__(layer, states[0]))
    for layer in range(3):
        np.testing.assert_allclose(seen[layer], expected[layer], atol=1e-5)
    np.testing.assert_allclose(seen[4], expected[3], atol=1e-5)
    assert not np.allclose(seen[3], expected[3], atol=1e-2)


@needs_oracles
def test_words_align_with_those_of_other_models(tmp_path: Path) -> None:
    encoders = [load(SHARED / "elmo"), load(tiny.save_checkpoint(tmp_path / "bert", "bert"))]
    corpus = [
        Example(id="0", words=("The", "\u200b", "cat", "", "sleeps")),
        Example(id="1", text="Stop it ."),
    ]
    rows = plan_rows(corpus, encoders, row_options("word"))
    assert rows.units.tolist() == [0, 2, 4, 0, 1, 2]
    assert rows.lost == {"elmo": 1, "bert": 2}
    (window,) = stream(encoders, corpus, rows)
    assert {len(layer) for side in window.layers for layer in side} == {6}


@needs_oracles
def test_what_an_elmo_cannot_do_is_told() -> None:
    encoder = load(SHARED / "elmo")
    corpus = [Example(id="0", text="The cat sleeps")]
    with pytest.raises(InputError, match="rows of cls must be asked of models with a token for the whole"):
        plan_rows(corpus, [encoder], row_options("cls"))
    with pytest.raises(InputError, match="attention must be asked of other models, but elmo is an ELMo"):
        encoder.attend(encoder.words([["The"]]))
    with pytest.raises(InputError, match="must keep its own tokens and float32"):
        load(SHARED / "elmo", dtype="float16")
    with pytest.raises(InputError, match="longest must be at least 3"):
        encoder.words([["The"]], longest=2)
    (cut,) = encoder.words([["The", "cat", "sleeps"]], longest=4)
    assert (cut.words.tolist(), cut.truncated) == ([-1, 0, 1, -1], True)


@needs_oracles
@pytest.mark.parametrize("name", ["elmo", "elmo-transformer2"])
def test_a_random_twin_of_an_elmo(name: str) -> None:
    trained, twin, again, other = (
        load(SHARED / name, random_init=drawn, seed=seed)
        for drawn, seed in ((False, 0), (True, 3), (True, 3), (True, 4))
    )
    assert twin.digest == again.digest
    assert len({trained.digest, twin.digest, other.digest}) == 3
    assert twin.name == f"{name}-random3"
    assert twin.source.changes == ("all weights re-initialized (seed 3)",)
    found: list[torch.Tensor] = []
    twin.run(twin.words([["The", "cat", "sleeps"]]), lambda _, states: found.append(states.clone()))
    assert len(found) == len(twin.layers)
    for states in found:
        assert bool(torch.isfinite(states).all())
        assert float(states.std()) > 1e-3
    kept = load(SHARED / name, random_init=True, seed=3, embeddings="kept")
    layers: dict[str, list[torch.Tensor]] = {"trained": [], "kept": []}
    for label, encoder in (("trained", trained), ("kept", kept)):
        batch = encoder.words([["The", "cat"]])
        encoder.run(batch, lambda _, states, to=label: layers[to].append(states.clone()))
    assert torch.equal(layers["trained"][0], layers["kept"][0])
    assert not torch.equal(layers["trained"][1], layers["kept"][1])
