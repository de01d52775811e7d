"""Records of a task from the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ..corpora.hub import SCHEME, HubRows, prepare
from ..errors import InputError
from .card import Hub


class HubRecords:
    """
    The rows of a split of a dataset on the hub, reread on each iteration.

    Parameters
    ----------
    hub : Hub
    split : str
        The task's name of the split.
    folder : str, optional
        A folder in the form of the hub, to be read instead.
    revision : str, optional
        The user's choice of a commit, tag or branch.
    """

    def __init__(self, hub: Hub, split: str, *, folder: str = "", revision: str | None = None) -> None:
        self._hub, self._split, self._folder, self._revision = hub, split, folder, revision
        self._rows: Any = None
        self.path = Path(folder) if folder else None
        self.skipped = 0

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        hub = self._hub
        revision = None if self._folder else self._revision or hub.revision or hub.branch or None
        options = {"config": hub.config or None, "split": hub.splits[self._split], "revision": revision}
        self._rows = HubRows(prepare(f"{SCHEME}{self._folder or hub.id}", options))
        return iter(self._rows)

    def refuse(self, must: str, but: str) -> InputError:
        """Return the error about the current row."""
        if self._rows is None:
            return InputError(f"{self._folder or self._hub.id} must {must}, but {but}.")
        return self._rows.refuse(must, but)
