"""What is hidden, replaced and scored is what the objective says."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from microtome.zoo.designs import DESIGNS, build, find_design
from microtome.zoo.objectives import Learner, hide
from microtome.zoo.text import CLS, MASK, SEP

SMALL: dict[str, Any] = {
    "layers": 2,
    "width": 32,
    "heads": 2,
    "inner": 64,
    "length": 24,
    "batch": 8,
    "generator": (1, 32),
}


def batch(rows: int = 8, length: int = 24, entries: int = 50) -> torch.Tensor:
    ids = torch.randint(5, entries, (rows, length), generator=torch.Generator().manual_seed(0))
    ids[:, 0], ids[:, -1] = CLS, SEP
    return ids


@given(st.integers(1, 6), st.integers(8, 30), st.integers(1, 5), st.data())
def test_hidden_tokens_are_as_many_as_asked_and_never_the_ends(
    rows: int, length: int, count: int, data: st.DataObject
) -> None:
    shown = data.draw(st.integers(0, count))
    ids = batch(rows, length)
    places, hidden = hide(ids, count, shown)
    assert places.shape == (rows, count)
    assert (hidden == MASK).sum(1).eq(count - shown).all()
    assert hidden[:, 0].eq(CLS).all()
    assert hidden[:, -1].eq(SEP).all()
    changed = hidden != ids
    assert changed.sum() == rows * (count - shown)
    assert changed.gather(1, places[:, shown:]).all()


def test_what_is_told_is_the_loss_of_hidden_tokens_alone() -> None:
    # One that copies what it sees guesses shown tokens rightly and learns nothing of hidden ones.
    learner = Learner(find_design("masked", **SMALL, hidden=0.5, kept=0.5), 50, seed=0)
    optimizer = torch.optim.Adam(learner.parameters(), 3e-3)
    found = []
    for step in range(120):
        torch.manual_seed(step)
        ids = torch.randint(5, 50, (8, 24))
        loss, told = learner(ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        found.append((float(loss.detach()), float(told)))
    learned, shown = found[-1]
    assert shown > math.log(45) - 0.2
    assert learned < 0.75 * shown


@pytest.mark.parametrize("name", DESIGNS)
def test_losses_begin_at_chance_and_reach_all_weights(name: str) -> None:
    learner = Learner(find_design(name, **SMALL), 50, seed=0)
    torch.manual_seed(0)
    loss, told = learner(batch())
    chance = math.log(2) if name == "replaced" else math.log(50)
    assert float(told) == pytest.approx(chance, rel=0.15)
    loss.backward()
    idle = [n for n, p in learner.named_parameters() if p.grad is None]
    assert not [n for n in idle if "pooler" not in n], "every weight that is saved must learn"


@pytest.mark.parametrize("name", DESIGNS)
def test_it_learns_a_repeated_text(name: str) -> None:
    learner = Learner(find_design(name, **SMALL), 50, seed=0)
    optimizer = torch.optim.Adam(learner.parameters(), 3e-3)
    ids = batch(4)[:, :24].clone()
    ids[:, 1:-1] = torch.arange(22) % 3 + 10
    told = []
    for step in range(60):
        torch.manual_seed(step)
        loss, shown = learner(ids)
        told.append(float(shown))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    # A text that can be predicted leaves the generator's draws right, and nothing to tell.
    assert sum(told[-5:]) / 5 < 0.5 * told[0]


def test_a_causal_model_sees_no_later_token() -> None:
    net: Any = build(find_design("causal", **SMALL), 50, seed=0).eval()
    ids = batch(1)
    other = ids.clone()
    other[0, 12] = 6 if ids[0, 12] != 6 else 7
    with torch.no_grad():
        one, two = (net.base_model(input_ids=each).last_hidden_state for each in (ids, other))
    assert torch.allclose(one[:, :12], two[:, :12], atol=1e-6)
    assert not torch.allclose(one[:, 12:], two[:, 12:], atol=1e-4)


def test_equal_parts_are_drawn_alike() -> None:
    one, two = (build(find_design(name, **SMALL), 50, seed=3).state_dict() for name in ("masked", "every"))
    assert all(torch.equal(one[name], two[name]) for name in one)
    third = build(find_design("masked", **SMALL), 50, seed=4).state_dict()
    assert not torch.equal(
        one["roberta.embeddings.word_embeddings.weight"], third["roberta.embeddings.word_embeddings.weight"]
    )
