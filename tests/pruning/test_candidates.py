"""Are the right cuts tried: few, exportable, and those that similar layers or scores suggest?"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.pruning.candidates import (
    first_candidates,
    likely_spans,
    more_candidates,
    similar_layers,
)
from microtome.tasks.items import Item
from microtome.training.models.modeling import build
from pruning.idle import task_with, texts

TASK = task_with("classification", {"train": ()}, ("no", "yes"))


def model_of(checkpoint_of: Any, model_type: str, depth: int, **settings: Any) -> Any:
    name = "n_layer" if model_type in ("gpt2",) else "num_hidden_layers"
    folder = checkpoint_of(model_type, "", **{name: depth}, **settings)
    return build(load(folder), TASK, "stock")  # pyright: ignore[reportArgumentType]


def test_small_models_try_every_subset(checkpoint_of: Any) -> None:
    cuts, said = first_candidates(model_of(checkpoint_of, "bert", 4))
    assert len(cuts) == len(set(cuts)) == 2**4 - 2
    assert said == "every subset of the blocks"
    assert all(cut == tuple(sorted(cut)) for cut in cuts)


def test_middling_models_try_spans_with_top_cuts(checkpoint_of: Any) -> None:
    cuts, _ = first_candidates(model_of(checkpoint_of, "bert", 8))
    assert len(cuts) == len(set(cuts))
    assert {tuple(range(1, k + 1)) for k in range(1, 8)} <= set(cuts)  # top cuts
    assert (1, 2, 5, 6, 7, 8) in cuts  # a span
    assert (1, 2, 5, 6) in cuts  # a span and a top cut
    assert (1, 3, 5, 7) not in cuts
    assert () not in cuts


def test_families_have_their_say(checkpoint_of: Any) -> None:
    cuts, said = first_candidates(model_of(checkpoint_of, "albert", 4))
    assert cuts == [(1,), (1, 2), (1, 2, 3)]
    assert said == "every smaller number of runs"
    cuts, _ = first_candidates(model_of(checkpoint_of, "modernbert", 4))
    assert all(cut[0] == 1 for cut in cuts)
    cuts, _ = first_candidates(model_of(checkpoint_of, "gpt2", 4, scale_attn_by_inverse_layer_idx=True))
    assert cuts == [(1,), (1, 2), (1, 2, 3)]
    with pytest.raises(InputError, match="a model to be cut must be at least 2 blocks deep"):
        first_candidates(model_of(checkpoint_of, "bert", 1))


def test_deep_models_try_spans_between_similar_layers(checkpoint_of: Any) -> None:
    model = model_of(checkpoint_of, "bert", 18)
    alike = np.zeros((19, 19))
    alike[4, 8] = 1.0  # blocks 5 to 8 change little
    cuts, said = first_candidates(model, alike=alike, beam=1)
    assert tuple(b for b in range(1, 19) if b not in (5, 6, 7, 8)) in cuts
    assert tuple(b for b in range(1, 19) if b not in (6, 7, 8, 9)) not in cuts
    assert "the 1 spans between the most similar layers" in said
    with pytest.raises(InputError, match="similarities of layers must be given"):
        first_candidates(model)
    with pytest.raises(InputError, match="beam must be a whole number above 0"):
        likely_spans([(1, 2)], alike, 0)


def test_one_more_block_out_of_the_cheapest(checkpoint_of: Any) -> None:
    model = model_of(checkpoint_of, "bert", 5)
    costs = {(1, 2, 3, 4): 0.5, (1, 2, 3, 5): 0.1, (1, 2, 3): 1.0}
    assert sorted(more_candidates(model, costs, 1)) == [(1, 2, 5), (1, 3, 5), (2, 3, 5)]
    assert more_candidates(model, costs, 3) == []


@pytest.mark.parametrize("kind", ["classification", "multiple_choice"])
def test_similarity_of_layers_is_read_on_the_examples(checkpoint_of: Any, kind: Any) -> None:
    items = tuple(
        Item(id=str(i), texts=(text,), target=0)
        if kind == "classification"
        else Item(id=str(i), choices=((text, "a b"), (text, "c")), target=0)
        for i, text in enumerate(texts(24))
    )
    task = task_with(kind, {"train": items}, ("no", "yes") if kind == "classification" else ())
    encoder: Any = load(checkpoint_of("bert"))
    model = build(encoder, task, "stock")
    found = similar_layers(model, task.split("train"), task, encoder.tokenizer, longest=32)
    assert found.shape == (4, 4)
    np.testing.assert_allclose(np.diag(found), 1, atol=1e-6)
