"""Sums over the attention rows of one sentence, for all pairs of heads of two models.

Frobenius norms, Pearson correlations and tables of word pairs are matrix products; Jensen-Shannon divergences
have their own kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from ..errors import InputError, must
from ..inference.estimate import Sides
from ..lazy import torch
from .attention_js import divergence_sums
from .declare import Chosen

if TYPE_CHECKING:
    Maps: TypeAlias = npt.NDArray[Any] | torch.Tensor


Array: TypeAlias = npt.NDArray[Any]
Sums: TypeAlias = tuple[Array, ...]

ROW_SUM = 1e-3  # tolerance of row sums about 1: half precision passes
GONE = 1e-30  # a row of the lower triangle with less attention than this cannot be renormalized
CONSTANT = 64 * float(np.finfo(np.float32).eps) ** 2  # (8 eps)^2: variance of a constant in float32


class AttentionRows(NamedTuple):
    """
    The rows of one sentence that are compared, for all heads of all layers.

    Parameters
    ----------
    left, right : array of shape (layers * heads, rows, words)
        Rows that sum to 1; the same object when a model is compared with itself.
    inside : array of bool, shape (rows, words)
        The positions a row may attend to.
    layers, shift : pair of int, float
        The numbers of layers of the left and of the right model; a number near the mean of attention, the
        same for all sentences.
    causal : bool
        Whether a row attends only up to the word itself, in which case the first word is not among the rows.
    """

    left: Array
    right: Array
    inside: Array
    layers: tuple[int, int] = (1, 1)
    shift: float = 0.0
    causal: bool = False

    @property
    def same(self) -> bool:
        """Whether a model is compared with itself."""
        return self.left is self.right

    def flat(self) -> tuple[Array, Array]:
        """Return the allowed positions, row by row: two arrays of shape (layers * heads, positions)."""
        left = self.left[:, self.inside]
        return left, left if self.same else self.right[:, self.inside]


class Used(NamedTuple):
    """The shape (L, heads_left, R, heads_right) of the sums, and their numbers of sentences and words."""

    shape: tuple[int, int, int, int]
    sentences: int
    words: int


def as_float64(values: Maps) -> Array:
    """Convert an array or a tensor of any type and device to a float64 array."""
    if isinstance(values, np.ndarray):
        return values.astype(np.float64, copy=False)
    return values.detach().cpu().double().numpy()


def checked(maps: Maps, side: str, number: int) -> Array:
    """Convert maps to float64, and raise an error where they are not attention distributions."""
    if not hasattr(maps, "ndim"):
        name = f"{side} attention of sentence {number}"
        raise must(name, "an array of shape (layers, heads, words, words)", maps)
    if maps.ndim != 4 or maps.shape[2] != maps.shape[3] or 0 in maps.shape:
        name = f"{side} attention of sentence {number}"
        raise must(name, "of shape (layers, heads, words, words)", tuple(maps.shape))
    values = as_float64(maps)
    with np.errstate(invalid="ignore"):  # infinities of both signs
        sums = values.sum(axis=-1)
    wrong = ~((np.abs(sums - 1) <= ROW_SUM) & (values.min(axis=-1) >= 0))
    if wrong.any():
        index = layer, head, row = tuple(np.argwhere(wrong)[0])
        raise InputError(
            f"rows of attention must be non-negative and sum to 1 within {ROW_SUM:g}, but in sentence "
            f"{number}, {side} layer {layer + 1}, head {head + 1}, row {row + 1} sums to {sums[index]:g} "
            f"with {values[index].min():g} as its smallest number."
        )
    return values


def compared_rows(left: Array, right: Array, causal: bool) -> tuple[Array, Array, Array]:
    """Return the compared rows of all heads, normalized to 1 over the positions they may attend to."""
    words = left.shape[2]
    inside = np.tri(words, dtype=bool)[1:] if causal else np.ones((words, words), dtype=bool)
    x = left.reshape(-1, words, words)[:, words - len(inside) :] * inside
    y = x if left is right else right.reshape(-1, words, words)[:, words - len(inside) :] * inside
    x_mass, y_mass = x.sum(axis=2), y.sum(axis=2)
    mask = np.minimum(x_mass.min(axis=0), y_mass.min(axis=0)) > GONE
    x = x[:, mask] / x_mass[:, mask, None]
    return x, x if left is right else y[:, mask] / y_mass[:, mask, None], inside[mask]


def norm_sums(rows: AttentionRows) -> Sums:
    """Frobenius norm of the difference, and its share of the largest possible one."""
    x, y = rows.flat()
    scale = np.sum(x * x, axis=1)[:, None] + np.sum(y * y, axis=1)
    square = scale - 2 * x @ y.T
    near = square <= 1e-6 * scale  # catastrophic cancellation
    for h in np.flatnonzero(near.any(axis=1)):
        square[h, near[h]] = np.sum((y[near[h]] - x[h]) ** 2, axis=1)
    norm = np.sqrt(square)
    return norm, norm / np.sqrt(2 * len(rows.inside))


def js_sums(rows: AttentionRows) -> Sums:
    """Jensen-Shannon divergence in bits: its sum and its mean over words."""
    x, y = rows.flat()
    bits = divergence_sums(x, None if rows.same else y)
    return bits, bits / len(rows.inside)


def pearson_sums(rows: AttentionRows) -> Sums:
    """Sum, count and mean of the correlations of words where neither row is constant, and whether any."""
    return _shares(*_correlations(rows, rows.inside))


def wu_sums(rows: AttentionRows) -> Sums:
    """
    Same sums with the first form of the released code: zeros after the word count as values.

    It divides the population covariance by sample standard deviations; a one-word sentence counts as 0. It
    keeps the first row of a causal model, which correlates perfectly.
    """
    words = rows.inside.shape[1]
    total, count = _correlations(rows, np.ones_like(rows.inside))
    total = (total + rows.causal) * ((words - 1) / words)
    return _shares(total, count + rows.causal if words > 1 else np.ones_like(count))


def wu_masked_sums(rows: AttentionRows) -> Sums:
    """
    Same sums with the second form of the released code, whose n counts the positions non-zero in both rows.

    The other sums run over all positions. Undefined correlations count as 0, such as the first row of a
    causal model, where n is 1.
    """
    total = np.zeros((len(rows.left), len(rows.right)))
    for x, y in zip(rows.left.swapaxes(0, 1), rows.right.swapaxes(0, 1), strict=True):
        n = (x != 0).astype(np.float64) @ (y != 0).T.astype(np.float64)
        mean = 1 / np.where(n > 0, n, np.nan)
        x_square, y_square = np.sum(x * x, axis=1)[:, None] - mean, np.sum(y * y, axis=1) - mean
        least = np.minimum(np.abs(x_square), np.abs(y_square))
        defined = (x_square * y_square > 0) & (least > np.maximum(CONSTANT * mean, 1e-15))
        total[defined] += (x @ y.T - mean)[defined] / np.sqrt((x_square * y_square)[defined])
    return _shares(total, np.full_like(total, len(rows.inside) + rows.causal))


def pairs_sums(rows: AttentionRows) -> Sums:
    """Moments, about the shift, of the table of word pairs x heads within and across models: sum and mean."""
    x, y = (flat - rows.shift for flat in rows.flat())
    left_layers, right_layers = (
        z.reshape(n, -1, z.shape[1]) for z, n in zip((x, y), rows.layers, strict=True)
    )
    left_moments, right_moments = (
        left_layers @ left_layers.swapaxes(1, 2),
        right_layers @ right_layers.swapaxes(1, 2),
    )
    moments = (
        np.array(float(x.shape[1])),
        x.sum(axis=1),
        y.sum(axis=1),
        left_moments,
        right_moments,
        x @ y.T,
    )
    return *moments, *(moment / x.shape[1] for moment in moments)


def centered_pairs_sums(rows: AttentionRows) -> Sums:
    """Same moments after subtracting each row's mean, which depends only on the number of words."""
    mean = 1 / rows.inside.sum(axis=1)[:, None]
    left = rows.left - mean
    return pairs_sums(rows._replace(left=left, right=left if rows.same else rows.right - mean, shift=0.0))


