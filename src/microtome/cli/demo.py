"""What does a comparison look like, before one has a model at hand? The verb `demo`, on generated layers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from .show import JsonOption, QuietOption, Screen
from .similarity import SeedOption, ThreadsOption

if TYPE_CHECKING:
    import numpy as np

    from ..findings.maps import Maps

LAYERS, BORDER, FEATURES, SENTENCES = 12, 7, 48, 320
MEASURES = ("debiased_cka", "svcca", "neuron_correlation")


@dataclass(frozen=True, slots=True, kw_only=True)
class Stacks:
    """
    Two generated stacks on the same rows.

    Parameters
    ----------
    base, tuned : tuple of ndarray of shape (rows, features)
        Layers 1 to 12.
    sentences : ndarray of shape (rows,)
        The sentence of each row.
    """

    base: tuple[np.ndarray, ...]
    tuned: tuple[np.ndarray, ...]
    sentences: np.ndarray

    @property
    def names(self) -> tuple[list[str], list[str]]:
        """Names of the layers of both stacks, counted from 1."""
        numbers = range(1, LAYERS + 1)
        return [f"base/{number}" for number in numbers], [f"tuned/{number}" for number in numbers]


def demo(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="The folder to write into.")] = Path("demo"),
    seed: SeedOption = 0,
    threads: ThreadsOption = None,
    json: JsonOption = False,
    quiet: QuietOption = False,
) -> None:
    """Compare the layers of two generated stacks, and show what can be said about them."""
    from ..comparison.similarity import similarity_matrix
    from ..comparison.structure import find_blocks
    from ..figures.heatmap import FORMATS, draw, save_figure
    from ..findings.change import change_profile
    from ..findings.record import make_folder, with_source

    screen = Screen(json=json, quiet=quiet)
    make_folder(out)
    stacks = generate(seed)
    (base, tuned), ids = stacks.names, stacks.sentences
    story = (
        f"Generated, not trained: two stacks of {LAYERS} layers on {len(ids):,} words in {SENTENCES} "
        f"sentences, tuned made from base. Up to layer {BORDER} they differ little; in layer {BORDER + 1} of "
        "tuned a signal that is the same for all words of a sentence was added, and the layers above it were "
        "changed more."
    )
    with screen.working() as progress:
        shared = {"clusters": ids, "seed": seed, "threads": threads}
        maps = similarity_matrix(
            stacks.base,
            stacks.tuned,
            MEASURES,
            certainty=True,
            names=base,
            right_names=tuned,
            progress=progress,
            **shared,
        )
        alone = similarity_matrix(stacks.tuned, measures="debiased_cka", names=tuned, **shared)[
            "debiased_cka"
        ]
        blocks = [
            f"{name}: {find_blocks(stack, **shared).sentence([str(i + 1) for i in range(LAYERS)])}"
            for name, stack in (("base", stacks.base), ("tuned", stacks.tuned))
        ]
    change = change_profile(maps["debiased_cka"].values, positions=range(1, LAYERS + 1))
    findings = [*blocks, f"From base to tuned: {change.sentence(tuned)}"]
    maps = with_source(maps, command=context.obj or "microtome demo", inputs=[])
    if json:
        screen.maps(maps, None, findings=[story, *findings])
    else:
        screen.sentences([story, ""])
        _print_matches(screen, maps)
        screen.sentences(["", *findings])
    screen.files(maps, out, findings=[story, *findings])
    axes = draw(alone, title="Debiased CKA of tuned with itself")
    for kind in FORMATS:
        save_figure(axes, out / "figures" / f"tuned_with_itself.{kind}")


def generate(seed: int) -> Stacks:
    """
    Make two stacks whose differences are known.

    Parameters
    ----------
    seed : int

    Returns
    -------
    Stacks
    """
    import numpy as np

    from ..randomness import generator

    rng = generator(seed, "demo")
    sentences = np.repeat(np.arange(SENTENCES), rng.integers(3, 9, SENTENCES))
    meaning = rng.normal(size=(SENTENCES, FEATURES))
    words = rng.normal(size=(len(sentences), FEATURES))
    start = _normed(0.6 * meaning[sentences] + words)
    task = np.tanh(meaning @ rng.normal(size=(FEATURES, 6)) / 3)[sentences] @ rng.normal(size=(6, FEATURES))
    weights = rng.normal(size=(LAYERS, FEATURES, FEATURES)) / FEATURES**0.5
    drift = rng.normal(size=weights.shape) / FEATURES**0.5
    base, tuned = [], []
    x = y = start
    for layer in range(LAYERS):
        x = _step(x, weights[layer])
        y = _step(y, weights[layer] + (0.15 if layer < BORDER else 0.5) * drift[layer])
        if layer == BORDER:
            y = _normed(y + 0.3 * task)
        base.append(x)
        tuned.append(y)
    return Stacks(base=tuple(base), tuned=tuple(tuned), sentences=sentences)


def _step(x: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """One layer of a residual network: what came in, a little of something new, normed."""
    import numpy as np

    return _normed(x + 0.4 * np.tanh(x @ weights))


def _normed(x: np.ndarray) -> np.ndarray:
    x = x - x.mean(axis=1, keepdims=True)
    return x / x.std(axis=1, keepdims=True)


def _print_matches(screen: Screen, maps: Maps) -> None:
    from ..findings.words import number

    first = maps["debiased_cka"]
    rows: list[Sequence[str]] = []
    for i in range(LAYERS):
        low, high = (
            number(float("nan") if end is None else end, 3) for end in (first[i, i].low, first[i, i].high)
        )
        row = [str(i + 1), f"{number(first[i, i].value, 3)} [{low}, {high}]"]
        row += [number(first[i, i].null_mean, 3)]
        for name in MEASURES[1:]:
            row += [number(maps[name][i, i].value, 3), number(maps[name][i, i].null_mean, 3)]
        rows.append(row)
    head = ["layer", "debiased CKA [95%]", "unrelated", "SVCCA", "unrelated", "neurons", "unrelated"]
    screen.rows(
        head,
        rows,
        [
            "Each layer of base with the same layer of tuned. Intervals take sentences as independent; "
            "unrelated is what unrelated rows would give."
        ],
    )
