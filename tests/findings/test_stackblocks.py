"""A finding about blocks is read back as it was written."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import microtome as mt
from microtome.errors import InputError
from microtome.findings.blocks import BlockFinding
from microtome.findings.maps import Maps
from microtome.findings.record import from_json, to_json, with_source
from microtome.findings.stackblocks import StackBlocks

NAMES = tuple(f"a/{k}" for k in range(8))


def finding() -> BlockFinding:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 6))
    layers = []
    for _ in range(8):
        x = x + 0.3 * rng.normal(size=x.shape)
        layers.append(x.copy())
    return mt.find_blocks(layers)


@pytest.mark.parametrize(
    "found",
    [
        finding(),
        replace(finding(), z=math.inf, gap_ratio=math.nan),
        BlockFinding(verdict="undefined", reason="too few", layers=8, used=(0,), left_out=(1,)),
    ],
)
def test_what_is_read_is_what_was_written(found: BlockFinding) -> None:
    maps = mt.similarity_matrix([np.eye(8, 3), np.eye(8, 3)], measures="linear_cka")
    one = StackBlocks(stack="a", measure="debiased_cka", names=NAMES, finding=found)
    whole = with_source(Maps(list(maps.values()), (), [one]), command="", inputs=[])
    text = to_json(whole)
    json.loads(text, parse_constant=lambda name: pytest.fail(name))
    [back] = from_json(text).blocks
    assert repr(back) == repr(one)  # NaN is not equal to itself
    assert back.finding.sentence(NAMES) == found.sentence(NAMES)


def test_names_must_be_those_of_the_layers() -> None:
    with pytest.raises(InputError, match="one for each of 8 layers"):
        StackBlocks(stack="a", measure="debiased_cka", names=("a/0",), finding=finding())
