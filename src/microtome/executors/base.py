"""What an executor is: it starts calls somewhere and says which have ended."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

from ..arguments import check_value
from ..errors import must
from ..store.address import is_address
from ..store.layout import StoreLayout, find_store

# Plain JSON, with the address in the store that its outcome will have.
Call = Mapping[str, Any]
State = Literal["done", "failed", "lost"]
PERFORM = "microtome.experiments.calls:perform"
_BYTES = {"K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """
    What one call needs.

    Parameters
    ----------
    cpus : int
    gpus : float
        A fraction lets several small calls share a GPU.
    memory : str
        Such as "4GB".
    minutes : int
        On Slurm, it is ended after this time, and goes on later from its last saved state.

    Examples
    --------
    >>> Resources(memory="512MB").bytes
    536870912
    """

    cpus: int = 1
    gpus: float = 0.0
    memory: str = "4GB"
    minutes: int = 60

    def __post_init__(self) -> None:
        if self.cpus < 1:
            raise must("cpus", "at least 1", self.cpus)
        if not (0 <= self.gpus <= 1 or (self.gpus > 1 and self.gpus == int(self.gpus))):
            raise must("gpus", "between 0 and 1, or a whole number", self.gpus)
        if self.minutes < 1:
            raise must("minutes", "at least 1", self.minutes)
        _ = self.bytes

    @property
    def bytes(self) -> int:
        """The memory in bytes."""
        parts = re.fullmatch(r"(\d+(?:\.\d+)?) ?([KMGT])i?B?", self.memory, re.IGNORECASE)
        if parts is None:
            raise must("memory", "a number with a unit, such as 4GB", self.memory)
        return int(float(parts[1]) * _BYTES[parts[2].upper()])

    @property
    def sentence(self) -> str:
        """What is needed, in words."""
        return f"{self.cpus} CPUs, {self.gpus:g} GPUs and {self.memory}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """
    How a call ended.

    Parameters
    ----------
    address : str
    state : {"done", "failed", "lost"}
        "lost" when its worker died without an answer: nobody knows whether the call would have succeeded.
    message : str
        One sentence on a failure.
    seconds : float
    broken : bool
        Whether its process can perform no other call, as after an error of a GPU.
    """

    address: str
    state: State
    message: str = ""
    seconds: float = 0.0
    broken: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorSettings:
    """
    Settings of all executors; each reads those that concern it.

    Parameters
    ----------
    store : path, optional
        The folder of the store, which all workers must see; see `find_store`.
    workers : int, optional
        The most calls at once; as many as CPUs and memory allow here, or as a cluster takes, when absent.
    gpus : int, optional
        How many GPUs of this machine `processes` may use; all when absent.
    folder : path, optional
        For logs and files of jobs, seen by all workers; `jobs` in the store when absent.
    ray_address : str, optional
        That of a Ray cluster; one is started here when absent.
    partition : str, optional
        That of Slurm.
    pack : int
        How many calls make up one job of Slurm.
    slurm : mapping
        Further parameters of jobs, in the words of submitit: account, qos, constraint, setup and others.
    perform : str
        "module:function", which is called with a call and a `Context` that names the store.
    """

    store: str | os.PathLike[str] | None = None
    workers: int | None = None
    gpus: int | None = None
    folder: str | os.PathLike[str] | None = None
    ray_address: str | None = None
    partition: str | None = None
    pack: int = 1
    slurm: Mapping[str, Any] = field(default_factory=dict)
    perform: str = PERFORM

    def __post_init__(self) -> None:
        for entry in fields(self):
            check_value(entry.name, str(entry.type), getattr(self, entry.name))
        for name, least in (("workers", 1), ("pack", 1), ("gpus", 0)):
            number = getattr(self, name)
            if number is not None and number < least:
                raise must(name, f"at least {least}", number)

    @property
    def root(self) -> Path:
        """The folder of the store, absolute."""
        return find_store(self.store).absolute()

    @property
    def jobs(self) -> Path:
        """The folder for logs and files of jobs, absolute."""
        return self.root / "jobs" if self.folder is None else Path(self.folder).absolute()


class Executor(ABC):
    """
    Runs calls; owns workers, which end with the block.

    Parameters
    ----------
    settings : ExecutorSettings
    """

    def __init__(self, settings: ExecutorSettings) -> None:
        self.settings = settings
        StoreLayout(root=settings.root).make()
        settings.jobs.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def check(self, resources: Resources) -> None:  # noqa: B027 - most cannot say beforehand
        """Raise if no worker can ever have what a call needs."""

    @abstractmethod
    def submit(self, calls: Sequence[Call], resources: Resources) -> None:
        """
        Take calls to be performed, and return at once.

        Parameters
        ----------
        calls : sequence of mapping
            Of `calls_of`, each with an address.
        resources : Resources
            What each of them needs.
        """

    @abstractmethod
    def outcomes(self, timeout: float) -> list[Outcome]:
        """
        Wait for the next calls to end.

        Parameters
        ----------
        timeout : float
            The most seconds to wait for the first one.

        Returns
        -------
        list of Outcome
            Of calls that have ended since; empty where none did, or none is left.
        """

    @abstractmethod
    def close(self) -> None:
        """End the workers; what they are at is interrupted, and can be resumed."""


def check_calls(calls: Sequence[Call]) -> None:
    """Raise if a call has no address."""
    for call in calls:
        if not isinstance(call, Mapping) or not is_address(call.get("address")):
            raise must("a call for an executor", "an object with an address", call)
