"""What would a paper have to say about how the maps were computed, and whom would it have to cite?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from ..errors import MicrotomeError
from ..measures.citations import CITATIONS, bibtex
from ..measures.declare import Chosen
from ..measures.table import chosen
from .maps import Map
from .words import number


def methods_paragraph(maps: Mapping[str, Map]) -> str:
    """
    Say in words how the maps were computed, for the methods section of a paper.

    Parameters
    ----------
    maps : Maps

    Returns
    -------
    str
        One paragraph of Markdown; names of layers stand in code spans.
    """
    every = list(maps.values())
    first = every[0]
    version = first.provenance.get("microtome")
    tool = f"microtome {version}" if version else "microtome"
    other = "each other" if first.symmetric else _side_words(first.right, "right")
    sides = f"{_side_words(first.left, 'left')} were compared with {other}"
    if len(first.left) == 1:
        sides = sides.replace("were", "was", 1)
    parts = [
        f"{sides[0].upper()}{sides[1:]} on {first.n:,} rows, using {tool}.",
        _corpus_words(first),
        f"Computed were {_listed([_measure_words(one) for one in every])}.",
        _null_words(every),
        _interval_words(every),
        *(_undefined_words(one) for one in every),
    ]
    settings = [f"precision {_listed(dict.fromkeys(one.precision for one in every))}"]
    settings += [f"{key} {first.provenance[key]}" for key in ("device", "seed") if key in first.provenance]
    parts.append(f"Settings: {', '.join(settings)}.")
    return " ".join(part for part in parts if part)


def methods_page(maps: Mapping[str, Map], *, findings: Sequence[str] = ()) -> str:
    """
    Lay out the methods paragraph, what was found, the warnings, the sources, and the command that repeats it.

    Parameters
    ----------
    maps : Maps
    findings : sequence of str
        Sentences that say what the maps show.

    Returns
    -------
    str
        A Markdown document.
    """
    every = list(maps.values())
    sections = ["# Methods", methods_paragraph(maps)]
    if findings:
        sections += ["## Findings", "\n".join(f"- {escape_markdown(sentence)}" for sentence in findings)]
    warned = [f"- {escape_markdown(text)}" for text in dict.fromkeys(w for m in every for w in m.warnings)]
    if warned:
        sections += ["## Warnings", "\n".join(warned)]
    formulas = [f"- {_code(c.label)}: {_code(c.measure.formula)}" for c in map(declared, every) if c]
    if formulas:
        sections += ["## Definitions", "\n".join(formulas)]
    known = [key for key in citation_keys(maps) if key in CITATIONS]
    if known:
        sections += ["## Sources", "\n".join(f"- {_source_line(key)}" for key in known)]
    command = every[0].provenance.get("command")
    if command:
        sections += ["## To repeat", f"```console\n{_printable(str(command))}\n```"]
    return "\n\n".join(sections) + "\n"


def references(maps: Mapping[str, Map]) -> str:
    """
    Collect the BibTeX entries of the measures used.

    Parameters
    ----------
    maps : Maps

    Returns
    -------
    str
    """
    return bibtex(key for key in citation_keys(maps) if key in CITATIONS)


def citation_keys(maps: Mapping[str, Map]) -> list[str]:
    """List the citation keys of the measures and of the formulas for unrelated rows, each once."""
    keys: list[str] = []
    for one in maps.values():
        choice = declared(one)
        if choice is None:
            continue
        keys += choice.measure.citations
        if choice.declared("null") == "wachter" and not _permuted(one):
            keys.append("wachter1980")
    return list(dict.fromkeys(keys))


def cite(key: str) -> str:
    """
    Write a source as it stands in running text.

    Examples
    --------
    >>> cite("kornblith2019"), cite("hotelling1936"), cite("of a plug-in")
    ('Kornblith et al. 2019', 'Hotelling 1936', 'of a plug-in')
    """
    if key not in CITATIONS:
        return key
    names = [author.split(",")[0].strip() for author in _field(key, "author").split(" and ")]
    said = names[0] if len(names) == 1 else " and ".join(names) if len(names) == 2 else f"{names[0]} et al."
    return f"{said} {_field(key, 'year')}"


def declared(one: Map) -> Chosen | None:
    """Look up the measure of a map; None for one that was handed in and stands in no table."""
    try:
        return chosen(one.measure)
    except MicrotomeError:
        return None


def model_borders(names: Sequence[str]) -> dict[str, int]:
    """
    Find where the layers of each model begin in a list of layers of several models.

    Parameters
    ----------
    names : sequence of str
        Such as "base/0".

    Returns
    -------
    dict of str to int
        Empty where names are not of that form, or the layers of a model do not stand together.

    Examples
    --------
    >>> model_borders(["base/0", "base/1", "tuned/0"])
    {'base': 0, 'tuned': 2}
    >>> model_borders(["0", "1"])
    {}
    """
    models = [name.rpartition("/")[0] for name in names]
    found = {model: models.index(model) for model in models}
    changes = sum(a != b for a, b in pairwise(models))
    return found if all(models) and changes == len(found) - 1 else {}


def split_names(names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """
    Split layer names into what they share and what tells them apart.

    Parameters
    ----------
    names : sequence of str

    Returns
    -------
    shared : str
        Empty when nothing is shared.
    rest : tuple of str

    Examples
    --------
    >>> split_names(["base/0", "base/1", "base/10"])
    ('base', ('0', '1', '10'))
    >>> split_names(["layer8", "layer9"])
    ('layer', ('8', '9'))
    >>> split_names(["embeddings", "encoder"])
    ('', ('embeddings', 'encoder'))
    """
    clean = [_printable(name) for name in names]
    if len(clean) == 1:
        before, separator, last = clean[0].rpartition("/")
        return (before, (last,)) if separator and before and last else ("", (clean[0],))
    low, high = min(clean), max(clean)
    unlike = (i for i, (a, b) in enumerate(zip(low, high, strict=False)) if a != b)
    count = next(unlike, min(len(low), len(high)))
    # Digits belong to what tells layers apart: layer10 and layer11 share "layer", not "layer1".
    shared = re.sub(r"[0-9]+$", "", low[:count])
    rest = [name[len(shared) :] for name in clean]
    if not all(re.fullmatch(r"[0-9]+", part) for part in rest):
        cut = max((shared.rfind(c) for c in "/._- "), default=-1) + 1
        shared = shared[:cut]
        rest = [name[cut:] for name in clean]
    if not all(rest) or len(set(rest)) != len(set(clean)):
        return "", tuple(clean)
    return shared.rstrip("/._- "), tuple(rest)


def null_range(one: Map) -> str:
    """
    Say what unrelated rows would give over the defined cells, as one number or a range; empty if unknown.

    Parameters
    ----------
    one : Map

    Returns
    -------
    str
    """
    known = one.null_mean[np.isfinite(one.null_mean) & np.isfinite(one.values)]
    if not known.size:
        return ""
    low, high = number(float(known.min())), number(float(known.max()))
    return low if low == high else f"{low} to {high}"


def escape_markdown(text: str) -> str:
    """Keep a name from being read as markup."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", _printable(text))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _corpus_words(one: Map) -> str:
    """What the rows are, where models ran on a corpus."""
    texts, rows = (one.provenance.get(key) for key in ("texts", "rows"))
    if not isinstance(texts, Mapping) or not isinstance(rows, Mapping):
        return ""
    return f"The rows are of {_code(str(texts.get('name')))}: {rows.get('what')}."


