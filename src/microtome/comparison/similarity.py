"""How similar are the layers of two stacks, and how sure is that?"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import InputError, SmallSampleWarning, must
from ..findings.maps import Map, Maps
from ..inference.clusters import Clusters
from ..inference.estimate import Estimate, Sides
from ..inference.permutation import Null, gamma_p, z_score
from ..measures.declare import Chosen, Measure
from ..measures.table import chosen, chosen_all
from ..moments.stack import Stack
from ..moments.turned import turn
from .certainty import add_intervals, add_permutations
from .engine import LayerFacts, Outcome, Scores, Table, run
from .inputs import choose_rows, controlled, find_device, gather, read_clusters, row_digest, using_threads
from .plan import Plan, Settings, make_plan, read_bytes
from .rowwise import run_rows

# The share of variance that three neurons may hold before a layer is flagged.
OUTLIER_SHARE = 0.5
PRECISIONS = ("fast", "exact")


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Everything that one comparison needs, checked."""

    left: Stack
    right: Stack | None
    measures: tuple[Chosen, ...]
    clusters: Clusters | None
    settings: Settings
    seed: int
    switched: str = ""

    @property
    def n(self) -> int:
        """Rows that take part."""
        return self.left.rows


@dataclass(frozen=True, slots=True, kw_only=True)
class Raw:
    """Tables of all measures, and what is known of the layers."""

    tables: dict[str, Table]
    left: LayerFacts
    right: LayerFacts
    scores: Scores | None
    precision: str


def similarity(
    x: Any,
    y: Any,
    measure: str | Measure | Chosen = "debiased_cka",
    *,
    clusters: Any = None,
    precision: str = "exact",
    certainty: bool = False,
    device: Any = "cpu",
    threads: int | None = None,
    seed: int = 0,
    level: float = 0.95,
    permutations: int = 0,
    **options: Any,
) -> Estimate:
    """
    Compare two layers.

    Parameters
    ----------
    x, y : array_like of shape (rows, features)
        NumPy or torch; the same rows in the same order.
    measure : str
        A name of `microtome ls measures`, with options as "svcca:threshold=0.95" or as keywords.
    clusters : array_like of shape (rows,), optional
        Which rows belong together, such as the sentence of each word.
    precision : {"exact", "fast"}
        Float64 throughout, or float32 products added up in float64.
    certainty : bool
        Whether to give an interval.
    device, threads, seed, level, permutations
        As in `similarity_matrix`.
    **options
        Options of the measure.

    Returns
    -------
    Estimate
        `float(estimate)` is its value.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(100, 8))
    >>> round(float(similarity(x, 2 * x + 1, "linear_cka")), 6)
    1.0
    """
    for name, side in (("x", x), ("y", y)):
        if getattr(side, "ndim", 2) != 2:
            raise must(name, "an array [rows, features]", f"{side.ndim} dimensions")
    maps = similarity_matrix(
        [x],
        [y],
        [chosen(measure, options)],
        clusters=clusters,
        precision=precision,
        certainty=certainty,
        device=device,
        threads=threads,
        seed=seed,
        level=level,
        permutations=permutations,
        memory="64GB",
    )
    return next(iter(maps.values()))[0, 0]


