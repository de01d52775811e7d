"""Which probes are there? All of them, by name, with what they ask for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

from .asking import Asked, Probed
from .targets import Kind

Run = Callable[[Asked, Any], Probed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """
    A way to read something out of every layer.

    Parameters
    ----------
    name : str
    about : str
    kind : {"words", "spans", "trees"}
        Of the targets that it reads, where nobody chooses a probe.
    also : tuple of {"words", "spans", "trees"}
        Kinds that it can read too.
    mixes : bool
        Whether it can read several layers, mixed with weights that it learns.
    stepped : bool
        Whether one can say how many updates it takes at most.
    sized : bool
        Whether it can be held to some principal components of a layer.
    seeded : bool
        Whether it begins at random, so that several seeds tell something.
    control : bool
        Whether labels drawn at random for each type of word or span can be asked for instead.
    subword : {"last", "mean", "each"}
        What it reads of a word that a model cuts into several.
    cites : str
    module : str
        That has the function `probe_<kind>`.
    """

    name: str
    about: str
    kind: Kind
    seeded: bool
    control: bool
    subword: str
    cites: str
    module: str
    also: tuple[Kind, ...] = ()
    mixes: bool = False
    stepped: bool = False
    sized: bool = False

    def function(self) -> Run:
        """Import the function `run(asked, X)`, which reads all layers at once."""
        return getattr(import_module(f".{self.module}", __package__), f"probe_{self.kind}")


_ALL = (
    Probe(
        name="linear",
        about="multinomial logistic regression to convergence, its penalty chosen on training words "
        "that were held out",
        kind="words",
        seeded=False,
        control=True,
        subword="last",
        cites="hewitt2019control",
        module="wordprobe",
        sized=True,
    ),
    Probe(
        name="edge",
        about="a projection, self-attentive pooling of spans and a small network, as published",
        kind="spans",
        seeded=True,
        control=True,
        subword="each",
        cites="tenney2019",
        module="spanprobe",
        also=("words",),
        mixes=True,
        stepped=True,
    ),
    Probe(
        name="structural",
        about="a linear map under which squared distances are distances in the tree",
        kind="trees",
        seeded=True,
        control=False,
        subword="mean",
        cites="hewitt2019structural",
        module="treeprobe",
    ),
)
PROBES: Mapping[str, Probe] = MappingProxyType({one.name: one for one in _ALL})