def _correlations(rows: AttentionRows, inside: Array) -> tuple[Array, Array]:
    positions = inside.sum(axis=1)

    def unit(x: Array) -> tuple[Array, Array]:
        centered = (x - 1 / positions[:, None]) * inside  # a row sums to 1
        square = np.einsum("hrt,hrt->hr", centered, centered)
        varies = square > CONSTANT / positions
        centered /= np.sqrt(np.where(varies, square, np.inf))[:, :, None]
        return centered.reshape(len(x), -1), varies.astype(np.float64)

    x, x_varies = unit(rows.left)
    y, y_varies = (x, x_varies) if rows.same else unit(rows.right)
    return x @ y.T, x_varies @ y_varies.T


def _shares(total: Array, count: Array) -> Sums:
    return total, count, total / np.maximum(count, 1), (count > 0).astype(np.float64)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttentionCells:
    """
    A measure of attention for every left layer (L) and every right layer (R).

    Parameters
    ----------
    label, estimator : str
        The measure with its options, and a description of the estimator.
    forward, backward : array of shape (L, R)
        Left layer i matched in right layer j; right layer j matched in left layer i. NaN where undefined.
    reasons : tuple of tuple of (str or None)
        Why a cell is undefined, L by R.
    sentences, words, dropped_sentences, dropped_words : int
        The numbers of sentences and words that were used, and that were read and not used.
    heads, undefined : array of shape (L, heads_left, R, heads_right), optional
        The similarity of each pair of heads, and the number of words left out of it because one of the two
        rows is constant.
    best_right, best_left : arrays of shapes (L, heads_left, R) and (L, R, heads_right), optional
        The most similar head of the other layer for each head, from 0; -1 where none is defined.
    rank, kept : Sides of arrays of shapes (L,) and (R,)
        The rank of each layer's table of heads, and the number of its dimensions that were compared.
    """

    label: str = ""
    estimator: str
    forward: Array
    backward: Array
    reasons: tuple[tuple[str | None, ...], ...]
    sentences: int = 0
    words: int = 0
    dropped_sentences: int = 0
    dropped_words: int = 0
    heads: Array | None = None
    best_right: Array | None = None
    best_left: Array | None = None
    undefined: Array | None = None
    rank: Sides = Sides(None, None)
    kept: Sides = Sides(None, None)


