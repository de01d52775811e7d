"""What can be wrong with a file? Changes of bytes, and of what the bytes mean, drawn from a generator."""

from __future__ import annotations

import bz2
import gzip
import io
import json
import lzma
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

Rng = np.random.Generator
_DEEP = "\x02deep\x02"  # becomes brackets that are nested deeply
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 7, 2**31, 2**63, -(2**63), 10**30, 10**400, 0.5, -0.5, 1e-320, 1e25),
    *(1e308, float("nan"), float("inf"), "", "x", "0", "-1", "nan", "\ud800", "\0", "\u2028", "é" * 40),
    *("a" * 5000, "../../x", "/etc/passwd", "None", "cpu", [], [[]], [None], [0] * 300, ["x"], {}, {"a": 1}),
    _DEEP,
)
_NUMBERS = (b"0", b"-1", b"1e400", b"nan", b"99999999999999999999", b"0.5", b"", b"1,1", b"0x10", b"\xd9\xa1")
_INTEGERS = (
    0,
    1,
    0x7F,
    0x80,
    0xFF,
    0x7FFF,
    0x8000,
    0xFFFF,
    0x7FFFFFFF,
    0x80000000,
    0xFFFFFFFF,
    2**62,
    2**64 - 1,
)
_CELLS = (
    "",
    " ",
    '"',
    "'",
    "_",
    "0",
    "-1",
    "nan",
    "1e400",
    "\t",
    ",",
    "\0",
    "é",
    "\u2028",
    "x" * 3000,
    "a\rb",
)


def mutated(name: str, content: bytes, rng: Rng) -> bytes:
    """
    Change a file.

    Parameters
    ----------
    name : str
        Its ending says what it means.
    content : bytes
    rng : Generator

    Returns
    -------
    bytes
    """
    suffix = Path(name).suffix.lower()
    if suffix in PACKED:
        unpack, pack = PACKED[suffix]
        inner = name[: -len(suffix)]
        return pack(mutated(inner, unpack(content), rng)) if rng.random() < 0.6 else of_bytes(content, rng)
    meant = MEANINGS.get(suffix, of_lines)
    if rng.random() < 0.3:
        return of_bytes(content, rng)
    try:
        return meant(content, rng)
    except Exception:  # what was changed before is not what it was: bytes can be changed all the same
        return of_bytes(content, rng)


