"""Which measures are there? The table, the papers' names, and how a user's words become a choice."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import MappingProxyType
from typing import Any

from ..errors import InputError, must, unknown
from .attention import ATTENTION_MEASURES
from .cca import CCA, PWCCA, SVCCA
from .cka import DEBIASED_CKA, LINEAR_CKA
from .declare import Chosen, Measure, choose, parse
from .kernels import RBF_CKA
from .neighbors import MUTUAL_KNN
from .neurons import NEURON_CORRELATION
from .procrustes import PROCRUSTES
from .regression import LINEAR_REGRESSION, MIXED_REGRESSION
from .rsa import RSA

MEASURES: Mapping[str, Measure] = MappingProxyType(
    {
        measure.name: measure
        for measure in (
            LINEAR_CKA,
            DEBIASED_CKA,
            RBF_CKA,
            CCA,
            SVCCA,
            PWCCA,
            NEURON_CORRELATION,
            MIXED_REGRESSION,
            LINEAR_REGRESSION,
            RSA,
            PROCRUSTES,
            MUTUAL_KNN,
            *ATTENTION_MEASURES,
        )
    }
)

# The names of Wu et al. 2020, for what the paper defines. Its code differs: it standardizes neurons and keeps
# a component less (`svcca:scaling=standardize:inclusive=false`, `pwcca:variant=wu`).
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "neuronsim": "neuron_correlation",
        "mixedsim": "mixed_regression",
        "svsim": "svcca",
        "pwsim": "pwcca:variant=svcca",
        "ckasim": "linear_cka",
    }
)


@cache
def plugged_in() -> Mapping[str, Measure]:
    """Measures of installed packages, from the entry-point group `microtome.measures`."""
    from importlib.metadata import entry_points

    found: dict[str, Measure] = {}
    for point in entry_points(group="microtome.measures"):
        measure = point.load()
        if not isinstance(measure, Measure):
            raise must(f"the entry point {point.name}", "a microtome Measure", type(measure).__name__)
        if measure.name in MEASURES or measure.name in ALIASES:
            raise InputError(
                f"a plugged-in measure must have a name of its own, but {point.value} is called "
                f"{measure.name!r}, which the package has."
            )
        found[measure.name] = measure
    return MappingProxyType(found)


class Everything(Mapping[str, Measure]):
    """The package's measures and those that are plugged in, which are looked for when they are asked for."""

    def __getitem__(self, name: str) -> Measure:
        # The package's own are found even where a plugged-in one cannot be loaded.
        return MEASURES[name] if name in MEASURES else plugged_in()[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*MEASURES, *plugged_in()])

    def __len__(self) -> int:
        return len(MEASURES) + len(plugged_in())

    def __repr__(self) -> str:
        return f"<{len(self)} measures: {', '.join(self)}>"


EVERYTHING: Mapping[str, Measure] = Everything()


def find(name: str) -> Measure:
    """Look a measure up by its name or a paper's name for it."""
    full = ALIASES[name].split(":")[0] if name in ALIASES else name
    if full in MEASURES:
        return MEASURES[full]
    others = plugged_in()
    if full in others:
        return others[full]
    raise unknown("measure", name, [*MEASURES, *ALIASES, *others])


def chosen(given: str | Measure | Chosen, options: Mapping[str, Any] | None = None) -> Chosen:
    """
    Turn what a user wrote into a measure with all its options.

    Parameters
    ----------
    given : str, Measure or Chosen
        "svcca", "svcca:scaling=standardize", a measure of one's own, or a finished choice.
    options : mapping, optional
        More options, which win over those in the text.

    Examples
    --------
    >>> chosen("svsim:inclusive=false").label
    'svcca:inclusive=False'
    >>> chosen("pwsim").label
    'pwcca:variant=svcca'
    """
    if isinstance(given, Chosen):
        return choose(given.measure, {**given.options, **(options or {})})
    if isinstance(given, Measure):
        return choose(given, options)
    if not isinstance(given, str):
        raise must("a measure", "a name or a Measure", type(given).__name__)
    name, written = parse(given)
    _, meant = parse(ALIASES.get(name, ""))
    return choose(find(name), {**meant, **written, **(options or {})})


def chosen_all(given: str | Measure | Chosen | Iterable[str | Measure | Chosen]) -> list[Chosen]:
    """Choose several measures, each once; a text may list them with commas."""
    if isinstance(given, str):
        given = [part for part in given.split(",") if part.strip()]
    elif isinstance(given, (Measure, Chosen)):
        given = [given]
    found = {choice.label: choice for choice in (chosen(item) for item in given)}
    if not found:
        raise InputError("measures must name at least one measure, but got none.")
    return list(found.values())
