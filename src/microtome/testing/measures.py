"""Does a measure do what it declares? A contract that any `Measure`, also one of your own, can be held against."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ..comparison.rowwise import footprint
from ..comparison.similarity import similarity_matrix
from ..errors import MicrotomeError, SmallSampleWarning
from ..measures.citations import CITATIONS
from ..measures.declare import TRANSFORMATIONS, Chosen, Measure, choose
from ..measures.table import chosen
from .layers import CHANGES, Pair, duplicated, normalized, related, rng, unrelated

Reference = Callable[[np.ndarray, np.ndarray], float]

SAME = 1e-7  # two values that are the same but for rounding, in exact arithmetic
OTHER = 1e-4  # two values that differ
FAST = 1e-4  # what float32 products may cost
ORDERS = 60  # random orders of the rows, for the mean over all of them


class ContractError(AssertionError):
    """A measure that does not do what it declares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """
    One clause of the contract, ready to run.

    Parameters
    ----------
    name : str
        What is checked, in a few words.
    run : callable
        Raises `ContractError` if it does not hold.
    """

    name: str
    run: Callable[[], None]

    def __str__(self) -> str:
        return self.name


def contract(measure: str | Measure | Chosen, *, reference: Reference | None = None) -> list[Check]:
    """
    List everything that a measure must do, made from its own declarations.

    Parameters
    ----------
    measure : str, Measure or Chosen
        Of the kind that needs moments or rows. Options are those of a `Chosen`, or as in
        "svcca:threshold=0.9".
    reference : callable, optional
        `reference(x, y)` gives the true value for two float64 arrays of shape (rows, features), NaN where
        it is not defined. Without it, a mistake that keeps every declared property goes unnoticed.

    Returns
    -------
    list of Check
        For `pytest.mark.parametrize("check", contract(mine), ids=str)`.

    Examples
    --------
    >>> [check.name for check in contract("linear_cka")][:3]
    ['documented', 'options', 'self value']
    """
    choice = chosen(measure)
    kept = choice.declared("invariances")
    clauses: dict[str, Callable[[Chosen], None]] = dict(CLAUSES)
    for side, declared in (("left", kept.left), ("right", kept.right)):
        for change in TRANSFORMATIONS:
            verb = "ignores" if change in declared else "notices"
            clauses[f"{verb} {change} on the {side}"] = partial(
                _ignores if change in declared else _notices, change=change, side=side
            )
    if reference is not None:
        clauses["agrees with the reference"] = partial(_agrees, reference=reference)
    return [Check(name=name, run=partial(_run, name, clause, choice)) for name, clause in clauses.items()]


def failures(measure: str | Measure | Chosen, *, reference: Reference | None = None) -> dict[str, str]:
    """Run the whole contract, and give the sentence of each clause that does not hold, by its name."""
    found = {}
    for check in contract(measure, reference=reference):
        try:
            check.run()
        except ContractError as error:
            found[check.name] = str(error)
    return found


def check_measure(measure: str | Measure | Chosen, *, reference: Reference | None = None) -> None:
    """Run the whole contract, and raise one `ContractError` with a sentence for all that does not hold."""
    found = failures(measure, reference=reference)
    if found:
        raise ContractError("\n".join(found.values()))


def variants(measure: Measure) -> list[Chosen]:
    """A measure with its defaults, and with each other choice of each option, one at a time."""
    found = [choose(measure)]
    for name, option in measure.options.items():
        found += [choose(measure, {name: c}) for c in option.choices or () if c != option.default]
    return found


def _run(name: str, clause: Callable[[Chosen], None], choice: Chosen) -> None:
    try:
        clause(choice)
    except ContractError as error:
        raise ContractError(f"{choice.label}, {name}: {error}") from None
    except Exception as error:
        # Whatever a measure raises on proper input is its own fault.
        raise ContractError(f"{choice.label}, {name}: it raised {type(error).__name__}: {error}") from error


def _require(holds: bool, sentence: str) -> None:
    if not holds:
        raise ContractError(sentence)


def outcome(
    choice: Chosen, x: Any, y: Any, precision: str = "exact", **settings: Any
) -> tuple[float, str | None]:
    """Value and reason of one pair, as a user of `similarity_matrix` gets them."""
    values, reasons = _maps(choice, [x], [y], precision, **settings)
    return float(values[0, 0]), reasons[0][0]


