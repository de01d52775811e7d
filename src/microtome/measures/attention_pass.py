"""How are the sentences read once for all measures of attention?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import must
from . import attention_rows as rowwise
from .attention import RELEASED, AttentionCells
from .attention_js import Kernel
from .attention_rows import Rows, Sums, Used
from .declare import Chosen

if TYPE_CHECKING:
    from .attention_rows import Maps


class AttentionPass:
    """
    One reading of the sentences for any number of measures; memory does not grow with their number.

    Parameters
    ----------
    measures : sequence of Chosen
        Measures that need attention, with their options.
    causal : bool
        Compare what words attend to up to themselves: the lower triangle of every map, its rows scaled to
        1 again. The first word is left out, since its row is (1) for all, except by the Pearson variants of
        the released code; so is a word to which some head leaves no attention.
    kernel : {"numba", "torch"}, optional
        What computes Jensen-Shannon divergences; None: numba where it is installed.

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
        self._measures: list[tuple[Chosen, Callable[[Rows], Sums]]] = []
        for chosen in measures:
            if chosen.measure.needs != "attention" or chosen.measure.prepare is None:
                raise must("measures", "measures of attention", chosen.measure.name)
            self._measures.append((chosen, chosen.measure.prepare(chosen.options)))
        self._causal = causal
        self._kernel: Kernel | None = kernel
        self._sums: dict[Callable[[Rows], Sums], tuple[Used, Sums]] = {}
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
        rows = Rows(x, y, inside, (form[0][0], form[0][2]), self._shift, self._causal, self._kernel)
        for add_up in dict.fromkeys(add_up for _, add_up in self._measures):
            count = len(inside) + (self._causal and add_up in RELEASED)
            if count:
                used, total = self._sums.get(add_up, (Used(form[0], 0, 0), None))
                share = add_up(rows)
                total = tuple(map(np.add, total, share)) if total else share
                self._sums[add_up] = Used(form[0], used.sentences + 1, used.words + count), total
        self._form, self._sentences, self._words = form, number, self._words + int(left.shape[2])

    def finish(self) -> dict[str, AttentionCells]:
        """Turn the sums into cells, by label; sentences can still be added, and the pass finished again."""
        found: dict[str, AttentionCells] = {}
        for chosen, add_up in self._measures:
            if add_up not in self._sums:
                raise must("sentences", "there with words to compare", f"{self._sentences} sentences without")
            used, sums = self._sums[add_up]
            cells = chosen.measure.compute(sums, used, chosen.options)
            found[chosen.label] = replace(
                cells,
                label=chosen.label,
                estimator=cells.estimator + self._causal * "; lower triangle of all maps, rows scaled to 1",
                sentences=used.sentences,
                words=used.words,
                dropped_sentences=self._sentences - used.sentences,
                dropped_words=self._words - used.words,
            )
        return found
