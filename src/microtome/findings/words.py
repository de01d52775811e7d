"""Formatting of numbers, layer names and intervals in findings.

Policy of intervals of scores, costs and differences: each quantity has one interval everywhere.

1. *The interval of a quantity* (`low`, `high`) is pointwise. It depends on the examples and runs of that
   quantity and on nothing else that was computed with it, so that `truncate` and `skip` print the same one
   for the same blocks left out, and tables, sentences and pages agree.
2. *The unit.* With one model, examples (or groups of them) vary: the interval is for this model on other
   examples. With several seeds, examples and seeds vary: it is for models trained with other seeds, on other
   examples. Fewer seeds make it wider, and it is shown nevertheless. Each interval states what it is over.
3. *Claims* that select among points (the deepest safe truncation, the cheapest block, the layers with higher
   probe scores) are decided by the band (`band_low`, `band_high`), which holds simultaneously for all points
   that the claim selects from. The end of the band is reported as a bound, "at most 0.93 for all cuts at
   once", never in brackets after the value.

Ends are rounded outward; see `microtome.rounding`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Self

from ..errors import must
from ..inference.estimate import coverage as coverage
from ..inference.estimate import over as over
from ..rounding import at_least as at_least
from ..rounding import at_most as at_most
from ..rounding import between as between

if TYPE_CHECKING:
    from .claims.claim import Quantity


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


def capital(text: str) -> str:
    """A text as the beginning of a sentence."""
    return f"{text[:1].upper()}{text[1:]}"


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
    Format a share in whole percent, without rounding small shares to 0 % or large ones to 100 %.

    Examples
    --------
    >>> percent(0.347), percent(0.001), percent(0.999), percent(1.0)
    ('35 %', 'less than 1 %', 'more than 99 %', '100 %')
    """
    if math.isnan(share):
        return "undefined"
    if 0 < share < 0.005:
        return "less than 1 %"
    if 0.995 <= share < 1:
        return "more than 99 %"
    return f"{share * 100:.0f} %"


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


# Runs that differ in their seeds, so that an interval over them is for other seeds.
SEEDED = ("seed", "head seed")
# With this many seeds or fewer, an interval over seeds can be wider than any possible effect.
FEW = 3
# In points of 100: a wider interval from few seeds is reported with the range of their values.
WIDE = 20.0


class Unit(str):
    """
    What was treated as independent: examples of some kind, and runs where there are several.

    Parameters
    ----------
    of : str
        Such as "example", "group of examples" or "document".
    runs : str
        Such as "seed", "head seed" or "draw"; empty where there is one run.

    Examples
    --------
    >>> Unit("document", "seed"), Unit("example and seed").runs
    ('document and seed', 'seed')
    """

    __slots__ = ()

    def __new__(cls, of: str, runs: str = "") -> Self:
        """Join both parts; a unit that is written already has them."""
        return super().__new__(cls, f"{of} and {runs}" if runs else of)

    @property
    def of(self) -> str:
        """What the examples are."""
        return self.partition(" and ")[0]

    @property
    def runs(self) -> str:
        """What the runs differ in."""
        return self.partition(" and ")[2]


def certainty(level: float, what: str, unit: str, runs: int = 1) -> str:
    """
    State the level of an interval, what it holds for, and what it is over.

    Examples
    --------
    >>> certainty(0.95, "all cuts at once", "example"), certainty(0.95, "", "seed", 3)
    ('(95 %, all cuts at once, over examples)', '(95 %, over 3 seeds)')
    """
    parts = (coverage(level), what, over(unit, runs) if unit else "")
    return f"({', '.join(part for part in parts if part)})"


def seeds_of(quantity: Quantity) -> int:
    """Number of seeds behind a quantity."""
    return len(quantity.by_seed) or quantity.seeds


def with_interval(quantity: Quantity, digits: int = 2, *, scale: float = 1.0, noun: str = "") -> str:
    """
    Format a quantity with its pointwise interval.

    Parameters
    ----------
    quantity : Quantity
    digits : int
    scale : float
        That the quantity is multiplied by.
    noun : str
        What it counts, such as "points"; none in its own unit.

    Examples
    --------
    >>> from microtome.findings.claims.claim import Quantity
    >>> with_interval(Quantity(value=27.58, low=22.171, high=32.984), noun=" points")
    '27.58 points [22.17, 32.99] (95 %, over examples)'
    >>> wide = Quantity(value=13.75, low=-97.43, high=100, unit="example and seed", by_seed=(22.5, 5.0))
    >>> with_interval(wide)
    '13.75 [-97.43, 100.00] (95 %, over examples and 2 seeds: from 5.00 to 22.50)'
    """
    text = f"{number(scale * quantity.value, digits)}{noun}"
    low, high, seeds = scale * quantity.low, scale * quantity.high, seeds_of(quantity)
    if not (math.isfinite(low) and math.isfinite(high)):
        return text
    basis = certainty(quantity.level, "", quantity.unit, seeds)
    values = [scale * value for value in quantity.by_seed if math.isfinite(value)]
    if len(values) > 1 and wide_for_seeds(quantity.low, quantity.high, seeds, quantity.unit, 100):
        least, most = number(min(values), digits), number(max(values), digits)
        basis = f"{basis[:-1]}: {f'from {least} to {most}' if least != most else f'all {least}'})"
    return f"{text} {between(low, high, digits)} {basis}"


def bound_for_all(side: str, end: float, family: str, *, digits: int = 2) -> str:
    """
    Format the end of a band as the bound for a claim; empty where the band has no such end.

    Parameters
    ----------
    side : {"most", "least"}
    end : float
    family : str
        The points that the claim selects from, such as "all cuts".
    digits : int

    Examples
    --------
    >>> bound_for_all("most", 0.926, "all cuts")
    ', at most 0.93 for all cuts at once'
    """
    if not math.isfinite(end):
        return ""
    bound = at_most(end, digits) if side == "most" else at_least(end, digits)
    return f", at {side} {bound} for {family} at once"


def fine_tuned_name(model: str, task: str, seed: int) -> str:
    """
    Name a fine-tuned model among other models.

    Examples
    --------
    >>> fine_tuned_name("bert", "rte", 1)
    'bert on rte (seed 1)'
    """
    return f"{model} on {task} (seed {seed})"


def wide_for_seeds(low: float, high: float, seeds: int, unit: str, points: float) -> bool:
    """
    Check whether an interval is wide and based on few seeds.

    Parameters
    ----------
    low, high : float
        In points.
    seeds : int
    unit : str
    points : float
        Points per unit of the score; intervals of scores that are not in points never count as wide.

    Examples
    --------
    >>> [wide_for_seeds(-end, end, 2, "example and seed", 100) for end in (100, 5)]
    [True, False]
    """
    return Unit(unit).runs in SEEDED and seeds <= FEW and points == 100 and high - low > WIDE
