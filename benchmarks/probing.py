"""What do linear probes of all layers cost beside those of one, and beside scikit-learn?

One encoder reads the words of a corpus once, and a logistic regression of every layer predicts their tags.
Everything runs in turn, round after round, on as many threads as are asked for; all figures are ratios of
medians. scikit-learn gets the rows of one layer in float32 and the penalty that was chosen here; it stops at
its own tolerance, which is looser than ours but of the same gradient, so that both are compared at each of
them. Threads that wait in its products count as CPU time: ask for one on a machine that is shared, and set
OMP_NUM_THREADS too. Run it as

    PYTHONPATH=src python benchmarks/probing.py MODEL --train TRAIN.conllu --test TEST.conllu --rounds 3

`--sizes` compares some layers together, penalty given, at several numbers of words and of classes, with
scikit-learn, both at the first tolerance that ends within `CLOSE` of the least loss, and with an earlier
version of the package (`--before`, the folder that holds it).
"""

from __future__ import annotations

import argparse
import importlib.util
import itertools
import json
import sys
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from engine import Table, interleaved
from scipy.special import log_softmax

LAYERS, SLOWER, POINTS = 3.0, 1.0, 0.1  # promises: all layers to one, scikit-learn's time to ours, accuracy
WORSE = 1e-6  # share of the objective by which scikit-learn's may be better
PASSES = 1000  # that scikit-learn may take
ALONE = "all layers to one, probes alone"
WHOLE = "all layers to one, each with the extraction"
SAME = "scikit-learn to ours, one layer, same penalty"
LOOSE = "scikit-learn to ours, one layer, same penalty and tolerance"
TOLERANCE = 1e-4  # of scikit-learn
TOLERANCES = (1e-4, 3e-5, 1e-5)  # that are tried in turn by `by_size`
CLOSE = 1e-4  # share of the objective
PENALTY = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Linear:
    """Weights of all layers, shape (layers, classes, features), and their intercepts."""

    weights: np.ndarray
    bias: np.ndarray


class Tagged:
    """
    The words of a corpus with their tags, and room for the rows of all layers.

    Parameters
    ----------
    encoder : Encoder
    source : path, or sequence of Example
    mark : str
    words : int, optional
        Sentences are taken until there are so many.
    """

    def __init__(self, encoder: Any, source: Any, mark: str, words: int | None = None) -> None:
        from microtome.corpora.opening import corpus

        self.encoder = encoder
        self.corpus = list(corpus(source)) if isinstance(source, (str, Path)) else list(source)
        if words is not None:
            total = np.cumsum([len(example.marks[mark]) for example in self.corpus])
            del self.corpus[int(np.searchsorted(total, words)) + 1 :]
        planned = self._plan()
        places = zip(planned.examples, planned.units, strict=True)
        self.tags = [self.corpus[example].marks[mark][unit] for example, unit in places]
        self.groups = planned.examples
        self.rows = np.zeros((len(encoder.layers), len(self.tags), encoder.widths[-1]), dtype=np.float32)

    def _plan(self) -> Any:
        from microtome.rows.planning import plan_rows
        from microtome.rows.selecting import row_options

        return plan_rows(self.corpus, [self.encoder], row_options("word"))

    def extract(self) -> None:
        """Run the encoder over the corpus, the planning of its rows included."""
        from microtome.extraction.streaming import stream

        for window in stream([self.encoder], self.corpus, self._plan()):
            for layer, found in enumerate(window.layers[0]):
                self.rows[layer, window.start : window.stop] = found.cpu().numpy()