def similarity_matrix(
    left: Any,
    right: Any = None,
    measures: str | Measure | Chosen | Iterable[str | Measure | Chosen] = "debiased_cka",
    *,
    clusters: Any = None,
    precision: str = "fast",
    certainty: bool = False,
    memory: str | int = "2GB",
    device: Any = "cpu",
    threads: int | None = None,
    seed: int = 0,
    level: float = 0.95,
    halves: int = 40,
    permutations: int = 0,
    rows: int | None = None,
    leave_out: Any = None,
    zscore: bool = False,
    remove_top: int = 0,
    names: Sequence[str] | None = None,
    right_names: Sequence[str] | None = None,
    progress: Callable[[str, int, int], None] | None = None,
) -> Maps:
    """
    Compare every layer of one stack with every layer of another, or of itself.

    Parameters
    ----------
    left : list of arrays of shape (rows, features), array of shape (layers, rows, features), or path
        NumPy, torch, `.npy` or `.safetensors` files, or a folder of them; files are read in pieces.
    right : the same, optional
        None compares the left with itself.
    measures : str or sequence
        Names of `microtome ls measures`, with options as "svcca:threshold=0.95".
    clusters : array_like of shape (rows,), optional
        Which rows belong together, such as the sentence of each word: debiasing and intervals then go
        by cluster.
    precision : {"fast", "exact"}
        Float32 products added up in float64, or float64 throughout. Fast turns exact by itself where the
        rank of a layer would depend on rounding, and on a CUDA device.
    certainty : bool
        Whether to read the rows again for intervals.
    memory : str or int
        What the engine may hold beside the input, such as "2GB"; layers are handled in groups to fit.
    device : str
        "cpu" or "cuda".
    threads : int, optional
        Threads of the processor; as torch is set when absent.
    seed : int
        For half-samples, permutations and drawn rows.
    level : float
        Promised coverage of the intervals.
    halves : int
        Half-samples for the measures that have no influence function.
    permutations : int
        Orders of the rows (of whole clusters, where given) of the right side to try.
    rows : int, optional
        Compare on so many rows, drawn with the seed (whole clusters, where given).
    leave_out : array of bool of shape (rows,), optional
        Rows to leave out, such as the first position of a causal model.
    zscore : bool
        Standardize every neuron first.
    remove_top : int
        Leave out so many neurons of largest variance of each layer.
    names, right_names : sequence of str, optional
        Names of the layers.
    progress : callable, optional
        Called with what is done, how much of it, and how much there is.

    Returns
    -------
    Maps
        A `Map` for each measure.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> first = rng.normal(size=(200, 6))
    >>> maps = similarity_matrix([first, first + rng.normal(size=(200, 6))], measures=["debiased_cka"])
    >>> maps["debiased_cka"].values.shape
    (2, 2)
    """
    started = time.perf_counter()
    with using_threads(threads):
        request, plan, note = prepare(
            left,
            right,
            measures,
            clusters=clusters,
            precision=precision,
            memory=memory,
            device=device,
            seed=seed,
            certainty=certainty,
            halves=halves,
            permutations=permutations,
            rows=rows,
            leave_out=leave_out,
            zscore=zscore,
            remove_top=remove_top,
            names=names,
            right_names=right_names,
            progress=progress,
        )
        if not 0 < level < 1:
            raise must("level", "between 0 and 1", level)
        influence = certainty and any(m.measure.interval == "influence" for m in request.measures)
        raw = compute(request, plan, scores=influence)
        maps = {m.label: _as_map(request, raw, m, note) for m in request.measures}
        if certainty:
            maps = add_intervals(request, raw.scores, maps, compute, level=level, halves=halves)
        if permutations:
            maps = add_permutations(request, maps, compute, permutations=permutations, level=level)
    seconds = round(time.perf_counter() - started, 3)
    return Maps(
        [replace(m, provenance=MappingProxyType({**m.provenance, "seconds": seconds})) for m in maps.values()]
    )


def prepare(
    left: Any,
    right: Any,
    measures: Any,
    *,
    clusters: Any = None,
    precision: str = "fast",
    memory: str | int = "2GB",
    device: Any = "cpu",
    seed: int = 0,
    certainty: bool = False,
    halves: int = 40,
    permutations: int = 0,
    rows: int | None = None,
    leave_out: Any = None,
    zscore: bool = False,
    remove_top: int = 0,
    names: Sequence[str] | None = None,
    right_names: Sequence[str] | None = None,
    progress: Any = None,
) -> tuple[Request, Plan, str]:
    """Check a comparison and plan it, without computing anything; see `similarity_matrix`."""
    if precision not in PRECISIONS:
        raise must("precision", "'fast' or 'exact'", precision)
    choices = tuple(chosen_all(measures))
    for choice in choices:
        if choice.declared("needs") == "attention":
            raise InputError(
                f"{choice.measure.name} must be given attention maps, not rows; use attention_similarity_matrix."
            )
    where = find_device(device)
    one, two = gather(left, right, names, right_names)
    total = one.rows
    grouped = read_clusters(clusters, total)
    index = choose_rows(total, grouped, rows=rows, leave_out=leave_out, seed=seed)
    if index is not None:
        one, two = one.take(index), None if two is None else two.take(index)
        if grouped is not None:
            grouped = read_clusters(grouped.codes[index], len(index))
    notes = [f"{len(index)} of {total} rows"] if index is not None else []
    if zscore or remove_top:
        one = controlled(one, zscore=zscore, remove_top=remove_top, device=where)
        two = None if two is None else controlled(two, zscore=zscore, remove_top=remove_top, device=where)
        notes += ["neurons standardized"] if zscore else []
        notes += [f"the {remove_top} neurons of largest variance removed"] if remove_top else []
    n = one.rows
    if n < 2:
        raise InputError(f"a comparison must have at least 2 rows, but got {n}.")
    if n < 4 and any(c.measure.name == "debiased_cka" for c in choices):
        raise InputError(f"debiased_cka must have at least 4 rows, but got {n}.")
    exact, switched = precision == "exact", ""
    widest = max(*one.widths, *(() if two is None else two.widths), 1)
    if not exact and where.type == "cuda":
        exact, switched = True, "float64 costs a data-center GPU no more"
    elif not exact and n < 2 * widest and any(c.declared("subspace") is not None for c in choices):
        exact, switched = True, "fewer than twice as many rows as features"
    amount = read_bytes(memory)
    if where.type == "cuda" and memory == "2GB":
        import torch

        amount = int(0.6 * torch.cuda.mem_get_info(where)[0])
    settings = Settings(exact=exact, device=where, memory=amount, progress=progress)
    request = Request(
        left=one,
        right=two,
        measures=choices,
        clusters=grouped,
        settings=settings,
        seed=seed,
        switched=switched,
    )
    resampled = any(c.measure.interval == "halves" for c in choices)
    plan = _plan(
        request,
        certainty=certainty,
        halves=halves if certainty and resampled else 0,
        permutations=permutations,
    )
    return request, plan, "; ".join(notes)