RELEASED = (wu_sums, wu_masked_sums)  # these count the first word of a causal comparison


class AttentionPass:
    """
    A single pass over the sentences for any number of measures, in memory independent of their number.

    Parameters
    ----------
    measures : sequence of Chosen
        Measures that need attention, with their options.
    causal : bool
        Compare the attention of words to themselves and to earlier words: the lower triangle of every map,
        with rows renormalized to 1. The first word is left out, since its row is always (1), except by the
        Pearson variants of the released code; so is a word whose row has no such attention in some head.

    Examples
    --------
    >>> from microtome.measures.attention import ATTENTION_MEASURES
    >>> from microtome.measures.declare import choose
    >>> run = AttentionPass([choose(ATTENTION_MEASURES[2], {"unit": "bits"})])
    >>> run.add(np.full((1, 2, 3, 3), 1 / 3), np.eye(3)[None, None])
    >>> run.finish()["attention_js:unit=bits"].forward.round(4).tolist()
    [[0.5409]]
    """

    def __init__(self, measures: Sequence[Chosen], *, causal: bool = False) -> None:
        self._measures: list[tuple[Chosen, Callable[[AttentionRows], Sums]]] = []
        for choice in measures:
            if choice.measure.needs != "attention" or choice.measure.prepare is None:
                raise must("measures", "measures of attention", choice.measure.name)
            self._measures.append((choice, choice.measure.prepare(choice.options)))
        self._causal = causal
        self._sums: dict[Callable[[AttentionRows], Sums], tuple[Used, Sums]] = {}
        self._form: tuple[Any, ...] | None = None
        self._shift, self._sentences, self._words = np.nan, 0, 0

    def add(self, left: Maps, right: Maps | None = None) -> None:
        """
        Read one sentence.

        Parameters
        ----------
        left : array or tensor of shape (layers, heads, words, words)
        right : array or tensor of shape (layers, heads, words, words), optional
            The same sentence in another model; None: the model with itself.
        """
        number = self._sentences + 1
        x = checked(left, "left", number)
        y = x if right is None else checked(right, "right", number)
        if x.shape[2] != y.shape[2]:
            raise must(f"words of sentence {number}", f"{x.shape[2]} on the right as on the left", y.shape[2])
        form = (*x.shape[:2], *y.shape[:2]), right is None
        if form != (self._form or form):
            raise must(f"layers, heads and sides of sentence {number}", f"as before, {self._form}", form)
        x, y, inside = compared_rows(x, y, self._causal)
        if np.isnan(self._shift) and len(inside):
            self._shift = len(inside) / float(inside.sum())  # the mean of every head, since rows sum to 1
        rows = AttentionRows(x, y, inside, (form[0][0], form[0][2]), self._shift, self._causal)
        for add_up in dict.fromkeys(add_up for _, add_up in self._measures):
            count = len(inside) + (self._causal and add_up in RELEASED)
            if count:
                used, total = self._sums.get(add_up, (Used(form[0], 0, 0), None))
                sentence_sums = add_up(rows)
                total = tuple(map(np.add, total, sentence_sums)) if total else sentence_sums
                self._sums[add_up] = Used(form[0], used.sentences + 1, used.words + count), total
        self._form, self._sentences, self._words = form, number, self._words + int(left.shape[2])

    def finish(self) -> dict[str, AttentionCells]:
        """Compute the cells from the sums, by label; further sentences can be added afterwards."""
        cells_by_label: dict[str, AttentionCells] = {}
        for choice, add_up in self._measures:
            if add_up not in self._sums:
                raise must("sentences", "there with words to compare", f"{self._sentences} sentences without")
            used, sums = self._sums[add_up]
            cells = choice.measure.compute(sums, used, choice.options)
            cells_by_label[choice.label] = replace(
                cells,
                label=choice.label,
                estimator=cells.estimator + self._causal * "; lower triangle of all maps, rows scaled to 1",
                sentences=used.sentences,
                words=used.words,
                dropped_sentences=self._sentences - used.sentences,
                dropped_words=self._words - used.words,
            )
        return cells_by_label
