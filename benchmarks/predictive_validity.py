"""Does similarity predict what can be cut? Measured costs of spans against every measure of similarity.

For layers i < j, the similarity of the two is set against the cost of skipping the blocks i + 1..j. Long
spans cost more and their ends are less alike, so a measure has to tell more than length and depth do. Spans
of one model overlap and are not independent: the unit is a whole case, and cases of one task stand
together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from predictive_validity_words import findings, methods, warnings
from span_validity import (
    FEWEST,
    Spans,
    partial_rank_correlation,
    predict_order,
    rank_correlation,
    spans_of,
)

from microtome.arguments import checked
from microtome.encoders.versions import provenance
from microtome.errors import InputError, must
from microtome.findings.layer_order import mantel
from microtome.findings.results import Result, SpanMap
from microtome.inference.scoring import quantile

EFFECTS = ("spearman", "partial", "gain_out_of_task", "gain_out_of_model")
LEFT_OUT = ("task", "model")
ENOUGH = 3  # tasks, or models, that an interval is taken over
_PERMUTATIONS = 999
_ROUNDING = 1e-12


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Case:
    """
    One tuned model: what its spans cost, and how alike its layers are.

    Parameters
    ----------
    model, task : str
    seed : int or str
    cost : SpanMap or ndarray of shape (depth, depth)
        Row first - 1, column last - 1: what skipping these blocks loses, positive where something is lost.
    similarity : mapping of str to ndarray
        For each measure the map of the layers 0..depth, or of 1..depth where layer 0 is undefined, as for
        the rows of a first token that is the same in every example.
    """

    model: str
    task: str
    seed: int | str
    cost: SpanMap | np.ndarray
    similarity: Mapping[str, np.ndarray]


@checked
def predictive_validity(cases: Sequence[Case], *, level: float = 0.95, seed: int = 0) -> Result:
    """
    Rank measures of similarity by how well they tell what skipping costs.

    Parameters
    ----------
    cases : sequence of Case
        Models, tasks and seeds. A case may lack measures that others have.
    level : float
    seed : int
        Of the permutations of layers, which stand in for an interval where there is one case.

    Returns
    -------
    Result
        `rows`: one record a measure and case. `more["measures"]`: for each measure the mean `spearman` of
        similarity and cost (negative where similar layers can be cut between), `partial` beyond length and
        depth, and what knowing similarity adds to the rank correlation of predicted and measured cost, in
        tasks (`gain_out_of_task`) and models (`gain_out_of_model`) that the predictor has not seen.
        `more["ranking"]`: measures by partial effect.

    Notes
    -----
    See `span_validity` for the exact regressions. Intervals are t over the means of tasks
    where there are three or more, over those of models where these are three or more and tell a wider one or
    tasks are few, else over pairs of model and task, or cases, with the reason told.
    """
    if not 0 < level < 1:
        raise must("level", "between 0 and 1", level)
    measures = _check(cases)
    rows: list[dict[str, Any]] = []
    for measure in measures:
        rows += _rows_of(measure, [case for case in cases if measure in case.similarity])
    table = {m: _summary([row for row in rows if row["measure"] == m], level) for m in measures}
    for measure, found in table.items():
        if found["cases"] == 1:
            one = next(case for case in cases if measure in case.similarity)
            found["spearman"] |= _mantel(one, measure, seed)
    partial = {measure: table[measure]["partial"]["mean"] for measure in measures}
    ranking = sorted(measures, key=lambda measure: (np.isnan(partial[measure]), partial[measure]))
    told = {w: list(dict.fromkeys(str(getattr(c, w)) for c in cases)) for w in ("model", "task", "seed")}
    return Result(
        experiment="prediction",
        model=", ".join(told["model"]),
        task=", ".join(told["task"]),
        split="",
        score="rank correlation",
        points=1.0,
        rows=tuple(MappingProxyType(row) for row in rows),
        findings=tuple(findings(table, ranking, told, level)),
        methods=methods(measures, told, len(cases), level),
        warnings=tuple(warnings(table, rows)),
        more=MappingProxyType({"measures": table, "ranking": ranking, "level": level}),
        provenance=MappingProxyType(
            provenance({**{f"{what}s": names for what, names in told.items()}, "seed": seed})
        ),
    )


def _check(cases: Sequence[Case]) -> list[str]:
    if not cases:
        raise must("the number of cases", "at least 1", 0)
    if not all(hasattr(case, "model") and hasattr(case, "task") for case in cases):
        raise must("cases", "a list of cases", cases)
    names = [(case.model, case.task, str(case.seed)) for case in cases]
    for name in names:
        if names.count(name) > 1:
            raise must("cases", "one for each model, task and seed", f"two of {name}")
    measures = list(dict.fromkeys(measure for case in cases for measure in case.similarity))
    if not measures:
        raise InputError("cases must have at least one measure of similarity, but have none.")
    return measures


def _rows_of(measure: str, cases: Sequence[Case]) -> list[dict[str, Any]]:
    """One record a case that has the measure."""
    spans = [spans_of(case.similarity[measure], _cost(case)) for case in cases]
    usable = [_why_not(one) is None for one in spans]
    rows = []
    for case, one, sound in zip(cases, spans, usable, strict=True):
        row: dict[str, Any] = {
            "measure": measure,
            "model": case.model,
            "task": case.task,
            "seed": str(case.seed),
            "depth": len(_cost(case)),
            "spans": len(one.cost),
            "without_layer_0": one.without_layer_0,
            "missing": one.missing,
            "length_alone": rank_correlation(one.length, one.cost) if sound else float("nan"),
            "spearman": rank_correlation(one.similarity, one.cost) if sound else float("nan"),
            "partial": partial_rank_correlation(one) if sound else float("nan"),
        }
        for what in LEFT_OUT:
            others = [
                each
                for other, each, fine in zip(cases, spans, usable, strict=True)
                if fine and getattr(other, what) != getattr(case, what)
            ]
            without, full = predict_order(others, one) if sound and others else (float("nan"), float("nan"))
            row |= {
                f"out_of_{what}_without": without,
                f"out_of_{what}": full,
                f"gain_out_of_{what}": full - without,
            }
        rows.append(row | {"reason": _why_not(one)})
    return rows


def _cost(case: Case) -> np.ndarray:
    return np.asarray(case.cost.values if isinstance(case.cost, SpanMap) else case.cost, dtype=np.float64)


def _why_not(spans: Spans) -> str | None:
    if len(spans.cost) < FEWEST:
        return f"{len(spans.cost)} spans have both a cost and a similarity, and {FEWEST} are needed"
    if np.ptp(spans.cost) == 0:
        return "every span costs the same"
    return "all similarities are equal" if np.ptp(spans.similarity) == 0 else None


def _summary(rows: Sequence[Mapping[str, Any]], level: float) -> dict[str, Any]:
    found: dict[str, Any] = {effect: _over_cases(rows, effect, level) for effect in EFFECTS}
    for plain in ("length_alone", "out_of_task_without", "out_of_model_without"):
        known = [row[plain] for row in rows if np.isfinite(row[plain])]
        found[plain] = float(np.mean(known)) if known else float("nan")
    return found | {"cases": len(rows), "without_layer_0": sum(row["without_layer_0"] for row in rows)}


def _over_cases(rows: Sequence[Mapping[str, Any]], effect: str, level: float) -> dict[str, Any]:
    """Mean of an effect, with an interval over what may be taken as independent."""
    known = [row for row in rows if np.isfinite(row[effect])]
    nothing = {"mean": float("nan"), "low": None, "high": None, "p": None, "unit": None, "units": 0}
    if not known:
        what = effect.rpartition("_")[2]
        one = effect.startswith("gain") and len({row[what] for row in rows}) == 1
        return nothing | {"reason": f"there is one {what} only" if one else "no case has a value"}
    means = {
        unit: [
            float(np.mean([row[effect] for row in known if tuple(row[k] for k in keys) == group]))
            for group in dict.fromkeys(tuple(row[k] for k in keys) for row in known)
        ]
        for unit, keys in _UNITS.items()
    }
    enough = [unit for unit in LEFT_OUT if len(means[unit]) >= ENOUGH]
    reason = None
    if not enough:
        enough = ["model and task"] if len(means["model and task"]) >= ENOUGH else ["case"]
        reason = (
            f"tasks ({len(means['task'])}) and models ({len(means['model'])}) are fewer than {ENOUGH}: the "
            f"interval is over each {enough[0]}, as if those of one task or model were independent, and "
            "nothing is tested"
        )
    if len(means[enough[0]]) < 2:
        reason = "one case: its spans overlap, so they give no interval"
        return nothing | {"mean": means["case"][0], "unit": "case", "units": 1, "reason": reason}
    end = 2.0 if effect.startswith("gain") else 1.0  # as far as such an effect can go
    told: list[dict[str, Any]] = [_student(means[unit], level, end) | {"unit": unit} for unit in enough]
    widest = int(np.argmax([one["high"] - one["low"] for one in told]))
    found = told[widest] | {"reason": reason}
    # Seeds of one task or model go together: a test over them would find effects that are none.
    return found if reason is None else found | {"p": None}


_UNITS = MappingProxyType(
    {
        "task": ("task",),
        "model": ("model",),
        "model and task": ("model", "task"),
        "case": ("model", "task", "seed"),
    }
)


def _student(values: Sequence[float], level: float, end: float) -> dict[str, Any]:
    from scipy.special import stdtr

    mean, dof = float(np.mean(values)), len(values) - 1
    se = float(np.std(values, ddof=1) / np.sqrt(len(values)))
    arm = quantile(level, dof) * se
    # Values that differ by rounding alone tell no spread, and without one nothing can be tested.
    p = 2 * float(stdtr(dof, -abs(mean) / se)) if np.ptp(values) > _ROUNDING else None
    return {
        "mean": mean,
        "low": max(-end, mean - arm),
        "high": min(end, mean + arm),
        "p": p,
        "units": len(values),
    }


def _mantel(case: Case, measure: str, seed: int) -> dict[str, Any]:
    """How often relabeled layers agree as much with the costs; none for the partial effect, see the words."""
    cost = _cost(case)
    depth = len(cost)
    square = np.full((depth + 1, depth + 1), np.nan)
    i, j = np.triu_indices(depth + 1, 1)
    square[i, j] = square[j, i] = -cost[i, j - 1]
    similarity = np.asarray(case.similarity[measure], dtype=np.float64)
    if len(similarity) == depth + 1 and not np.isfinite(similarity[0, 1:]).any():
        similarity = similarity[1:, 1:]
    if len(similarity) == depth:
        # Costs of what layer 0 has no similarity with must not take part in their ranks either.
        square = square[1:, 1:]
    try:
        found = mantel(_rank_map(similarity), _rank_map(square), _PERMUTATIONS, seed)
    except InputError:
        return {}
    return {"p": found.p, "test": f"Mantel's, one-sided, {_PERMUTATIONS} permutations of the layers"}


def _rank_map(values: np.ndarray) -> np.ndarray:
    from scipy.stats import rankdata

    values = (values + values.T) / 2
    i, j = np.triu_indices(len(values), 1)
    ranks = np.full(values.shape, np.nan)
    ranks[i, j] = ranks[j, i] = rankdata(values[i, j], nan_policy="omit")
    return ranks
