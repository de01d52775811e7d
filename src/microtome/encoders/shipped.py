"""Locations of the encoders that come with the package, addressed as "zoo:NAME"."""

from __future__ import annotations

import hashlib
import os
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