def _plan(request: Request, **more: Any) -> Plan:
    return make_plan(
        request.left,
        request.right,
        request.measures,
        memory=request.settings.memory,
        itemsize=8 if request.settings.exact else 4,
        clustered=request.clusters is not None,
        **more,
    )


def compute(request: Request, plan: Plan | None = None, *, scores: bool = False) -> Raw:
    """
    Compute all tables of a request, each measure by the route that suits it.

    Parameters
    ----------
    request : Request
    plan : Plan, optional
    scores : bool
        Whether to read the rows again for influence scores.

    Returns
    -------
    Raw
    """
    plan = _plan(request) if plan is None else plan
    by_rows = [m for m in request.measures if m.declared("needs") == "rows"]
    by_moments = [m for m in request.measures if m not in by_rows]
    precision = "exact" if request.settings.exact else "fast"
    if request.switched:
        precision = f"exact (switched: {request.switched})"
    tables: dict[str, Table] = {}
    widths = request.left.widths if request.right is None else (*request.left.widths, *request.right.widths)
    turnable = [m for m in by_moments if _turns(m)]
    if turnable and request.n < min(widths):
        outcome = _run_turned(request, turnable, scores)
        tables |= outcome.tables
        rest = [m for m in by_moments if m not in turnable]
        if rest:
            tables |= _run(request, rest, plan, False).tables
    else:
        # With row measures alone the moments still tell ranks, spectra and constant neurons.
        outcome = _run(request, by_moments, plan, scores)
        tables |= outcome.tables
        sensitive = [m for m in by_moments if m.measure.name in ("cca", "pwcca")]
        if outcome.near_tolerance and sensitive and not request.settings.exact:
            again = replace(request, settings=replace(request.settings, exact=True))
            tables |= _run(again, sensitive, _plan(again), False).tables
            names = " and ".join(m.label for m in sensitive)
            precision = f"fast; {names} exact (switched: an eigenvalue lies near the rank tolerance)"
    for choice in by_rows:
        tables[choice.label] = run_rows(
            request.left, request.right, choice, request.settings, request.clusters
        )
    return Raw(
        tables={m.label: tables[m.label] for m in request.measures},
        left=outcome.left,
        right=outcome.right,
        scores=outcome.scores,
        precision=precision,
    )


def _turns(choice: Chosen) -> bool:
    """Whether rotating either side changes nothing, so that the Gram route may be taken."""
    kept = choice.declared("invariances")
    return "orthogonal" in kept.left and "orthogonal" in kept.right and choice.measure.name != "cca"


def _run(request: Request, measures: list[Chosen], plan: Plan, scores: bool) -> Outcome:
    return run(
        request.left,
        request.right,
        measures,
        plan,
        request.settings,
        clusters=request.clusters,
        scores=scores,
        seed=request.seed,
    )


def _run_turned(request: Request, measures: list[Chosen], scores: bool) -> Outcome:
    s = request.settings
    sides = [turn(t, dtype=s.dtype, device=s.device) for t in (request.left, request.right) if t is not None]
    turned = replace(request, left=sides[0].stack, right=sides[1].stack if len(sides) > 1 else None)
    outcome = _run(turned, measures, _plan(turned), scores)
    facts = []
    for side, found in zip((sides[0], sides[-1]), (outcome.left, outcome.right), strict=True):
        share = [(v.sort(descending=True).values.cumsum(0) / v.sum()).cpu().numpy() for v in side.sumsq]
        facts.append(
            replace(
                found,
                width=np.array([len(v) for v in side.sumsq]),
                dead=np.array([int((v == 0).sum()) for v in side.sumsq]),
                top1=np.array([v[0] for v in share]),
                top3=np.array([v[min(2, len(v) - 1)] for v in share]),
            )
        )
    return replace(outcome, left=facts[0], right=facts[1])


