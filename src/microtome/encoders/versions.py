"""Provenance of a result: the keys that every result has, and the versions that computed it."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from importlib import metadata
from typing import Any

from ..lazy import torch
from ..version import VERSION

LIBRARIES = ("torch", "transformers", "numpy", "scipy")


def versions() -> dict[str, str]:
    """
    Return the versions of the libraries that run models, without importing them.

    Returns
    -------
    dict of str to str
        Keyed by the names used in every result.
    """
    core_versions = {"microtome": VERSION, "python": platform.python_version()}
    return core_versions | {name: metadata.version(name) for name in LIBRARIES}


def provenance(facts: Mapping[str, Any]) -> dict[str, Any]:
    """
    Collect what is needed to reproduce a result, with the keys that every result has.

    Parameters
    ----------
    facts : mapping of str to object
        Facts from the command. A single `model` or `seed` is also listed under `models` and `seeds`; threads
        are those of torch, and other keys are empty by default.

    Returns
    -------
    dict
        The keys that every result has first, then the other facts.
    """
    common = {
        **versions(),
        "models": [facts["model"]] if "model" in facts else [],
        "seeds": [facts["seed"]] if "seed" in facts else [],
        "device": "cpu",
        "threads": torch.get_num_threads(),
        "seconds": None,
        "command": "",
    }
    return {**common, **facts}
