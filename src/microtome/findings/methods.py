"""Methods text and citations for the maps of a comparison."""

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
from .words import coverage, number


def methods_paragraph(maps: Mapping[str, Map]) -> str:
    """
    Describe how the maps were computed, for the methods section of a paper.

    Parameters
    ----------
    maps : Maps

    Returns
    -------
    str
        One paragraph of Markdown; names of layers are in code spans.
    """
    all_maps = list(maps.values())
    first = all_maps[0]
    version = first.provenance.get("microtome")
    tool = f"microtome {version}" if version else "microtome"
    counterpart = "each other" if first.symmetric else _side_words(first.right, "right")
    sides = f"{_side_words(first.left, 'left')} were compared with {counterpart}"
    if len(first.left) == 1:
        sides = sides.replace("were", "was", 1)
    parts = [
        f"{sides[0].upper()}{sides[1:]} on {first.n:,} rows, using {tool}.",
        _corpus_words(first),
        f"Computed were {_listed([_measure_words(similarity_map) for similarity_map in all_maps])}.",
        _null_words(all_maps),
        _interval_words(all_maps),
        *(_undefined_words(similarity_map) for similarity_map in all_maps),
    ]
    settings = [
        f"precision {_listed(dict.fromkeys(similarity_map.precision for similarity_map in all_maps))}"
    ]
    settings += [f"{key} {first.provenance[key]}" for key in ("device", "seed") if key in first.provenance]
    parts.append(f"Settings: {', '.join(settings)}.")
    return " ".join(part for part in parts if part)


def methods_page(maps: Mapping[str, Map], *, findings: Sequence[str] = ()) -> str:
    """
    Write the methods paragraph, findings, warnings, definitions, sources, and the command to reproduce them.

    Parameters
    ----------
    maps : Maps
    findings : sequence of str
        Sentences about the maps.

    Returns
    -------
    str
        A Markdown document.
    """
    all_maps = list(maps.values())
    sections = ["# Methods", methods_paragraph(maps)]
    if findings:
        sections += ["## Findings", "\n".join(f"- {escape_markdown(sentence)}" for sentence in findings)]
    warning_lines = [
        f"- {escape_markdown(text)}" for text in dict.fromkeys(w for m in all_maps for w in m.warnings)
    ]
    if warning_lines:
        sections += ["## Warnings", "\n".join(warning_lines)]
    formulas = [f"- {_code(c.label)}: {_code(c.measure.formula)}" for c in map(declared, all_maps) if c]
    if formulas:
        sections += ["## Definitions", "\n".join(formulas)]
    keys = [key for key in citation_keys(maps) if key in CITATIONS]
    if keys:
        sections += ["## Sources", "\n".join(f"- {_source_line(key)}" for key in keys)]
    command = all_maps[0].provenance.get("command")
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
    """List the citation keys of the measures and of the null formulas, each once."""
    keys: list[str] = []
    for similarity_map in maps.values():
        choice = declared(similarity_map)
        if choice is None:
            continue
        keys += choice.measure.citations
        if choice.declared("null") == "wachter" and not _permuted(similarity_map):
            keys.append("wachter1980")
    return list(dict.fromkeys(keys))


def cite(key: str) -> str:
    """
    Format a source for running text.

    Examples
    --------
    >>> cite("kornblith2019"), cite("hotelling1936"), cite("of a plug-in")
    ('Kornblith et al. 2019', 'Hotelling 1936', 'of a plug-in')
    """
    if key not in CITATIONS:
        return key
    names = [author.split(",")[0].strip() for author in _field(key, "author").split(" and ")]
    authors = (
        names[0] if len(names) == 1 else " and ".join(names) if len(names) == 2 else f"{names[0]} et al."
    )
    return f"{authors} {_field(key, 'year')}"


def declared(similarity_map: Map) -> Chosen | None:
    """Look up the measure of a map; None for a user-defined one, which is in no table."""
    try:
        return chosen(similarity_map.measure)
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
        Empty where names are not of that form, or the layers of a model are not contiguous.

    Examples
    --------
    >>> model_borders(["base/0", "base/1", "tuned/0"])
    {'base': 0, 'tuned': 2}
    >>> model_borders(["0", "1"])
    {}
    """
    models = [name.rpartition("/")[0] for name in names]
    starts = {model: models.index(model) for model in models}
    changes = sum(a != b for a, b in pairwise(models))
    return starts if all(models) and changes == len(starts) - 1 else {}


def split_names(names: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """
    Split layer names into a shared prefix and distinct suffixes.

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
    # Digits belong to the suffix: layer10 and layer11 share "layer", not "layer1".
    shared = re.sub(r"[0-9]+$", "", low[:count])
    suffixes = [name[len(shared) :] for name in clean]
    if not all(re.fullmatch(r"[0-9]+", part) for part in suffixes):
        cut = max((shared.rfind(c) for c in "/._- "), default=-1) + 1
        shared = shared[:cut]
        suffixes = [name[cut:] for name in clean]
    if not all(suffixes) or len(set(suffixes)) != len(set(clean)):
        return "", tuple(clean)
    return shared.rstrip("/._- "), tuple(suffixes)