def _as_map(request: Request, raw: Raw, choice: Chosen, note: str) -> Map:
    table = raw.tables[choice.label]
    blank = np.full(table.values.shape, np.nan)
    z, p = blank, blank.copy()
    explanation = "no formula is known for its spread; ask for permutations"
    if choice.declared("null") in ("cka", "debiased"):
        if request.clusters is not None:
            explanation = "rows come in clusters, so the formula for independent rows does not hold; ask for permutations"
        else:
            explanation = ""
            null = Null(mean=table.null_mean, sd=table.null_sd)
            z = z_score(table.values, null)
            shape = null
            if "biased_null_mean" in table.details:
                shape = Null(mean=table.details["biased_null_mean"], sd=table.details["biased_null_sd"])
            p = gamma_p(table.values, null, like=shape)
    if request.clusters is not None and choice.declared("null") == "cka":
        # The mean over orders of single rows is not what unrelated clusters give.
        explanation += "; the null mean is that of single rows, and too low for clusters"
    warned = _warnings(request, raw, choice, table)
    return Map(
        measure=choice.label,
        left=request.left.names,
        right=request.left.names if request.right is None else request.right.names,
        values=table.values,
        reasons=tuple(tuple(row) for row in table.reasons.tolist()),
        n=request.n,
        estimator=_estimator(choice, request, note),
        null_mean=table.null_mean,
        z=z,
        p=p,
        null_note=explanation,
        unit="row" if request.clusters is None else "cluster",
        rank=Sides(*table.rank) if table.rank else Sides(None, None),
        kept=Sides(*table.kept) if table.kept else Sides(None, None),
        lost=Sides(*table.lost) if table.lost else Sides(None, None),
        layers=Sides(_facts(raw.left), _facts(raw.right)),
        precision=raw.precision,
        warnings=warned,
        details=MappingProxyType(table.details),
        symmetric=request.right is None,
        provenance=MappingProxyType(_provenance(request)),
    )


def _facts(facts: LayerFacts) -> Mapping[str, np.ndarray]:
    return MappingProxyType(
        {
            "width": facts.width,
            "constant": facts.dead,
            "participation": facts.participation,
            "largest_share": facts.top1,
            "largest_three_share": facts.top3,
            "outlier": facts.top3 > OUTLIER_SHARE,
        }
    )


def _estimator(choice: Chosen, request: Request, note: str) -> str:
    name = choice.declared("title")
    parts = [f"{key} {value}" for key, value in choice.options.items()]
    if choice.measure.name == "debiased_cka":
        name = "debiased CKA" if request.clusters is None else "cluster-debiased CKA"
        parts.append(
            "rows taken as independent"
            if request.clusters is None
            else f"pairs within {len(request.clusters)} clusters left out"
        )
    if choice.measure.name == "linear_cka":
        parts.append("biased")
    if choice.declared("subspace") is not None:
        parts.append("rank tolerance 1e-6")
    if note:
        parts.append(note)
    return f"{name} ({', '.join(parts)})" if parts else str(name)


def _warnings(request: Request, raw: Raw, choice: Chosen, table: Table) -> tuple[str, ...]:
    found = []
    n = request.n
    if table.kept is not None:
        most = int(max(table.kept[0].max(), table.kept[1].max()))
        if n < 5 * most:
            found.append(
                f"{choice.label} compares up to {most} dimensions on {n} rows; below {5 * most} rows it is inflated"
                + (", and at so few rows it is near 1 whatever the data" if n < 2 * most else "")
            )
    elif choice.measure.name == "linear_cka":
        mean = float(np.nanmax(table.null_mean)) if np.isfinite(table.null_mean).any() else 0.0
        if mean > 0.1:
            found.append(
                f"linear_cka of unrelated rows would be up to {mean:.2f} here; debiased_cka has no such floor"
            )
    flagged = [
        name
        for stack, facts in ((request.left, raw.left), (request.right or request.left, raw.right))
        for name, share in zip(stack.names, facts.top3, strict=True)
        if share > OUTLIER_SHARE
    ]
    if flagged:
        names = ", ".join(dict.fromkeys(flagged))
        found.append(
            f"three neurons hold more than half of the variance of layer {names}; see zscore and remove_top"
        )
    for text in found[:1] if table.kept is not None else []:
        if n < 5 * int(max(table.kept[0].max(), table.kept[1].max())):
            warnings.warn(text, SmallSampleWarning, stacklevel=4)
    return tuple(found)


def _provenance(request: Request) -> dict[str, Any]:
    import platform

    import scipy
    import torch

    from .. import __version__

    return {
        "microtome": __version__,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "device": str(request.settings.device),
        "threads": torch.get_num_threads(),
        "seed": request.seed,
        "rows_digest": row_digest(request.n, request.left.index, request.clusters),
    }
