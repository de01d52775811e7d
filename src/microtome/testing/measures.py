"""Contract tests for similarity measures, generated from their declarations."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any

import numpy as np

from ..comparison.routes import footprint
from ..comparison.similarity import similarity_matrix
from ..errors import MicrotomeError, SmallSampleWarning
from ..findings.maps import Map
from ..lazy import torch
from ..measures.citations import CITATIONS
from ..measures.declare import TRANSFORMATIONS, Chosen, Measure, choose
from ..measures.table import chosen
from .layers import CHANGES, Array, Pair, normalized, related, rng, unrelated

Reference = Callable[[Array, Array], float]
Claims = Iterator[tuple[bool, str]]  # whether a claim holds, and the sentence if it does not

SAME = 1e-7  # tolerance for rounding in exact arithmetic
FAST = 1e-4  # tolerance for rounding in fast arithmetic
OTHER = 1e-4  # least difference between two values that differ
ORDERS = 60  # random orders of the rows, for the mean over all of them


class ContractError(AssertionError):
    """A measure does not do what it declares."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One clause of the contract: its name, and a function that raises `ContractError` if it is broken."""

    name: str
    run: Callable[[], None]

    def __str__(self) -> str:
        return self.name


def contract(measure: str | Measure | Chosen, *, reference: Reference | None = None) -> list[Check]:
    """
    List the checks of a measure, generated from its declarations.

    Parameters
    ----------
    measure : str, Measure or Chosen
        A measure that needs moments or rows.
    reference : callable, optional
        `reference(x, y)` gives the true value for two float64 arrays of shape (rows, features), NaN where
        it is undefined. Without it, a mistake that preserves every declared property goes unnoticed.

    Returns
    -------
    list of Check
        For `pytest.mark.parametrize("check", contract(mine), ids=str)`.

    Examples
    --------
    >>> [check.name for check in contract("linear_cka")][:3]
    ['documented', 'options', 'self value']
    """
    choice, clauses = chosen(measure), dict(CLAUSES)
    invariances = choice.declared("invariances")
    for side, declared in (("left", invariances.left), ("right", invariances.right)):
        for change in TRANSFORMATIONS:
            name = f"{'ignores' if change in declared else 'notices'} {change} on the {side}"
            clauses[name] = partial(_ignores if change in declared else _notices, change=change, side=side)
    if reference is not None:
        clauses["agrees with the reference"] = partial(_agrees, reference=reference)
    return [Check(name=name, run=partial(_run, name, clause, choice)) for name, clause in clauses.items()]


def failures(measure: str | Measure | Chosen, *, reference: Reference | None = None) -> dict[str, str]:
    """Run the whole contract, and return a sentence for each broken clause, by its name."""
    sentences = {}
    for check in contract(measure, reference=reference):
        try:
            check.run()
        except ContractError as error:
            sentences[check.name] = str(error)
    return sentences


def check_measure(measure: str | Measure | Chosen, *, reference: Reference | None = None) -> None:
    """Run the whole contract; raise one `ContractError` with one line per broken clause."""
    if sentences := failures(measure, reference=reference):
        raise ContractError("\n".join(sentences.values()))


def variants(measure: Measure) -> list[Chosen]:
    """List a measure with its defaults, and with each other choice of each option, one at a time."""
    choices = [choose(measure)]
    for name, option in measure.options.items():
        choices += [choose(measure, {name: c}) for c in option.choices or () if c != option.default]
    return choices


def _run(name: str, clause: Callable[[Chosen], Claims], choice: Chosen) -> None:
    try:
        for holds, sentence in clause(choice):
            if not holds:
                raise ContractError(sentence)
    except ContractError as error:
        raise ContractError(f"{choice.label}, {name}: {error}") from None
    except Exception as error:
        # Any exception on valid input is a fault of the measure.
        raise ContractError(f"{choice.label}, {name}: it raised {type(error).__name__}: {error}") from error


def _map(choice: Chosen, left: Any, right: Any, precision: str = "exact", **settings: Any) -> Map:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)
        return similarity_matrix(left, right, [choice], precision=precision, **settings)[choice.label]


