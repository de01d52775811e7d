"""Conversion of records into the examples of a task."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from hashlib import blake2b
from types import MappingProxyType
from typing import Any

from ..errors import InputError
from .card import Card, Form
from .task import Item

_NUMBERED = re.compile("(.+)-[0-9]+")


def joined(texts: list[tuple[str, ...]]) -> list[str]:
    """
    Group examples that share any text, directly or transitively.

    Parameters
    ----------
    texts : list of (tuple of str)
        The texts of each example that link it to others.

    Returns
    -------
    list of str
        A digest of the first text of each example's group.
    """
    root: dict[str, str] = {}

    def top(text: str) -> str:
        path = []
        while root[text] != text:
            path.append(text)
            text = root[text]
        for member in path:
            root[member] = text
        return text

    order: dict[str, int] = {}
    for row in texts:
        for text in row:
            root.setdefault(text, text)
            order.setdefault(text, len(order))
        tops = sorted({top(text) for text in row}, key=order.__getitem__)
        for merged in tops[1:]:
            root[merged] = tops[0]
    return [blake2b(top(row[0]).encode("utf-8", "surrogatepass"), digest_size=8).hexdigest() for row in texts]


def documents(items: list[Item]) -> list[Item]:
    """Group sentences by the document in their ids."""
    names = [match[1] if (match := _NUMBERED.fullmatch(item.id)) else item.id for item in items]
    # Ids made of the name of the split and a number do not identify documents.
    if len(set(names)) < 2:
        return items
    return [replace(item, group=name) for item, name in zip(items, names, strict=True)]


Record = Mapping[str, Any]
Refuse = Callable[[str, str], InputError]

# Values of hidden labels in the sources.
_HIDDEN = ("", "-1", "-1.0", "None")
_DOCUMENT = ("tags", "tree")

_CLEAN: Mapping[str, Callable[[str], str]] = MappingProxyType(
    {
        "strip": str.strip,
        "newlines": lambda text: text.replace("\\n", "\n"),
        "quotes": lambda text: text.replace('""', '"'),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Shaping:
    """
    The settings for the conversion of the records of one split.

    Parameters
    ----------
    card : Card
    form : Form
        The form of the records.
    labels : tuple of str
        Those of the card, or those that were collected from the data.
    split : str
    refuse : callable
        `refuse(must, but)` returns the error about the current record.
    joined : bool
        HellaSwag: whether context and ending are joined as in its preprocessed files.
    """

    card: Card
    form: Form
    labels: tuple[str, ...]
    split: str
    refuse: Refuse
    joined: bool = False

    @property
    def hidden(self) -> bool:
        """Whether labels may be missing."""
        return self.split in self.card.hidden

    def value(self, record: Record, column: str) -> Any:
        """Return the value of a required column."""
        if column not in record:
            raise self.refuse(f"have the column {column!r}", f"its columns are {', '.join(record)}")
        return record[column]

    def text(self, record: Record, role: str) -> str:
        """Return the text of a role, joined over its columns."""
        return " ".join(self._text(record, column) for column in self.form.columns[role])

    def _text(self, record: Record, column: str) -> str:
        value = self.value(record, column)
        if not isinstance(value, str):
            raise self.refuse(f"have a text in the column {column!r}", f"got {value!r}")
        return self.cleaned(value)

    def cleaned(self, text: str) -> str:
        """Apply the cleaning steps of the card to a text."""
        for name in self.form.clean:
            text = _CLEAN[name](text)
        return text

    def several(self, record: Record, role: str) -> list[str]:
        """Return the texts of a role: those of a list, or those of several columns."""
        column, *extra_columns = self.form.columns[role]
        if extra_columns:
            return [self._text(record, name) for name in (column, *extra_columns)]
        values = self.value(record, column)
        if not isinstance(values, (list, tuple)) or not values:
            raise self.refuse(f"have a list in the column {column!r}", f"got {values!r}")
        return ["_" if value is None else str(value) for value in values]

    def label(self, record: Record) -> str | None:
        """Return the name of the label, or None if it is hidden."""
        if "label" not in self.form.columns:
            return None
        column = self.form.columns["label"][0]
        if self.hidden and column not in record:
            return None
        raw = as_label(self.value(record, column))
        if self.hidden and raw in _HIDDEN:
            return None
        return self.form.labels.get(raw, raw)

    def number(self, name: str) -> int:
        """Return the number of a label."""
        index = _places(self.labels).get(name)
        if index is None:
            raise self.refuse(f"have one of the labels {', '.join(self.labels)}", f"got {name!r}")
        return index


def as_label(value: Any) -> str:
    """Convert a label of any type to text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value).strip()


