"""How does a model change while it is trained? Its checkpoints, as one object."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import InputError, must
from .encoder import Encoder
from .loading import load
from .shipped import shipped_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """
    Checkpoints of one training, in the order of their steps; each is loaded when it is asked for.

    Parameters
    ----------
    name : str
    steps : tuple of int
    folders : tuple of Path, or of None where the checkpoint is a revision on the hub
    source : str
        The folder or hub id.
    revisions : tuple of str or None
    """

    name: str
    steps: tuple[int, ...]
    folders: tuple[Path | None, ...]
    source: str
    revisions: tuple[str | None, ...]

    def __len__(self) -> int:
        return len(self.steps)

    def load(self, place: int, **options: Any) -> Encoder:
        """Load one checkpoint by its place; options as in `load`."""
        folder, revision = self.folders[place], self.revisions[place]
        label = f"{self.name}-{self.steps[place]}"
        return load(self.source if folder is None else folder, revision=revision, name=label, **options)

    def __iter__(self) -> Iterator[Encoder]:
        return (self.load(place) for place in range(len(self)))


def series(source: str | os.PathLike[str], *, revisions: Sequence[str] | None = None) -> Series:
    """
    Find the checkpoints of one training.

    Parameters
    ----------
    source : str or path
        A folder of folders whose names end in a step, such as `checkpoint-500`; or a hub id.
    revisions : sequence of str, optional
        Revisions on the hub, whose names end in a step, such as "step_500".

    Returns
    -------
    Series
    """
    given = os.fspath(source)
    if shipped_name(given) is not None:
        raise InputError(
            f"a series must be a folder of checkpoints, or a hub id with revisions=, but {given} is one "
            "encoder of the package, which comes without checkpoints along its training."
        )
    if revisions is not None:
        found = sorted((_step(name), name, None) for name in revisions)
    else:
        place = Path(given)
        if not place.is_dir():
            raise must("a series", "a folder of checkpoints, or a hub id with revisions=", given)
        folders = [f for f in place.iterdir() if f.is_dir() and (f / "config.json").is_file()]
        found = sorted((_step(f.name), None, f) for f in folders if re.search(r"\d+$", f.name))
        seeds = [f.name for _, _, f in found if re.fullmatch(r"seed[-_]?\d+", f.name)]
        if seeds:
            raise InputError(
                f"a series must be of one training, but {given} holds several; give one of them, such as "
                f"{place / seeds[0]}."
            )
    if not found:
        raise InputError(f"{given} must hold checkpoints whose names end in a step, but there is none.")
    steps = [step for step, _, _ in found]
    twice = sorted({step for step in steps if steps.count(step) > 1})
    if twice:
        raise InputError(f"steps of {given} must differ, but {twice[0]} stands twice.")
    return Series(
        name=Path(given).name,
        steps=tuple(steps),
        folders=tuple(folder for _, _, folder in found),
        source=given,
        revisions=tuple(revision for _, revision, _ in found),
    )


def _step(name: str) -> int:
    match = re.search(r"(\d+)$", name)
    if match is None:
        raise must("a checkpoint's name", "one that ends in its step", name)
    return int(match[1])