def value(choice: Chosen, x: Any, y: Any, precision: str = "exact") -> float:
    """Return the value of one pair of layers, which must be finite."""
    cell = _map(choice, [x], [y], precision)[0, 0]
    if not math.isfinite(cell.value):
        raise ContractError(f"the value must be a finite number, but got {cell.value} ({cell.reason}).")
    return cell.value


def _near(actual: float, expected: float, within: float, what: str) -> tuple[bool, str]:
    return abs(actual - expected) <= within, f"{what} must give {expected:.9g}, but gives {actual:.9g}."


def _documented(choice: Chosen) -> Claims:
    measure, (low, high) = choice.measure, choice.declared("range")
    yield measure.name.isidentifier() and measure.name.islower(), "the name must be a lower-case word."
    for field in ("title", "summary", "formula"):
        yield bool(choice.declared(field).strip()), f"the {field} must not be empty."
    for key in measure.citations:
        yield key in CITATIONS, f"the citation {key!r} must be in the table of citations."
    yield low < high, f"the range must be an interval, but it is {low} to {high}."
    for name, option in measure.options.items():
        yield bool(option.meaning.strip()), f"the option {name} must say what it means."


def _in_range(choice: Chosen, x: Array, y: Array, precision: str = "exact") -> Claims:
    cell, (low, high) = _map(choice, [x], [y], precision)[0, 0], choice.declared("range")
    description = f"{cell.value:.9g} ({cell.reason})"
    yield (
        (cell.reason is None) == math.isfinite(cell.value),
        f"NaN must have a reason, but got {description}.",
    )
    inside = cell.reason is not None or low - SAME <= cell.value <= high + SAME
    yield inside, f"{choice.label} must lie between {low:g} and {high:g}, but got {description}."


def _options(choice: Chosen) -> Claims:
    for name, option in choice.measure.options.items():
        settings = [option.default, *(option.choices or ()), option.low, option.high]
        # An option that the entry sets is kept: another setting may conflict with the rest of the entry.
        free = choice.options[name] == option.default
        for setting in (s for s in settings if s is not None and free):
            yield from _in_range(choose(choice.measure, {**choice.options, name: setting}), *related())
        if option.choices is not None or option.low is not None:
            wrong = "no such choice" if option.low is None else option.low - 1
            try:
                choose(choice.measure, {name: wrong})
            except MicrotomeError:
                continue
            yield False, f"the option {name} must refuse {wrong!r}."


def _self_value(choice: Chosen) -> Claims:
    expected = choice.declared("self_value")
    for x, _ in (related(), normalized(), related(left=9, right=12), related(rows=515)):
        cells = _map(choice, [x, x.copy()], None).values if math.isfinite(expected) else expected
        worst = float(np.max(abs(cells - expected)))
        yield not worst > SAME, f"a layer and its copy must give {expected}, but that is off by {worst:.2g}."


def _range(choice: Chosen) -> Claims:
    x, y = related()
    pairs = [(x, y), (x, -y), (x, x[:, ::-1]), unrelated(), normalized(), related(rows=20)]
    pairs += [related(rows=6, left=3, right=2), unrelated(rows=8), related(rows=40, left=1, right=1)]
    for pair in pairs:
        yield from _in_range(choice, *pair)
        yield from _in_range(choice, *pair, precision="fast")


def _symmetry(choice: Chosen) -> Claims:
    gaps = [abs(value(choice, x, y) - value(choice, y, x)) for x, y in (related(), normalized(), related(1))]
    if choice.declared("symmetric"):
        yield max(gaps) <= SAME, f"swapping the sides must change nothing, but does by {max(gaps):.2g}."
    else:
        yield max(gaps) > OTHER, "swapping the sides must change some value, but never does."


def _closer_is_higher(choice: Chosen) -> Claims:
    x, _ = related()
    noise = rng("noise").standard_normal(x.shape) * x.std(axis=0)
    values = [value(choice, x, layer) for layer in (x + 0.1 * noise, x + noise, unrelated()[0])]
    falling = values == sorted(values, reverse=True)
    yield falling, f"copies with little noise, much noise and another layer must fall, but give {values}."


