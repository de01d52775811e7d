"""Locations and names of models; "zoo:NAME" addresses the encoders that come with the package."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from ..errors import InputError, unknown

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
    Name models by the ends of their paths, with as many folders as make the names differ.

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
    short = [(Path(source).name or source).removeprefix("zoo:") for source in sources]
    # One folder can be written in several ways.
    models = [os.path.abspath(source) if os.path.isdir(source) else source for source in sources]
    folders = [[part for part in Path(source).parts if part != Path(source).anchor] for source in sources]
    labels, parts = short, 2
    while len(set(labels)) < len(set(models)) and parts <= max(map(len, folders)):
        labels = [
            label if labels.count(label) == 1 else "-".join(folder[-parts:])
            for label, folder in zip(labels, folders, strict=True)
        ]
        parts += 1
    for keys in (models, labels):
        twice = [label for label, key in zip(short, keys, strict=True) if keys.count(key) > 1]
        if twice:
            raise InputError(f"names of models must differ, but {twice[0]!r} stands twice.")
    return labels
