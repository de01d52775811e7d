"""Do other packages give the same numbers on the same rows, and in what time?

Two tables. The first sets what each package says beside the true value (the definition, computed in float64
by plain numpy) and beside what microtome says. The second times the same estimator on the same rows, in turn,
on one thread. Packages that are not installed are named and left out. Run it as

    PYTHONPATH=src python benchmarks/run.py --only peers
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.metadata
import importlib.util
import io
import math
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from engine import Layer, Table, interleaved, residual_stack

from microtome.randomness import generator

BATCH = 256
RIGHT = 1e-3  # a value this near the truth is called right
PATIENCE = 20.0  # CPU seconds after which a call is not repeated
SHAPE = (10_000, 128)  # rows and features of the timed layers
FEWER = 2_000  # rows for the packages that hold all pairs of rows several times
MAP = (13, 2_000, 768)  # layers, rows and features of the timed map

MODULES = {"pytorch-cka": "cka", "torch-cka": "torch_cka", "scikit-learn": "sklearn"}  # names in Python
# Where the definition in tests/reference.py has another name than the measure, or arguments.
DEFINITIONS = {
    "rsa:inner=pearson": ("rsa", "correlation"),
    "rsa:inner=sqeuclidean": ("rsa", "squared_euclidean"),
    "procrustes": ("nbs",),
    "cca": ("mean_cca",),
}
INPUTS = {
    "plain": "2,000 rows, 64 features, related",
    "offset": "the same, one neuron of each layer at mean 3,000",
    "noise": "200 rows, 512 features, unrelated",
    "ragged": "1,795 rows of plain, so that the last batch has 3",
}


def _two_models(x: Layer, y: Layer, batch: int) -> tuple[Any, Any, Any]:
    """Two models that hand on their part of a row, and a loader of rows that hold both parts."""
    import torch

    class Part(torch.nn.Module):
        def __init__(self, columns: slice) -> None:
            super().__init__()
            self.columns, self.out = columns, torch.nn.Identity()

        def forward(self, x: Any) -> Any:
            return self.out(x[..., self.columns])

    rows = torch.utils.data.TensorDataset(torch.from_numpy(np.hstack([x, y])))
    loader = torch.utils.data.DataLoader(rows, batch_size=batch)
    return Part(slice(0, x.shape[1])), Part(slice(x.shape[1], None)), loader


def ask_pytorch_cka(x: Any, y: Any) -> float:
    """Ask for two layers, or for the mean over all pairs of two stacks of shape (layers, rows, features)."""
    import torch

    features = importlib.import_module("cka").cka_from_features
    return float(features(torch.from_numpy(x), torch.from_numpy(y)).mean())


def ask_pytorch_cka_batches(x: Layer, y: Layer) -> float:
    compute = importlib.import_module("cka").compute_cka
    return float(compute(*_two_models(x, y, BATCH), layers=["out"], device="cpu", progress=False)[0][0, 0])


def ask_torch_cka(x: Layer, y: Layer, batch: int | None = None) -> float:
    one, two, loader = _two_models(x, y, batch or len(x))
    found = importlib.import_module("torch_cka").CKA(one, two, "x", "y", ["out"], ["out"], device="cpu")
    found.compare(loader)
    return float(found.export()["CKA"][0, 0])


def ask_torch_cka_batches(x: Layer, y: Layer) -> float:
    return ask_torch_cka(x, y, BATCH)


def ask_ckatorch(x: Layer, y: Layer, **options: Any) -> float:
    import torch

    cka_base = importlib.import_module("ckatorch").cka_base
    return float(cka_base(torch.from_numpy(x), torch.from_numpy(y), **options))


def ask_ckatorch_batches(x: Layer, y: Layer) -> float:
    from torch.utils.data import DataLoader

    one, two, loader = _two_models(x, y, BATCH)
    batches: Any = [{"x": part} for (part,) in loader]  # it wants (1, rows, features)
    found = importlib.import_module("ckatorch").CKA(one, two, ["out"], first_name="x", second_name="y")
    return float(found(DataLoader(batches, batch_size=1), epochs=1)[0, 0])


def ask_rsatoolbox(distance: str, comparison: str, x: Layer, y: Layer) -> float:
    toolbox = importlib.import_module("rsatoolbox")
    rdms = [toolbox.rdm.calc_rdm(toolbox.data.Dataset(z), method=distance) for z in (x, y)]
    return float(toolbox.rdm.compare(*rdms, method=comparison)[0, 0])


def ask_regression(x: Layer, y: Layer) -> float:
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import r2_score

    fitted = LinearRegression().fit(y, x).predict(y)
    return float(r2_score(x, fitted, multioutput="variance_weighted"))


def ask_cca(x: Layer, y: Layer) -> float:
    from sklearn.cross_decomposition import CCA

    width = min(x.shape[1], y.shape[1])
    one, two = CCA(n_components=width).fit(x, y).transform(x, y)
    return float(np.mean([np.corrcoef(one[:, k], two[:, k])[0, 1] for k in range(width)]))


def ask_procrustes(x: Layer, y: Layer) -> float:
    from scipy.spatial import procrustes

    return math.sqrt(1 - procrustes(x, y)[2])


def ask_orthogonal(x: Layer, y: Layer) -> float:
    from scipy.linalg import orthogonal_procrustes

    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    return float(orthogonal_procrustes(x, y)[1] / (np.linalg.norm(x) * np.linalg.norm(y)))


class Peer(NamedTuple):
    """One way to ask another package."""

    package: str
    call: str
    measure: str  # what it should be, in microtome's words
    ask: Callable[[Any, Any], float]  # from two float32 arrays of shape (rows, features)
    inputs: str = "plain offset"  # those of INPUTS that it is tried on
    rows: int = SHAPE[0]  # most rows that it is timed with; 0: not timed
    batches: bool = False  # HSIC averaged over batches: an estimator of its own, with its own truth


_UNBIASED = partial(ask_ckatorch, unbiased=True)
_HSIC = partial(ask_ckatorch, unbiased=True, method="hsic")
_RBF = partial(ask_ckatorch, kernel="rbf")
_COSINE_COV = partial(ask_rsatoolbox, "euclidean", "cosine_cov")
_CORRELATION = partial(ask_rsatoolbox, "correlation", "corr")
_EUCLIDEAN = partial(ask_rsatoolbox, "euclidean", "corr")
_batches = partial(Peer, measure="debiased_cka", rows=0, batches=True)
PEERS = (
    Peer("ckatorch", "cka_base", "linear_cka", ask_ckatorch),
    Peer("rsatoolbox", "euclidean, cosine_cov", "linear_cka", _COSINE_COV, rows=FEWER),
    Peer("pytorch-cka", "cka_from_features", "debiased_cka", ask_pytorch_cka, "plain offset noise"),
    Peer("torch-cka", "compare, one batch", "debiased_cka", ask_torch_cka, "plain offset noise"),
    Peer("ckatorch", "cka_base, unbiased", "debiased_cka", _UNBIASED, "plain offset noise"),
    Peer("ckatorch", "cka_base, unbiased, hsic", "debiased_cka", _HSIC, "plain noise", 0),
    _batches(
        "pytorch-cka", "compute_cka, batches", ask=ask_pytorch_cka_batches, inputs="plain offset ragged"
    ),
    _batches("torch-cka", "compare, batches", ask=ask_torch_cka_batches, inputs="plain offset ragged"),
    _batches("ckatorch", "CKA, batches", ask=ask_ckatorch_batches),
    Peer("ckatorch", "cka_base, rbf", "rbf_cka", _RBF),
    Peer("rsatoolbox", "correlation, corr", "rsa:inner=pearson", _CORRELATION, "plain", FEWER),
    Peer("rsatoolbox", "euclidean, corr", "rsa:inner=sqeuclidean", _EUCLIDEAN, rows=FEWER),
    Peer("scikit-learn", "LinearRegression, r2_score", "linear_regression", ask_regression),
    Peer("scipy", "spatial.procrustes", "procrustes", ask_procrustes),
    Peer("scipy", "linalg.orthogonal_procrustes", "procrustes", ask_orthogonal),
    Peer("scikit-learn", "CCA, all components", "cca", ask_cca),
)


def find_packages() -> tuple[dict[str, str], dict[str, str]]:
    """Find the versions of the packages that can be imported, and why the others cannot."""
    versions: dict[str, str] = {}
    missing: dict[str, str] = {}
    for package in dict.fromkeys(peer.package for peer in PEERS):
        try:
            importlib.import_module(MODULES.get(package, package))
            versions[package] = importlib.metadata.version(package)
        except ImportError as problem:
            missing[package] = str(problem)
    return versions, missing


def related(rows: int, width: int, *, seed: int = 0) -> tuple[Layer, Layer]:
    """Draw two layers of full rank that share a quarter of their dimensions."""
    rng = generator(seed, "peers", "related", rows, width)
    shared = rng.standard_normal((rows, width // 4))
    mixing = rng.standard_normal((2, width // 4, width)) / math.sqrt(width / 4)
    x, y = (shared @ mixing + rng.standard_normal((2, rows, width))).astype(np.float32)
    return x, y


def make_inputs(seed: int = 0) -> dict[str, tuple[Layer, Layer]]:
    """Draw the pairs of layers that `INPUTS` describes."""
    x, y = related(2_000, 64, seed=seed)
    far = np.zeros(64, dtype=np.float32)
    far[0] = 3_000
    noise = generator(seed, "peers", "noise").standard_normal((2, 200, 512), dtype=np.float32)
    return {
        "plain": (x, y),
        "offset": (x + far, y + far),
        "noise": (noise[0], noise[1]),
        "ragged": (x[:1_795], y[:1_795]),
    }


@cache
def reference() -> ModuleType:
    """Load the definitions that the tests compare with."""
    path = Path(__file__).parents[1] / "tests" / "reference.py"
    spec = importlib.util.spec_from_file_location("reference", path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def true_value(measure: str, x: Layer, y: Layer) -> float:
    """Compute a measure in float64 from its definition."""
    name, *arguments = DEFINITIONS.get(measure, (measure,))
    return float(getattr(reference(), name)(x, y, *arguments))


def true_batches(x: Layer, y: Layer) -> float:
    """Debiased CKA of HSIC averaged over batches, in float64; a batch of fewer than 4 rows has none."""
    total = np.zeros(3)
    for start in range(0, len(x) - 3, BATCH):
        parts = [z[start : start + BATCH].astype(np.float64) for z in (x, y)]
        n = len(parts[0])
        k, m = (reference()._u_centered((z - z.mean(axis=0)) @ (z - z.mean(axis=0)).T) for z in parts)
        total += np.array([np.sum(k * m), np.sum(k * k), np.sum(m * m)]) / (n * (n - 3))
    return float(total[0] / math.sqrt(total[1] * total[2]))


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """Keep the warnings and progress bars of others out of the tables."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def values(versions: Mapping[str, str], seed: int = 0) -> list[dict[str, Any]]:
    """Ask every installed package, and microtome, on every input; without a number, `error` says why."""
    import microtome as mt

    inputs = make_inputs(seed)
    rows: list[dict[str, Any]] = []
    for peer, name in ((p, name) for p in PEERS if p.package in versions for name in p.inputs.split()):
        x, y = inputs[name]
        said, error = math.nan, "NaN"
        with quietly():
            ours = float(mt.similarity(x, y, peer.measure))
            try:
                said = peer.ask(x, y)
            except Exception as problem:
                error = f"{type(problem).__name__}: {problem}"
        truth = true_value(peer.measure, x, y)
        own = true_batches(x, y) if peer.batches else truth
        rows.append(
            {
                "measure": peer.measure,
                "input": name,
                "call": f"{peer.package} {versions[peer.package]} {peer.call}",
                "true_of_call": own,
                "said": said if math.isfinite(said) else None,
                "error": "" if math.isfinite(said) else error,
                "right": abs(said - own) < RIGHT,
                "true": truth,
                "microtome": ours,
                "microtome_right": abs(ours - truth) < RIGHT,
            }
        )
    return rows


