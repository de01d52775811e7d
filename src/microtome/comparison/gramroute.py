"""Linear and debiased CKA from Gram matrices, for stacks where they cost less than moments."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from ..measures.declare import Chosen
from ..moments.gram import GramProducts, gram_bytes, gram_products
from .layers import facts_of_spread, shares
from .nulls import null_details, null_of
from .request import Request
from .tables import NOT_FINITE, ROUNDING, Outcome, Table, settle

if TYPE_CHECKING:
    import torch

# Measures that depend on norms of scatter matrices only.
NORMS_ONLY = ("linear_cka", "debiased_cka")


def gram_pays(request: Request, measures: Sequence[Chosen]) -> bool:
    """Whether every measure can be computed from Gram matrices, and these cost less than moments."""
    if not measures or request.clusters is not None or request.n < 4:
        return False
    if any(m.measure.name not in NORMS_ONLY for m in measures):
        return False
    stacks = [request.left] if request.right is None else [request.left, request.right]
    if gram_bytes(stacks, 8 if request.settings.exact else 4) > request.settings.memory:
        return False
    left_widths = np.array(request.left.widths, dtype=float)
    right_widths = left_widths if request.right is None else np.array(request.right.widths, dtype=float)
    pairs = left_widths.sum() * right_widths.sum() / (2 if request.right is None else 1)
    features = sum(sum(stack.widths) for stack in stacks)
    layers = sum(len(stack) for stack in stacks)
    # Half of each Gram matrix, and float64 products of all of them, against all pairs of features.
    return request.n * (features / 2 + layers**2) < 0.8 * pairs


def run_gram(request: Request, measures: Sequence[Chosen], *, spectra: bool = False) -> Outcome:
    """
    Compute linear and debiased CKA of all pairs of layers from Gram matrices.

    Parameters
    ----------
    request : Request
        Without clusters.
    measures : sequence of Chosen
        Of `NORMS_ONLY`.
    spectra : bool
        Whether the layer statistics include the spectra.

    Returns
    -------
    Outcome
    """
    import torch

    s = request.settings
    stacks = [request.left] if request.right is None else [request.left, request.right]
    gram = gram_products(stacks, dtype=s.dtype, device=s.device, spectra=spectra)
    n, lefts = request.n, len(request.left)
    first = 0 if request.right is None else lefts
    rights = len(gram.norms) - first
    products = gram.norms @ gram.norms.T
    sums = gram.norms.sum(1)
    correction = n / (n - 2) * products - torch.outer(sums, sums) / ((n - 1) * (n - 2))
    bank = _bank(gram, products, s.dtype)
    self_norms = bank.frob2 - correction.diagonal()
    tables = {m.label: _empty((lefts, rights)) for m in measures}
    columns = slice(first, first + rights)
    for i in range(lefts):
        strip: Any = _Norms(bank, i, columns, gram.frob2[i, columns], correction[i, columns], self_norms, n)
        for choice in measures:
            table, cells = tables[choice.label], choice.measure.compute(strip, choice.options)
            table.values[i] = cells.forward.cpu().numpy()
            table.reasons[i] = np.array(cells.reasons, dtype=object)
            (table.null_mean[i], table.null_sd[i]), _ = null_of(choice, strip)
            details = {name: v.cpu().numpy() for name, v in cells.details.items()}
            for name, values in (details | null_details(choice, strip)).items():
                table.details.setdefault(name, np.full((lefts, rights), np.nan))[i] = values
    for choice in measures:
        table = tables[choice.label]
        undefined = np.array([[r is not None for r in row] for row in table.reasons])
        bad = ~undefined & ~np.isfinite(table.values)
        table.reasons[bad] = NOT_FINITE
        table.values[undefined | bad] = np.nan
        settle(table.values, choice, ROUNDING[s.exact])
    participation = (sums.square() / bank.frob2).cpu().numpy()
    spectrum = None
    if gram.eigenvalues is not None:
        spectrum = shares([values.cpu().numpy() for values in gram.eigenvalues])
    sides = [slice(lefts), slice(first, None)]
    return Outcome(
        tables=tables,
        left=facts_of_spread(
            gram.sumsq[sides[0]], participation[sides[0]], None if spectrum is None else spectrum[sides[0]]
        ),
        right=facts_of_spread(
            gram.sumsq[sides[1]], participation[sides[1]], None if spectrum is None else spectrum[sides[1]]
        ),
        near_tolerance=False,
        scores={},
    )


def _empty(shape: tuple[int, int]) -> Table:
    return Table(
        values=np.full(shape, np.nan),
        null_mean=np.full(shape, np.nan),
        null_sd=np.full(shape, np.nan),
        reasons=np.full(shape, None, dtype=object),
    )


def _bank(gram: GramProducts, products: torch.Tensor, dtype: torch.dtype) -> Any:
    """The part of a `Bank` that CKA and its null use."""
    norms2, frob2, trace = products.diagonal(), gram.frob2.diagonal(), gram.norms.sum(1)
    statistics = {"trace": trace.tolist(), "frob2": frob2.tolist(), "norms2": norms2.tolist()}
    return SimpleNamespace(frob2=frob2, known=statistics, dtype=dtype)


class _Norms:
    """The part of a `Strip` that CKA and its null use."""

    def __init__(
        self,
        bank: Any,
        row: int,
        columns: slice,
        frob2: torch.Tensor,
        correction: torch.Tensor,
        self_norms: torch.Tensor,
        n: int,
    ) -> None:
        self.left = self.right = bank
        self.row, self.columns, self.n = row, columns, n
        self.frob2, self.correction = frob2, correction
        self.left_self, self.right_self = self_norms[row], self_norms[columns]

    def __len__(self) -> int:
        return len(self.frob2)
