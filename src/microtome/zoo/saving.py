"""How is a small encoder kept? As an ordinary folder of the library, with its tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..encoders.telling import quiet
from .text import SPECIAL, TOKENIZER


def save_encoder(learner: Any, tokenizer: str, folder: str | Path) -> Path:
    """
    Save an encoder with the head of its own pretraining.

    Parameters
    ----------
    learner : Learner
    tokenizer : str
        As JSON.
    folder : path

    Returns
    -------
    Path
        The folder.
    """
    import copy

    place = Path(folder)
    place.mkdir(parents=True, exist_ok=True)
    net: Any = copy.deepcopy(learner.net).float().cpu()
    with quiet():
        net.save_pretrained(place)
    (place / TOKENIZER).write_text(tokenizer, encoding="utf-8")
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
    (place / "tokenizer_config.json").write_text(json.dumps(config, indent=1) + "\n")
    return place