def _order_of_rows(choice: Chosen) -> Claims:
    x, y = related(rows=515)  # no multiple of a batch
    before, slack = value(choice, x, y), SAME
    if "seed" in choice.options:  # random draws depend on the order
        seeds = [choose(choice.measure, {**choice.options, "seed": seed}) for seed in range(6)]
        slack += 2 * float(np.ptp([value(seed, x, y) for seed in seeds]))
    for order in (rng("row order").permutation(len(x)), np.arange(len(x))[::-1]):
        yield _near(value(choice, x[order], y[order]), before, slack, "another order of the rows")


def _repeated_rows(choice: Chosen) -> Claims:
    if choice.declared("needs") == "moments":
        x, y = related()
        once, twice = value(choice, x, y), value(choice, np.vstack([x, x]), np.vstack([y, y]))
        noticed = abs(twice - once) > OTHER, "debiasing must notice that rows come twice."
        debiased = choice.declared("null") == "debiased"
        yield noticed if debiased else _near(twice, once, SAME, "every row twice")


def _many_layers(choice: Chosen) -> Claims:
    (x, y), (z, _) = related(rows=260), related(1, rows=260)  # more than the shortest tile
    least = 2 * footprint(choice, 260, 12) if choice.declared("needs") == "rows" else 1
    for left_layers, right_layers in (([x, y, z], None), ([x, y], [z, y])):
        pairwise = np.array([[value(choice, a, b) for b in right_layers or left_layers] for a in left_layers])
        for memory in ("2GB", least):
            worst = float(abs(_map(choice, left_layers, right_layers, memory=memory).values - pairwise).max())
            yield worst <= SAME, f"a map must hold each pair's own value, but is off by {worst:.2g}."


def _number_formats(choice: Chosen) -> Claims:
    x, y = (torch.from_numpy(z) for z in related())
    for kind in (torch.float16, torch.bfloat16, torch.float32):
        a, b = x.to(kind), y.to(kind)
        same = value(choice, a.double().numpy(), b.double().numpy())
        yield _near(value(choice, a, b), same, SAME, f"{kind}")
        yield _near(value(choice, a.double(), b), same, SAME, f"float64 with {kind}")
        yield _near(value(choice, a, b, "fast"), same, FAST, f"{kind} in fast arithmetic")


def _memory_layouts(choice: Chosen) -> Claims:
    x, y = related()
    turned = torch.from_numpy(np.ascontiguousarray(x.T)).T
    apart = np.repeat(np.repeat(x, 2, axis=0), 3, axis=1)[::2, ::3]
    backward = np.ascontiguousarray(x[::-1, ::-1])[::-1, ::-1]
    frozen = np.frombuffer(x.tobytes()).reshape(x.shape)
    for layout in (np.asfortranarray(x), apart, backward, frozen, turned):
        yield _near(value(choice, layout, y), value(choice, x, y), SAME, "another layout in memory")


def _input_untouched(choice: Chosen) -> Claims:
    x, y = (z + 5.0 for z in related())
    a, b = x.copy(), y.copy()
    first, again = (_map(choice, [a, b], None).values for _ in range(2))
    yield np.array_equal(a, x) and np.array_equal(b, y), "the input must stay as it was."
    yield np.array_equal(first, again), "the same input must give the same bits."


def _constant_neurons(choice: Chosen) -> Claims:
    invariances = choice.declared("invariances").left & choice.declared("invariances").right
    # Where the origin matters, so does a nonzero constant.
    constants = (
        (0.0, 0.37, 3000.0) if "translation" in invariances else (0.0,) if "orthogonal" in invariances else ()
    )
    for constant in constants:
        for x, y in (related(), normalized()):
            before = value(choice, x, y)
            a, b = np.insert(x, 4, constant, axis=1), np.insert(y, 0, constant, axis=1)
            for left_layer, right_layer in ((a, y), (x, b), (a, b)):
                yield _near(
                    value(choice, left_layer, right_layer),
                    before,
                    SAME,
                    f"a neuron that is always {constant}",
                )
            low = value(choice, a.astype(np.float32), b.astype(np.float32), "fast")
            yield _near(low, before, FAST, f"in fast arithmetic, a neuron that is always {constant}")


