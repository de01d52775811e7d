"""Table of the task cards, and aliases of their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from types import MappingProxyType

from .card import Card, read_card

# Aliases; case, blanks, hyphens and underscores are ignored.
ALIASES: Mapping[str, str] = MappingProxyType(
    {
        "conll2003": "ner",
        "cosmos": "cosmosqa",
        "ewt": "ewt-parsing",
        "lm": "language-modeling",
        "mnlimatched": "mnli",
        "parsing": "ewt-parsing",
        "semeval": "semeval2010-8",
        "semeval2010task8": "semeval2010-8",
        "siqa": "socialiqa",
        "squad1": "squad",
        "squad1.1": "squad",
        "squad2.0": "squad2",
        "squadv1": "squad",
        "squadv1.1": "squad",
        "squadv2": "squad2",
        "sst": "sst2",
        "upos": "ewt-upos",
        "wikitext": "language-modeling",
        "xpos": "ewt-xpos",
        "yelppolarity": "yelp",
    }
)


@cache
def _card_names() -> tuple[str, ...]:
    filenames = (file.name for file in files("microtome.tasks").joinpath("cards").iterdir())
    return tuple(sorted(name.removesuffix(".toml") for name in filenames if name.endswith(".toml")))


@cache
def _card(name: str) -> Card:
    file = files("microtome.tasks").joinpath("cards", f"{name}.toml")
    return read_card(file.read_text(encoding="utf-8"), f"{name}.toml")


class _Cards(Mapping[str, Card]):
    """The cards of the package; each file is read once, on demand."""

    def __getitem__(self, name: str) -> Card:
        if name not in _card_names():
            raise KeyError(name)
        return _card(name)

    def __iter__(self) -> Iterator[str]:
        return iter(_card_names())

    def __len__(self) -> int:
        return len(_card_names())


TASKS: Mapping[str, Card] = _Cards()


def names() -> tuple[str, ...]:
    """
    List the names of all tasks: those with cards, then generated ones.

    Returns
    -------
    tuple of str
    """
    from .generated.table import GENERATED

    return (*TASKS, *GENERATED)


def resolve(name: str) -> str | None:
    """
    Resolve a name or alias of a task to its name in the table, or None.

    Parameters
    ----------
    name : str

    Returns
    -------
    str or None

    Examples
    --------
    >>> resolve("SST-2")
    'sst2'
    """
    if name in TASKS:
        return name
    plain = _plain(name)
    for task_name in TASKS:
        if _plain(task_name) == plain:
            return task_name
    return ALIASES.get(plain)


def _plain(name: str) -> str:
    return "".join(c for c in name.lower() if c not in "-_ ")
