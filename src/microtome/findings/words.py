"""How is a number said, so that every sentence of a finding says it in the same way?"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal

from ..errors import must
from ..inference.estimate import Interval


def number(value: float, digits: int = 2) -> str:
    """
    Write a number with a fixed count of decimals; NaN is "undefined", and zero has no sign.

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


# Parts of names of scores that are short for something; others are words.
_ACRONYMS = frozenset({"uuas", "uas", "las", "mcc", "f1", "cca", "svcca", "pwcca", "cka", "rbf", "rsa"})


def score_label(name: str) -> str:
    """
    Write the name of a score as labels and captions have it; sentences and files keep the name as it is.

    Examples
    --------
    >>> score_label("edge_f1"), score_label("uuas"), score_label("debiased_cka"), score_label("accuracy")
    ('edge F1', 'UUAS', 'debiased CKA', 'accuracy')
    """
    return " ".join(part.upper() if part in _ACRONYMS else part for part in name.replace("_", " ").split(" "))


def with_article(noun: str) -> str:
    """
    Write a noun with the article that fits how it begins.

    Examples
    --------
    >>> with_article("edge probe"), with_article("linear probe")
    ('an edge probe', 'a linear probe')
    """
    return f"{'an' if noun[:1].lower() in tuple('aeiou') else 'a'} {noun}"


def small_number(value: float) -> str:
    """
    Write a number with two decimals, or with two digits that count where those would be lost.

    Examples
    --------
    >>> small_number(0.412), small_number(0.00371), small_number(-0.00002), small_number(0.0)
    ('0.41', '0.0037', '-2e-05', '0.00')
    """
    return f"{value:.2g}" if 0 < abs(value) < 0.1 else number(value)


def at_least(value: float, digits: int = 2) -> str:
    """
    Write a lower bound, rounded down.

    Examples
    --------
    >>> at_least(0.938), at_least(-0.004), at_least(0.93)
    ('0.93', '-0.01', '0.93')
    """
    return _rounded(value, digits, ROUND_FLOOR)


def at_most(value: float, digits: int = 2) -> str:
    """
    Write an upper bound, rounded up.

    Examples
    --------
    >>> at_most(0.7801), at_most(-0.001), at_most(0.8, 1)
    ('0.79', '0.00', '0.8')
    """
    return _rounded(value, digits, ROUND_CEILING)


def _rounded(value: float, digits: int, way: str) -> str:
    if not math.isfinite(value):
        return number(value, digits)
    text = f"{Decimal(repr(float(value))).quantize(Decimal(1).scaleb(-digits), rounding=way):f}"
    return text.removeprefix("-") if float(text) == 0 else text


def between(low: float, high: float, digits: int = 2) -> str:
    """
    Write an interval, each end rounded outward.

    Examples
    --------
    >>> between(-3.163, 5.221)
    '[-3.17, 5.23]'
    """
    return f"[{at_least(low, digits)}, {at_most(high, digits)}]"


def with_interval(value: float, interval: Interval | None, *, digits: int = 2, noun: str = "") -> str:
    """
    Write a value with its interval, the level, and what was taken as independent.

    Parameters
    ----------
    value : float
    interval : Interval or None
        Without one, the value stands alone.
    digits : int
    noun : str
        What is counted, said after the numbers.

    Examples
    --------
    >>> interval = Interval(low=1.1, high=1.8, level=0.95, method="jackknife", unit="example", target="mean")
    >>> with_interval(1.43, interval, noun="adjacent gaps")
    '1.43 [1.10, 1.80] adjacent gaps (95%, unit: example)'
    """
    said = f" {noun}" if noun else ""
    if interval is None:
        return number(value, digits) + said
    bounds = f"[{number(interval.low, digits)}, {number(interval.high, digits)}]"
    return f"{number(value, digits)} {bounds}{said} ({interval.level * 100:g}%, unit: {interval.unit})"


def percent(share: float) -> str:
    """
    Write a share as whole percents, without turning a few into none or nearly all into all.

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
    Write a probability; below one in a thousand only that is said.

    Examples
    --------
    >>> p_value(0.0321), p_value(0.0002)
    ('p = 0.032', 'p < 0.001')
    """
    if math.isnan(p):
        return "p undefined"
    return "p < 0.001" if p < 0.001 else f"p = {p:.3f}"


def check_names(names: Sequence[str] | None, layers: int) -> None:
    """Refuse names that are not one a layer."""
    if names is not None and len(names) != layers:
        raise must("names", f"one name for each of the {layers} layers", list(names))


def layer_list(layers: Iterable[int], names: Sequence[str] | None = None) -> str:
    """
    Write which layers are meant, with runs of three or more joined.

    Parameters
    ----------
    layers : iterable of int
        Indices, in any order.
    names : sequence of str, optional
        What each index is called; the index itself without it.

    Examples
    --------
    >>> layer_list([7, 8, 9, 10])
    'layers 7 to 10'
    >>> layer_list([0, 1, 2, 5, 6])
    'layers 0 to 2, 5 and 6'
    >>> layer_list([3], ["a/0", "a/1", "a/2", "a/3"])
    'layer a/3'
    """
    indices = sorted(set(layers))
    if not indices:
        return "no layer"
    runs: list[list[int]] = []
    for index in indices:
        if runs and index == runs[-1][-1] + 1:
            runs[-1].append(index)
        else:
            runs.append([index])
    said: list[str] = []
    for run in runs:
        called = [str(i) if names is None else names[i] for i in run]
        said += [f"{called[0]} to {called[-1]}"] if len(run) > 2 else called
    listed = said[0] if len(said) == 1 else f"{', '.join(said[:-1])} and {said[-1]}"
    return f"layer{'s' if len(indices) > 1 else ''} {listed}"
