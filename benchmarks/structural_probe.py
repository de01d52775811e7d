"""What do the structural probes of all layers cost, beside that of one layer and beside the published form?

Trees and layers are drawn: edges are steps in a hidden space, under noise that grows from layer to layer.
Three things are timed in turn, over a few epochs in which nothing ends early: all layers together, one layer,
and one layer in the published form (padded batches, differences of all pairs of words, autograd, Adam of
torch). Then all layers, and some alone, are trained to their ends. Run it as

    OMP_NUM_THREADS=1 PYTHONPATH=src python benchmarks/structural_probe.py
    PYTHONPATH=src python benchmarks/structural_probe.py --sentences 10000 --features 768 --device cuda
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from engine import Table, interleaved

from microtome.probes.structural.fitting import BATCH, RATE, first_weights, sentence_order
from microtome.probes.structural.model import Structural, fit_structural
from microtome.probes.structural.probe import layer_scores, score_structural
from microtome.probes.structural.trees import Trees, read_trees, tree_distances
from microtome.randomness import generator

HIDDEN = 48  # dimensions that the trees are drawn in
WORDS = (2, 80)  # fewest and most of a sentence, 18 in the mean


def trees_of(sentences: int, seed: int, name: str) -> Trees:
    """Draw trees whose edges are mostly short."""
    rng = generator(seed, "structural benchmark", name)
    heads = []
    for _ in range(sentences):
        words = int(np.clip(rng.lognormal(2.65, 0.7), *WORDS))
        root = int(rng.integers(words))
        each = [0] * words
        for word in (w for w in range(words) if w != root):
            # Toward the root, so that there are no circles.
            steps = min(int(rng.geometric(0.5)), abs(root - word))
            each[word] = word + (steps if word < root else -steps) + 1
        heads.append(each)
    return read_trees(heads)


def layers_of(trees: Trees, layers: int, features: int, seed: int, name: str) -> np.ndarray:
    """
    Draw layers that hold the trees, each less than the one before.

    Returns
    -------
    ndarray of float32 of shape (layers, rows, features)
    """
    rng, turns = (generator(seed, "structural benchmark", each) for each in (name, "turns"))
    hidden = np.zeros((len(trees.heads), HIDDEN))
    steps = rng.normal(size=hidden.shape) / np.sqrt(HIDDEN)
    first = np.repeat(trees.starts, trees.lengths)
    for depth in range(1, int(trees.depths.max()) + 1):
        at = np.flatnonzero(trees.depths == depth)
        hidden[at] = hidden[first[at] + trees.heads[at] - 1] + steps[at]
    out = np.empty((layers, len(hidden), features), dtype=np.float32)
    for place, noise in enumerate(np.linspace(0.1, 1.0, layers)):
        turn = turns.normal(size=(HIDDEN, features)) / np.sqrt(HIDDEN)
        out[place] = hidden @ turn + noise * rng.normal(size=(len(hidden), features))
    return out


def published(X: np.ndarray, trees: Trees, rank: int, seed: int, epochs: int, device: str) -> np.ndarray:
    """Train the distance probe of one layer, shape (rows, features), in the published form."""
    rows = torch.from_numpy(X).to(device)
    right = [torch.from_numpy(tree_distances(trees, each)).to(rows) for each in range(len(trees))]
    B = torch.nn.Parameter(torch.from_numpy(first_weights(seed, rank, X.shape[1]).T.copy()).to(rows))
    optimizer, rng = torch.optim.Adam([B], lr=RATE), sentence_order(seed)
    for _ in range(epochs):
        order = rng.permutation(len(trees))
        for batch in (order[at : at + BATCH] for at in range(0, len(order), BATCH)):
            longest = int(trees.lengths[batch].max())
            padded = rows.new_zeros(len(batch), longest, X.shape[1])
            target = rows.new_full((len(batch), longest, longest), -1)
            for place, each in enumerate(batch):
                words = int(trees.lengths[each])
                padded[place, :words], target[place, :words, :words] = rows[trees.rows(each)], right[each]
            lengths = torch.from_numpy(trees.lengths[batch]).to(rows)
            z = padded @ B
            found = (z[:, :, None] - z[:, None]).pow(2).sum(-1)
            known = (target != -1).to(rows)
            loss = (((found - target) * known).abs().sum((1, 2)) / lengths**2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return B.detach().T.cpu().numpy()


def run(
    *,
    layers: int = 13,
    features: int = 128,
    sentences: int = 1_000,
    held: int = 300,
    epochs: int = 2,
    repeats: int = 3,
    alone: int = 3,
    device: str = "cpu",
    seed: int = 0,
) -> dict[str, Any]:
    """
    Time the distance probe.

    Parameters
    ----------
    layers, features, sentences, held : int
        What is drawn: sentences to learn from, and those held out.
    epochs, repeats : int
        Epochs of the calls that take turns, and their rounds.
    alone : int
        Layers that are trained to their ends alone.
    device : str
    seed : int

    Returns
    -------
    dict
        `epoch`: seconds an epoch, CPU and wall. `ends`: seconds to the ends, and what was reached.
    """
    trees, held_trees = trees_of(sentences, seed, "train"), trees_of(held, seed, "held")
    X, held_X = (
        layers_of(of, layers, features, seed, name) for of, name in ((trees, "train"), (held_trees, "held"))
    )

    def fit(only: slice, most: int) -> Structural:
        given = X[only], trees, (held_X[only], held_trees)
        return fit_structural(*given, seeds=[seed], epochs=most, enough=0, device=device)

    middle = slice(layers // 2, layers // 2 + 1)
    calls: dict[str, Callable[[], Any]] = {
        "all layers": lambda: fit(slice(None), epochs),
        "one layer": lambda: fit(middle, epochs),
        "one layer, published form": lambda: published(X[layers // 2], trees, features, seed, epochs, device),
    }
    if device != "cpu":
        fit(middle, 1)  # starts the device
    timings, values = interleaved(calls, repeats)
    ours, theirs = values["one layer"].weights[0, 0], values["one layer, published form"]
    # The published form is not validated, so it has the weights of its last epoch.
    apart = float(np.abs(ours - theirs).max()) if values["one layer"].best[0, 0] == epochs - 1 else np.nan
    chosen = sorted({int(each) for each in np.linspace(0, layers - 1, alone)})
    places = {"all": slice(None)} | {str(each): slice(each, each + 1) for each in chosen}
    ends, fitted = [], {}
    for what, only in places.items():
        wall, cpu = time.perf_counter(), time.process_time()
        fitted[what] = fit(only, 40)
        seconds = time.process_time() - cpu, time.perf_counter() - wall
        ends.append((what, *seconds, (~np.isnan(fitted[what].losses[0])).sum(-1).tolist()))
    wall = time.perf_counter()
    scores = score_structural(fitted["all"], held_X, held_trees, device)
    uuas, scoring = layer_scores(scores, "uuas")[0], time.perf_counter() - wall
    return {
        "shape": (layers, features, sentences, len(trees.heads)),
        "epoch": {name: (one.cpu / epochs, one.wall / epochs) for name, one in timings.items()},
        "ends": ends,
        "scoring": scoring,
        "uuas": uuas.tolist(),
        "apart": apart,
    }


def tables(result: dict[str, Any]) -> list[Table]:
    """Write what `run` found."""
    layers, features, sentences, words = result["shape"]
    one = result["epoch"]["one layer"][1]
    epochs = tuple(
        (name, f"{cpu:.3f}", f"{wall:.3f}", f"{wall / one:.1f}")
        for name, (cpu, wall) in result["epoch"].items()
    )
    alone = np.mean([wall for what, _, wall, _ in result["ends"] if what != "all"])
    ends = tuple(
        (
            f"all {layers} layers" if what == "all" else f"layer {what} alone",
            f"{cpu:.1f}",
            f"{wall:.1f}",
            f"{wall / alone:.1f}",
            f"{min(count)} to {max(count)}" if what == "all" else str(count[0]),
        )
        for what, cpu, wall, count in result["ends"]
    )
    drawn = f"{layers} layers of {features} features, {sentences:,} sentences of {words:,} words, full rank."
    reached = ", ".join(f"{each:.2f}" for each in result["uuas"])
    return [
        Table(
            title="Structural probe, an epoch",
            header=("what", "CPU s", "wall s", "to one layer"),
            rows=epochs,
            note=f"{drawn} Weights of one layer and of its published form differ by {result['apart']:.0e}.",
        ),
        Table(
            title="Structural probe, to the end",
            header=("what", "CPU s", "wall s", "to one layer", "epochs"),
            rows=ends,
            note=f"{drawn} Scoring took {result['scoring']:.1f} s more. UUAS by layer: {reached}.",
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name, value in (
        ("layers", 13),
        ("features", 128),
        ("sentences", 1_000),
        ("held", 300),
        ("repeats", 3),
    ):
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--device", default="cpu")
    for table in tables(run(**vars(parser.parse_args()))):
        print(table.markdown())


if __name__ == "__main__":
    main()
