"""Equal requests have equal addresses, on every machine and for ever; different ones have different ones."""

from __future__ import annotations

import enum
import hashlib
import json
import math
import os
import subprocess
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import microtome
from microtome.errors import InputError
from microtome.store.address import address, canonical, digest_file, is_address

SOURCE = Path(microtome.__file__).parents[1]

SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
)
PLAIN = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)
SPECIFICATIONS = st.dictionaries(st.text(), PLAIN, max_size=5)


def exact(value: Any) -> Any:
    """A value that equals another only if both were written alike: in Python 1 == 1.0 == True."""
    if isinstance(value, dict):
        return {key: exact(one) for key, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [exact(one) for one in value]
    return type(value).__name__, repr(value)


def test_known_addresses() -> None:
    # Written down once: whoever changes them throws away every store there is.
    assert address({}) == "4c9edff63f833a7a0e38246300e0369e5f34d281"
    assert address({"measure": "svcca", "threshold": 0.99}) == "748967162a08386c14b75133e5b609590721b9bc"


def test_an_address_is_the_hash_of_canonical_json() -> None:
    asked = '{"a":[1,2.5,null,true],"\\u00e9":"e"}'
    text = f'{{"format":"microtome/address/1","inputs":["x"],"specification":{asked}}}'
    made = address({"\u00e9": "e", "a": (1, 2.5, None, True)}, ["x"])
    assert made == hashlib.blake2b(text.encode(), digest_size=20).hexdigest()
    assert is_address(made)


@pytest.mark.parametrize("seed", ["0", "1", "12345"])
def test_every_process_finds_the_same(seed: str) -> None:
    code = "from microtome.store.address import address; print(address({'b': {'y': 0.1, 'x': 1}, 'a': 'z'}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(SOURCE), "PYTHONHASHSEED": seed},
        timeout=60,
        check=True,
    )
    assert done.stdout.strip() == address({"a": "z", "b": {"x": 1, "y": 0.1}})


@settings(max_examples=100, deadline=None)
@given(SPECIFICATIONS)
def test_neither_the_order_of_keys_nor_a_round_through_json_matters(specification: dict[str, Any]) -> None:
    turned = dict(reversed(specification.items()))
    assert address(turned) == address(specification)
    assert address(json.loads(json.dumps(specification))) == address(specification)
    assert address(MappingProxyType(specification)) == address(specification)


@settings(max_examples=200, deadline=None)
@given(SPECIFICATIONS, SPECIFICATIONS)
def test_addresses_differ_where_requests_do(one: dict[str, Any], other: dict[str, Any]) -> None:
    assert (address(one) == address(other)) == (exact(one) == exact(other))


def test_what_looks_alike_is_told_apart() -> None:
    looks: list[dict[str, Any]] = [
        {"a": value} for value in (1, 1.0, True, "1", [1], None, "null", 0.0, -0.0)
    ]
    looks += [{}, {"a": {}}, {"a": []}, {"a": {"b": 1}}, {"a.b": 1}]
    assert len({address(one) for one in looks}) == len(looks)
    found = {address({}, inputs) for inputs in ([], ["a"], ["a", "b"], ["b", "a"], ["ab"], ["a,b"])}
    assert len(found) == 6


class Color(enum.StrEnum):
    RED = "red"


@pytest.mark.parametrize(
    "specification, words",
    [
        ({"seeds": {1, 2}}, "seeds must be text, a number, a truth value, None, or a list or a mapping of"),
        ({"a": {"b": [0, np.float32(1)]}}, "specification.a.b[1] must be text, a number"),
        ({"rate": np.float64(1)}, "specification.rate must be text, a number"),
        ({"color": Color.RED}, "but got 'Color'."),
        ({"x": np.zeros(2)}, "but got 'ndarray'."),
        ({"path": Path("a")}, "specification.path must be"),
        ({"data": b"x"}, "but got 'bytes'."),
        ({"rate": math.nan}, "specification.rate must be a finite number, but got nan."),
        ({"rate": [1.0, -math.inf]}, "specification.rate[1] must be a finite number, but got -inf."),
        ({1: "a"}, "every key of specification must be text, but got 1."),
        ({"a": {None: 1}}, "every key of specification.a must be text, but got None."),
        ({"big": 1 << 20_000}, "specification.big must be a number of at most 10000 bits, but got 20001."),
    ],
)
def test_what_is_no_plain_data_is_refused_by_its_key(specification: Any, words: str) -> None:
    with pytest.raises(InputError) as caught:
        address(specification)
    assert words in str(caught.value)
    assert str(caught.value).count(". ") == 0


def test_what_contains_itself_is_refused() -> None:
    endless: dict[str, Any] = {}
    endless["again"] = endless
    with pytest.raises(InputError, match="must be plain data of a few levels, but it is too deep"):
        address(endless)


@pytest.mark.parametrize("inputs", ["abc", [1], [None], [b"a"]])
def test_inputs_that_are_no_addresses(inputs: Any) -> None:
    with pytest.raises(InputError, match="inputs must be a sequence of addresses, but got"):
        address({}, inputs)


def test_a_specification_that_is_no_mapping() -> None:
    with pytest.raises(InputError, match="specification must be a mapping, but got 'list'"):
        address([1])  # pyright: ignore[reportArgumentType]


def test_canonical_json_is_ascii() -> None:
    assert canonical({"b": "\u00e9\ud800", "a": 1e-7}, "meta") == '{"a":1e-07,"b":"\\u00e9\\ud800"}'


@pytest.mark.parametrize("text", ["", "a" * 39, "A" * 40, "g" * 40, "a" * 41, "a" * 40 + "\n", None, 3])
def test_what_is_no_address(text: object) -> None:
    assert not is_address(text)


@pytest.mark.parametrize("size", [0, 1, 3_000_001])
def test_a_file_is_hashed_by_its_content(tmp_path: Path, size: int) -> None:
    content = np.random.default_rng(size).bytes(size)
    (tmp_path / "a").write_bytes(content)
    assert digest_file(tmp_path / "a") == hashlib.blake2b(content, digest_size=20).hexdigest()
    assert digest_file(str(tmp_path / "a")) == digest_file(tmp_path / "a")


def test_a_file_that_cannot_be_hashed(tmp_path: Path) -> None:
    for path in (tmp_path / "none", tmp_path):
        with pytest.raises(InputError, match="path must be a readable file, but got: "):
            digest_file(path)
