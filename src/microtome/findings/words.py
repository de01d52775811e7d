"""Formatting of numbers, intervals and layer names in findings."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from ..errors import must
from ..rounding import at_least as at_least
from ..rounding import at_most as at_most
from ..rounding import between as between


def number(value: float, digits: int = 2) -> str:
    """
    Format a number with a fixed number of decimals; NaN is "undefined", and zero has no sign.

    Examples
    --------
    >>> number(1.4142), number(-0.001), number(float("nan"))
    ('1.41', '0.00', 'undefined')
    """
    if math.isnan(value):
        return "undefined"
    if math.isinf(value):
        return "infinite" if value > 0 else "minus infinite"
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if float(text) == 0 else text


# Parts of score names that are acronyms; others are words.
_ACRONYMS = frozenset({"uuas", "uas", "las", "mcc", "f1", "cca", "svcca", "pwcca", "cka", "rbf", "rsa"})


def score_label(name: str) -> str:
    """
    Format the name of a score for labels and captions; sentences and files keep the name unchanged.

    Examples
    --------
    >>> score_label("edge_f1"), score_label("uuas"), score_label("debiased_cka"), score_label("accuracy")
    ('edge F1', 'UUAS', 'debiased CKA', 'accuracy')
    """
    return " ".join(part.upper() if part in _ACRONYMS else part for part in name.replace("_", " ").split(" "))


def with_article(noun: str) -> str:
    """
    Prefix a noun with its indefinite article.

    Examples
    --------
    >>> with_article("edge probe"), with_article("linear probe")
    ('an edge probe', 'a linear probe')
    """
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"


def small_number(value: float) -> str:
    """
    Format a number with two decimals, or with two significant digits where it is small.

    Examples
    --------
    >>> small_number(0.412), small_number(0.00371), small_number(-0.00002), small_number(0.0)
    ('0.41', '0.0037', '-2e-05', '0.00')
    """
    return f"{value:.2g}" if 0 < abs(value) < 0.1 else number(value)


def percent(share: float) -> str:
    """
    Format a share in whole percent, without rounding small shares to 0% or large ones to 100%.

    Examples
    --------
    >>> percent(0.347), percent(0.001), percent(0.999), percent(1.0)
    ('35%', 'less than 1%', 'more than 99%', '100%')
    """
    if math.isnan(share):
        return "undefined"
    if 0 < share < 0.005:
        return "less than 1%"
    if 0.995 <= share < 1:
        return "more than 99%"
    return f"{share * 100:.0f}%"


def p_value(p: float) -> str:
    """
    Format a p-value; below 0.001 as a bound.

    Examples
    --------
    >>> p_value(0.0321), p_value(0.0002)
    ('p = 0.032', 'p < 0.001')
    """
    if math.isnan(p):
        return "p undefined"
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def check_names(names: Sequence[str] | None, layers: int) -> None:
    """Check that there is one name per layer."""
    if names is not None and len(names) != layers:
        raise must("names", f"one name for each of the {layers} layers", list(names))


def layer_list(layers: Iterable[int], names: Sequence[str] | None = None) -> str:
    """
    List layers in words, with runs of three or more joined.

    Parameters
    ----------
    layers : iterable of int
        Indices, in any order.
    names : sequence of str, optional
        Name of each index; the index itself when absent.

    Examples
    --------
    >>> layer_list([7, 8, 9, 10])
    'layers 7 to 10'
    >>> layer_list([0, 1, 2, 5, 6])
    'layers 0 to 2, 5 and 6'
    >>> layer_list([3], ["a/0", "a/1", "a/2", "a/3"])
    'layer a/3'
    """
    return numbered(layers, "layer", names)


def numbered(numbers: Iterable[int], noun: str, names: Sequence[str] | None = None) -> str:
    """
    Name layers or blocks by their numbers, with runs of three or more joined.

    Examples
    --------
    >>> numbered([5], "block"), numbered([2, 5], "block"), numbered([7, 8, 9, 12], "layer")
    ('block 5', 'blocks 2 and 5', 'layers 7 to 9 and 12')
    """
    indices = sorted(set(numbers))
    if not indices:
        return f"no {noun}"
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    labels: list[str] = []
    for run in runs:
        run_names = [str(i) if names is None else names[i] for i in run]
        labels += [f"{run_names[0]} to {run_names[-1]}"] if len(run) > 2 else run_names
    return f"{noun}{'s' if len(indices) > 1 else ''} {listed(labels)}"


def listed(items: Sequence[str]) -> str:
    """
    Put names into one phrase.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def amount(text: str, points: float, score: str) -> str:
    """
    Add what a number counts: points of 100 of a score, or units of it.

    Examples
    --------
    >>> amount("0.8", 100, "accuracy"), amount("1", 100, "accuracy"), amount("0.25", 1, "perplexity")
    ('0.8 points of accuracy', '1 point of accuracy', '0.25 of perplexity')
    """
    if points != 100:
        return f"{text} of {score}"
    return f"{text} {'point' if text == '1' else 'points'} of {score}"


def counted(count: int, noun: str) -> str:
    """
    Write how many there are of something.

    Examples
    --------
    >>> counted(1, "seed"), counted(1200, "update")
    ('1 seed', '1,200 updates')
    """
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
