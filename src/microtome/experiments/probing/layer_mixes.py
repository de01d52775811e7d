"""Inputs of probes: every single layer, all up to it, or all of them, mixed with learned weights."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError, unknown
from ...findings.words import number
from ...probes.dataset import Probed
from ...probes.mixing import center_of_gravity, expected_layer
from ...probes.table import PROBES, Probe
from ...probes.targets import Annotated

if TYPE_CHECKING:
    from .probing import Probing

# By the name of a user, and that of `microtome.probes.mixing`.
LAYERS: Mapping[str, str] = MappingProxyType({"single": "layers", "upto": "prefixes", "mix": "mix"})
_NAMES = {"single": "", "upto": " (layers 0 to l)", "mix": " (all layers)"}


def called(name: str, kind: str) -> str:
    """
    Name the curve of a model.

    Examples
    --------
    >>> called("bert", "single"), called("bert", "upto")
    ('bert', 'bert (layers 0 to l)')
    """
    return f"{name}{_NAMES[kind]}"


def find_probe(annotated: Annotated, experiment: Probing) -> Probe:
    """
    Take the probe of an experiment, or the default one of its target, and refuse what it does not support.

    Parameters
    ----------
    annotated : Annotated
    experiment : Probing

    Returns
    -------
    Probe
    """
    target, seeds = annotated.target, experiment.probe_seeds
    able = {name: probe for name, probe in PROBES.items() if target.kind in (probe.kind, *probe.also)}
    if experiment.probe is None:
        probe = next(probe for probe in able.values() if probe.kind == target.kind)
    elif experiment.probe not in able:
        raise unknown(f"probe of {target.name}", experiment.probe, able)
    else:
        probe = able[experiment.probe]
    subject = f"the {probe.name} probe of {target.name}"
    if experiment.control_task and not probe.control:
        raise InputError(f"a control task must be of labels of words or spans, but {target.name} has none.")
    if len(seeds) > 1 and not probe.seeded:
        raise InputError(
            f"seeds must be one for {subject}, which is deterministic, but got {', '.join(map(str, seeds))}."
        )
    if experiment.steps is not None and not probe.stepped:
        raise InputError(f"steps must be those of an edge probe, but {target.name} has a {probe.name} one.")
    if experiment.size is not None and not probe.sized:
        raise InputError(f"size must be that of a linear probe, but {target.name} has a {probe.name} one.")
    if not probe.mixes and list(experiment.layers) != ["single"]:
        mixing = next((name for name, candidate in able.items() if candidate.mixes), None)
        hint = "" if mixing is None else f"; the probe {mixing} can mix them"
        raise InputError(
            f"layers must be 'single' for {subject}, which reads one at a time, but got "
            f"{', '.join(experiment.layers)}{hint}."
        )
    return probe


def mix_facts(targets: Mapping[str, Mapping[str, Probed]]) -> dict[str, Any]:
    """
    The weight of each layer in the mix of all of them, averaged over seeds.

    Parameters
    ----------
    targets : mapping of str to mapping of str to Probed
        By kind and curve.

    Returns
    -------
    dict
        `mix`: for each curve that ends with all layers its weights, their center of gravity, and for "upto"
        the expected layer; nothing where no layers are mixed.
    """
    facts: dict[str, Any] = {}
    for kind, probed in targets.items():
        for name, result in probed.items():
            if result.shares:
                facts[name] = {"shares": list(result.shares[-1]), "center": _center(result)}
            if kind == "upto":
                facts[name]["expected_layer"] = _expected(result)
    return {"mix": facts} if facts else {}


def mix_findings(probed: Mapping[str, Probed], names: Sequence[str], kind: str) -> list[str]:
    """
    Say which layers a mix of all of them reads, and the expected layer of a target.

    Parameters
    ----------
    probed : mapping of str to Probed
    names : sequence of str
        Of curves, without the random baseline.
    kind : str
        A name of `LAYERS`.

    Returns
    -------
    list of str
    """
    findings = []
    for name in names:
        result = probed[name]
        if not result.shares:
            continue
        shares = np.array(result.shares[-1])
        most = int(shares.argmax())
        largest, even = (f"{number(100 * share, 0)}%" for share in (shares[most], 1 / len(shares)))
        findings.append(
            f"{name}: the center of gravity of the mix of all layers is layer {number(_center(result), 1)}; "
            f"layer {most} has the largest weight, {largest} (an even mix has {even})."
        )
        expected = _expected(result) if kind == "upto" else None
        # Where layers lower the score, the mean can lie outside of all of them and means nothing.
        if expected is not None and 0 <= expected <= result.x[-1]:
            findings.append(
                f"{name}: its expected layer, by what each further layer adds, is {number(expected, 1)}."
            )
    return findings


def _center(result: Probed) -> float:
    return float(center_of_gravity(result.shares[-1]))


def _expected(result: Probed) -> float | None:
    """Over the mean of all seeds; None where layers above 0 add nothing."""
    scores = [
        np.mean(
            [
                result.score.compute(predicted, answers.targets, result.labels)
                for predicted in answers.predictions
            ]
        )
        for answers in result.answers
    ]
    # Where layers lower the score more than they raise it, the mean of what they add is undefined.
    added = scores[-1] - scores[0]
    if added <= 0 if result.score.higher_is_better else added >= 0:
        return None
    value = float(expected_layer(scores))
    return value if np.isfinite(value) else None