def _maps(choice: Chosen, left: Any, right: Any, precision: str = "exact", **settings: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        one = similarity_matrix(left, right, [choice], precision=precision, **settings)[choice.label]
    return one.values, one.reasons


def value(choice: Chosen, x: Any, y: Any, precision: str = "exact", **settings: Any) -> float:
    """The value of one pair, which must be a number."""
    found, reason = outcome(choice, x, y, precision, **settings)
    _require(math.isfinite(found), f"a value must be a finite number here, but got {found} ({reason}).")
    return found


def _close(a: float, b: float, within: float, what: str) -> None:
    _require(abs(a - b) <= within, f"{what} must leave the value at {b:.9g}, but it is {a:.9g}.")


# Clauses


def _documented(choice: Chosen) -> None:
    measure = choice.measure
    _require(measure.name.isidentifier() and measure.name.islower(), "the name must be a lower-case word.")
    for field in ("title", "summary", "formula"):
        text = choice.declared(field)
        _require(isinstance(text, str) and bool(text.strip()), f"the {field} must not be empty.")
    _require(measure.summary.endswith("."), "the summary must be a sentence.")
    for key in measure.citations:
        _require(key in CITATIONS, f"the citation {key!r} must be in the table of citations.")
    low, high = choice.declared("range")
    _require(low < high, f"the range must be an interval, but it is {low} to {high}.")
    for name, option in measure.options.items():
        _require(bool(option.meaning.strip()), f"the option {name} must say what it means.")


def _options(choice: Chosen) -> None:
    x, y = related()
    for name, option in choice.measure.options.items():
        given = [*(option.choices or ()), *(b for b in (option.low, option.high) if b is not None)]
        for setting in [option.default, *given]:
            other = choose(choice.measure, {**choice.options, name: setting})
            found, reason = outcome(other, x, y)
            low, high = other.declared("range")
            _require(
                reason is not None or low - SAME <= found <= high + SAME,
                f"with {name}={setting} it must lie between {low:g} and {high:g}, but got {found}.",
            )
        if option.choices is None and option.low is None:
            continue
        wrong = "no such choice" if option.choices is not None else (option.low or 0.0) - 1
        try:
            choose(choice.measure, {name: wrong})
        except MicrotomeError:
            continue
        raise ContractError(f"the option {name} must refuse {wrong!r}.")


def _self_value(choice: Chosen) -> None:
    expected = choice.declared("self_value")
    for x, _ in (related(), normalized(), related(left=9, right=12), related(rows=64)):
        _close(value(choice, x, x.copy()), expected, SAME, "a comparison of a layer with itself")
        values, _ = _maps(choice, [x, x.copy()], None)
        _require(bool((abs(values - expected) <= SAME).all()), f"copies must give {expected}, got {values}.")


def _range(choice: Chosen) -> None:
    low, high = choice.declared("range")
    x, y = related()
    pairs = [(x, y), (x, -y), (x, x[:, ::-1]), unrelated(), normalized(), related(rows=20)]
    pairs += [related(rows=6, left=3, right=2), unrelated(rows=8), related(rows=40, left=1, right=1)]
    for a, b in pairs:
        for precision in ("exact", "fast"):
            found, reason = outcome(choice, a, b, precision)
            _require(
                (reason is not None) == math.isnan(found),
                f"an undefined value must be NaN with a reason, but got {found} ({reason}).",
            )
            _require(
                math.isnan(found) or low - SAME <= found <= high + SAME,
                f"values must lie between {low:g} and {high:g}, but got {found:.9g}.",
            )


def _symmetry(choice: Chosen) -> None:
    gaps = [abs(value(choice, x, y) - value(choice, y, x)) for x, y in (related(), normalized(), related(1))]
    if choice.declared("symmetric"):
        _require(max(gaps) <= SAME, f"swapping the sides must change nothing, but it does by {max(gaps):.2g}.")
    else:
        _require(max(gaps) > OTHER, "swapping the sides must change some value, but it never does.")


def _closer_is_higher(choice: Chosen) -> None:
    x, _ = related()
    noise = rng("noise").standard_normal(x.shape) * x.std(axis=0)
    near, far = value(choice, x, x + 0.1 * noise), value(choice, x, x + noise)
    none = value(choice, x, unrelated()[0])
    _require(
        near > far > none,
        f"noisier copies must score lower, but a little noise gives {near:.4g}, much {far:.4g}, "
        f"another layer {none:.4g}.",
    )


def _spread(choice: Chosen, x: np.ndarray, y: np.ndarray) -> float:
    """How much a measure that draws something varies by what it draws."""
    if "seed" not in choice.options:
        return 0.0
    found = [value(choose(choice.measure, {**choice.options, "seed": s}), x, y) for s in range(6)]
    return 2 * (max(found) - min(found))


def _row_order(choice: Chosen) -> None:
    x, y = related(rows=515)  # no multiple of any batch
    before, slack = value(choice, x, y), _spread(choice, x, y)
    for order in (rng("row order").permutation(len(x)), np.arange(len(x))[::-1]):
        _close(value(choice, x[order], y[order]), before, SAME + slack, "the same order of rows on both sides")


def _repeated_rows(choice: Chosen) -> None:
    if choice.declared("needs") != "moments":
        return
    x, y = related()
    twice = value(choice, np.vstack([x, x]), np.vstack([y, y]))
    if choice.declared("null") != "debiased":
        _close(twice, value(choice, x, y), SAME, "every row twice")
    else:
        _require(abs(twice - value(choice, x, y)) > OTHER, "debiasing must notice rows that come twice.")


def _many_layers(choice: Chosen) -> None:
    (x, y), (z, _) = related(rows=600), related(1, rows=600)
    layers, other = [x, y, z], [y, x]
    least = 2 * footprint(choice, 600, 12) if choice.declared("needs") == "rows" else 1
    for left, right in ((layers, None), (layers, other)):
        alone = [[value(choice, a, b) for b in right or left] for a in left]
        for memory in ("2GB", least):
            values, _ = _maps(choice, left, right, memory=memory)
            worst = float(abs(values - np.array(alone)).max())
            _require(worst <= SAME, f"with memory={memory} a map must hold each pair's value; off {worst:.2g}.")


def _number_formats(choice: Chosen) -> None:
    import torch

    x, y = (torch.from_numpy(z) for z in related())
    for kind in (torch.float16, torch.bfloat16, torch.float32):
        a, b = x.to(kind), y.to(kind)
        same = value(choice, a.double().numpy(), b.double().numpy())
        _close(value(choice, a, b), same, SAME, f"{kind}")
        _close(value(choice, a, b, "fast"), same, FAST, f"{kind} in fast arithmetic")
        _close(value(choice, a.double(), b), same, SAME, f"float64 against {kind}")


def _memory_layouts(choice: Chosen) -> None:
    import torch

    x, y = related()
    before = value(choice, x, y)
    apart = np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3]
    backward = np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    frozen = x.copy()
    frozen.flags.writeable = False
    swapped = x.astype(x.dtype.newbyteorder(">"))
    turned = torch.from_numpy(np.ascontiguousarray(x.T)).T
    for layout in (np.asfortranarray(x), apart, backward, frozen, swapped, turned):
        _close(value(choice, layout, y), before, SAME, "another layout in memory")