def run(
    encoder: Any,
    train: Any,
    test: Any,
    *,
    mark: str = "upos",
    words: int | None = None,
    rounds: int = 3,
    threads: int = 2,
    device: str = "cpu",
    peer: bool = True,
) -> dict[str, Any]:
    """
    Time extraction, readouts of one layer and of all, and scikit-learn.

    Parameters
    ----------
    encoder : Encoder
    train, test : path, or sequence of Example
        With tags.
    mark : str
        What the tags are called.
    words : int, optional
        Of the first that are learned from; all when absent.
    rounds, threads : int
    device : str
        Of readouts; scikit-learn stays on the processor.
    peer : bool
        Whether scikit-learn runs too.

    Returns
    -------
    dict
    """
    import torch
    from sklearn.linear_model import LogisticRegression
    from threadpoolctl import threadpool_limits

    from microtome.probes.linear import fit_logistic

    torch.set_num_threads(threads)
    learned, judged = Tagged(encoder, train, mark, words), Tagged(encoder, test, mark)
    judged.extract()
    names = sorted({*learned.tags, *judged.tags})
    y, right = (np.searchsorted(names, one.tags) for one in (learned, judged))
    middle = len(encoder.layers) // 2
    here = slice(middle, middle + 1)
    known: dict[str, Any] = {}

    def readouts(layers: slice, **more: Any) -> Any:
        return fit_logistic(learned.rows[layers], y, len(names), groups=learned.groups, device=device, **more)

    def one() -> None:
        known["one"] = readouts(here)

    def same() -> None:
        known["same"] = readouts(here, penalties=[float(known["one"].penalty[0])])

    def loose() -> None:
        known["loose"] = readouts(here, penalties=[float(known["one"].penalty[0])], tolerance=TOLERANCE)

    def everything() -> None:
        known["all"] = readouts(slice(None))

    def sklearn() -> None:
        rows = learned.rows[middle]
        mean, spread = rows.mean(0), rows.std(0)
        strength = 1 / float(known["one"].penalty[0])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(C=strength, tol=TOLERANCE, max_iter=PASSES).fit(
                (rows - mean) / spread, y
            )
        known["sklearn"] = (model, mean, spread)

    calls = {
        "extraction": learned.extract,
        "one": one,
        "same": same,
        "loose": loose,
        "sklearn": sklearn,
        "all": everything,
    }
    if not peer:
        del calls["sklearn"]
    with threadpool_limits(threads):
        timings, _ = interleaved(calls, rounds)
    found = {name: (known[name].weights[0], known[name].bias[0]) for name in ("same", "loose")}
    passes = None
    if peer:
        model, mean, spread = known["sklearn"]
        weights = np.zeros((len(names), learned.rows.shape[2]))
        weights[model.classes_] = model.coef_ / spread
        bias = np.full(len(names), -np.inf)
        bias[model.classes_] = model.intercept_ - weights[model.classes_] @ mean
        found["sklearn"], passes = (weights, bias), int(model.n_iter_[0])
    penalty = float(known["one"].penalty[0])
    fits = {
        name: {
            "objective": objective(learned.rows[middle], y, *each, penalty),
            "accuracy": float(((judged.rows[middle] @ each[0].T + each[1]).argmax(1) == right).mean()),
        }
        for name, each in found.items()
    }
    seconds = {name: {"cpu": found.cpu, "wall": found.wall} for name, found in timings.items()}
    return {
        "model": encoder.name,
        "layers": len(encoder.layers),
        "width": int(encoder.widths[-1]),
        "words": len(y),
        "classes": len(names),
        "threads": threads,
        "device": device if device == "cpu" else torch.cuda.get_device_name(),
        "rounds": timings["one"].runs,
        "seconds": seconds,
        "ratios": {clock: _ratios(seconds, clock, len(encoder.layers)) for clock in ("cpu", "wall")},
        "penalties": known["all"].penalty.tolist(),
        "converged": bool(all(known[name].converged.all() for name in ("one", "same", "loose", "all"))),
        "fits": fits,
        "sklearn_passes": passes,
        "accuracies": (known["all"].predict(judged.rows) == right).mean(1).tolist(),
    }


def objective(
    rows: np.ndarray, y: np.ndarray, weights: np.ndarray, bias: np.ndarray, penalty: float
) -> float:
    """
    What both minimize, as a mean over rows: cross-entropy, and the penalty on weights of scaled features.

    Parameters
    ----------
    rows : ndarray of shape (rows, features)
    y : ndarray of int of shape (rows,)
    weights : ndarray of shape (classes, features)
        Of features as they came.
    bias : ndarray of shape (classes,)
    penalty : float
    """
    exact = rows.astype(np.float64)
    said = log_softmax(exact @ weights.T + bias, axis=1)[np.arange(len(y)), y]
    scaled = weights * exact.std(0)
    # Two classes share one vector of weights.
    length = np.square(scaled).sum() if len(scaled) > 2 else np.square(scaled[1] - scaled[0]).sum()
    return float((penalty / 2 * length - said.sum()) / len(y))


