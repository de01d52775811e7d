"""Designs differ in what they say they differ in."""

from __future__ import annotations

import math
from dataclasses import asdict
from typing import Any

import pytest
import torch

from microtome.errors import InputError, MicrotomeError
from microtome.zoo.designs import DESIGNS, build, find_design


@pytest.mark.parametrize("name", DESIGNS)
def test_designs_differ_from_the_masked_one_as_they_say(name: str) -> None:
    masked, other = asdict(DESIGNS["masked"]), asdict(DESIGNS[name])
    told = {"name", "title", "differs"}
    differing = {key for key in masked if masked[key] != other[key]} - told
    assert differing <= {"objective", "shared", "rate"}
    if differing - {"objective"}:
        assert DESIGNS[name].differs


def test_values_can_be_changed_and_are_checked() -> None:
    assert find_design("masked", steps=7).steps == 7
    with pytest.raises(MicrotomeError, match="Did you mean masked"):
        find_design("maskd")
    with pytest.raises(MicrotomeError, match=r"value of a design must be one of .* Did you mean steps"):
        find_design("masked", step=7)
    with pytest.raises(InputError, match="width must be a multiple of the 4 heads, but got 130"):
        find_design("masked", width=130)


@pytest.mark.parametrize(
    "changes",
    [
        *({"steps": True}, {"layers": 10**40}, {"vocabulary": "x"}, {"length": "x"}, {"rate": ""}),
        *({"rate": math.nan}, {"warmup": -1}, {"decay": "x"}, {"clip": math.inf}, {"waves": "x"}),
        *(
            {"betas": 0.9},
            {"betas": (0.9, 1)},
            {"betas": ("x", 0.9)},
            {"generator": 3},
            {"generator": (0, 8)},
        ),
        {"hidden": "x"},
    ],
)
def test_values_of_another_kind_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=f"{next(iter(changes))} must be"):
        find_design("masked", **changes)


def test_shown_tokens_are_a_share_of_the_guessed() -> None:
    design = find_design("masked", length=102, hidden=0.4, kept=0.25)
    assert (design.guessed, design.shown) == (40, 10)
    with pytest.raises(InputError, match="kept must be a share of at least 0 and below 1, but got 1"):
        find_design("masked", kept=1.0)
    with pytest.raises(InputError, match="focus must be above 0, but got 0"):
        find_design("masked", focus=0.0)


SMALL: dict[str, Any] = {"layers": 2, "width": 64, "heads": 2, "inner": 128, "length": 40}


def spread(net: torch.nn.Module, ending: str) -> list[float]:
    return [float(one.detach().std()) for name, one in net.named_parameters() if name.endswith(ending)]


@pytest.mark.parametrize("name", DESIGNS)
def test_queries_and_keys_are_drawn_wider_and_nothing_else_is(name: str) -> None:
    net = build(find_design(name, **SMALL, focus=4.0, spread=0.05), 300, seed=0)
    for part in (".query.weight", ".key.weight"):
        assert spread(net, part) == pytest.approx([0.2] * len(spread(net, part)), rel=0.05)
        assert spread(net, part)
    assert spread(net, ".value.weight") == pytest.approx([0.05] * len(spread(net, ".value.weight")), rel=0.05)


@pytest.mark.parametrize("name", DESIGNS)
def test_a_step_to_the_next_place_is_the_same_everywhere(name: str) -> None:
    # Neighbors are equally alike at every place, and the less alike the further apart they are.
    net: Any = build(find_design(name, **SMALL), 300, seed=0)
    waves = net.base_model.embeddings.position_embeddings.weight.detach()
    products = waves @ waves.T
    for apart in (0, 1, 3):
        line = products.diagonal(apart)
        assert torch.allclose(line, line[0].expand_as(line), rtol=1e-4)
    assert float(products[0, 0]) > float(products[0, 1]) > float(products[0, 3])
    drawn: Any = build(find_design(name, **SMALL, waves=False), 300, seed=0)
    products = drawn.base_model.embeddings.position_embeddings.weight.detach()
    assert float((products @ products.T).diagonal(1).std()) > 0.01 * float((products @ products.T)[1, 1])