def _side_words(names: Sequence[str], side: str) -> str:
    models = model_borders(names)
    if len(models) > 1:
        ends = [*models.values(), len(names)]
        counts = [f"{b - a} of {_code(name)}" for name, (a, b) in zip(models, pairwise(ends), strict=True)]
        return f"the layers of {len(models)} models ({', '.join(counts)})"
    shared, rest = split_names(names)
    of = _code(shared) if shared else f"the {side} side"
    if len(names) == 1:
        return f"the layer {_code(rest[0])} of {of}"
    return f"the {len(names)} layers {_code(rest[0])} to {_code(rest[-1])} of {of}"


def _code(name: str) -> str:
    return f"`{_printable(name).replace('`', chr(39))}`"


def _permuted(one: Map) -> bool:
    return one.p_map is not None


def _listed(items: Iterable[str]) -> str:
    *most, last = items
    return f"{'; '.join(most)}; and {last}" if most else last


def _measure_words(one: Map) -> str:
    choice = declared(one)
    sources = "; ".join(cite(key) for key in choice.measure.citations) if choice else ""
    kept = ""
    if one.kept.left is not None:
        dimensions = np.concatenate([np.ravel(one.kept.left), np.ravel(one.kept.right)])
        # A layer without any is undefined, and that is said of it.
        dimensions = dimensions[dimensions > 0]
        low, high = (int(dimensions.min()), int(dimensions.max())) if dimensions.size else (0, 0)
        kept = f", on {low} dimensions" if low == high else f", on {low} to {high} dimensions a layer"
    return f"{_code(one.measure)}, {one.estimator}{kept}" + (f" ({sources})" if sources else "")


def _null_words(maps: Sequence[Map]) -> str:
    known = [one for one in maps if null_range(one)]
    if not known:
        return "What unrelated rows would give is known for none of these and was not permuted."
    parts = [f"Unrelated rows would give {_listed(f'{null_range(m)} in {_code(m.measure)}' for m in known)}."]
    notes: dict[str, list[str]] = {}
    for one in known:
        # What a user may do about it is no part of what was done.
        note = one.null_note.replace("; ask for permutations", "")
        if note:
            words = f"That is {note}" if _permuted(one) else f"There is no z: {note}"
            notes.setdefault(words, []).append(_code(one.measure))
    parts += [f"{words} ({', '.join(names)})." for words, names in notes.items()]
    unknown = [_code(one.measure) for one in maps if one not in known]
    if unknown:
        parts.append(f"It is not known for {', '.join(unknown)}, which was not permuted.")
    if any(_permuted(one) for one in maps):
        parts.append("Probabilities for a whole map are by the maximum statistic.")
    return " ".join(parts)


def _interval_words(maps: Sequence[Map]) -> str:
    kinds: dict[str, list[str]] = {}
    for one in maps:
        if one.low is not None and one.level is not None:
            kind = f"by {one.method} for the {one.target}, with the {one.unit} as the independent unit"
            kinds.setdefault(f"{one.level * 100:g}% intervals are {kind}", []).append(_code(one.measure))
    return " ".join(f"The {kind} ({', '.join(names)})." for kind, names in kinds.items())


def _undefined_words(one: Map) -> str:
    reasons = [reason for row in one.reasons for reason in row if reason]
    if not reasons:
        return ""
    why = "; ".join(dict.fromkeys(reasons))
    return f"In {_code(one.measure)}, {len(reasons)} of {one.values.size} cells are undefined ({why})."


def _source_line(key: str) -> str:
    title = re.sub(r"[{}]", "", _field(key, "title"))
    return f"{cite(key)}, {escape_markdown(title)} (`{key}` in references.bib)"


def _field(key: str, name: str) -> str:
    match = re.search(rf"^\s*{name} = \{{(.*)\}},?$", CITATIONS[key], flags=re.MULTILINE)
    return match[1] if match else ""
