"""Is an encoder changed on a copy, in order, and is every edit checked?"""

from __future__ import annotations

import pickle
from dataclasses import dataclass
from typing import Any

import pytest
import torch

import microtome as mt
from microtome.encoders.families.elmo import ELMO
from microtome.errors import InputError, WorkError
from microtome.interventions.blocks import frozen_names
from microtome.interventions.declare import Change
from microtome.testing.families import SENTENCES, states


def test_the_original_stays_and_the_copy_tells_what_was_done(encoder_of: Any) -> None:
    encoder = encoder_of("bert", "SequenceClassification")
    before = encoder.digest
    found = mt.apply(encoder, mt.Truncate(keep=3), mt.Reinit(past=2, seed=5), mt.Freeze(bottom=1))
    assert encoder.digest == before
    assert (encoder.depth, found.depth) == (4, 3)
    assert encoder.source.changes == ()
    assert found.source.changes == (
        "truncated to the first 3 of 4 blocks: 16 of 73 tensors left out, no tensor changed",
        "re-initialized block 3 (library, seed 5, biases as in a new model, norms reset): 16 of 57 tensors "
        "changed",
        "froze block 1, with the embeddings: 21 of 57 tensors frozen, no tensor changed",
    )
    assert (found.name, found.tokenizer) == (encoder.name, encoder.tokenizer)
    assert frozen_names(encoder) == frozenset()
    assert all(parameter.requires_grad for parameter in encoder.model.parameters())


def test_without_an_intervention_it_is_a_copy(encoder_of: Any) -> None:
    encoder = encoder_of("bert")
    found = mt.apply(encoder)
    assert found.digest == encoder.digest
    with torch.no_grad():
        found.blocks[0].attention.output.dense.weight.zero_()  # pyright: ignore[reportAttributeAccessIssue, reportCallIssue]
    assert found.digest != encoder.digest


def test_they_compose_in_the_order_given(encoder_of: Any) -> None:
    encoder = encoder_of("bert")
    one = mt.apply(encoder, mt.Skip(blocks=(1,)), mt.Truncate(keep=2))
    two = mt.apply(encoder, mt.Truncate(keep=2), mt.Skip(blocks=(1,)))
    kept = mt.apply(encoder, mt.Permute(order=(2, 3, 4, 1)), mt.Truncate(keep=2))
    assert (one.layers, two.layers) == (("0", "1", "2"), ("0", "1"))
    assert one.digest == kept.digest
    batch = encoder.words(SENTENCES)
    assert torch.equal(states(one, batch)[1], states(two, batch)[1])


def test_what_changes_nothing_keeps_the_address(encoder_of: Any) -> None:
    encoder = encoder_of("bert")
    same = (mt.Truncate(keep=4), mt.Skip(blocks=()), mt.Permute(order=(1, 2, 3, 4)))
    same += (mt.Reinit(past=4), mt.Reinit(keep=(1, 2, 3, 4)), mt.Freeze(bottom=0), mt.Freeze(top=2))
    for each in same:
        assert mt.apply(encoder, each).digest == encoder.digest
    assert mt.apply(encoder, mt.Reinit(past=4)).source.changes[0].startswith("re-initialized no block")


def test_frozen_weights_stay_frozen_through_what_follows(encoder_of: Any) -> None:
    encoder = encoder_of("bert")
    freeze = mt.Freeze(blocks=(2, 4))
    moved = mt.apply(encoder, freeze, mt.Permute(order=(4, 3, 2, 1)), mt.Reinit(past=2), mt.Truncate(keep=3))
    kinds = {name.split(".")[2] for name in frozen_names(moved)}
    assert kinds == {"0", "2"}  # blocks 4 and 2, where they are now
    assert all(name.startswith("encoder.layer.") for name in frozen_names(moved))


def test_a_sentence_of_its_own_is_not_taken_for_a_random_twin(encoder_of: Any) -> None:
    found = mt.apply(encoder_of("bert"), mt.Reinit(past=0))
    assert not any("all weights re-initialized" in change for change in found.source.changes)


@dataclass(frozen=True)
class _Own:
    """An intervention of a user's own, which does not do what it says."""

    change: Change
    name: str = ""
    flag: bool = False

    def edit(self, encoder: Any) -> Change:
        if self.name:
            with torch.no_grad():
                encoder.base.get_parameter(self.name).add_(1.0)
        if self.flag:
            encoder.base.get_parameter("embeddings.word_embeddings.weight").requires_grad_(False)
        return self.change


def test_an_edit_that_is_not_what_it_says_is_refused(encoder_of: Any) -> None:
    encoder = encoder_of("bert")
    weight = "encoder.layer.1.output.dense.weight"
    both = frozenset({weight})
    good = mt.apply(encoder, _Own(Change(description="added 1", reinitialized=both), weight))
    assert good.source.changes == ("added 1: 1 of 71 tensors changed",)
    with pytest.raises(WorkError, match=f"must change nothing else, but {weight} is not so"):
        mt.apply(encoder, _Own(Change(description="did nothing"), weight))
    with pytest.raises(WorkError, match="must change every tensor that it draws"):
        mt.apply(encoder, _Own(Change(description="added 1", reinitialized=both)))
    with pytest.raises(WorkError, match="must freeze what it names and nothing else"):
        mt.apply(encoder, _Own(Change(description="did nothing"), flag=True))
    with pytest.raises(WorkError, match="must freeze what it names and nothing else"):
        mt.apply(encoder, _Own(Change(description="froze one", frozen=both)))
    with pytest.raises(WorkError, match="must leave the tensors that it names"):
        mt.apply(encoder, _Own(Change(description="cut", names={weight: weight})))


def test_what_cannot_be_changed(encoder_of: Any) -> None:
    class Elmo:
        name, family, layers = "small", ELMO, ()
        texts = run = None

    with pytest.raises(
        InputError, match="small must be a model of transformers to be changed, but it is: ELMo"
    ):
        mt.apply(Elmo(), mt.Truncate(keep=1))  # pyright: ignore[reportArgumentType]
    for wrong in (mt.Truncate, "truncate", 3):
        with pytest.raises(InputError, match="an intervention must be one of Truncate, Skip, Freeze"):
            mt.apply(encoder_of("bert"), wrong)  # pyright: ignore[reportArgumentType]


def test_they_are_values() -> None:
    for each in (mt.Skip(blocks=[2, 3]), mt.Reinit(past=1), mt.Freeze(bottom=2), mt.Permute(seed=3)):  # pyright: ignore[reportArgumentType]
        assert pickle.loads(pickle.dumps(each)) == each
        assert len({each, pickle.loads(pickle.dumps(each))}) == 1
    assert set(mt.INTERVENTIONS) == {"truncate", "skip", "freeze", "reinit", "permute"}
    assert mt.INTERVENTIONS["skip"](blocks=(2, 3)) == mt.Skip(blocks=[2, 3])  # pyright: ignore[reportArgumentType]
