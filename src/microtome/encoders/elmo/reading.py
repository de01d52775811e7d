"""Detection and reading of ELMo models of either kind."""

from __future__ import annotations

import os
from pathlib import Path

from ...errors import InputError
from .allennlp import CONTEXTUALIZER, MODELS, read_transformer
from .archive import CONFIG, glance, is_archive
from .hdf5 import read_bilstm
from .model import ElmoModel
from .options import parse_options

OPTIONS = "options.json"


def is_elmo(path: str | os.PathLike[str]) -> bool:
    """
    Check by its files whether a path holds an ELMo.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    bool
        Whether it is a file of options, a folder with one and the weights of a biLSTM ELMo, or a folder or
        archive with the configuration and weights of a Transformer ELMo.

    Examples
    --------
    >>> is_elmo("roberta-base")
    False
    """
    location = Path(path)
    if not os.fspath(path) or not location.exists():
        return False
    if not location.is_dir() and not is_archive(location):
        return location.name.endswith(OPTIONS)
    if location.is_dir() and (options := _options(location)) is not None:
        return len(_weights(options)) == 1
    return _is_transformer(location)


def read_elmo(path: str | os.PathLike[str]) -> ElmoModel:
    """
    Read an ELMo of either kind.

    Parameters
    ----------
    path : str or path
        A folder with `options.json` and `*weights.hdf5`, or the path of its options; or a folder with
        `config.json` and `weights.th`, or an archive (`model.tar.gz`) of it. No code in a
        file is run.

    Returns
    -------
    ElmoModel
        In evaluation mode, with float32 weights on the CPU.
    """
    location = Path(path)
    if not os.fspath(path) or not location.exists():
        raise InputError(f"path must be a file or a folder that exists, but got {os.fspath(path)!r}.")
    options = _options(location)
    if options is not None:
        return read_bilstm(options, _one(_weights(options), options.parent, "weights (.hdf5)"))
    if is_archive(location) or (location / CONFIG).is_file():
        return read_transformer(location)
    if location.is_dir() and (several := _all_options(location)):
        _one(several, location, "options (options.json)")
    raise InputError(
        "path must be an ELMo, options.json with weights.hdf5 or config.json with weights.th, but got "
        f"{str(location)!r}."
    )


def _options(path: Path) -> Path | None:
    """Find the options of a biLSTM ELMo: the path itself, `options.json`, or the only `*options.json`."""
    if not path.is_dir():
        return path if path.name.endswith(OPTIONS) else None
    if (path / OPTIONS).is_file():
        return path / OPTIONS
    candidates = _all_options(path)
    return candidates[0] if len(candidates) == 1 else None


def _all_options(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob(f"*{OPTIONS}") if file.is_file())


def _weights(options: Path) -> list[Path]:
    """List the candidate files of weights: `*weights.hdf5` if there are any, else all HDF5 files."""
    namesake = options.with_name(options.name.removesuffix(OPTIONS) + "weights.hdf5")
    if namesake.is_file():
        return [namesake]
    candidates = sorted(file for file in options.parent.glob("*.hdf5") if file.is_file())
    return [file for file in candidates if file.name.endswith("weights.hdf5")] or candidates


def _one(candidates: list[Path], folder: Path, what: str) -> Path:
    if len(candidates) != 1:
        names = f"{len(candidates)}: {', '.join(file.name for file in candidates)}" if candidates else "none"
        raise InputError(f"{folder} must hold one file of {what}, but there are {names}.")
    return candidates[0]


def _is_transformer(path: Path) -> bool:
    content = glance(path)
    if content is None:
        return False
    try:
        options = parse_options(content, CONFIG)
    except InputError:
        return False
    kind = options.get("model.contextualizer.type", None)
    return kind == CONTEXTUALIZER or options.get("model.type", None) in MODELS
