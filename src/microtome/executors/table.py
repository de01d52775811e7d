"""The table of executors, with those of installed packages, and how one is opened."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import entry_points
from pkgutil import resolve_name
from types import MappingProxyType

from ..errors import MissingExtraError, unknown
from .base import Executor, ExecutorSettings


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorEntry:
    """
    One executor.

    Parameters
    ----------
    name : str
    path : str
        "module:class" of its class, which is made with `ExecutorSettings`.
    summary : str
        One sentence.
    extra : str, optional
        The extra of the package that it needs.
    """

    name: str
    path: str
    summary: str
    extra: str | None = None


_ALL = (
    ExecutorEntry(
        name="inline",
        path="microtome.executors.inline:InlineExecutor",
        summary="This process, one call after the other.",
    ),
    ExecutorEntry(
        name="processes",
        path="microtome.executors.processes:ProcessesExecutor",
        summary="Processes of this machine; small calls share its GPUs.",
    ),
    ExecutorEntry(
        name="slurm",
        path="microtome.executors.slurm:SlurmExecutor",
        summary="Job arrays of Slurm, submitted with submitit.",
        extra="slurm",
    ),
    ExecutorEntry(
        name="ray",
        path="microtome.executors.ray:RayExecutor",
        summary="Tasks of a Ray cluster, or of a local one.",
        extra="ray",
    ),
)
EXECUTORS: Mapping[str, ExecutorEntry] = MappingProxyType({entry.name: entry for entry in _ALL})


def open_executor(name: str, settings: ExecutorSettings) -> Executor:
    """
    Open an executor.

    Parameters
    ----------
    name : str
        Of `EXECUTORS`, or of the entry-point group `microtome.executors`.
    settings : ExecutorSettings

    Returns
    -------
    Executor
        To be closed, as by a `with` block.
    """
    if name in EXECUTORS:
        entry = EXECUTORS[name]
        try:
            return resolve_name(entry.path)(settings)
        except ModuleNotFoundError as error:
            raise MissingExtraError(
                f"the executor {name} must find {error.name}; try `pip install microtome[{entry.extra}]`."
            ) from error
    points = {point.name: point for point in entry_points(group="microtome.executors")}
    if name not in points:
        raise unknown("executor", name, [*EXECUTORS, *points])
    return points[name].load()(settings)