def times(
    versions: Mapping[str, str],
    *,
    repeats: int = 3,
    shape: tuple[int, int] = SHAPE,
    map_shape: tuple[int, int, int] = MAP,
) -> list[dict[str, Any]]:
    """Time microtome and every installed package on the same rows, by measure, and on a whole map."""
    groups: dict[tuple[str, int], list[Peer]] = {}
    for peer in PEERS:
        if peer.package in versions and peer.rows:
            groups.setdefault((peer.measure, min(peer.rows, shape[0])), []).append(peer)
    rows: list[dict[str, Any]] = []
    for (_, most), group in groups.items():
        x, y = related(most, shape[1])
        rows += _timed(x, y, group, f"{most:,} x {shape[1]}", repeats)
    maps = [p for p in PEERS if p.ask is ask_pytorch_cka and p.package in versions]
    if maps:
        stack = np.stack(residual_stack(*map_shape))
        rows += _timed(stack, stack, maps, f"{map_shape[0]} x {map_shape[1]:,} x {map_shape[2]}", repeats)
    return rows


def _timed(x: Any, y: Any, peers: Sequence[Peer], shape: str, repeats: int) -> list[dict[str, Any]]:
    import microtome as mt

    def ours(precision: str) -> float:
        one, two = (x[None], y[None]) if x.ndim == 2 else (x, None)
        maps = mt.similarity_matrix(one, two, peers[0].measure, threads=1, precision=precision)
        return float(next(iter(maps.values())).values.mean())

    calls = {f"microtome {precision}": partial(ours, precision) for precision in ("exact", "fast")}
    calls |= {f"{p.package} {p.call}": partial(p.ask, x, y) for p in peers}
    with quietly():
        found, said = interleaved(calls, repeats, patience=PATIENCE)
    exact, fast = found["microtome exact"].cpu, found["microtome fast"].cpu
    same = {"measure": peers[0].measure, "shape": shape}
    return [
        same | asdict(t) | {"who": w, "value": said[w], "to_exact": t.cpu / exact, "to_fast": t.cpu / fast}
        for w, t in found.items()
    ]


