"""Table of the measures, their aliases from papers, and the parsing of a user's choice."""

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

# The names of Wu et al. 2020, for the definitions in the paper. Its code differs: it standardizes neurons or
# heads and keeps one component less (`svcca:scaling=standardize:inclusive=false`, `pwcca:variant=wu`).
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "neuronsim": "neuron_correlation",
        "mixedsim": "mixed_regression",
        "svsim": "svcca",
        "pwsim": "pwcca:variant=svcca",
        "ckasim": "linear_cka",
        # Measures of attention, with one of three similarities of heads.
        "attnsim": "attention_js",
        "attnsim_norm": "attention_norm",
        "attnsim_pearson": "attention_pearson",
        "attnsim_js": "attention_js",
        "attention_svsim": "attention_svcca",
        "attention_pwsim": "attention_pwcca:variant=svcca",
        "attention_ckasim": "attention_cka",
    }
)


@cache
def plugged_in() -> Mapping[str, Measure]:
    """Return the measures of installed packages, from the entry-point group `microtome.measures`."""
    from importlib.metadata import entry_points

    measures: dict[str, Measure] = {}
    for point in entry_points(group="microtome.measures"):
        measure = point.load()
        if not isinstance(measure, Measure):
            raise must(f"the entry point {point.name}", "a microtome Measure", type(measure).__name__)
        if measure.name in MEASURES or measure.name in ALIASES:
            raise InputError(
                f"a plugged-in measure must have a name of its own, but {point.value} is called "
                f"{measure.name!r}, which the package has."
            )
        measures[measure.name] = measure
    return MappingProxyType(measures)


class Everything(Mapping[str, Measure]):
    """The package's measures and the plugged-in ones, which are loaded on demand."""

    def __getitem__(self, name: str) -> Measure:
        # The package's measures are available even where a plugged-in one cannot be loaded.
        return MEASURES[name] if name in MEASURES else plugged_in()[name]

    def __iter__(self) -> Iterator[str]:
        return iter([*MEASURES, *plugged_in()])

    def __len__(self) -> int:
        return len(MEASURES) + len(plugged_in())

    def __repr__(self) -> str:
        return f"<{len(self)} measures: {', '.join(self)}>"


EVERYTHING: Mapping[str, Measure] = Everything()


def find(name: str) -> Measure:
    """Look up a measure by its name or by a paper's name for it."""
    full_name = ALIASES[name].split(":")[0] if name in ALIASES else name
    if full_name not in EVERYTHING:
        raise unknown("measure", name, [*MEASURES, *ALIASES, *plugged_in()])
    return EVERYTHING[full_name]


def chosen(measure: str | Measure | Chosen, options: Mapping[str, Any] | None = None) -> Chosen:
    """
    Convert a user's choice to a measure with all its options.

    Parameters
    ----------
    measure : str, Measure or Chosen
        "svcca", "svcca:scaling=standardize", a custom measure, or a measure with its options.
    options : mapping, optional
        Further options, which override those in the text.

    Examples
    --------
    >>> chosen("svsim:inclusive=false").label
    'svcca:inclusive=False'
    >>> chosen("pwsim").label
    'pwcca:variant=svcca'
    """
    if isinstance(measure, Chosen):
        return choose(measure.measure, {**measure.options, **(options or {})})
    if isinstance(measure, Measure):
        return choose(measure, options)
    if not isinstance(measure, str):
        raise must("a measure", "a name or a Measure", type(measure).__name__)
    name, written = parse(measure)
    _, alias_options = parse(ALIASES.get(name, ""))
    return choose(find(name), {**alias_options, **written, **(options or {})})


def chosen_all(measures: str | Measure | Chosen | Iterable[str | Measure | Chosen]) -> list[Chosen]:
    """Convert a user's choice to a list of distinct measures; a text may separate them by commas."""
    if isinstance(measures, str):
        measures = [part for part in measures.split(",") if part.strip()]
    elif isinstance(measures, (Measure, Chosen)):
        measures = [measures]
    elif not isinstance(measures, Iterable):
        raise must("measures", "names of measures", type(measures).__name__)
    choices = {choice.label: choice for choice in (chosen(item) for item in measures)}
    if not choices:
        raise InputError("measures must name at least one measure, but got none.")
    return list(choices.values())
