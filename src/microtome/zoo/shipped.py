"""The small encoders that come with the package, with their cards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..encoders.shipped import SCHEME, find_folder, shipped_name, shipped_names, zoo_folder
from ..errors import InputError
from .cards import CARD, read_card
from .designs import DESIGNS


@dataclass(frozen=True, slots=True, kw_only=True)
class Shipped:
    """
    An encoder that comes with the package, as described by its card.

    Parameters
    ----------
    name : str
        It is loaded as `zoo:NAME`.
    folder : Path
    title, objective : str
        The pretraining objective.
    seed, steps : int
        The seed and the updates of its pretraining.
    tokens : int, optional
        The number of tokens read.
    loss : float, optional
        The final loss.
    license : str, optional
        The license of the weights.
    digest : str
        SHA-256 of `model.safetensors`.
    parameters, bytes : int
        Number and size of the weights.
    held_out : mapping, optional
        Accuracy on held-out text, and that of the unigram baseline.
    scores : mapping of str to mapping
        By task, compared with a randomly initialized copy.
    """

    name: str
    folder: Path
    title: str
    objective: str
    seed: int
    steps: int
    tokens: int | None
    loss: float | None
    license: str | None
    digest: str
    parameters: int
    bytes: int
    held_out: Mapping[str, Any] | None = None
    scores: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))


def shipped() -> Mapping[str, Shipped]:
    """
    Find the encoders that come with the package.

    Returns
    -------
    mapping of str to Shipped
        In the order of the designs, others after them; empty if none is installed.
    """
    available = shipped_names()
    names = [name for name in DESIGNS if name in available]
    names += [name for name in available if name not in DESIGNS]
    return MappingProxyType({name: _read(zoo_folder() / name) for name in names})


def find_shipped(name: str) -> Shipped:
    """
    Find an encoder that comes with the package.

    Parameters
    ----------
    name : str
        Such as "masked" or "zoo:masked".

    Returns
    -------
    Shipped
    """
    folder = find_folder(name if shipped_name(name) is not None else f"{SCHEME}{name}")
    assert folder is not None
    return _read(folder)


def _read(folder: Path) -> Shipped:
    card = read_card(folder)
    try:
        held_out = card["held_out"]
        return Shipped(
            name=folder.name,
            folder=folder,
            title=card["title"],
            objective=card["objective"],
            seed=card["seed"],
            steps=card["steps"],
            tokens=card["tokens"],
            loss=card["loss"],
            license=card["license"],
            digest=card["sha256"],
            parameters=card["parameters"],
            bytes=card["bytes"],
            held_out=None if held_out is None else MappingProxyType(held_out),
            scores=MappingProxyType(card["scores"]),
        )
    except KeyError as error:
        raise InputError(f"{folder / CARD} must tell {error.args[0]}, but it does not.") from error
