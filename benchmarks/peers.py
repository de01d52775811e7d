"""Do other packages give the same numbers on the same rows, and in what time?

Two tables. The first sets what each package says beside the true value (the definition, computed in float64
by plain numpy) and beside what microtome says. The second times the same estimator on the same rows, in turn,
on one thread. Packages that are not installed are named and left out. Run it as

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/peers.py
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import importlib.util
import io
import json
import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from engine import Layer, Table, interleaved, residual_stack

from microtome.randomness import generator

BATCH = 256
RIGHT = 1e-3  # a value this near the truth is called right
PATIENCE = 20.0  # CPU seconds after which a call is not repeated
SHAPE = (10_000, 128)  # rows and features of the timed layers
MAP = (13, 2_000, 768)  # layers, rows and features of the timed map

# What microtome calls a measure, and its definition in tests/reference.py with arguments.
DEFINITIONS: dict[str, tuple[str, ...]] = {
    "linear_cka": ("linear_cka",),
    "debiased_cka": ("debiased_cka",),
    "rbf_cka": ("rbf_cka",),
    "rsa:inner=pearson": ("rsa", "correlation"),
    "rsa:inner=sqeuclidean": ("rsa", "squared_euclidean"),
    "linear_regression": ("linear_regression",),
    "procrustes": ("nbs",),
    "cca": ("mean_cca",),
}
# The inputs, in words.
INPUTS = {
    "plain": "2,000 rows, 64 features, related",
    "offset": "the same, one neuron of each layer at mean 3,000",
    "noise": "200 rows, 512 features, unrelated",
    "ragged": "1,795 rows of plain: the last batch has 3",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """
    One way to ask another package.

    Parameters
    ----------
    package, module : str
        Its names on the package index and in Python.
    call : str
        What a user would write.
    measure : str
        What it should be, in microtome's words.
    ask : callable
        From two float32 arrays of shape (rows, features) to a number.
    inputs : tuple of str
        Those of `INPUTS` that it is tried on.
    batches : bool
        Whether it averages HSIC over batches of `BATCH` rows: an estimator of its own, with its own truth.
    rows : int
        Most rows that it is timed with; 0: not timed.
    """

    package: str
    module: str
    call: str
    measure: str
    ask: Callable[[Layer, Layer], float]
    inputs: tuple[str, ...] = ("plain", "offset")
    batches: bool = False
    rows: int = SHAPE[0]


def _tensors(*arrays: Layer) -> list[Any]:
    import torch

    return [torch.from_numpy(x) for x in arrays]


def _two_models(x: Layer, y: Layer) -> tuple[Any, Any, Any]:
    """Two models that hand on their part of a batch, and the batches as one tensor of both parts."""
    import torch

    class Part(torch.nn.Module):
        def __init__(self, columns: slice) -> None:
            super().__init__()
            self.columns, self.out = columns, torch.nn.Identity()

        def forward(self, x: Any) -> Any:
            return self.out(x[..., self.columns])

    width = x.shape[1]
    joined = torch.from_numpy(np.hstack([x, y]))
    return Part(slice(0, width)), Part(slice(width, None)), joined


def ask_pytorch_cka(x: Layer, y: Layer) -> float:
    return float(importlib.import_module("cka").cka_from_features(*_tensors(x, y))[0, 0])


def ask_pytorch_cka_batches(x: Layer, y: Layer) -> float:
    from torch.utils.data import DataLoader

    one, two, joined = _two_models(x, y)
    loader: Any = DataLoader(joined, batch_size=BATCH)  # pyright: ignore[reportArgumentType]
    compute = importlib.import_module("cka").compute_cka
    return float(compute(one, two, loader, layers=["out"], device="cpu", progress=False)[0][0, 0])


def ask_torch_cka(x: Layer, y: Layer, batch: int | None = None) -> float:
    from torch.utils.data import DataLoader, TensorDataset

    one, two, joined = _two_models(x, y)
    found = importlib.import_module("torch_cka").CKA(one, two, "x", "y", ["out"], ["out"], device="cpu")
    loader = DataLoader(TensorDataset(joined), batch_size=batch or len(joined))
    found.compare(loader)
    return float(found.export()["CKA"][0, 0])


def ask_ckatorch(x: Layer, y: Layer, **options: Any) -> float:
    return float(importlib.import_module("ckatorch").cka_base(*_tensors(x, y), **options))


def ask_ckatorch_batches(x: Layer, y: Layer) -> float:
    from torch.utils.data import DataLoader

    one, two, joined = _two_models(x, y)
    batches: Any = [{"x": part} for part in joined.split(BATCH)]  # the class wants (1, rows, features)
    found = importlib.import_module("ckatorch").CKA(one, two, ["out"], first_name="x", second_name="y")
    return float(found(DataLoader(batches, batch_size=1), epochs=1)[0, 0])


def ask_rsatoolbox(x: Layer, y: Layer, distance: str, comparison: str) -> float:
    toolbox = importlib.import_module("rsatoolbox")
    rdms = [toolbox.rdm.calc_rdm(toolbox.data.Dataset(z), method=distance) for z in (x, y)]
    return float(toolbox.rdm.compare(*rdms, method=comparison)[0, 0])


def ask_sklearn_regression(x: Layer, y: Layer) -> float:
    from sklearn.linear_model import LinearRegression
    from sklearn.metrics import r2_score

    fitted = LinearRegression().fit(y, x).predict(y)
    return float(r2_score(x, fitted, multioutput="variance_weighted"))


def ask_sklearn_cca(x: Layer, y: Layer) -> float:
    from sklearn.cross_decomposition import CCA

    width = min(x.shape[1], y.shape[1])
    one, two = CCA(n_components=width).fit(x, y).transform(x, y)
    return float(np.mean([np.corrcoef(one[:, k], two[:, k])[0, 1] for k in range(width)]))


def ask_scipy_procrustes(x: Layer, y: Layer) -> float:
    from scipy.spatial import procrustes

    return math.sqrt(1 - procrustes(x, y)[2])


def ask_scipy_orthogonal(x: Layer, y: Layer) -> float:
    from scipy.linalg import orthogonal_procrustes

    x, y = x - x.mean(axis=0), y - y.mean(axis=0)
    return float(orthogonal_procrustes(x, y)[1] / (np.linalg.norm(x) * np.linalg.norm(y)))


_ckatorch = partial(Peer, package="ckatorch", module="ckatorch")
_pytorch_cka = partial(Peer, package="pytorch-cka", module="cka", measure="debiased_cka")
_torch_cka = partial(Peer, package="torch-cka", module="torch_cka", measure="debiased_cka")
_rsatoolbox = partial(Peer, package="rsatoolbox", module="rsatoolbox", inputs=("plain",), rows=2_000)
PEERS = (
    _ckatorch(call="cka_base(x, y)", measure="linear_cka", ask=ask_ckatorch),
    _rsatoolbox(
        call="euclidean, cosine_cov",
        measure="linear_cka",
        ask=partial(ask_rsatoolbox, distance="euclidean", comparison="cosine_cov"),
        inputs=("plain", "offset"),
    ),
    _pytorch_cka(call="cka_from_features(x, y)", ask=ask_pytorch_cka, inputs=("plain", "offset", "noise")),
    _torch_cka(call="CKA(...).compare, one batch", ask=ask_torch_cka, inputs=("plain", "offset", "noise")),
    _ckatorch(
        call="cka_base(unbiased=True)",
        measure="debiased_cka",
        ask=partial(ask_ckatorch, unbiased=True),
        inputs=("plain", "offset", "noise"),
    ),
    _ckatorch(
        call='cka_base(unbiased=True, method="hsic")',
        measure="debiased_cka",
        ask=partial(ask_ckatorch, unbiased=True, method="hsic"),
        inputs=("plain", "noise"),
        rows=0,
    ),
    _pytorch_cka(
        call="compute_cka, 8 batches",
        ask=ask_pytorch_cka_batches,
        inputs=("plain", "offset", "ragged"),
        batches=True,
        rows=0,
    ),
    _torch_cka(
        call="CKA(...).compare, 8 batches",
        ask=partial(ask_torch_cka, batch=BATCH),
        inputs=("plain", "offset", "ragged"),
        batches=True,
        rows=0,
    ),
    _ckatorch(
        call="CKA(...)(loader), 8 batches",
        measure="debiased_cka",
        ask=ask_ckatorch_batches,
        batches=True,
        rows=0,
    ),
    _ckatorch(call='cka_base(kernel="rbf")', measure="rbf_cka", ask=partial(ask_ckatorch, kernel="rbf")),
    _rsatoolbox(
        call="correlation, corr",
        measure="rsa:inner=pearson",
        ask=partial(ask_rsatoolbox, distance="correlation", comparison="corr"),
    ),
    _rsatoolbox(
        call="euclidean, corr",
        measure="rsa:inner=sqeuclidean",
        ask=partial(ask_rsatoolbox, distance="euclidean", comparison="corr"),
        inputs=("plain", "offset"),
    ),
    Peer(
        package="scikit-learn",
        module="sklearn",
        call="LinearRegression, r2_score",
        measure="linear_regression",
        ask=ask_sklearn_regression,
    ),
    Peer(
        package="scipy",
        module="scipy",
        call="spatial.procrustes",
        measure="procrustes",
        ask=ask_scipy_procrustes,
    ),
    Peer(
        package="scipy",
        module="scipy",
        call="linalg.orthogonal_procrustes",
        measure="procrustes",
        ask=ask_scipy_orthogonal,
    ),
    Peer(
        package="scikit-learn",
        module="sklearn",
        call="CCA, all components",
        measure="cca",
        ask=ask_sklearn_cca,
    ),
)


def find_packages(peers: Sequence[Peer] = PEERS) -> tuple[dict[str, str], dict[str, str]]:
    """
    Find which packages can be imported.

    Returns
    -------
    versions : dict of str to str
    missing : dict of str to str
        Why each of the others cannot.
    """
    versions: dict[str, str] = {}
    missing: dict[str, str] = {}
    for package, module in dict.fromkeys((peer.package, peer.module) for peer in peers):
        try:
            versions[package] = importlib.metadata.version(package)
            importlib.import_module(module)
        except ImportError as problem:
            versions.pop(package, None)
            missing[package] = str(problem)
    return versions, missing


def make_inputs(seed: int = 0) -> dict[str, tuple[Layer, Layer]]:
    """Draw the pairs of layers that `INPUTS` describes."""
    x, y = related(2_000, 64, seed=seed)
    moved = [z.copy() for z in (x, y)]
    for z in moved:
        z[:, 0] += 3_000
    rng = generator(seed, "peers", "noise")
    noise = [rng.standard_normal((200, 512), dtype=np.float32) for _ in range(2)]
    return {
        "plain": (x, y),
        "offset": (moved[0], moved[1]),
        "noise": (noise[0], noise[1]),
        "ragged": (x[:1_795], y[:1_795]),
    }


def related(rows: int, width: int, *, seed: int = 0) -> tuple[Layer, Layer]:
    """Draw two layers of full rank that share a quarter of their dimensions."""
    rng = generator(seed, "peers", "related", rows, width)
    shared = rng.standard_normal((rows, width // 4), dtype=np.float32)

    def layer() -> Layer:
        mixing = rng.standard_normal((width // 4, width), dtype=np.float32) / np.float32(math.sqrt(width / 4))
        return shared @ mixing + rng.standard_normal((rows, width), dtype=np.float32)

    return layer(), layer()


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
    name, *arguments = DEFINITIONS[measure]
    return float(getattr(reference(), name)(x, y, *arguments))


def true_batches(x: Layer, y: Layer) -> float:
    """Debiased CKA of HSIC averaged over batches, in float64; batches of fewer than 4 rows have none."""
    total = np.zeros(3)
    for start in range(0, len(x), BATCH):
        parts = [z[start : start + BATCH].astype(np.float64) for z in (x, y)]
        n = len(parts[0])
        if n < 4:
            continue
        grams = []
        for part in parts:
            part = part - part.mean(axis=0)
            gram = part @ part.T
            np.fill_diagonal(gram, 0)
            sums = gram.sum(axis=0)
            gram += sums.sum() / ((n - 1) * (n - 2)) - (sums[:, None] + sums) / (n - 2)
            np.fill_diagonal(gram, 0)
            grams.append(gram)
        k, m = grams
        total += np.array([np.sum(k * m), np.sum(k * k), np.sum(m * m)]) / (n * (n - 3))
    return float(total[0] / math.sqrt(total[1] * total[2]))


@contextlib.contextmanager
def quietly() -> Any:
    """Keep the warnings and progress bars of others out of the tables."""
    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def values(versions: Mapping[str, str], seed: int = 0) -> list[dict[str, Any]]:
    """
    Ask every installed package, and microtome, on every input.

    Returns
    -------
    list of dict
        Plain data; `said` is None and `error` tells why, where a package gave no number.
    """
    import microtome as mt

    inputs = make_inputs(seed)
    rows = []
    for peer in (p for p in PEERS if p.package in versions):
        for name in peer.inputs:
            x, y = inputs[name]
            said, error = None, ""
            with quietly():
                ours = float(mt.similarity(x, y, peer.measure))
                try:
                    said = peer.ask(x, y)
                except Exception as problem:
                    error = f"{type(problem).__name__}: {problem}"
            if said is not None and not math.isfinite(said):
                said, error = None, f"said {said}"
            truth = true_value(peer.measure, x, y)
            rows.append(
                {
                    "measure": peer.measure,
                    "input": name,
                    "package": peer.package,
                    "version": versions[peer.package],
                    "call": peer.call,
                    "true": truth,
                    "microtome": ours,
                    "microtome_right": abs(ours - truth) < RIGHT,
                    "true_of_call": true_batches(x, y) if peer.batches else truth,
                    "said": said,
                    "error": error,
                }
            )
            target = rows[-1]["true_of_call"]
            rows[-1]["right"] = said is not None and abs(said - target) < RIGHT
    return rows


def times(
    versions: Mapping[str, str],
    *,
    repeats: int = 3,
    shape: tuple[int, int] = SHAPE,
    map_shape: tuple[int, int, int] = MAP,
    seed: int = 0,
) -> list[dict[str, Any]]:
    """
    Time microtome and every installed package on the same rows, by measure.

    Parameters
    ----------
    versions : mapping of str to str
        The installed packages.
    repeats : int
    shape : tuple of int
        Rows and features of two layers; some packages are given fewer rows.
    map_shape : tuple of int
        Layers, rows and features of a whole map.
    seed : int

    Returns
    -------
    list of dict
        Plain data, one for each call.
    """
    import microtome as mt

    rows: list[dict[str, Any]] = []
    timed = [p for p in PEERS if p.package in versions and p.rows]
    for measure, most in dict.fromkeys((p.measure, min(p.rows, shape[0])) for p in timed):
        x, y = related(most, shape[1], seed=seed)
        group = [p for p in timed if (p.measure, min(p.rows, shape[0])) == (measure, most)]
        calls: dict[str, Callable[[], float]] = {
            "microtome": lambda m=measure, x=x, y=y: float(mt.similarity(x, y, m, threads=1)),
            "microtome, fast": lambda m=measure, x=x, y=y: float(
                mt.similarity(x, y, m, threads=1, precision="fast")
            ),
        }
        calls |= {f"{p.package} {p.call}": partial(p.ask, x, y) for p in group}
        rows += _timed(measure, f"{most:,} x {shape[1]}", calls, repeats)
    if "pytorch-cka" in versions:
        stack = residual_stack(*map_shape, seed=seed)
        features = importlib.import_module("cka").cka_from_features
        tensors = _tensors(*stack)
        calls = {
            "microtome": partial(_mean_of_map, lambda p: mt.similarity_matrix(stack, precision=p), "exact"),
            "microtome, fast": partial(
                _mean_of_map, lambda p: mt.similarity_matrix(stack, precision=p), "fast"
            ),
            "pytorch-cka cka_from_features(layers, layers)": lambda: float(features(tensors, tensors).mean()),
        }
        text = f"{map_shape[0]} layers, {map_shape[1]:,} x {map_shape[2]}"
        rows += _timed("debiased_cka (mean of the map)", text, calls, repeats)
    return rows


def _mean_of_map(compute: Callable[[str], Any], precision: str) -> float:
    return float(compute(precision)["debiased_cka"].values.mean())


def _timed(
    measure: str, shape: str, calls: Mapping[str, Callable[[], float]], repeats: int
) -> list[dict[str, Any]]:
    with quietly():
        timings, found = interleaved(calls, repeats, patience=PATIENCE)
    ours = timings["microtome"]
    return [
        {
            "measure": measure,
            "shape": shape,
            "who": name,
            "cpu": timing.cpu,
            "wall": timing.wall,
            "runs": timing.runs,
            "times_microtome": timing.cpu / ours.cpu,
            "value": found[name],
        }
        for name, timing in timings.items()
    ]


def run(
    *,
    repeats: int = 3,
    shape: tuple[int, int] = SHAPE,
    map_shape: tuple[int, int, int] = MAP,
    seed: int = 0,
) -> dict[str, Any]:
    """Make both tables as plain data; see `values` and `times`."""
    import torch

    torch.set_num_threads(1)
    versions, missing = find_packages()
    return {
        "versions": versions,
        "missing": missing,
        "values": values(versions, seed),
        "times": times(versions, repeats=repeats, shape=shape, map_shape=map_shape, seed=seed),
    }


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Show the result of `run`."""
    absent = "".join(f" Not installed: {name} ({why})." for name, why in result["missing"].items())
    shown = [
        (
            row["measure"],
            row["input"],
            f"{row['package']} {row['version']} `{row['call']}`",
            f"{row['true_of_call']:.4f}",
            f"{row['said']:.4f}" if row["said"] is not None else row["error"],
            "yes" if row["right"] else "**no**",
            f"{row['true']:.4f}",
            f"{row['microtome']:.4f}",
            "yes" if row["microtome_right"] else "**no**",
        )
        for row in result["values"]
    ]
    described = "; ".join(f"{name}: {text}" for name, text in INPUTS.items())
    right = Table(
        title="Values",
        header=(
            "measure",
            "input",
            "package",
            "true",
            "says",
            "right",
            "true, all rows",
            "microtome",
            "right",
        ),
        rows=tuple(shown),
        note=(
            f"Right: within {RIGHT:g} of the definition in float64. The first true value is that of the "
            f"package's own estimator, which for batches averages HSIC over batches of {BATCH} rows; microtome "
            f"reads all rows as one sample. Inputs: {described}.{absent}"
        ),
    )
    timed = [
        (
            row["measure"],
            row["shape"],
            row["who"],
            f"{row['cpu']:.3f}",
            f"{row['wall']:.3f}",
            str(row["runs"]),
            f"{row['times_microtome']:.1f}" if row["times_microtome"] >= 1 else _slower(row),
            f"{row['value']:.4f}",
        )
        for row in result["times"]
    ]
    clock = Table(
        title="Times",
        header=("measure", "rows x features", "who", "CPU s", "wall s", "runs", "CPU ratio", "value"),
        rows=tuple(timed),
        note=(
            "One thread, in turn, medians; the ratio is to microtome's exact mode. A call that takes more than "
            f"{PATIENCE:g} CPU seconds is made once.{absent}"
        ),
    )
    return [right, clock]


def _slower(row: Mapping[str, Any]) -> str:
    text = f"{row['times_microtome']:.2f}"
    return text if row["who"].startswith("microtome") else f"**{text}**"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Values and times beside those of other packages.")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--rows", type=int, default=SHAPE[0])
    parser.add_argument("--width", type=int, default=SHAPE[1])
    parser.add_argument("--json", type=Path, help="where to write the results")
    chosen = parser.parse_args(arguments)
    result = run(repeats=chosen.repeats, shape=(chosen.rows, chosen.width))
    for table in tables(result):
        print(table.markdown())
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(result, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