def _untouched(choice: Chosen) -> None:
    x, y = (z + 5.0 for z in related())
    a, b = x.copy(), y.copy()
    first = _maps(choice, [a, b], None)[0]
    _require(np.array_equal(a, x) and np.array_equal(b, y), "the input must stay as it was.")
    again = _maps(choice, [a, b], None)[0]
    _require(np.array_equal(first, again), "the same input must give the same bits.")


def _constant_neurons(choice: Chosen) -> None:
    kept = choice.declared("invariances").left & choice.declared("invariances").right
    # Where the origin matters, so does a constant, unless it is zero.
    constants = (0.0, 0.37, 3000.0) if "translation" in kept else (0.0,) if "orthogonal" in kept else ()
    for x, y in (related(), normalized()) if constants else ():
        before = value(choice, x, y)
        for constant in constants:
            wide = np.insert(x, 4, constant, axis=1), np.insert(y, 0, constant, axis=1)
            for a, b in ((wide[0], y), (x, wide[1]), wide):
                _close(value(choice, a, b), before, SAME, f"a neuron that is always {constant}")
                low = value(choice, a.astype(np.float32), b.astype(np.float32), "fast")
                _close(low, before, FAST, f"a neuron that is always {constant}, in fast arithmetic,")


def _large_means(choice: Chosen) -> None:
    kept = choice.declared("invariances")
    if "translation" not in kept.left & kept.right:
        return
    x, y = related()
    for where in (np.arange(x.shape[1]) == 5, np.arange(x.shape[1]) >= 0):
        moved = (x + 3000.0 * where).astype(np.float32)
        back = moved.astype(np.float64) - 3000.0 * where  # without a loss: the same numbers near 0
        before = value(choice, back, y)
        _close(value(choice, moved, y), before, SAME, "a mean of 3000")
        _close(value(choice, moved, y, "fast"), before, FAST, "a mean of 3000 in fast arithmetic")