def shape(records: Iterable[Record], how: Shaping) -> tuple[tuple[Item, ...], int]:
    """
    Convert the records of a split into examples.

    Parameters
    ----------
    records : iterable of mappings
    how : Shaping

    Returns
    -------
    items : tuple of Item
    skipped : int
        The number of examples left out for their label.
    """
    items: list[Item] = []
    texts: list[tuple[str, ...]] = []
    skipped = 0
    form, kind = how.form, how.card.shape
    group = form.columns.get("group", ())
    for record in _stream(records, how):
        if form.skip and how.label(record) in form.skip:
            skipped += 1
            continue
        name = f"{how.split}-{len(items)}"
        if "id" in form.columns:
            name = str(how.value(record, form.columns["id"][0]))
        items.append(_SHAPE[kind](record, how, name))
        texts.append(tuple(how.cleaned(str(how.value(record, column))) for column in group))
    if group:
        items = [replace(item, group=name) for item, name in zip(items, joined(texts), strict=True)]
    elif kind in _DOCUMENT:
        items = documents(items)
    return tuple(items), skipped


def collect_labels(form: Form, splits: Mapping[str, Iterable[Record]]) -> tuple[str, ...]:
    """
    Collect the labels of words: those of the training split, sorted, then those only in other splits.

    Parameters
    ----------
    form : Form
    splits : mapping of str to records

    Returns
    -------
    tuple of str
    """
    column, heads = form.columns["label"][0], form.columns.get("heads", ("",))[0]
    names: dict[str, None] = {}
    for split in sorted(splits, key=lambda name: (name != "train", name)):
        split_labels: set[str] = set()
        for record in splits[split]:
            values = record.get(column) or ()
            positions = _real(record.get(heads), len(values))
            split_labels.update("_" if values[i] is None else str(values[i]) for i in positions)
        names.update(dict.fromkeys(sorted(split_labels)))
    return tuple(names)


def _stream(records: Iterable[Record], how: Shaping) -> Iterator[Record]:
    if how.card.shape != "lines":
        yield from records
        return
    # A blank line ends a document, in files and in rows from the hub.
    document = 0
    column = how.form.columns["text"][0]
    for record in records:
        if how.cleaned(str(how.value(record, column))).strip():
            yield {**record, "document": str(document)}
        else:
            document += 1


def _texts(record: Record, how: Shaping, name: str) -> Item:
    texts = (how.text(record, "text"), *((how.text(record, "pair"),) if "pair" in how.form.columns else ()))
    label = how.label(record)
    if label is None:
        return Item(id=name, texts=texts)
    if how.card.kind != "regression":
        return Item(id=name, texts=texts, target=how.number(label))
    try:
        # The hub stores single precision; the original numbers have at most a few digits.
        target = round(float(label), 6)
    except ValueError as problem:
        raise how.refuse(
            f"have a number in the column {how.form.columns['label'][0]!r}", f"got {label!r}"
        ) from problem
    limits = how.card.range
    if limits is not None and not limits[0] <= target <= limits[1]:
        raise how.refuse(f"have a number between {limits[0]} and {limits[1]}", f"got {target}")
    return Item(id=name, texts=texts, target=target)


def _right(record: Record, how: Shaping, choices: int) -> int | None:
    label = how.label(record)
    if label is None:
        return None
    index = how.number(label)
    if index >= choices:
        raise how.refuse(f"have a label among its {choices} choices", f"got {label!r}")
    return index


def _choices(record: Record, how: Shaping, name: str) -> Item:
    first = how.text(record, "text")
    before = f"{how.text(record, 'before')} " if "before" in how.form.columns else ""
    endings = how.several(record, "choices")
    choices = tuple((first, f"{before}{ending}".lstrip() if before else ending) for ending in endings)
    return Item(id=name, choices=choices, target=_right(record, how, len(choices)))


def _hellaswag(record: Record, how: Shaping, name: str) -> Item:
    if not how.joined:
        return _choices(record, how, name)
    endings = how.several(record, "choices")
    if "ctx_a" in record:
        context = plain_context(record["ctx_a"], record["ctx_b"])
        endings = [without_marks(ending) for ending in endings]
    else:
        context = how.value(record, "ctx")
    choices = tuple((context, ending) for ending in endings)
    return Item(id=name, choices=choices, target=_right(record, how, len(choices)))