def _large_means(choice: Chosen) -> Claims:
    if "translation" in choice.declared("invariances").left & choice.declared("invariances").right:
        x, y = related()
        for where in (np.arange(12) == 5, np.arange(12) >= 0):
            moved = (x + 3000.0 * where).astype(np.float32)
            before = value(choice, moved.astype(np.float64) - 3000.0 * where, y)  # a difference without loss
            yield _near(value(choice, moved, y), before, SAME, "a mean of 3000")
            yield _near(value(choice, moved, y, "fast"), before, FAST, "a mean of 3000 in fast arithmetic")


def _undefined(choice: Chosen) -> Claims:
    x, _ = related()
    flat = np.full((len(x), 4), 0.37)
    for a, b in ((x, flat), (flat, x), (flat, flat)):
        cell = _map(choice, [a], [b])[0, 0]
        description = f"{cell.value} ({cell.reason})"
        yield (
            math.isnan(cell.value) and bool(cell.reason),
            f"a constant layer must say so, but gives {description}.",
        )


def _null_mean(choice: Chosen) -> Claims:
    if choice.declared("null") is not None:
        x, y = related(rows=80, left=7, right=6)
        for a, b in ((x, y), (y, x)):
            permuted = _map(choice, [a], [b[rng("orders", k).permutation(len(b))] for k in range(ORDERS)])
            declared, mean = float(permuted.null_mean[0, 0]), float(permuted.values.mean())
            within = 4 * permuted.values.std() / math.sqrt(ORDERS) + 0.01  # some formulas are asymptotic
            yield (
                abs(mean - declared) <= within,
                f"unrelated rows give {mean:.4g}, but {declared:.4g} is declared.",
            )


_PARTS = (_documented, _options, _self_value, _range, _symmetry, _closer_is_higher, _order_of_rows)
_PARTS += (_repeated_rows, _many_layers, _number_formats, _memory_layouts, _input_untouched)
_PARTS += (_constant_neurons, _large_means, _undefined, _null_mean)
CLAUSES: Mapping[str, Callable[[Chosen], Claims]] = MappingProxyType(
    {part.__name__.strip("_").replace("_", " "): part for part in _PARTS}
)


def _changed(choice: Chosen, change: str, side: str) -> Iterator[tuple[float, float]]:
    """Iterate over values before and after each form of a transformation of one side."""
    for x, y in (related(), normalized()):
        before = value(choice, x, y)
        for z in CHANGES[change](x if side == "left" else y):
            after = _map(choice, [z], [y]) if side == "left" else _map(choice, [x], [z])
            yield before, float(after.values[0, 0])


def _ignores(choice: Chosen, change: str, side: str) -> Claims:
    for before, after in _changed(choice, change, side):
        yield _near(after, before, SAME, f"{change} of the {side} layer")


def _notices(choice: Chosen, change: str, side: str) -> Claims:
    noticed = any(not abs(after - before) <= OTHER for before, after in _changed(choice, change, side))
    yield noticed, f"{change} of the {side} layer is not declared harmless, but changes nothing."


def _agrees(choice: Chosen, reference: Reference) -> Claims:
    x, y = related(rows=258)
    spread = rng("scales").permutation(np.geomspace(1e-5, 1e5, 12))
    dead, moved = x.copy(), (x + 3000.0 * (np.arange(12) == 2)).astype(np.float32)
    dead[:, 3], dead[:, 5] = 0.37, 0.0
    pairs: list[Pair] = [(x, y), (y, x), unrelated(), normalized(), (x * spread, y), (dead, y), (y, dead)]
    pairs += [(moved, y), (y, moved), (np.hstack([x, x[:, :4]]), y)]
    pairs += [related(2, rows=40, left=3, right=30), related(6, rows=400, left=30, right=24)]
    for a, b in pairs:
        actual = float(_map(choice, [a], [b]).values[0, 0])
        true = reference(np.asarray(a, np.float64), np.asarray(b, np.float64))
        same = math.isnan(actual) == math.isnan(true) and not abs(actual - true) > SAME
        yield same, f"the value must be {true:.9g}, but is {actual:.9g}."
