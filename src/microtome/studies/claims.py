"""Claims of papers as data: what was published, the statistic that tests it, and what counts as holding."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..checks import real_number, whole_number
from ..errors import InputError, must, unknown
from ..experiments.citations import CITATIONS
from ..store.address import digest
from ..store.files import disk
from .statistics.table import REQUIRED, STATISTICS
from .tables import check_keys, check_types, names_in, read_toml, types_of
from .values import NOTHING

PAPERS = files("microtome.studies").joinpath("papers")
FILE = "claims.toml"


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyClaim:
    """
    A claim that a study tests.

    Parameters
    ----------
    id : str
    statement : str
        In plain words.
    published : str or float
        What the source states, in words or as a number.
    source : str
        Key of a citation, and the place in it.
    experiment : str
        Name of a table of the study, or of a role, or a verb.
    statistic : str
        A name of the table `STATISTICS`.
    arguments : mapping
        Of the statistic.
    least, most : float
        The claim holds where the whole interval lies between them.
    within, apart : float, optional
        In place of them: how far from the published number at most, or from 0 at least.
    reading : str
        How words of the source were made into numbers.
    models, against, tasks : tuple of str
        Which take part; all when empty. With `against` the statistic is the difference from the first of
        those that a study has, task by task.
    untrained : bool
        Whether it reads no trained model, so that scores of models do not matter.
    beside : str
        The other experiment, of a statistic of two.
    """

    id: str
    statement: str
    source: str
    experiment: str
    statistic: str
    published: str | float = ""
    arguments: Mapping[str, Any] = field(default_factory=lambda: NOTHING)
    least: float = -math.inf
    most: float = math.inf
    within: float | None = None
    apart: float | None = None
    reading: str = ""
    models: tuple[str, ...] = ()
    against: tuple[str, ...] = ()
    tasks: tuple[str, ...] = ()
    untrained: bool = False
    beside: str = ""

    @property
    def holds_where(self) -> str:
        """What counts as holding, in words."""
        if self.within is not None:
            return f"within {self.within:g}"
        if self.least > self.most:
            return f"{self.least:g} from 0 or more"
        if math.isinf(self.least):
            return f"at most {self.most:g}"
        if math.isinf(self.most):
            return f"at least {self.least:g}"
        return f"from {self.least:g} to {self.most:g}"

    def document(self) -> dict[str, Any]:
        """Convert to data for JSON, in which an open bound becomes None."""
        lists = {name: list(getattr(self, name)) for name in ("models", "against", "tasks")}
        return {f.name: getattr(self, f.name) for f in fields(self)} | lists


def read_claim(document: Mapping[str, Any]) -> StudyClaim:
    """Build a claim from the output of `StudyClaim.document`, read from JSON."""
    lists = {name: tuple(document[name]) for name in ("models", "against", "tasks")}
    bounds = {"least": -math.inf, "most": math.inf}
    bounds |= {name: document[name] for name in bounds if document[name] is not None}
    return StudyClaim(**{**document, **lists, **bounds})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimSet:
    """
    The claims of a paper.

    Parameters
    ----------
    name : str
    version : int
    digest : str
        Of the content: the claims are fixed before anything is run.
    roles : mapping of str to tuple of str
        Names of models, tasks or tables in studies, by the name that claims have for them.
    claims : tuple of StudyClaim
    """

    name: str
    version: int
    digest: str
    roles: Mapping[str, tuple[str, ...]]
    claims: tuple[StudyClaim, ...]

    def expand(self, names: Sequence[str]) -> tuple[str, ...]:
        """The names in a study that some names of a claim stand for."""
        return tuple(dict.fromkeys(one for name in names for one in self.roles.get(name, (name,))))


def shipped_claims() -> tuple[str, ...]:
    """Names of the papers whose claims come with the package."""
    return tuple(sorted(folder.name for folder in PAPERS.iterdir() if folder.joinpath(FILE).is_file()))


def read_claims(source: str | os.PathLike[str] | Sequence[Mapping[str, Any]]) -> ClaimSet:
    """
    Read claims.

    Parameters
    ----------
    source : str, path or sequence of mapping
        A name of `microtome ls claims`, a TOML file, or the claims themselves.

    Returns
    -------
    ClaimSet
    """
    if not isinstance(source, str | os.PathLike):
        return claims_of({"claims": list(source)}, "the study")
    text = os.fspath(source)
    if text in shipped_claims():
        content, where = PAPERS.joinpath(text, FILE).read_bytes(), text
    elif os.path.isfile(text):
        with disk(Path(text)):
            content, where = Path(text).read_bytes(), text
    elif text.endswith(".toml") or "/" in text:
        raise must("claims", "a file that exists, or a name of `microtome ls claims`", text)
    else:
        raise unknown("claims", text, shipped_claims())
    return claims_of(read_toml(content, where), where)


def claims_of(table: Mapping[str, Any], where: str) -> ClaimSet:
    """
    Make claims of plain data, as a file of claims has them.

    Parameters
    ----------
    table : mapping
        With `claims`, and optionally `version`, `source`, `roles`. A claim with `cells` stands for one claim
        per cell, which adds to or replaces what the claim has; words in braces are filled in from the cell.
    where : str
        Its name in error messages.

    Returns
    -------
    ClaimSet
    """
    check_keys(table, ("version", "source", "roles", "claims"), where, "")
    check_types(table, {"source": "str", "roles": "Mapping[str, Any]"}, where)
    records, roles, source = table.get("claims", ()), table.get("roles", {}), table.get("source", "")
    if not isinstance(records, list | tuple):
        raise must(f"claims in {where}", "a list of tables", records)
    claims = [_claim(cell, where, source) for record in records for cell in _cells(record, where)]
    ids = [claim.id for claim in claims]
    twice = sorted({one for one in ids if ids.count(one) > 1})
    if twice:
        raise InputError(
            f"claims of {where} must have ids of their own, but {', '.join(twice)} is there twice."
        )
    return ClaimSet(
        name=where,
        version=whole_number(f"version in {where}", table.get("version", 1), 0),
        digest=digest(json.dumps(table, sort_keys=True, default=str).encode())[:12],
        roles=MappingProxyType({name: names_in(roles, name, where, "roles.") for name in roles}),
        claims=tuple(claims),
    )


_KEYS = tuple(f.name for f in fields(StudyClaim))
_NEEDED = ("id", "statement", "experiment", "statistic")
_BOUNDS = {"least": None, "most": None, "within": 0.0, "apart": 0.0}
_LISTS = ("models", "against", "tasks")


def _cells(record: Any, where: str) -> list[dict[str, Any]]:
    """The claim, or one for each of its cells."""
    name = str(record.get("id", "?")) if isinstance(record, Mapping) else "?"
    check_keys(record, (*_KEYS, "cells"), where, f"claims.{name}.")
    check_types(record, {"arguments": "Mapping[str, Any]"}, where, f"claims.{name}.")
    if "cells" not in record:
        return [dict(record)]
    if not isinstance(record["cells"], list | tuple):
        raise must(f"claims.{name}.cells in {where}", "a list of tables", record["cells"])
    shared = {key: value for key, value in record.items() if key != "cells"}
    out = []
    for cell in record["cells"]:
        check_keys(cell, cell, where, f"claims.{name}.cells.")
        check_types(cell, {"arguments": "Mapping[str, Any]"}, where, f"claims.{name}.cells.")
        own = {key: value for key, value in cell.items() if key in _KEYS and key != "arguments"}
        extra = {key: value for key, value in cell.items() if key not in _KEYS}
        merged = _filled({**shared, **own}, extra)
        out.append({**merged, "arguments": {**merged.get("arguments", {}), **cell.get("arguments", {})}})
    return out


def _filled(value: Any, words: Mapping[str, Any]) -> Any:
    """Fill words in braces in; one that is a whole text keeps its type."""
    if isinstance(value, str):
        if value[:1] == "{" and value[-1:] == "}" and value[1:-1] in words:
            return words[value[1:-1]]
        for name, word in words.items():
            value = value.replace(f"{{{name}}}", str(word))
        return value
    if isinstance(value, Mapping):
        return {name: _filled(part, words) for name, part in value.items()}
    return [_filled(part, words) for part in value] if isinstance(value, list) else value


def _claim(record: Mapping[str, Any], where: str, source: str) -> StudyClaim:
    name = f"claims.{record.get('id', '?')}"
    for key in _NEEDED:
        if not isinstance(record.get(key), str) or not record[key]:
            raise InputError(f"{name} in {where} must have a text as {key}, but got {record.get(key)!r}.")
    statistic = record["statistic"]
    if statistic not in STATISTICS:
        raise unknown(f"the statistic of {name} in {where}", statistic, STATISTICS)
    check_types(record, {"source": "str"}, where, f"{name}.")
    place = " ".join(filter(None, (source, record.get("source", ""))))
    key = place.partition(" ")[0]
    if key and key not in CITATIONS:
        raise unknown(f"the source of {name} in {where}", key, CITATIONS)
    lists = {key: names_in(record, key, where, f"{name}.") for key in _LISTS}
    bounds = {
        key: real_number(f"{name}.{key} in {where}", record[key], least)
        for key, least in _BOUNDS.items()
        if key in record
    }
    if isinstance(record.get("published", ""), int | float):
        real_number(f"{name}.published in {where}", record["published"])
    check_types(record, types_of(StudyClaim), where, f"{name}.")
    numbers = {key: value for key, value in bounds.items() if key in ("least", "most")}
    claim = StudyClaim(**{**record, **lists, **bounds, "source": place})
    _check_arguments(claim, f"{name}.arguments", where)
    if claim.within is not None:
        if not isinstance(claim.published, int | float) or numbers:
            raise InputError(
                f"{name} in {where} must have a published number, and no other bound, for `within`."
            )
        return replace(claim, least=claim.published - claim.within, most=claim.published + claim.within)
    if claim.apart is not None and not numbers:
        return replace(claim, least=claim.apart, most=-claim.apart)
    if not numbers:
        raise InputError(f"{name} in {where} must have a bound: least, most, within or apart.")
    return claim


def _check_arguments(claim: StudyClaim, name: str, where: str) -> None:
    """Refuse arguments that the statistic does not take, and a claim without one that it needs."""
    statistic = STATISTICS[claim.statistic]
    check_keys(claim.arguments, [parameter.name for parameter in statistic.parameters], where, f"{name}.")
    if statistic.pairs != bool(claim.beside):
        needs = "name the other experiment as beside" if statistic.pairs else "have no beside"
        raise InputError(f"{name.removesuffix('.arguments')} in {where} must {needs}, for {claim.statistic}.")
    for parameter in statistic.parameters:
        if parameter.default is parameter.empty and parameter.name not in claim.arguments:
            raise InputError(f"{name} in {where} must have {parameter.name}, which {claim.statistic} needs.")
    kinds = {parameter.name: str(parameter.annotation) for parameter in statistic.parameters}
    check_types(claim.arguments, kinds, where, f"{name}.")
    for key, allowed in statistic.allowed.items():
        value = claim.arguments.get(key)
        if isinstance(value, Mapping):
            check_keys(value, list(allowed), where, f"{name}.{key}.")
            for part, choices in allowed.items():
                if part in REQUIRED and part not in value and key != "minus":
                    raise InputError(f"{name}.{key} in {where} must have {part}.")
                if isinstance(choices, str):
                    check_types(value, {part: choices}, where, f"{name}.{key}.")
                elif part in value and value[part] not in list(choices):
                    raise unknown(f"{name}.{key}.{part} in {where}", value[part], map(str, choices))
        elif value is not None and value not in list(allowed):
            raise unknown(f"{name}.{key} in {where}", value, map(str, allowed))