def _span(record: Record, how: Shaping, name: str) -> Item:
    texts = (how.text(record, "question"), how.text(record, "passage"))
    answers = how.value(record, how.form.columns["answers"][0])
    if answers is None:
        return Item(id=name, texts=texts)
    try:
        pairs = zip(answers["answer_start"], answers["text"], strict=True)
        target = tuple((int(start), str(text)) for start, text in pairs)
    except (KeyError, TypeError, ValueError, OverflowError) as problem:
        raise how.refuse("have answers with text and answer_start", f"got {answers!r}") from problem
    for start, text in target:
        if texts[1][start : start + len(text)] != text:
            raise how.refuse(
                f"have the answer {text!r} at character {start} of the passage of {name}",
                f"{texts[1][start : start + len(text)]!r} stands there",
            )
    return Item(id=name, texts=texts, target=target)


def _real(heads: Any, count: int) -> list[int]:
    """Return the positions of real words: multiword tokens and empty nodes have no head."""
    if not heads:
        return list(range(count))
    return [i for i, head in enumerate(heads) if head not in (None, "None", "_")]


def _words(record: Record, how: Shaping) -> tuple[tuple[str, ...], list[str], list[int]]:
    words, tags = how.several(record, "words"), how.several(record, "label")
    heads = how.value(record, how.form.columns["heads"][0]) if "heads" in how.form.columns else None
    if len(tags) != len(words) or (heads is not None and len(heads) != len(words)):
        raise how.refuse(f"have a label for each of its {len(words)} words", f"it has {len(tags)}")
    positions = _real(heads, len(words))
    if not positions:
        raise how.refuse("have a head for its words", "it has none")
    return tuple(words[i] for i in positions), [tags[i] for i in positions], positions


def _tags(record: Record, how: Shaping, name: str) -> Item:
    words, tags, _ = _words(record, how)
    if how.card.shape == "entities":
        tags = begun(tags)
    return Item(id=name, words=words, target=tuple(how.number(tag) for tag in tags))


def begun(tags: list[str]) -> list[str]:
    """Convert IOB1 to IOB2: every entity begins with B-."""
    converted: list[str] = []
    for i, tag in enumerate(tags):
        before = tags[i - 1][2:] if i and tags[i - 1] != "O" else ""
        converted.append(f"B-{tag[2:]}" if tag.startswith("I-") and before != tag[2:] else tag)
    return converted


def _tree(record: Record, how: Shaping, name: str) -> Item:
    words, relations, positions = _words(record, how)
    heads = how.value(record, how.form.columns["heads"][0])
    try:
        numbers = [int(heads[i]) for i in positions]
    except ValueError as problem:
        raise how.refuse("have numbers as heads", f"got {heads!r}") from problem
    if not all(0 <= head <= len(words) for head in numbers):
        raise how.refuse(f"have heads between 0 and {len(words)}", f"got {numbers}")
    target = tuple((h, how.number(r)) for h, r in zip(numbers, relations, strict=True))
    return Item(id=name, words=words, target=target)


def _lines(record: Record, how: Shaping, name: str) -> Item:
    return Item(id=name, texts=(how.text(record, "text"),), group=f"{how.split}/{record['document']}")


@lru_cache(maxsize=8)
def _places(labels: tuple[str, ...]) -> Mapping[str, int]:
    return {label: i for i, label in enumerate(labels)}


_SHAPE: Mapping[str, Callable[[Record, Shaping, str], Item]] = MappingProxyType(
    {
        "texts": _texts,
        "choices": _choices,
        "hellaswag": _hellaswag,
        "span": _span,
        "tags": _tags,
        "entities": _tags,
        "tree": _tree,
        "lines": _lines,
    }
)


def plain_context(first: str, second: str) -> str:
    """Join the two parts of HellaSwag's context as evaluations do."""
    return without_marks(f"{first} {second.capitalize()}").strip()


def without_marks(text: str) -> str:
    """Remove WikiHow markup: a title ends a sentence, other marks are dropped."""
    text = re.sub(r"\.? \[title\]", ". ", text.strip())
    return re.sub(r"\[.*?\]", "", text).replace("  ", " ")