def null_range(similarity_map: Map) -> str:
    """
    Format the null means of the defined cells as one number or a range; empty if unknown.

    Parameters
    ----------
    similarity_map : Map

    Returns
    -------
    str
    """
    null_means = similarity_map.null_mean[
        np.isfinite(similarity_map.null_mean) & np.isfinite(similarity_map.values)
    ]
    if not null_means.size:
        return ""
    low, high = number(float(null_means.min())), number(float(null_means.max()))
    return low if low == high else f"{low} to {high}"


def escape_markdown(text: str) -> str:
    """Escape the Markdown syntax of a text."""
    return re.sub(r"([\\`*_{}\[\]<>#|])", r"\\\1", _printable(text))


def _printable(text: str) -> str:
    return "".join(c if c.isprintable() else "\ufffd" for c in text)


def _corpus_words(similarity_map: Map) -> str:
    """Describe the rows, where models ran on a corpus."""
    texts, rows = (similarity_map.provenance.get(key) for key in ("texts", "rows"))
    if not isinstance(texts, Mapping) or not isinstance(rows, Mapping):
        return ""
    return f"The rows are of {_code(str(texts.get('name')))}: {rows.get('what')}."


def _side_words(names: Sequence[str], side: str) -> str:
    models = model_borders(names)
    if len(models) > 1:
        ends = [*models.values(), len(names)]
        counts = [f"{b - a} of {_code(name)}" for name, (a, b) in zip(models, pairwise(ends), strict=True)]
        return f"the layers of {len(models)} models ({', '.join(counts)})"
    shared, suffixes = split_names(names)
    owner = _code(shared) if shared else f"the {side} side"
    if len(names) == 1:
        return f"the layer {_code(suffixes[0])} of {owner}"
    return f"the {len(names)} layers {_code(suffixes[0])} to {_code(suffixes[-1])} of {owner}"


def _code(name: str) -> str:
    return f"`{_printable(name).replace('`', chr(39))}`"


def _permuted(similarity_map: Map) -> bool:
    return similarity_map.p_map is not None


def _listed(items: Iterable[str]) -> str:
    *most, last = items
    return f"{'; '.join(most)}; and {last}" if most else last


def _measure_words(similarity_map: Map) -> str:
    choice = declared(similarity_map)
    sources = "; ".join(cite(key) for key in choice.measure.citations) if choice else ""
    dimension_words = ""
    if similarity_map.kept.left is not None:
        dimensions = np.concatenate([np.ravel(similarity_map.kept.left), np.ravel(similarity_map.kept.right)])
        # A layer without dimensions is undefined, which is reported elsewhere.
        dimensions = dimensions[dimensions > 0]
        low, high = (int(dimensions.min()), int(dimensions.max())) if dimensions.size else (0, 0)
        dimension_words = (
            f", on {low} dimensions" if low == high else f", on {low} to {high} dimensions a layer"
        )
    return f"{_code(similarity_map.measure)}, {similarity_map.estimator}{dimension_words}" + (
        f" ({sources})" if sources else ""
    )


def _null_words(maps: Sequence[Map]) -> str:
    null_maps = [similarity_map for similarity_map in maps if null_range(similarity_map)]
    if not null_maps:
        return "What unrelated rows would give is known for none of these and was not permuted."
    parts = [
        f"Unrelated rows would give {_listed(f'{null_range(m)} in {_code(m.measure)}' for m in null_maps)}."
    ]
    notes: dict[str, list[str]] = {}
    for similarity_map in null_maps:
        # Advice to the user is not part of the methods.
        note = similarity_map.null_note.replace("; ask for permutations", "")
        if note:
            words = f"That is {note}" if _permuted(similarity_map) else f"There is no z: {note}"
            notes.setdefault(words, []).append(_code(similarity_map.measure))
    parts += [f"{words} ({', '.join(names)})." for words, names in notes.items()]
    unknown = [_code(similarity_map.measure) for similarity_map in maps if similarity_map not in null_maps]
    if unknown:
        parts.append(f"It is not known for {', '.join(unknown)}, which was not permuted.")
    if any(_permuted(similarity_map) for similarity_map in maps):
        parts.append("Probabilities for a whole map are by the maximum statistic.")
    return " ".join(parts)


def _interval_words(maps: Sequence[Map]) -> str:
    kinds: dict[str, list[str]] = {}
    for similarity_map in maps:
        if similarity_map.low is not None and similarity_map.level is not None:
            kind = (
                f"by {similarity_map.method} for the {similarity_map.target}, "
                f"with the {similarity_map.unit} as the independent unit"
            )
            kinds.setdefault(f"{coverage(similarity_map.level)} intervals are {kind}", []).append(
                _code(similarity_map.measure)
            )
    return " ".join(f"The {kind} ({', '.join(names)})." for kind, names in kinds.items())


def _undefined_words(similarity_map: Map) -> str:
    reasons = [reason for row in similarity_map.reasons for reason in row if reason]
    if not reasons:
        return ""
    why = "; ".join(dict.fromkeys(reasons))
    return (
        f"In {_code(similarity_map.measure)}, {len(reasons)} of {similarity_map.values.size} cells are "
        f"undefined ({why})."
    )


def _source_line(key: str) -> str:
    title = re.sub(r"[{}]", "", _field(key, "title"))
    return f"{cite(key)}, {escape_markdown(title)} (`{key}` in references.bib)"


def _field(key: str, name: str) -> str:
    match = re.search(rf"^\s*{name} = \{{(.*)\}},?$", CITATIONS[key], flags=re.MULTILINE)
    return match[1] if match else ""
