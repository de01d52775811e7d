"""Where are the encoders that come with the package? In folders of their own, which "zoo:NAME" stands for."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from ..errors import InputError, unknown

SCHEME = "zoo:"
VARIABLE = "MICROTOME_ZOO"
WEIGHTS = "model.safetensors"
# Data of the package, beside the modules that make such encoders.
INSIDE = Path(__file__).parent.parent / "zoo" / "encoders"


def zoo_folder() -> Path:
    """
    Say where the encoders lie.

    Returns
    -------
    Path
        Where the environment variable MICROTOME_ZOO says it, for encoders of one's own; else in the package.
    """
    said = os.environ.get(VARIABLE)
    return Path(said) if said else INSIDE


def shipped_names() -> tuple[str, ...]:
    """Name the encoders that are there, in the order of the alphabet; none where the folder is absent."""
    place = zoo_folder()
    if not place.is_dir():
        return ()
    return tuple(sorted(one.name for one in place.iterdir() if (one / "config.json").is_file()))


def shipped_name(given: str) -> str | None:
    """
    Take the name out of what a user typed.

    Examples
    --------
    >>> shipped_name("zoo:masked")
    'masked'
    >>> shipped_name("roberta-base") is None
    True
    """
    return given.removeprefix(SCHEME) if given.startswith(SCHEME) else None


def find_folder(given: str) -> Path | None:
    """
    Find the folder of an encoder that comes with the package.

    Parameters
    ----------
    given : str
        Such as "zoo:masked".

    Returns
    -------
    Path or None
        None for what does not begin with "zoo:".
    """
    name = shipped_name(given)
    if name is None:
        return None
    known = shipped_names()
    if not known:
        raise InputError(
            f"{given} must be an encoder that comes with the package, but none is in {zoo_folder()}: it was "
            f"installed without them, or {VARIABLE} names another folder."
        )
    # Only what is listed: a name never leads out of the folder.
    if name not in known:
        raise unknown("encoder of the zoo", name, known)
    return zoo_folder() / name


def weights_digest(folder: Path) -> str:
    """Hash the file of the weights, by SHA-256."""
    place = folder / WEIGHTS
    try:
        with place.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{folder} must hold {WEIGHTS}, but got: {error}.") from error