def by_size(
    rows: np.ndarray,
    marks: Mapping[int, np.ndarray],
    sizes: Sequence[int],
    *,
    rounds: int,
    before: Path | None = None,
) -> Table:
    """
    Time all layers together against scikit-learn, and against an earlier version, by size.

    Parameters
    ----------
    rows : ndarray of shape (layers, words, features)
    marks : mapping of int to ndarray of int of shape (words,)
        Labels by their number of classes.
    sizes : sequence of int
        Numbers of words.
    rounds : int
    before : Path, optional
        Folder of an earlier version of the package.
    """
    from threadpoolctl import threadpool_limits

    from microtome.probes.linear import fit_logistic

    solvers = {"ours": fit_logistic}
    if before is not None:
        solvers["before"] = _earlier(before).fit_logistic
    lines = []
    for words, labels in itertools.product(sizes, marks.values()):
        X = np.ascontiguousarray(rows[:, :words])
        names, y = np.unique(labels[:words], return_inverse=True)
        fits = {
            name: partial(solver, X, y, len(names), penalties=[PENALTY]) for name, solver in solvers.items()
        }
        peer = partial(_sklearn, X, y)
        with threadpool_limits(1):
            least = _objectives(X, y, fits["ours"](tolerance=1e-6))
            close, far = _close(fits["ours"], X, y, least), _close(peer, X, y, least)
            calls = fits | {
                "close": partial(fits["ours"], tolerance=close),
                "sklearn": partial(peer, tolerance=far),
            }
            timings, _ = interleaved(calls, rounds)
        took = {name: timing.cpu for name, timing in timings.items()}
        lines.append(
            (
                f"{words:,}",
                str(X.shape[2]),
                str(len(names)),
                f"{took['sklearn'] / took['close']:.2f}",
                f"{close:g}, {far:g}",
                f"{took['before'] / took['ours']:.2f}" if before is not None else "",
            )
        )
    return Table(
        title=f"{len(rows)} layers together, penalty {PENALTY:g}, one thread",
        header=("words", "features", "classes", "scikit-learn to ours", "tolerances", "before to now"),
        rows=tuple(lines),
        note=f"Ours and scikit-learn's at the first tolerance that ends within {CLOSE:g} of the least loss; "
        "before and now at their own.",
    )


def _sklearn(X: np.ndarray, y: np.ndarray, tolerance: float) -> Linear:
    """The linear probes of scikit-learn."""
    from sklearn.linear_model import LogisticRegression

    weights, bias = [], []
    for layer in X:
        mean, spread = layer.mean(0), np.maximum(layer.std(0), 1e-6)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = LogisticRegression(C=1 / PENALTY, tol=tolerance, max_iter=PASSES)
            model.fit((layer - mean) / spread, y)
        weights.append(model.coef_ / spread)
        bias.append(model.intercept_ - weights[-1] @ mean)
    found = [np.stack(weights), np.stack(bias)]
    if found[1].shape[1] == 1:
        found = [np.concatenate([-each, each], axis=1) / 2 for each in found]
    return Linear(weights=found[0], bias=found[1])


def _objectives(X: np.ndarray, y: np.ndarray, found: Any) -> np.ndarray:
    each = zip(X, found.weights, found.bias, strict=True)
    return np.array([objective(layer, y, weights, bias, PENALTY) for layer, weights, bias in each])


def _close(fit: Callable[..., Any], X: np.ndarray, y: np.ndarray, least: np.ndarray) -> float:
    """The first tolerance at which no layer is further from the least loss than `CLOSE`, or the last one."""
    for tolerance in TOLERANCES:
        if (_objectives(X, y, fit(tolerance=tolerance)) / least - 1).max() <= CLOSE:
            return tolerance
    return TOLERANCES[-1]


def _earlier(folder: Path) -> Any:
    """The linear probes of the version of the package that is in a folder."""
    spec = importlib.util.spec_from_file_location(
        "earlier", folder / "__init__.py", submodule_search_locations=[str(folder)]
    )
    assert spec is not None
    assert spec.loader is not None
    sys.modules["earlier"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sys.modules["earlier"])
    return importlib.import_module("earlier.probes.linear")


def _ratios(seconds: Mapping[str, Mapping[str, float]], clock: str, layers: int) -> dict[str, float]:
    took = {name: found[clock] for name, found in seconds.items()}
    own = {
        ALONE: took["all"] / took["one"],
        WHOLE: (took["extraction"] + took["all"]) / (took["extraction"] + took["one"]),
    }
    if "sklearn" not in took:
        return own
    return own | {
        SAME: took["sklearn"] / took["same"],
        LOOSE: took["sklearn"] / took["loose"],
        "scikit-learn to ours, one layer, penalty chosen": took["sklearn"] / took["one"],
        "scikit-learn to ours, mean of all layers, penalties chosen": took["sklearn"] * layers / took["all"],
    }


def missed(result: Mapping[str, Any]) -> list[str]:
    """List the promises that a run does not keep, by CPU time; by wall time where a GPU does the work."""
    cpu = result["ratios"]["cpu" if result["device"] == "cpu" else "wall"]
    said = [
        f"{name}: {cpu[name]:.2f}, promised {LAYERS:g} at most."
        for name in (ALONE, WHOLE)
        if cpu[name] > LAYERS
    ]
    said += [
        f"{name}: {cpu[name]:.2f}, promised {SLOWER:g} at least."
        for name in (SAME, LOOSE)
        if cpu.get(name, SLOWER) < SLOWER
    ]
    theirs = result["fits"].get("sklearn")
    for name in ("same", "loose") if theirs else ():
        ours = result["fits"][name]
        points = 100 * (theirs["accuracy"] - ours["accuracy"])
        if points > POINTS:
            said.append(f"scikit-learn is {points:.2f} points better, promised {POINTS:g} at most.")
        if ours["objective"] > (1 + WORSE) * theirs["objective"]:
            said.append(
                f"the objective is {ours['objective']:.6f}, scikit-learn's {theirs['objective']:.6f}."
            )
    if not result["converged"]:
        said.append("some linear probes did not converge.")
    return said


