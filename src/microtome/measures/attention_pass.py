"""A single pass over the sentences for all measures of attention."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import must
from . import attention_rows as rowwise
from .attention import RELEASED, AttentionCells
from .attention_js import Kernel
from .attention_rows import AttentionRows, Sums, Used
from .declare import Chosen

if TYPE_CHECKING:
    from .attention_rows import Maps


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
    kernel : {"numba", "torch"}, optional
        The implementation of Jensen-Shannon divergences; None: numba where it is installed.

    Examples
    --------
    >>> from microtome.measures.attention import ATTENTION_MEASURES
    >>> from microtome.measures.declare import choose
    >>> run = AttentionPass([choose(ATTENTION_MEASURES[2], {"unit": "bits"})], kernel="torch")
    >>> run.add(np.full((1, 2, 3, 3), 1 / 3), np.eye(3)[None, None])
    >>> run.finish()["attention_js:unit=bits"].forward.round(4).tolist()
    [[0.5409]]
    """

    def __init__(
        self, measures: Sequence[Chosen], *, causal: bool = False, kernel: Kernel | None = None
    ) -> None:
        self._measures: list[tuple[Chosen, Callable[[AttentionRows], Sums]]] = []
        for choice in measures:
            if choice.measure.needs != "attention" or choice.measure.prepare is None:
                raise must("measures", "measures of attention", choice.measure.name)
            self._measures.append((choice, choice.measure.prepare(choice.options)))
        self._causal = causal
        self._kernel: Kernel | None = kernel
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
        x = rowwise.checked(left, "left", number)
        y = x if right is None else rowwise.checked(right, "right", number)
        if x.shape[2] != y.shape[2]:
            raise must(f"words of sentence {number}", f"{x.shape[2]} on the right as on the left", y.shape[2])
        form = (*x.shape[:2], *y.shape[:2]), right is None
        if form != (self._form or form):
            raise must(f"layers, heads and sides of sentence {number}", f"as before, {self._form}", form)
        x, y, inside = rowwise.compared_rows(x, y, self._causal)
        if np.isnan(self._shift) and len(inside):
            self._shift = len(inside) / float(inside.sum())  # the mean of every head, since rows sum to 1
        rows = AttentionRows(x, y, inside, (form[0][0], form[0][2]), self._shift, self._causal, self._kernel)
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
