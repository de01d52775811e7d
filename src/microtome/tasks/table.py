"""Table of the task cards, and aliases of their names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
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


def _folder() -> Traversable:
    return files("microtome.tasks").joinpath("cards")


class _Cards(Mapping[str, Card]):
    """The cards of the package; each file is read once, on demand."""

    def __init__(self) -> None:
        self._read: dict[str, Card] = {}
        self._names: tuple[str, ...] = ()

    def __getitem__(self, name: str) -> Card:
        if name not in self._read:
            if name not in tuple(self):
                raise KeyError(name)
            file = _folder().joinpath(f"{name}.toml")
            self._read[name] = read_card(file.read_text(encoding="utf-8"), f"{name}.toml")
        return self._read[name]

    def __iter__(self) -> Iterator[str]:
        if not self._names:
            filenames = (file.name for file in _folder().iterdir())
            self._names = tuple(sorted(n.removesuffix(".toml") for n in filenames if n.endswith(".toml")))
        return iter(self._names)

    def __len__(self) -> int:
        return len(tuple(iter(self)))


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