def run(
    *, repeats: int = 5, shape: tuple[int, int] = SHAPE, map_shape: tuple[int, int, int] = MAP
) -> dict[str, Any]:
    """Make both tables as plain data; see `values` and `times`."""
    import torch

    torch.set_num_threads(1)
    versions, missing = find_packages()
    timed = times(versions, repeats=repeats, shape=shape, map_shape=map_shape)
    return {"missing": missing, "values": values(versions), "times": timed}


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Show the result of `run`."""
    absent = "".join(f" Not installed: {name} ({why})." for name, why in result["missing"].items())
    verdict = {True: "yes", False: "**no**"}
    shown = []
    for r in result["values"]:
        said = r["error"] if r["said"] is None else f"{r['said']:.4f}"
        peer = (r["call"], f"{r['true_of_call']:.4f}", said, verdict[r["right"]])
        ours = (f"{r['true']:.4f}", f"{r['microtome']:.4f}", verdict[r["microtome_right"]])
        shown.append((r["measure"], r["input"], *peer, *ours))
    ours_by = {(r["measure"], r["shape"], r["who"]): r for r in result["times"]}
    timed = []
    for r in result["times"]:
        ratios = []
        for mode in ("exact", "fast"):
            own = ours_by[r["measure"], r["shape"], f"microtome {mode}"]
            ratios += [f"{r[f'to_{mode}']:.2f}", f"{r['wall'] / own['wall']:.2f}"]
        timed.append((r["measure"], r["shape"], r["who"], str(r["runs"]), *ratios, f"{r['value']:.4f}"))
    described = "; ".join(f"{name}: {text}" for name, text in INPUTS.items())
    return [
        Table(
            title="Values",
            header=("measure", "input", "package", "true", "says", "right", "all rows", "microtome", "right"),
            rows=tuple(shown),
            note=f"Right: within {RIGHT:g} of the definition in float64. Packages that work by batches (of "
            f"{BATCH} rows) average HSIC over them, an estimator with a true value of its own; microtome "
            f"reads all rows as one sample, with the true value before it. Inputs: {described}.{absent}",
        ),
        Table(
            title="Times",
            header=(
                *("measure", "shape", "who", "runs", "CPU to exact", "wall to exact"),
                *("CPU to fast", "wall to fast", "value"),
            ),
            rows=tuple(timed),
            note="One thread, in turn, medians. Ratios of time to microtome's exact (float64) and fast "
            f"(float32) modes: below 1 is faster. A call of more than {PATIENCE:g} CPU seconds is made once. "
            "Shapes are rows x features of two layers, or layers x rows x features of a map, whose value is "
            f"its mean. Faster than exact: {_faster(result['times'], 'to_exact')}. Faster than fast: "
            f"{_faster(result['times'], 'to_fast')}.{absent}",
        ),
    ]


def _faster(rows: Sequence[Mapping[str, Any]], than: str) -> str:
    found = [r for r in rows if r[than] < 1 and not r["who"].startswith("microtome")]
    return ", ".join(f"{r['who']} ({r['measure']}, {r['shape']})" for r in found) or "none"