def tables(result: Mapping[str, Any]) -> list[Table]:
    """Show the results of `run`."""
    cpu, wall = result["ratios"]["cpu"], result["ratios"]["wall"]
    title = (
        f"{result['layers']} layers of width {result['width']}, {result['words']:,} words, "
        f"{result['classes']} tags"
    )
    whose = {
        "same": "ours",
        "loose": f"ours, to {TOLERANCE:g}",
        "sklearn": f"scikit-learn, to {TOLERANCE:g}, {result['sklearn_passes']} passes",
    }
    return [
        Table(
            title=title,
            header=("what", "CPU ratio", "wall ratio"),
            rows=tuple((name, f"{cpu[name]:.2f}", f"{wall[name]:.2f}") for name in cpu),
            note=f"{result['model']}, {result['device']}, threads: {result['threads']}, rounds: "
            f"{result['rounds']}.",
        ),
        Table(
            title="Medians of seconds",
            header=("what", "CPU", "wall"),
            rows=tuple(
                (name, f"{each['cpu']:.2f}", f"{each['wall']:.2f}")
                for name, each in result["seconds"].items()
            ),
            note='"one" and "all" choose their penalties; "same" and "loose" are given that of "one".',
        ),
        Table(
            title="One layer, same penalty",
            header=("whose", "objective", "right about new words"),
            rows=tuple(
                (whose[name], f"{each['objective']:.6f}", f"{100 * each['accuracy']:.2f} %")
                for name, each in result["fits"].items()
            ),
            note=f"Readouts that converged: {'all' if result['converged'] else 'not all'}.",
        ),
    ]


def _sizes(encoder: Any, chosen: argparse.Namespace, sizes: Sequence[int]) -> Table:
    """Extract as many words as are needed, and compare by size; one class against all others comes first."""
    import torch

    torch.set_num_threads(1)
    marks = chosen.marks.split(",")
    tagged = Tagged(encoder, chosen.train, marks[0], max(sizes))
    tagged.extract()
    places = list(zip(tagged.groups, tagged._plan().units, strict=True))
    labels = {}
    for mark in marks:
        names, codes = np.unique([tagged.corpus[a].marks[mark][b] for a, b in places], return_inverse=True)
        if not labels:
            labels[2] = (codes == np.bincount(codes).argmax()).astype(np.int64)
        labels[len(names)] = codes
    layers = tagged.rows
    wide = [layers[i : len(layers) - chosen.beside + 1 + i] for i in range(chosen.beside)]
    rows = np.concatenate(wide, axis=2)[:: chosen.every]
    return by_size(rows, labels, sizes, rounds=chosen.rounds, before=chosen.before)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Cost of linear probes of all layers.")
    parser.add_argument("model", help="folder, name or hub id")
    parser.add_argument("--train", required=True, help="a treebank in CoNLL-U")
    parser.add_argument("--test", help="another, needed but for --sizes")
    parser.add_argument("--mark", default="upos")
    parser.add_argument("--words", type=int, help="learn from the first so many")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--alone", action="store_true", help="without scikit-learn")
    parser.add_argument("--sizes", help="numbers of words to compare all layers at, as in 500,2000")
    parser.add_argument("--marks", default="upos,deprel", help="what the words are labeled with there")
    parser.add_argument("--every", type=int, default=1, help="one layer in so many is taken there")
    parser.add_argument("--beside", type=int, default=1, help="so many layers side by side make one there")
    parser.add_argument("--before", type=Path, help="folder of an earlier version of the package")
    parser.add_argument("--json", type=Path, help="where to write the results")
    chosen = parser.parse_args(arguments)

    import microtome as mt

    if chosen.sizes:
        sizes = [int(size) for size in chosen.sizes.split(",")]
        print(_sizes(mt.load(chosen.model, device="cpu"), chosen, sizes).markdown())
        return 0
    result = run(
        mt.load(chosen.model, device=chosen.device),
        chosen.train,
        chosen.test,
        mark=chosen.mark,
        words=chosen.words,
        rounds=chosen.rounds,
        threads=chosen.threads,
        device=chosen.device,
        peer=not chosen.alone,
    )
    for table in tables(result):
        print(table.markdown())
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(result, indent=1))
    for sentence in missed(result):
        print(f"Missed: {sentence}")
    return int(bool(missed(result)))


if __name__ == "__main__":
    raise SystemExit(main())
