"""Linear and debiased CKA from Gram matrices, for stacks where they cost less than moments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np

from ..lazy import torch
from ..measures.declare import Chosen
from ..moments.gram import GramProducts, gram_bytes, gram_products
from ..moments.strip import Debiasing
from .nulls import null_details, null_of
from .request import Request
from .tables import Outcome, Table, facts_of_spread, settle, shares

# Measures that depend on norms of scatter matrices only.
NORMS_ONLY = ("linear_cka", "debiased_cka")


def gram_pays(request: Request, measures: Sequence[Chosen]) -> bool:
    """Whether every measure can be computed from Gram matrices, and these cost less than moments."""
    if not measures or request.clusters is not None or request.n < 4:
        return False
    if any(m.measure.name not in NORMS_ONLY for m in measures):
        return False
    if gram_bytes(request.sides, 8 if request.exact else 4) > request.memory:
        return False
    pairs = sum(request.left.widths) * sum(request.sides[-1].widths) / (2 if request.right is None else 1)
    features, layers = sum(request.widths), len(request.widths)
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
    gram = gram_products(request.sides, dtype=request.dtype, device=request.device, spectra=spectra)
    n, lefts = request.n, len(request.left)
    first = 0 if request.right is None else lefts
    rights = len(gram.norms) - first
    products = gram.norms @ gram.norms.T
    sums = gram.norms.sum(1)
    correction = n / (n - 2) * products - torch.outer(sums, sums) / ((n - 1) * (n - 2))
    bank = _bank(gram, products, request.dtype)
    self_norms = bank.frob2 - correction.diagonal()
    tables = {m.label: Table.blank((lefts, rights)) for m in measures}
    columns = slice(first, first + rights)
    for i in range(lefts):
        debiasing = Debiasing(correction[i, columns], self_norms[i], self_norms[columns])
        strip: Any = _Norms(bank, bank, i, columns, n, gram.frob2[i, columns], debiasing)
        for choice in measures:
            table, cells = tables[choice.label], choice.measure.compute(strip, choice.options)
            table.values[i] = cells.forward.cpu().numpy()
            table.reasons[i] = np.array(cells.reasons, dtype=object)
            table.null_mean[i], _, table.null_sd[i] = null_of(choice, strip)
            details = {name: v.cpu().numpy() for name, v in cells.details.items()}
            for name, values in (details | null_details(choice, strip)).items():
                table.details.setdefault(name, np.full((lefts, rights), np.nan))[i] = values
    for choice in measures:
        settle(tables[choice.label], choice, exact=request.exact)
    participation = (sums.square() / bank.frob2).cpu().numpy()
    spectrum = None
    if gram.eigenvalues is not None:
        spectrum = shares([values.cpu().numpy() for values in gram.eigenvalues])
    left, right = (
        facts_of_spread(gram.sumsq[side], participation[side], None if spectrum is None else spectrum[side])
        for side in (slice(lefts), slice(first, None))
    )
    return Outcome(tables=tables, left=left, right=right)


def _bank(gram: GramProducts, products: torch.Tensor, dtype: torch.dtype) -> Any:
    """The part of a `Bank` that CKA and its null use."""
    norms2, frob2, trace = products.diagonal(), gram.frob2.diagonal(), gram.norms.sum(1)
    statistics = {"trace": trace.tolist(), "frob2": frob2.tolist(), "norms2": norms2.tolist()}
    return SimpleNamespace(frob2=frob2, known=statistics, dtype=dtype)


@dataclass(frozen=True, slots=True)
class _Norms:
    """The part of a `Strip` that CKA and its null use."""

    left: Any
    right: Any
    row: int
    columns: slice
    n: int
    frob2: torch.Tensor
    debiasing: Debiasing

    def __len__(self) -> int:
        return len(self.frob2)
