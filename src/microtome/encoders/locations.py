"""Locations of models: encoders of the package, folders of sentence encoders, and adapters."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import InputError, unknown
from ..reading import names_apart
from ..store.files import as_written, read_json

SCHEME = "zoo:"
VARIABLE = "MICROTOME_ZOO"
WEIGHTS = "model.safetensors"
# Data of the package, beside the modules that train such encoders.
INSIDE = Path(__file__).parent.parent / "zoo" / "encoders"


def zoo_folder() -> Path:
    """
    Return the folder of the encoders.

    Returns
    -------
    Path
        The value of the environment variable MICROTOME_ZOO, for one's own encoders; else inside the package.
    """
    override = os.environ.get(VARIABLE)
    return Path(override) if override else INSIDE


def shipped_names() -> tuple[str, ...]:
    """List the available encoders in alphabetical order; none if the folder is absent."""
    zoo = zoo_folder()
    if not zoo.is_dir():
        return ()
    return tuple(sorted(folder.name for folder in zoo.iterdir() if (folder / "config.json").is_file()))


def shipped_name(address: str) -> str | None:
    """
    Extract the name from an address "zoo:NAME".

    Examples
    --------
    >>> shipped_name("zoo:masked")
    'masked'
    >>> shipped_name("roberta-base") is None
    True
    """
    return address.removeprefix(SCHEME) if address.startswith(SCHEME) else None


def find_folder(address: str) -> Path | None:
    """
    Find the folder of an encoder that comes with the package.

    Parameters
    ----------
    address : str
        Such as "zoo:masked".

    Returns
    -------
    Path or None
        None if `address` does not begin with "zoo:".
    """
    name = shipped_name(address)
    if name is None:
        return None
    names = shipped_names()
    if not names:
        raise InputError(
            f"{address} must be an encoder that comes with the package, but none is in {zoo_folder()}: it "
            f"was installed without them, or {VARIABLE} names another folder."
        )
    # Only listed names, so that no name leads out of the folder.
    if name not in names:
        raise unknown("encoder of the zoo", name, names)
    return zoo_folder() / name


def weights_digest(folder: Path) -> str:
    """Hash the file of the weights, by SHA-256."""
    path = folder / WEIGHTS
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{folder} must hold {WEIGHTS}, but got: {error}.") from error


def distinct_names(sources: Sequence[str]) -> list[str]:
    """
    Name models by the ends of their paths, with the folders that make the names differ.

    Parameters
    ----------
    sources : sequence of str
        Folders or hub ids.

    Returns
    -------
    list of str

    Examples
    --------
    >>> distinct_names(["runs/seed-1", "other/seed-1", "zoo:masked"])
    ['runs-seed-1', 'other-seed-1', 'masked']
    """
    # One folder can be written in several ways.
    models = [os.path.abspath(source) if os.path.isdir(source) else source for source in sources]
    paths = [
        [part for part in Path(source.removeprefix("zoo:")).parts if part != Path(source).anchor] or [source]
        for source in sources
    ]
    short, labels = [path[-1] for path in paths], names_apart(paths)
    for keys in (models, labels):
        twice = [label for label, key in zip(short, keys, strict=True) if keys.count(key) > 1]
        if twice:
            raise InputError(f"names of models must differ, but {twice[0]!r} stands twice.")
    return labels


POOLING = {
    "pooling_mode_cls_token": "cls",
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_max_tokens": "max",
    "pooling_mode_mean_sqrt_len_tokens": "mean_sqrt_len",
    "pooling_mode_weightedmean_tokens": "weighted_mean",
    "pooling_mode_lasttoken": "last",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Unpacked:
    """
    The locations of the parts of a model.

    Parameters
    ----------
    model, tokenizer : str
        Folders or hub ids.
    adapter : str, optional
        A folder of weights to merge into the model.
    facts : mapping of str to object
        `pooling` of a sentence encoder, and whether it is `normalized`; `sha256` of the weights of an
        encoder that comes with the package.
    """

    model: str
    tokenizer: str
    adapter: str | None = None
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def unpack(address: str) -> Unpacked:
    """Find the parts of a model from the files in its folder."""
    shipped = find_folder(address)
    if shipped is not None:
        facts = MappingProxyType({"sha256": weights_digest(shipped)})
        return Unpacked(model=str(shipped), tokenizer=str(shipped), facts=facts)
    folder = Path(address)
    if (folder / "modules.json").is_file():
        with as_written(folder / "modules.json", "sentence-transformers"):
            return _sentence_encoder(folder)
    if (folder / "adapter_config.json").is_file():
        with as_written(folder / "adapter_config.json", "peft"):
            return _adapter(folder)
    return Unpacked(model=address, tokenizer=address)


def _sentence_encoder(folder: Path) -> Unpacked:
    modules = read_json(folder / "modules.json")
    if not isinstance(modules, list) or not all(isinstance(m, dict) and "type" in m for m in modules):
        raise InputError(f"{folder / 'modules.json'} must list modules with their types, but it does not.")
    facts: dict[str, Any] = {"normalized": False}
    transformer = None
    for module in modules:
        kind = str(module["type"]).rsplit(".", 1)[-1]
        path = _inside(folder, str(module.get("path", "")))
        if kind == "Transformer":
            transformer = path
        elif kind == "Pooling":
            facts["pooling"] = _pooling(path / "config.json")
        elif kind == "Normalize":
            facts["normalized"] = True
        elif kind != "Dropout":
            facts.setdefault("beyond", []).append(kind)
    if transformer is None:
        raise InputError(f"{folder / 'modules.json'} must name a Transformer, but it names none.")
    limits = transformer / "sentence_bert_config.json"
    if limits.is_file():
        facts["longest"] = read_json(limits).get("max_seq_length")
    return Unpacked(model=str(transformer), tokenizer=str(transformer), facts=MappingProxyType(facts))


def _pooling(file: Path) -> str:
    config = read_json(file)
    if "pooling_mode" in config:
        modes = config["pooling_mode"]
        return "+".join([modes] if isinstance(modes, str) else modes)
    modes = [mode for key, mode in POOLING.items() if config.get(key)]
    if not modes:
        raise InputError(f"{file} must say how tokens are pooled, but it does not.")
    return "+".join(modes)


def _adapter(folder: Path) -> Unpacked:
    base = read_json(folder / "adapter_config.json").get("base_model_name_or_path")
    if not base:
        raise InputError(f"{folder / 'adapter_config.json'} must name its base model, but it does not.")
    nearby = folder / base
    model = (
        str(nearby) if not Path(base).is_absolute() and nearby.is_dir() else str(find_folder(base) or base)
    )
    has_tokenizer = any((folder / name).is_file() for name in ("tokenizer.json", "vocab.txt", "spiece.model"))
    return Unpacked(model=model, tokenizer=str(folder) if has_tokenizer else model, adapter=str(folder))


def _inside(folder: Path, path: str) -> Path:
    resolved = (folder / path).resolve()
    if not resolved.is_relative_to(folder.resolve()):
        raise InputError(f"{folder / 'modules.json'} must name folders inside its own, but got {path!r}.")
    return resolved
