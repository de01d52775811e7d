"""Series of checkpoints along one training run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..arguments import checked
from ..checks import check_distinct
from ..errors import InputError, must
from .encoder import Encoder
from .loading import load
from .locations import shipped_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Series:
    """
    Checkpoints of one training run, in order of their steps; each is loaded on demand.

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
        """Load one checkpoint by its index; options as in `load`."""
        folder, revision = self.folders[place], self.revisions[place]
        label = f"{self.name}-{self.steps[place]}"
        return load(self.source if folder is None else folder, revision=revision, name=label, **options)

    def __iter__(self) -> Iterator[Encoder]:
        return (self.load(index) for index in range(len(self)))


@checked
def series(source: str | os.PathLike[str], *, revisions: Sequence[str] | None = None) -> Series:
    """
    Find the checkpoints of one training run.

    Parameters
    ----------
    source : str or path
        A folder of folders whose names end in a step, such as `checkpoint-500`; or a hub id.
    revisions : sequence of str, optional
        Revisions on the hub, whose names end in a step, such as "step_500".

    Returns
    -------
    Series

    Examples
    --------
    >>> import microtome as mt
    >>> from pathlib import Path
    >>> for step in (500, 1000):
    ...     folder = Path("run", f"checkpoint-{step}")
    ...     folder.mkdir(parents=True)
    ...     _ = (folder / "config.json").write_text("{}")
    >>> mt.series("run").steps
    (500, 1000)
    """
    location = os.fspath(source)
    if shipped_name(location) is not None:
        raise InputError(
            "a series of checkpoints must be a folder (in Python also a hub id with revisions=), but "
            f"{location} is one encoder of the package, which comes without checkpoints along its training."
        )
    if revisions is not None:
        checkpoints = sorted((_step(name), name, None) for name in revisions)
    else:
        parent = Path(location)
        if not parent.is_dir():
            raise must(
                "a series of checkpoints",
                "a folder that exists (in Python also a hub id with revisions=)",
                location,
            )
        folders = [f for f in parent.iterdir() if f.is_dir() and (f / "config.json").is_file()]
        checkpoints = sorted((_step(f.name), None, f) for f in folders if re.search(r"\d+$", f.name))
        seeds = [f.name for _, _, f in checkpoints if re.fullmatch(r"seed[-_]?\d+", f.name)]
        if seeds:
            raise InputError(
                f"a series must be of one training, but {location} holds several; give one of them, such as "
                f"{parent / seeds[0]}."
            )
    if not checkpoints:
        raise InputError(f"{location} must hold checkpoints whose names end in a step, but there is none.")
    steps = [step for step, _, _ in checkpoints]
    check_distinct(f"steps of {location}", steps)
    return Series(
        name=Path(location).name,
        steps=tuple(steps),
        folders=tuple(folder for _, _, folder in checkpoints),
        source=location,
        revisions=tuple(revision for _, revision, _ in checkpoints),
    )


def _step(name: str) -> int:
    if not isinstance(name, str):
        raise must("a revision", "a string", name)
    match = re.search(r"(\d+)$", name)
    if match is None:
        raise must("a checkpoint's name", "one that ends in its step", name)
    return int(match[1])
