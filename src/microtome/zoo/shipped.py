"""The small encoders that come with the package, with their cards."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..encoders.shipped import shipped_names, zoo_folder
from ..errors import InputError, must
from ..store.reading import read_json
from .designs import DESIGNS

FORMAT = "microtome/zoo-card/1"
CARD = "card.json"
# Facts of a card that `ls zoo` lists.
LISTED = (
    *("name", "title", "objective", "seed", "steps", "tokens", "loss"),
    *("license", "sha256", "parameters", "bytes", "held_out", "scores"),
)


def shipped() -> Mapping[str, Mapping[str, Any]]:
    """
    Read the cards of the encoders that come with the package.

    Returns
    -------
    mapping of str to mapping
        The listed facts of each card, in the order of the designs, others after them; empty if no encoder
        is installed.
    """
    available = shipped_names()
    names = [name for name in DESIGNS if name in available]
    names += [name for name in available if name not in DESIGNS]
    return MappingProxyType({name: _listed(zoo_folder() / name) for name in names})


def read_card(folder: str | Path) -> dict[str, Any]:
    """Read the card in a folder; raise if it is not a card."""
    path = Path(folder) / CARD
    card = read_json(path)
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        got = card.get("format") if isinstance(card, dict) else type(card).__name__
        raise must(f"the format of {path}", FORMAT, got)
    return card


def _listed(folder: Path) -> dict[str, Any]:
    card = read_card(folder)
    try:
        return {key: card[key] for key in LISTED} | {"name": folder.name}
    except KeyError as error:
        raise InputError(f"{folder / CARD} must tell {error.args[0]}, but it does not.") from error
