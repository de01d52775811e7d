"""Which layers does a probe read? Each alone, all up to it, or all of them, mixed with learned weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ...errors import InputError, must, unknown
from ...findings.words import number
from ...probes.dataset import Probed
from ...probes.mixing import center_of_gravity, expected_layer
from ...probes.table import PROBES, Probe
from ...probes.targets import Annotated

# What a user says, and what probes call it.
LAYERS: Mapping[str, str] = MappingProxyType({"single": "layers", "upto": "prefixes", "mix": "mix"})
_NAMES = {"single": "", "upto": " (layers 0 to l)", "mix": " (all layers)"}


def called(name: str, kind: str) -> str:
    """
    What the curve of a model is called.

    Examples
    --------
    >>> called("bert", "single"), called("bert", "upto")
    ('bert', 'bert (layers 0 to l)')
    """
    return f"{name}{_NAMES[kind]}"


def check_kinds(layers: str | Sequence[str]) -> tuple[str, ...]:
    """Take one name of `LAYERS` or several, each once."""
    found = (layers,) if isinstance(layers, str) else tuple(layers)
    for kind in found:
        if kind not in LAYERS:
            raise unknown("choice of layers", kind, LAYERS)
    if not found or len(set(found)) < len(found):
        raise must("layers", "one name or more, each once", list(found))
    return found


def find_probe(
    annotated: Annotated,
    wanted: str | None,
    kinds: Sequence[str],
    control: bool,
    *,
    seeds: Sequence[int] = (0,),
    steps: int | None = None,
    size: int | None = None,
) -> Probe:
    """
    Take the probe that is wanted, or the usual one of a target, and refuse what it cannot do.

    Parameters
    ----------
    annotated : Annotated
    wanted : str, optional
        A name of `PROBES`.
    kinds : sequence of str
        Names of `LAYERS`.
    control : bool
    seeds : sequence of int
    steps, size : int, optional

    Returns
    -------
    Probe
    """
    target = annotated.target
    able = {name: one for name, one in PROBES.items() if target.kind in (one.kind, *one.also)}
    if wanted is None:
        found = next(one for one in able.values() if one.kind == target.kind)
    elif wanted not in able:
        raise unknown(f"probe of {target.name}", wanted, able)
    else:
        found = able[wanted]
    if control and not found.control:
        raise InputError(f"a control must be of labels of words or spans, but {target.name} has none.")
    if len(seeds) > 1 and not found.seeded:
        raise InputError(
            f"seeds must be one for the {found.name} probe of {target.name}, which nothing is drawn for, but "
            f"got {', '.join(map(str, seeds))}."
        )
    if steps is not None and not found.stepped:
        raise InputError(
            f"steps must be those of an edge probe, but {target.name} is read by a {found.name} one."
        )
    if size is not None and not found.sized:
        raise InputError(
            f"size must be that of a linear probe, but {target.name} is read by a {found.name} one."
        )
    if not found.mixes and list(kinds) != ["single"]:
        other = next((one.name for one in able.values() if one.mixes), None)
        way = "" if other is None else f"; the probe {other} can mix them"
        raise InputError(
            f"layers must be 'single' for the {found.name} probe of {target.name}, which reads one at a "
            f"time, but got {', '.join(kinds)}{way}."
        )
    return found


def mix_facts(every: Mapping[str, Mapping[str, Probed]]) -> dict[str, Any]:
    """
    How much of each layer is in the mix of all of them, averaged over seeds.

    Parameters
    ----------
    every : mapping of str to mapping of str to Probed
        By kind and curve.

    Returns
    -------
    dict
        `mix`: for each curve that ends with all layers its shares, their center of gravity, and for "upto"
        the layer at which the target is read on average; nothing where no layers are mixed.
    """
    told: dict[str, Any] = {}
    for kind, found in every.items():
        for name, one in found.items():
            if one.shares:
                told[name] = {"shares": list(one.shares[-1]), "center": _center(one)}
            if kind == "upto":
                told[name]["expected_layer"] = _expected(one)
    return {"mix": told} if told else {}


def mix_findings(found: Mapping[str, Probed], names: Sequence[str], kind: str) -> list[str]:
    """
    Say which layers a mix of all of them reads, and at which layer a target is read on average.

    Parameters
    ----------
    found : mapping of str to Probed
    names : sequence of str
        Of curves, without the random twin.
    kind : str
        A name of `LAYERS`.

    Returns
    -------
    list of str
    """
    said = []
    for name in names:
        one = found[name]
        if not one.shares:
            continue
        shares = np.array(one.shares[-1])
        most = int(shares.argmax())
        most_of, even = (f"{number(100 * share, 0)}%" for share in (shares[most], 1 / len(shares)))
        said.append(
            f"{name}: the mix of all layers reads layer {number(_center(one), 1)} on average, and most of "
            f"layer {most}, {most_of} (an even mix has {even})."
        )
        expected = _expected(one) if kind == "upto" else None
        # Where layers take away what others add, the mean can lie outside of all of them, and tells nothing.
        if expected is not None and 0 <= expected <= one.x[-1]:
            said.append(
                f"{name}: by what each further layer adds, it is read at layer {number(expected, 1)} on "
                "average."
            )
    return said


def _center(one: Probed) -> float:
    return float(center_of_gravity(one.shares[-1]))


def _expected(one: Probed) -> float | None:
    """Over the mean of all seeds; None where layers above 0 add nothing."""
    scores = [
        np.mean([one.score.compute(each, answers.targets, one.labels) for each in answers.predictions])
        for answers in one.answers
    ]
    # Where layers take away more than they add, the mean of what they add is of nothing.
    added = scores[-1] - scores[0]
    if added <= 0 if one.score.higher_is_better else added >= 0:
        return None
    value = float(expected_layer(scores))
    return value if np.isfinite(value) else None
