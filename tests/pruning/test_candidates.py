"""Are the right cuts tried: few, exportable, and those that similar layers or scores suggest?"""

from __future__ import annotations

from typing import Any

import pytest

from microtome.encoders.loading import load
from microtome.errors import InputError
from microtome.pruning.candidates import first_candidates, more_candidates
from microtome.training.models.modeling import build
from pruning.idle import task_with

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


def test_one_more_block_out_of_cuts(checkpoint_of: Any) -> None:
    model = model_of(checkpoint_of, "bert", 5)
    best = [(1, 2, 3, 5), (1, 2, 3, 4)]
    assert more_candidates(model, best[:1], {(1, 2, 3): 1.0}) == [(2, 3, 5), (1, 3, 5), (1, 2, 5)]
    assert len(more_candidates(model, best, ())) == 7  # each once
    assert more_candidates(model, [(1,)], ()) == []