def _undefined(choice: Chosen) -> None:
    x, _ = related()
    flat = np.full((len(x), 4), 0.37)
    for a, b in ((x, flat), (flat, x), (flat, flat)):
        found, reason = outcome(choice, a, b)
        _require(
            math.isnan(found) and isinstance(reason, str) and bool(reason),
            f"a constant layer must give NaN with a reason, but got {found} ({reason}).",
        )


def _null_mean(choice: Chosen) -> None:
    if choice.declared("null") is None:
        return
    x, y = related(rows=80, left=7, right=6)
    for a, b in ((x, y), (y, x)):
        orders = [b[rng("orders", k).permutation(len(b))] for k in range(ORDERS)]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SmallSampleWarning)
            one = similarity_matrix([a], orders, [choice], precision="exact")[choice.label]
        draws, said = one.values[0], float(one.null_mean[0, 0])
        error = 4 * draws.std() / math.sqrt(ORDERS) + 0.01  # some formulas are for many rows
        _require(
            abs(draws.mean() - said) <= error,
            f"the value of unrelated rows must be near {draws.mean():.4g}, but {said:.4g} is declared.",
        )


CLAUSES: Mapping[str, Callable[[Chosen], None]] = MappingProxyType(
    {
        "documented": _documented,
        "options": _options,
        "self value": _self_value,
        "range": _range,
        "symmetry": _symmetry,
        "closer is higher": _closer_is_higher,
        "order of rows": _row_order,
        "repeated rows": _repeated_rows,
        "many layers": _many_layers,
        "number formats": _number_formats,
        "memory layouts": _memory_layouts,
        "input untouched": _untouched,
        "constant neurons": _constant_neurons,
        "large means": _large_means,
        "undefined": _undefined,
        "null mean": _null_mean,
    }
)


def _changed(choice: Chosen, change: str, side: str) -> Iterator[tuple[float, float]]:
    """Values before and after a change of one side."""
    for pair in (related(), normalized()):
        before = value(choice, *pair)
        at = 0 if side == "left" else 1
        for changed in CHANGES[change](pair[at], rng(change, side)):
            yield before, value(choice, *(pair[:at] + (changed,) + pair[at + 1 :]))


def _ignores(choice: Chosen, change: str, side: str) -> None:
    for before, after in _changed(choice, change, side):
        _close(after, before, SAME, f"{change} of the {side} layer")


def _notices(choice: Chosen, change: str, side: str) -> None:
    gaps = [abs(after - before) for before, after in _changed(choice, change, side)]
    _require(
        max(gaps) > OTHER, f"{change} of the {side} layer is not declared harmless, but it changes nothing."
    )


def _agrees(choice: Chosen, reference: Reference) -> None:
    x, y = related(rows=258)
    spread = rng("scales").permutation(np.geomspace(1e-5, 1e5, x.shape[1]))
    dead = x.copy()
    dead[:, 3], dead[:, 5] = 0.37, 0.0
    moved = (x + 3000.0 * (np.arange(x.shape[1]) == 2)).astype(np.float32)
    pairs: list[Pair] = [(x, y), (y, x), unrelated(), normalized(), (x * spread, y), (dead, y), (y, dead)]
    pairs += [(moved, y), (y, moved), duplicated(), related(rows=20), related(2, rows=40, left=3, right=30)]
    for a, b in pairs:
        found, _ = outcome(choice, a, b)
        true = reference(np.asarray(a, np.float64), np.asarray(b, np.float64))
        _require(
            math.isnan(found) == math.isnan(true) and not abs(found - true) > SAME,
            f"the value must be {true:.9g}, but it is {found:.9g}.",
        )
