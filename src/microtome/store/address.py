"""Addresses of store entries: hashes of a specification and of its inputs."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from ..errors import InputError, must

FORMAT = "microtome/address/1"
DIGEST_BYTES = 20
# Python refuses to format integers that are much longer.
_MOST_BITS = 10_000


def address(specification: Mapping[str, Any], inputs: Sequence[str] = ()) -> str:
    """
    Compute the address of a piece of work: equal specifications have equal addresses on every machine.

    Parameters
    ----------
    specification : mapping
        Text, numbers, truth values, None, and lists, tuples and mappings of those. The order of keys does
        not matter; a tuple counts as a list; 1, 1.0 and True are three different values.
    inputs : sequence of str
        The addresses of the inputs of the work; their order matters.

    Returns
    -------
    str
        40 hexadecimal digits.

    Examples
    --------
    >>> address({"measure": "svcca", "threshold": 0.99})
    '748967162a08386c14b75133e5b609590721b9bc'
    >>> address({"rows": [1, 2]}) == address({"rows": (1, 2)})
    True
    """
    if not isinstance(specification, Mapping):
        raise must("specification", "a mapping", type(specification).__name__)
    if isinstance(inputs, str) or not all(type(input_address) is str for input_address in inputs):
        raise must("inputs", "a sequence of addresses", inputs)
    text = canonical({"format": FORMAT, "inputs": list(inputs), "specification": specification}, "")
    return digest(text.encode("ascii"))


def is_address(text: object) -> bool:
    """Whether a text has the form of an address: 40 lowercase hexadecimal digits."""
    return isinstance(text, str) and re.fullmatch(f"[0-9a-f]{{{2 * DIGEST_BYTES}}}", text) is not None


def check_address(text: object) -> None:
    """Raise if a text has not the form of an address."""
    if not is_address(text):
        raise must("address", "40 hexadecimal digits", text)


def canonical(value: object, name: str) -> str:
    """
    Serialize plain data as canonical JSON.

    Parameters
    ----------
    value : str, int, float, bool, None, or a list, tuple or mapping of those
    name : str
        Its name in error messages.

    Returns
    -------
    str
        ASCII, with sorted keys and without spaces.

    Examples
    --------
    >>> canonical({"b": (1, 2.0), "a": None}, "meta")
    '{"a":null,"b":[1,2.0]}'
    >>> canonical({"seeds": {1, 2}}, "meta")
    Traceback (most recent call last):
    microtome.errors.InputError: meta.seeds must be text, a number, a truth value, None, or a list or a \
mapping of those, but got 'set'.
    """
    try:
        return json.dumps(_plain(value, name), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except RecursionError as problem:
        raise InputError(
            f"{name or 'specification'} must be plain data of a few levels, but it is too deep."
        ) from problem


def digest(content: bytes) -> str:
    """Hash bytes for addresses and checksums: BLAKE2b of 20 bytes, in hexadecimal digits."""
    return hashlib.blake2b(content, digest_size=DIGEST_BYTES).hexdigest()


def digest_file(path: str | os.PathLike[str]) -> str:
    """
    Hash a file of any size without loading it into memory.

    Parameters
    ----------
    path : path

    Returns
    -------
    str
        40 hexadecimal digits.
    """
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=DIGEST_BYTES)).hexdigest()
    except OSError as problem:
        raise InputError(f"path must be a readable file, but got: {problem}.") from problem


def _plain(value: object, name: str) -> Any:
    # Subclasses are refused: the serialization of an enumeration or a NumPy number may change.
    if value is None or type(value) in (str, bool):
        return value
    if type(value) is int:
        if value.bit_length() > _MOST_BITS:
            raise must(name, f"a number of at most {_MOST_BITS} bits", value.bit_length())
        return value
    if type(value) is float:
        if not math.isfinite(value):
            raise must(name, "a finite number", value)
        return value
    if isinstance(value, (list, tuple)):
        return [_plain(member, f"{name}[{position}]") for position, member in enumerate(value)]
    if isinstance(value, Mapping):
        for key in value:
            if type(key) is not str:
                raise must(f"every key of {name or 'specification'}", "text", key)
        return {key: _plain(member, f"{name}.{key}" if name else key) for key, member in value.items()}
    raise must(
        name,
        "text, a number, a truth value, None, or a list or a mapping of those",
        type(value).__name__,
    )
