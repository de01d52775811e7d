"""Is there an ELMo at a path, and how is it read?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import InputError
from .allennlp import CONTEXTUALIZER, MODELS, read_transformer
from .archive import CONFIG, glance, is_archive
from .hdf5 import read_bilstm
from .options import parse_options

if TYPE_CHECKING:
    from .model import ElmoModel

OPTIONS = "options.json"


def is_elmo(path: str | os.PathLike[str]) -> bool:
    """
    Tell by its files whether a path holds an ELMo.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    bool
        Whether it is a file of options, a folder with one and the weights of LSTMs, or a folder or archive
        with the configuration and weights of a Transformer ELMo.

    Examples
    --------
    >>> is_elmo("roberta-base")
    False
    """
    place = Path(path)
    if not os.fspath(path) or not place.exists():
        return False
    if not place.is_dir() and not is_archive(place):
        return place.name.endswith(OPTIONS)
    if place.is_dir() and (options := _options(place)) is not None:
        return len(_weights(options)) == 1
    return _is_transformer(place)


def read_elmo(path: str | os.PathLike[str]) -> ElmoModel:
    """
    Read an ELMo of either kind.

    Parameters
    ----------
    path : str or path
        A folder with `options.json` and `*weights.hdf5`, or the path of its options; or a folder with
        `config.json` and `weights.th`, or an archive (`model.tar.gz`) of it. The weights are read as
        numbers: nothing in a file is run.

    Returns
    -------
    ElmoModel
        In evaluation mode, with float32 weights on the CPU.
    """
    place = Path(path)
    if not os.fspath(path) or not place.exists():
        raise InputError(f"path must be a file or a folder that exists, but got {os.fspath(path)!r}.")
    options = _options(place)
    if options is not None:
        return read_bilstm(options, _one(_weights(options), options.parent, "weights (.hdf5)"))
    if is_archive(place) or (place / CONFIG).is_file():
        return read_transformer(place)
    if place.is_dir() and (several := _all_options(place)):
        _one(several, place, "options (options.json)")
    raise InputError(
        "path must be an ELMo, options.json with weights.hdf5 or config.json with weights.th, but got "
        f"{str(place)!r}."
    )


def _options(place: Path) -> Path | None:
    """Find the options of LSTMs: the path itself, `options.json`, or the only file whose name ends so."""
    if not place.is_dir():
        return place if place.name.endswith(OPTIONS) else None
    if (place / OPTIONS).is_file():
        return place / OPTIONS
    found = _all_options(place)
    return found[0] if len(found) == 1 else None


def _all_options(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob(f"*{OPTIONS}") if file.is_file())


def _weights(options: Path) -> list[Path]:
    """List the files that may be the weights: those that say so in their names before any other."""
    twin = options.with_name(options.name.removesuffix(OPTIONS) + "weights.hdf5")
    if twin.is_file():
        return [twin]
    found = sorted(file for file in options.parent.glob("*.hdf5") if file.is_file())
    return [file for file in found if file.name.endswith("weights.hdf5")] or found


def _one(found: list[Path], folder: Path, what: str) -> Path:
    if len(found) != 1:
        names = f"{len(found)}: {', '.join(file.name for file in found)}" if found else "none"
        raise InputError(f"{folder} must hold one file of {what}, but there are {names}.")
    return found[0]


def _is_transformer(place: Path) -> bool:
    content = glance(place)
    if content is None:
        return False
    try:
        options = parse_options(content, CONFIG)
    except InputError:
        return False
    kind = options.get("model.contextualizer.type", None)
    return kind == CONTEXTUALIZER or options.get("model.type", None) in MODELS