def of_bytes(content: bytes, rng: Rng) -> bytes:
    """Change one to four places of the bytes."""
    data = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        at, size = int(rng.integers(len(data) + 1)), int(rng.integers(1, 17))
        kind = int(rng.integers(9))
        if kind == 0 and at < len(data):
            data[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            data[at : at + size] = b""
        elif kind == 2:
            data[at:at] = rng.bytes(size)
        elif kind == 3:
            data[at:at] = data[at : at + 4 * size]
        elif kind == 4:
            del data[at:]
        elif kind == 5:
            width = int(rng.choice([1, 2, 4, 8]))
            number = int(_INTEGERS[int(rng.integers(len(_INTEGERS)))]) % (1 << 8 * width)
            data[at : at + width] = number.to_bytes(width, "little" if rng.random() < 0.7 else "big")
        elif kind == 6:
            data[at : at + size] = bytes([int(rng.choice([0, 255, 10, 34, 123, 128, 192]))]) * size
        elif kind == 7:
            places = [found.span() for found in re.finditer(rb"-?[0-9]+(\.[0-9]+)?", bytes(data[:20_000]))]
            if places:
                start, stop = places[int(rng.integers(len(places)))]
                data[start:stop] = _NUMBERS[int(rng.integers(len(_NUMBERS)))]
        else:
            other = int(rng.integers(len(data) + 1))
            data[at : at + size] = data[other : other + size]
    return bytes(data)


def of_document(value: Any, rng: Rng) -> Any:
    """Change one to three places of nested lists and mappings."""
    for _ in range(int(rng.integers(1, 4))):
        value = _of_node(value, rng, 0)
    return value


def _of_node(value: Any, rng: Rng, depth: int) -> Any:
    inner = isinstance(value, (dict, list)) and len(value) > 0
    if not inner or rng.random() < (0.02 if depth == 0 else 0.15):
        return _instead(value, rng)
    if isinstance(value, dict):
        keys = list(value)
        key = keys[int(rng.integers(len(keys)))]
        kind = rng.random()
        if kind < 0.12:
            return {other: inner for other, inner in value.items() if other != key}
        if kind < 0.2:
            return {(f"{other}x" if other == key else other): inner for other, inner in value.items()}
        if kind < 0.25:
            return {**value, "more": _instead(None, rng)}
        return {**value, key: _of_node(value[key], rng, depth + 1)}
    place = int(rng.integers(len(value)))
    kind = rng.random()
    if kind < 0.12:
        return value[:place] + value[place + 1 :]
    if kind < 0.2:
        return [*value[:place], value[place], *value[place:]]
    return [*value[:place], _of_node(value[place], rng, depth + 1), *value[place + 1 :]]


def _instead(value: Any, rng: Rng) -> Any:
    if isinstance(value, (int, float)) and not isinstance(value, bool) and rng.random() < 0.4:
        return value + int(rng.integers(-3, 4)) if rng.random() < 0.5 else -value
    return VALUES[int(rng.integers(len(VALUES)))]


def dump(value: Any) -> bytes:
    """A document as JSON, with brackets that are nested deeply where it asks for them."""
    text = json.dumps(value)
    return text.replace(json.dumps(_DEEP), "[" * 30_000 + "]" * 30_000).encode()


def _of_json(content: bytes, rng: Rng) -> bytes:
    text = dump(of_document(json.loads(content), rng))
    # A name that stands twice, which no parsed document has.
    return text.replace(b'", "', b'", "a": 1, "', 1) if rng.random() < 0.05 else text


def _of_json_lines(content: bytes, rng: Rng) -> bytes:
    lines = content.splitlines()
    place = int(rng.integers(len(lines)))
    if rng.random() < 0.2:
        return of_lines(content, rng)
    lines[place] = _of_json(lines[place], rng)
    return b"\n".join([*lines, b""])


def of_lines(content: bytes, rng: Rng) -> bytes:
    """Change lines, or cells of lines between tabs or commas."""
    lines = content.decode().split("\n")
    for _ in range(int(rng.integers(1, 4))):
        place = int(rng.integers(len(lines)))
        kind = int(rng.integers(7))
        mark = "\t" if "\t" in lines[place] else "," if "," in lines[place] else " "
        cells = lines[place].split(mark)
        cell = int(rng.integers(len(cells)))
        if kind == 0:
            del lines[place]
        elif kind == 1:
            lines.insert(place, lines[place])
        elif kind == 2:
            lines[place] = mark.join(cells[:cell] + cells[cell + 1 :])
        elif kind == 3:
            lines[place] = mark.join([*cells, *cells[cell:]])
        elif kind == 4:
            lines.insert(place, "")
        else:
            cells[cell] = str(_CELLS[int(rng.integers(len(_CELLS)))])
            lines[place] = mark.join(cells)
        lines = lines or [""]
    return "\n".join(lines).encode("utf-8", "surrogatepass")


def _of_toml(content: bytes, rng: Rng) -> bytes:
    lines = content.decode().split("\n")
    assigned = [place for place, line in enumerate(lines) if "=" in line]
    if rng.random() < 0.3 or not assigned:
        return of_lines(content, rng)
    place = assigned[int(rng.integers(len(assigned)))]
    values = (
        "0",
        "-1",
        "1e400",
        "nan",
        '""',
        '"x"',
        "[]",
        "{}",
        '["x", 1]',
        "true",
        "1979-05-27",
        '"\\u0000"',
    )
    lines[place] = f"{lines[place].split('=')[0]}= {values[int(rng.integers(len(values)))]}"
    return "\n".join(lines).encode()


def _of_safetensors(content: bytes, rng: Rng) -> bytes:
    size = int.from_bytes(content[:8], "little")
    header, rest = dump(of_document(json.loads(content[8 : 8 + size]), rng)), content[8 + size :]
    return len(header).to_bytes(8, "little") + header + rest


def _of_npy(content: bytes, rng: Rng) -> bytes:
    size = int.from_bytes(content[8:10], "little")
    text = content[10 : 10 + size].decode("latin-1")
    shapes = (
        "()",
        "(0,)",
        "(-1, 8)",
        "(2, 3, 4, 5)",
        "(99999999999, 9)",
        "(60,)",
        "(3, 60, 8, 1)",
        "'x'",
        "(1e3,)",
    )
    types = (
        "'|O'",
        "'<c16'",
        "'<f2'",
        "'|b1'",
        "'<M8[s]'",
        "'<U4'",
        "'>f8'",
        "[('a', '<f8')]",
        "'x'",
        "'|V8'",
        "3",
    )
    if rng.random() < 0.5:
        text = re.sub(r"\([^)]*\)", shapes[int(rng.integers(len(shapes)))], text)
    else:
        text = re.sub(r"'descr': '[^']*'", f"'descr': {types[int(rng.integers(len(types)))]}", text)
    header = text.strip().encode("latin-1")
    header += b" " * (-(len(header) + 11) % 64) + b"\n"
    return content[:8] + len(header).to_bytes(2, "little") + header + content[10 + size :]


def _of_parquet(content: bytes, rng: Rng) -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns = pq.read_table(io.BytesIO(content)).to_pydict()
    names = list(columns)
    name = names[int(rng.integers(len(names)))]
    kind = int(rng.integers(7))
    count = len(columns[name])
    if kind == 0:
        del columns[name]
    elif kind == 1:
        columns[f"{name}x"] = columns.pop(name)
    elif kind == 2:
        columns[name] = [None] * count
    elif kind == 3:
        columns[name] = [str(value) for value in columns[name]]
    elif kind == 4:
        columns[name] = [[value] for value in columns[name]]
    elif kind == 5:
        columns = {key: values[: count // 2] for key, values in columns.items()}
    else:
        fitting = [value for value in VALUES if isinstance(value, (int, float)) and abs(value) < 2**62]
        columns[name] = [float(fitting[int(rng.integers(len(fitting)))])] * count
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def _of_hdf5(content: bytes, rng: Rng) -> bytes:
    import h5py

    out = io.BytesIO(content)
    with h5py.File(out, "r+") as file:
        names: list[str] = []
        file.visititems(lambda name, node: names.append(name) if isinstance(node, h5py.Dataset) else None)
        name = names[int(rng.integers(len(names)))]
        values = np.asarray(file[name])
        del file[name]
        kind = int(rng.integers(8))
        if kind == 1:
            file[name] = values.astype(complex)
        elif kind == 2:
            file[name] = np.full(values.shape, np.nan)
        elif kind == 3:
            file[name] = values[:0]
        elif kind == 4:
            file.create_group(name)
        elif kind == 5:
            file[name] = h5py.SoftLink("/nowhere")
        elif kind == 6:
            file[name] = h5py.ExternalLink("/etc/passwd", "/x")
        elif kind == 7:
            file[name] = np.array([b"words"] * 3)
    return out.getvalue()


MEANINGS: Mapping[str, Callable[[bytes, Rng], bytes]] = {
    ".json": _of_json,
    ".jsonl": _of_json_lines,
    ".toml": _of_toml,
    ".safetensors": _of_safetensors,
    ".npy": _of_npy,
    ".parquet": _of_parquet,
    ".hdf5": _of_hdf5,
    ".th": of_bytes,
}
PACKED: Mapping[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    ".gz": (gzip.decompress, gzip.compress),
    ".xz": (lzma.decompress, lzma.compress),
    ".bz2": (bz2.decompress, bz2.compress),
}
