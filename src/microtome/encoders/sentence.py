"""Folders of sentence encoders with their pooling, and of adapters with their base model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import InputError
from ..store.reading import as_written, read_json
from .shipped import find_folder, weights_digest

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
