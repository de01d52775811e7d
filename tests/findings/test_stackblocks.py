"""A finding about blocks is read back as it was written."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import microtome as mt
from microtome.errors import InputError
from microtome.findings.blocks import Block, BlockFinding
from microtome.findings.record import Maps, from_json, to_json, with_facts
from microtome.findings.stackblocks import StackBlocks
from microtome.inference.estimate import Interval

NAMES = tuple(f"a/{k}" for k in range(8))
ENDS = Interval(low=-math.inf, high=0.3, level=0.95, method="m", unit="row", target="t")
BLOCK = Block(first=2, last=5, inside=0.9, outside=0.7, margin=0.2, interval=ENDS, certain=True, without=(3,))


def finding() -> BlockFinding:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 6))
    layers = []
    for _ in range(8):
        x = x + 0.3 * rng.normal(size=x.shape)
        layers.append(x.copy())
    return mt.analysis.find_blocks(layers)


@pytest.mark.parametrize(
    "found",
    [
        finding(),
        replace(finding(), blocks=(replace(BLOCK, cores=(replace(BLOCK, margin=math.nan),)),)),
        BlockFinding(reason="too few", layers=8, used=(0,), left_out=(1,)),
    ],
)
def test_what_is_read_is_what_was_written(found: BlockFinding) -> None:
    maps = mt.similarity_matrix([np.eye(8, 3), np.eye(8, 3)], measures="linear_cka")
    one = StackBlocks(stack="a", measure="debiased_cka", names=NAMES, finding=found)
    whole = with_facts(Maps(list(maps.values()), (), [one]), command="", inputs=[])
    text = to_json(whole)
    json.loads(text, parse_constant=lambda name: pytest.fail(name))
    [back] = from_json(text).blocks
    assert repr(back) == repr(one)  # NaN is not equal to itself
    assert back.finding.sentence(NAMES) == found.sentence(NAMES)


def test_names_must_be_those_of_the_layers() -> None:
    with pytest.raises(InputError, match="one for each of 8 layers"):
        StackBlocks(stack="a", measure="debiased_cka", names=("a/0",), finding=finding())


def test_findings_of_an_earlier_rule_are_left_aside() -> None:
    maps = mt.similarity_matrix([np.eye(8, 3), np.eye(8, 3)], measures="linear_cka")
    read = json.loads(to_json(with_facts(Maps(list(maps.values())), command="", inputs=[])))
    earlier = {"verdict": "step", "border": 3, "contrast": 0.7}
    read["blocks"] = [{"stack": "a", "measure": "debiased_cka", "names": ["a/0"], "finding": earlier}]
    assert from_json(json.dumps(read)).blocks == ()
