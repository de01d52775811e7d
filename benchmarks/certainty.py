"""Do the intervals cover as often as they promise, and do the tests fire no oftener than they promise?

Layers are simulated whose true similarity is known, `microtome.similarity_matrix` is called on them as a user
would call it, and its answers are counted. Run it as

    OMP_NUM_THREADS=1 python benchmarks/certainty.py --datasets 200 --processes 16 --json certainty.json

Both layers of a pair read a common 12-dimensional signal z: x = sqrt(s / 12) z A + sqrt(1 - s) noise, with s
the neurons' share of signal (0.35; 0.30 in layers of 128 neurons) and A a fixed matrix of standard normals.
`gauss` is that; `ln` passes it through tanh and LayerNorm and multiplies neuron 0 by 2.5; `indep` is `ln`
with a signal for each side. In sentences, every normal variable has correlation icc (.5) within a sentence.

The script returns 1 and lists what failed: a promised 95 % that covers outside of 91 to 99 % (for unrelated
layers, whose intervals are known to be wide, below 91 %), a promised 5 % that fires more often than 5 % plus
three Monte Carlo errors, a truth that is not known well enough, and whatever the block simulation fails.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import blocks_simulation
import numpy as np
from numpy.typing import NDArray

import microtome as mt
from microtome.errors import SmallSampleWarning
from microtome.randomness import generator

Array = NDArray[np.float64]
Row = dict[str, Any]
Drawn = tuple[list[Array], list[Array], NDArray[np.intp] | None]

TABLES = ("C1", "C2", "C3", "E")
MEASURES = ("debiased_cka", "linear_cka", "svcca", "neuron_correlation", "pwcca")
SIGNAL, OUTLIER = 12, 2.5
SHARE = {24: 0.35, 64: 0.35, 128: 0.30, 256: 0.25}
HALVES, PERMUTATIONS = 40, 99
LEVELS = (0.05, 0.01, 0.001)
COVERED = (0.91, 0.99)
# Intervals that are known to be wide: where most of a value is noise that was fitted, what a row adds counts
# that noise up to twice. They promise at least their level, so only the lower limit is held.
WIDE = ("svcca", "pwcca")
# Which targets an interval speaks of, by what the package says of it.
PROMISES = {
    "population value": ("same_n", "population"),
    "value of another sample of the same size": ("same_n",),
}
SCREENED = 15  # data sets of the closed-form p for each data set of the rest: they cost next to nothing
ROUGH = 0.15  # largest error of a truth, in standard errors of the intervals that are held against it
POPULATION, CHUNK = 400_000, 20_000  # rows that stand for the population, and rows drawn at a time


@dataclass(frozen=True, slots=True, kw_only=True)
class Design:
    """A way to draw two sides: independent rows, or so many sentences of these lengths."""

    name: str
    form: str = "ln"
    features: int = 64
    rows: int = 0
    sentences: int = 0
    lengths: tuple[int, int] = (20, 20)
    icc: float = 0.5
    related: bool = True
    layers: int = 1

    @property
    def key(self) -> str:
        """What the population value depends on: not the sentences, which leave the law of a row alone."""
        return f"{self.form if self.related else 'indep'} {self.features}"


INTERVALS: Mapping[str, tuple[Design, ...]] = {
    "C1": (
        Design(name="ln 200 x 64", rows=200),
        Design(name="ln 1000 x 64", rows=1000),
        Design(name="ln 500 x 128", rows=500, features=128),
        Design(name="ln 2000 x 128", rows=2000, features=128),
        Design(name="ln 500 x 256", rows=500, features=256),
        Design(name="gauss 1000 x 64", rows=1000, form="gauss"),
        Design(name="gauss 2000 x 256", rows=2000, form="gauss", features=256),
        Design(name="indep 500 x 64", rows=500, related=False),
    ),
    "C2": (
        Design(name="ln, 20 of 20 rows", sentences=20),
        Design(name="ln, 50 of 20 rows", sentences=50),
        Design(name="gauss, 50 of 20 rows", sentences=50, form="gauss"),
        Design(name="ln, 100 of 20 rows", sentences=100),
        Design(name="ln, 100 of 20 rows, icc .2", sentences=100, icc=0.2),
        Design(name="ln, 40 of 2-22 rows", sentences=40, lengths=(2, 22)),
        Design(name="ln, 80 of 2-22 rows", sentences=80, lengths=(2, 22)),
        Design(name="ln, 160 of 2-22 rows", sentences=160, lengths=(2, 22)),
    ),
}
SCREENS = (
    Design(name="ln 200 x 64", rows=200, related=False),
    Design(name="gauss 200 x 64", rows=200, form="gauss", related=False),
    Design(name="ln 50 x 64", rows=50, related=False),
    Design(name="gauss 1000 x 64", rows=1000, form="gauss", related=False),
)
MAPS = (
    Design(name="160 rows", rows=160, features=24, related=False, layers=5),
    Design(name="16 sentences of 10", sentences=16, lengths=(10, 10), features=24, related=False, layers=5),
    Design(name="40 sentences of 2-12", sentences=40, lengths=(2, 12), features=24, related=False, layers=5),
)


def draw(design: Design, rng: np.random.Generator, seed: int = 0) -> Drawn:
    """Draw left layers, right layers, each (rows, features), and the sentence of each row or None."""
    low, high = design.lengths
    lengths = rng.integers(low, high + 1, size=design.sentences)
    ids = np.repeat(np.arange(design.sentences), lengths) if design.sentences else None

    def normal(width: int) -> Array:
        if ids is None:
            return rng.standard_normal((design.rows, width))
        own, common = rng.standard_normal((len(ids), width)), rng.standard_normal((design.sentences, width))
        return math.sqrt(design.icc) * common[ids] + math.sqrt(1 - design.icc) * own

    def layer(side: str, number: int, signal: Array) -> Array:
        share, d = SHARE[design.features], design.features
        # The rows are drawn anew for each data set, but this belongs to the population.
        carry = generator(seed, "mixing", side, number, d).standard_normal((SIGNAL, d))
        x = math.sqrt(share / SIGNAL) * signal @ carry + math.sqrt(1 - share) * normal(d)
        if design.form == "ln":
            x = np.tanh(x)
            x = (x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)
            x[:, 0] *= OUTLIER
        return x

    signal = normal(SIGNAL)
    left = [layer("left", number, signal) for number in range(design.layers)]
    signal = signal if design.related else normal(SIGNAL)
    return left, [layer("right", number, signal) for number in range(design.layers)], ids


def population(
    design: Design, number: int, *, seed: int, rows: int, measures: Sequence[str] = MEASURES
) -> dict[str, float]:
    """Measure a population on very many independent rows; `error` is the standard error of debiased CKA."""
    x, y = np.empty((2, rows, design.features), dtype=np.float32)
    rng = generator(seed, "certainty", "population", design.key)
    for start in range(0, rows, CHUNK):
        stop = min(start + CHUNK, rows)
        some = replace(design, rows=stop - start, sentences=0)
        (x[start:stop],), (y[start:stop],), _ = draw(some, rng, seed)
    values = {
        name: float(one.values[0, 0])
        for name, one in mt.similarity_matrix([x], [y], measures, threads=1).items()
    }
    if "debiased_cka" not in measures:
        return values
    sure = mt.similarity_matrix([x], [y], certainty=True, threads=1)["debiased_cka"][0, 0].interval
    assert sure is not None
    return values | {"error": sure.width / 3.92}


def intervals(
    design: Design, number: int, *, seed: int, rows: int, measures: Sequence[str] = MEASURES
) -> dict[str, Any]:
    """Ask for the intervals of one data set: value, low, high, method and target for each measure."""
    (x,), (y,), ids = draw(design, generator(seed, "certainty", design.name, number), seed)
    ask = partial(mt.similarity_matrix, [x], [y], certainty=True, halves=HALVES, seed=number, threads=1)
    found = dict(ask(measures=measures, clusters=ids))
    if ids is not None and "debiased_cka" in measures:
        found["debiased_cka, sentences not given"] = ask()["debiased_cka"]
    return {
        name: (m.values[0, 0], m.low[0, 0], m.high[0, 0], f"{m.method}, {m.unit}s", m.target)
        for name, m in found.items()
        if m.low is not None and m.high is not None and math.isfinite(m.values[0, 0])
    }


def screens(design: Design, number: int, *, seed: int, rows: int) -> dict[tuple[str, str], Any]:
    """Closed-form p of unrelated layers, for some data sets: shape (data sets,) for each measure."""
    found: dict[tuple[str, str], list[float]] = {}
    for k in range(SCREENED):
        (x,), (y,), _ = draw(design, generator(seed, "certainty", "screen", design.name, number, k), seed)
        for name, one in mt.similarity_matrix([x], [y], MEASURES[:2], threads=1).items():
            found.setdefault((name, "closed-form p"), []).append(float(one.p[0, 0]))
    return found


def maps(design: Design, number: int, *, seed: int, rows: int) -> dict[tuple[str, str], Any]:
    """Which tests fire at 5 % on the map of two unrelated stacks; for single cells, the share that does."""
    left, right, ids = draw(design, generator(seed, "certainty", "map", design.name, number), seed)
    ask = partial(mt.similarity_matrix, left, right, seed=number, threads=1)
    fired: dict[tuple[str, str], float] = {}
    for name, one in ask(measures=MEASURES[:3], clusters=ids, permutations=PERMUTATIONS).items():
        fired[name, "permutations, a cell"] = float((one.p <= 0.05).mean())
        fired[name, "permutations, any cell (p_map)"] = float((np.asarray(one.p_map) <= 0.05).any())
    if ids is None:
        p = ask()["debiased_cka"].p
        fired["debiased_cka", "closed-form p, any cell"] = float((p <= 0.05).any())
        fired["debiased_cka", "closed-form p, any cell, Bonferroni"] = float((p <= 0.05 / p.size).any())
    else:
        p = np.asarray(ask(permutations=PERMUTATIONS)["debiased_cka"].p_map)
        fired["debiased_cka", "p_map, sentences not given"] = float((p <= 0.05).any())
    return fired


Job = tuple[Callable[..., Any], Design, int]


def work(job: Job, *, seed: int, rows: int, measures: Sequence[str]) -> Any:
    ask, design, number = job
    chosen = {"measures": measures} if ask in (population, intervals) else {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SmallSampleWarning)  # few rows are what is studied here
        return ask(design, number, seed=seed, rows=rows, **chosen)


def do_all(jobs: Sequence[Job], *, processes: int, **settings: Any) -> dict[tuple[Any, str], list[Any]]:
    """Do all jobs and gather their answers by question and design; they do not depend on `processes`."""
    call = partial(work, **settings)
    if processes == 1:
        answers = [call(job) for job in jobs]
    else:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            answers = list(pool.map(call, jobs))
    found: dict[tuple[Any, str], list[Any]] = {}
    for (ask, design, _), answer in zip(jobs, answers, strict=True):
        found.setdefault((ask, design.key if ask is population else design.name), []).append(answer)
    return found


def coverage(design: Design, measure: str, answers: Sequence[Any], truth: Mapping[str, float]) -> Row:
    """
    Count how often the intervals of one measure hold the mean over data sets, and the population value.

    An answer is (value, low, high, method, target) of a data set, `truth` comes from `population`, and the
    row's `problems` are empty when all promises are kept.
    """
    value, low, high = (np.array([answer[k] for answer in answers]) for k in range(3))
    method, target = answers[0][3:]
    targets = {"same_n": float(value.mean()), "population": truth[measure.partition(",")[0]]}
    promised = () if measure.endswith("not given") else PROMISES[target]
    sd, width = float(value.std(ddof=1)), float((high - low).mean())
    row: Row = {"data": design.name, "measure": measure, "interval": method, "promised": promised}
    row |= {"datasets": len(value), "mean": targets["same_n"], "mean_error": sd / math.sqrt(len(value))}
    row |= {"truth": targets["population"], "width": width / (3.92 * sd), "problems": []}
    for name, at in targets.items():
        rate = row[name] = float(((low <= at) & (at <= high)).mean())
        row[f"{name}_error"] = math.sqrt(rate * (1 - rate) / len(value))
        capped = design.related and measure.partition(",")[0] not in WIDE
        too = "narrow" if rate < COVERED[0] else "wide" if capped and rate > COVERED[1] else ""
        if name in promised and too:
            row["problems"].append(f"{name.replace('_', '-')} covered in {100 * rate:.1f} %: too {too}")
    if "population" in promised and truth["error"] > ROUGH * width / 3.92:
        row["problems"].append(f"the population value is only known to ± {truth['error']:.2g}")
    return row


def size(design: Design, measure: str, test: str, fired: Mapping[float, Array]) -> Row:
    """
    Give the rate at which a test fires on unrelated layers.

    `fired` holds for each level an array (data sets,) of 0 or 1, or of the share of cells. Only the level of
    5 % is promised, and not where the test ignores that there are many cells or sentences.
    """
    promised = test in ("closed-form p", "permutations, a cell", "permutations, any cell (p_map)")
    row: Row = {"data": design.name, "measure": measure, "test": test, "promised": promised, "problems": []}
    for level, each in fired.items():
        rate, root = float(each.mean()), math.sqrt(len(each))
        row |= {f"{level:g}": rate, f"{level:g}_error": float(each.std()) / root, "datasets": len(each)}
        # This is the spread of a yes or no under the promise; the cells of a map depend on each other.
        spread = math.sqrt(level * (1 - level)) if np.isin(each, (0, 1)).all() else float(each.std())
        if promised and level == LEVELS[0] and rate > level + 3 * spread / root:
            row["problems"].append(f"fires in {100 * rate:.1f} %")
    return row


def run(
    *,
    datasets: int = 200,
    processes: int = 1,
    only: Iterable[str] = TABLES,
    seed: int = 0,
    population_rows: int = POPULATION,
    names: Sequence[str] | None = None,
    measures: Sequence[str] = MEASURES,
) -> dict[str, Any]:
    """Simulate the tables that are wanted, or the designs of these names alone; give what `--json` writes."""
    started, only = time.perf_counter(), tuple(only)

    def wanted(table: str, designs: Iterable[Design]) -> list[Design]:
        return [d for d in designs if table in only and (names is None or d.name in names)]

    covers = {table: wanted(table, designs) for table, designs in INTERVALS.items()}
    tested = {screens: wanted("C3", SCREENS), maps: wanted("C3", MAPS)}
    truths = {design.key: design for designs in covers.values() for design in designs}
    asked = [(maps, tested[maps]), *((intervals, d) for d in covers.values()), (screens, tested[screens])]
    jobs: list[Job] = [(population, design, 0) for design in truths.values()]
    jobs += [(ask, design, k) for ask, designs in asked for design in designs for k in range(datasets)]
    done = do_all(jobs, processes=processes, seed=seed, rows=population_rows, measures=measures)
    tables: dict[str, list[Row]] = {table: [] for table in only}
    for table, designs in covers.items():
        for design in designs:
            answers, truth = done[intervals, design.name], done[population, design.key][0]
            for measure in answers[0]:
                tables[table].append(coverage(design, measure, [a[measure] for a in answers], truth))
    for ask, designs in tested.items():
        for design in designs:
            answers = done[ask, design.name]
            for measure, test in answers[0]:
                each = np.hstack([a[measure, test] for a in answers])
                levels = {at: (each <= at).astype(float) for at in LEVELS}
                fired = levels if ask is screens else {LEVELS[0]: each}
                tables["C3"].append(size(design, measure, test, fired))
    if "E" in only:
        for row in blocks_simulation.run(stacks=datasets, processes=processes, seed=seed):
            problems = [] if row.passed else ["outside the limits"]
            margin = None if math.isnan(row.margin) else row.margin
            tables["E"].append(asdict(row) | {"margin": margin, "problems": problems})
    return {
        "format": "microtome/certainty/1",
        "settings": {"datasets": datasets, "seed": seed, "population_rows": population_rows},
        "versions": {"microtome": mt.__version__} | {p: version(p) for p in ("numpy", "scipy", "torch")},
        "seconds": {"wall": round(time.perf_counter() - started), "processes": processes},
        "tables": tables,
    }


def percent(row: Row, name: str, promised: bool) -> str:
    if name not in row:
        return ""
    text = f"{100 * row[name]:.1f} ± {100 * row[f'{name}_error']:.1f}"
    return text if promised else f"({text})"


def cells(table: str, row: Row) -> dict[str, str]:
    """Words and numbers of one row, by the title of their column."""
    if table in INTERVALS:
        return {name: row[name] for name in ("data", "measure", "interval")} | {
            "mean": f"{row['mean']:.4f}",
            "population": f"{row['truth']:.4f}",
            "bias": f"{row['mean'] - row['truth']:+.4f} ± {row['mean_error']:.4f}",
            "covers same-n %": percent(row, "same_n", "same_n" in row["promised"]),
            "covers population %": percent(row, "population", "population" in row["promised"]),
            "width / 3.92 sd": f"{row['width']:.2f}",
        }
    if table == "C3":
        return {name: row[name] for name in ("data", "measure", "test")} | {
            f"fires at {100 * level:g} %": percent(row, f"{level:g}", row["promised"] and level == LEVELS[0])
            for level in LEVELS
        }
    return {
        "rows": row["variant"],
        "n": f"{row['rows']:,}",
        "stacks": row["scenario"],
        "margin": "" if row["margin"] is None else f"{row['margin']:.2f}",
        "certain block %": f"{100 * row['certain']:.0f}",
        "none in the population %": f"{100 * row['false']:.1f}",
        "planted block found %": "" if row["margin"] is None else f"{100 * row['found']:.0f}",
        "clustering (found) %": _others(row, "clustering"),
        "change point (found) %": _others(row, "changepoint"),
    }


def _others(row: Row, name: str) -> str:
    """How often another method finds anything, and how often what was planted."""
    found = "" if row["margin"] is None else f" ({100 * row[f'{name}_found']:.0f})"
    return f"{100 * row[name]:.0f}{found}"


def render(table: str, rows: Sequence[Row]) -> str:
    lines = [cells(table, row) | {"": "; ".join(row["problems"])} for row in rows]
    head = [list(lines[0]), ["---"] * len(lines[0])] if lines else []
    return "\n".join(f"| {' | '.join(line)} |" for line in [*head, *(list(line.values()) for line in lines)])


def fill(text: str, tables: Mapping[str, str]) -> str:
    """Put each table between its two marks, which are added where the text has none."""
    for name, table in tables.items():
        first, last = f"<!-- table {name} -->\n", f"<!-- end of table {name} -->\n"
        if first not in text:
            text += f"\n{first}{last}"
        before, _, rest = text.partition(first)
        text = f"{before}{first}\n{table}\n\n{last}{rest.partition(last)[2]}"
    return text


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Coverage of intervals and size of tests, by simulation.")
    parser.add_argument("--datasets", type=int, default=200, help="data sets a row")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--only", default=",".join(TABLES), help="tables, such as C1,C3")
    parser.add_argument("--measures", default=",".join(MEASURES), help="of the tables C1 and C2")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--population-rows", type=int, default=POPULATION, help="rows that stand for all")
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument("--markdown", type=Path, help="write the tables between their marks in this file")
    parser.add_argument("--read", type=Path, help="read results written by --json and simulate nothing")
    chosen = vars(parser.parse_args(arguments))
    to_json, to_markdown, source = (chosen.pop(name) for name in ("json", "markdown", "read"))
    os.environ["OMP_NUM_THREADS"] = "1"  # for the workers, which are started afresh
    chosen["only"], chosen["measures"] = chosen["only"].split(","), chosen["measures"].split(",")
    if chosen["datasets"] < 2 or not set(chosen["only"]) <= set(TABLES):
        parser.error(f"--datasets must be at least 2, and --only among {', '.join(TABLES)}.")
    results = run(**chosen) if source is None else json.loads(source.read_text())
    tables = {name: render(name, rows) for name, rows in results["tables"].items()}
    if to_json is not None:
        to_json.write_text(json.dumps(results, indent=1, allow_nan=False) + "\n")
    if to_markdown is not None:
        to_markdown.write_text(fill(to_markdown.read_text() if to_markdown.exists() else "", tables))
    print(fill("", tables))
    bad = [(name, row) for name, rows in results["tables"].items() for row in rows if row["problems"]]
    failed = [" | ".join([name, *list(cells(name, row).values())[:3], *row["problems"]]) for name, row in bad]
    print("\n".join(["Promises that were not kept:", *failed] if failed else ["All promises were kept."]))
    return int(bool(failed))


if __name__ == "__main__":
    raise SystemExit(main())
