"""Registry of probes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import Any

from .dataset import Asked, Probed
from .targets import Kind

Run = Callable[[Asked, Any], Probed]


@dataclass(frozen=True, slots=True, kw_only=True)
class Probe:
    """
    A probe that can be trained on every layer.

    Parameters
    ----------
    name : str
    about : str
    kind : {"words", "spans", "trees"}
        Kind of targets for which it is the default probe.
    also : tuple of {"words", "spans", "trees"}
        Other kinds of targets that it supports.
    mixes : bool
        Whether it supports mixes of several layers with learned weights.
    stepped : bool
        Whether its maximum number of updates can be set.
    sized : bool
        Whether it can be restricted to the first principal components of a layer.
    seeded : bool
        Whether it has a random initialization, so that several seeds are meaningful.
    control : bool
        Whether it supports control tasks, with random labels for each word or span type.
    subword : {"last", "mean", "each"}
        How the subword tokens of a word are combined.
    cites : str
    module : str
        Module of the function `probe_<kind>`.
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
        """Import the function `run(asked, X)`, which probes all layers."""
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
        module="edge.probe",
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
        module="structural.probe",
    ),
)
PROBES: Mapping[str, Probe] = MappingProxyType({probe.name: probe for probe in _ALL})
