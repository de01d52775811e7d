"""Saving of a small encoder as a standard folder of transformers, with its tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ..encoders.load_errors import quiet
from ..store.files import writing_weights
from .text import TOKENIZER
from .wordpiece import SPECIAL


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
