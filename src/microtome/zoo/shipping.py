"""How does a run become an encoder that is given away? As a small folder, with a card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ..encoders.shipped import WEIGHTS
from ..errors import InputError
from .cards import write_card
from .pretraining import RUN
from .text import TOKENIZER

PLAIN = ("config.json", "tokenizer_config.json", TOKENIZER)


def ship(
    run: str | Path,
    folder: str | Path,
    *,
    license: str | None = None,
    corpus: Mapping[str, Any] | None = None,
    device: str | None = None,
    command: str | None = None,
) -> Path:
    """
    Make a small folder of a finished run: weights in float16, configuration, tokenizer and a card.

    The configuration goes on saying float32, so that the library computes in float32.

    Parameters
    ----------
    run : path
        The folder of `pretrain`.
    folder : path
        The encoder is called after it.
    license : str, optional
        Of the weights, as the hub names licenses.
    corpus : mapping, optional
        `name` and `license` of the text; its digest is known.
    device : str, optional
        The machine, in words; what the run says when absent.
    command : str, optional
        What makes it again; what the run says when absent.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        Where the run failed or was stopped: such an encoder is not given away.
    """
    source, place = Path(run), Path(folder)
    try:
        told = json.loads((source / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{source} must be the folder of a pretraining, but got: {error}.") from error
    if told["failure"] is not None:
        raise InputError(f"{source} must hold a run that succeeded, but it failed: {told['failure']}.")
    place.mkdir(parents=True, exist_ok=True)
    for name in PLAIN:
        shutil.copyfile(source / name, place / name)
    halve(source / WEIGHTS, place / WEIGHTS)
    write_card(
        place,
        design=told["design"],
        seed=told["seed"],
        license=license,
        corpus={**(corpus or {}), "digest": told["text"]},
        steps=told["updates"],
        tokens=told["tokens"],
        loss=round(told["losses"][-1][1], 4),
        seconds=told["seconds"],
        device=told["device"] if device is None else device,
        torch=told["torch"],
        command=told["command"] if command is None else command,
    )
    return place


def halve(source: Path, target: Path) -> None:
    """Write weights in float16, or say that they do not fit into it."""
    import torch
    from safetensors.torch import load_file, save_file

    halved = {name: one.half() if one.is_floating_point() else one for name, one in load_file(source).items()}
    for name, one in halved.items():
        if not torch.isfinite(one).all():
            raise InputError(
                f"weights must lie within the range of float16, but {name} of {source} does not."
            )
    save_file(halved, target, metadata={"format": "pt"})
