"""Packaging of a pretraining run for distribution: float16 weights and a card."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from zoo_cards import write_card

from microtome.encoders.locations import WEIGHTS
from microtome.errors import InputError
from microtome.zoo.pretraining import RUN
from microtome.zoo.text import TOKENIZER

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
    Package a finished run: weights in float16, configuration, tokenizer and a card.

    The configuration still declares float32, so that the library computes in float32.

    Parameters
    ----------
    run : path
        The folder of `pretrain`.
    folder : path
        The output folder; its name is that of the encoder.
    license : str, optional
        The license of the weights, as the hub names licenses.
    corpus : mapping, optional
        `name` and `license` of the text; its digest comes from the run.
    device : str, optional
        A description of the machine; by default that of the run.
    command : str, optional
        The command that reproduces it; by default that of the run.

    Returns
    -------
    Path
        The folder.

    Raises
    ------
    InputError
        If the run failed or was interrupted.
    """
    source, path = Path(run), Path(folder)
    try:
        record = json.loads((source / RUN).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{source} must be the folder of a pretraining, but got: {error}.") from error
    if record["failure"] is not None:
        raise InputError(f"{source} must hold a run that succeeded, but it failed: {record['failure']}.")
    path.mkdir(parents=True, exist_ok=True)
    for name in PLAIN:
        shutil.copyfile(source / name, path / name)
    halve(source / WEIGHTS, path / WEIGHTS)
    write_card(
        path,
        design=record["design"],
        seed=record["seed"],
        license=license,
        corpus={**(corpus or {}), "digest": record["text"]},
        steps=record["updates"],
        tokens=record["tokens"],
        loss=round(record["losses"][-1][1], 4),
        seconds=record["seconds"],
        device=record["device"] if device is None else device,
        torch=record["torch"],
        command=record["command"] if command is None else command,
    )
    return path


def halve(source: Path, target: Path) -> None:
    """Convert weights to float16; raise if they exceed its range."""
    import torch
    from safetensors.torch import load_file, save_file

    halved = {
        name: tensor.half() if tensor.is_floating_point() else tensor
        for name, tensor in load_file(source).items()
    }
    for name, tensor in halved.items():
        if not torch.isfinite(tensor).all():
            raise InputError(
                f"weights must lie within the range of float16, but {name} of {source} does not."
            )
    save_file(halved, target, metadata={"format": "pt"})
