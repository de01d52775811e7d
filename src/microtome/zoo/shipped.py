"""Small encoders on disk: saving of models, and those that come with the package."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..encoders.library import quiet
from ..encoders.locations import shipped_names, zoo_folder
from ..errors import InputError, must
from ..store.files import read_json, writing_weights
from .designs import DESIGNS
from .text import SPECIAL, TOKENIZER


def save_encoder(learner: Any, tokenizer: str, folder: str | Path) -> None:
    """
    Save an encoder with its pretraining head.

    Parameters
    ----------
    learner : Learner
    tokenizer : str
        As JSON.
    folder : path
    """
    import copy

    path = Path(folder)
    path.mkdir(parents=True, exist_ok=True)
    net: Any = copy.deepcopy(learner.net).float().cpu()
    with quiet(), writing_weights(path):
        net.save_pretrained(path)
    (path / TOKENIZER).write_text(tokenizer, encoding="utf-8")
    _, unknown, first, last, mask = SPECIAL
    config = {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_input_names": ["input_ids", "attention_mask"],
        "model_max_length": learner.design.length,
        "pad_token": SPECIAL[0],
        "unk_token": unknown,
        "cls_token": first,
        "sep_token": last,
        "mask_token": mask,
    }
    (path / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")


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
