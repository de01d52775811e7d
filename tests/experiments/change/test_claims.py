"""Claims about the layer that changed most: named where it is shown, by the rule of compared models."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from microtome.context import Context
from microtome.experiments.cell_errors import Sample
from microtome.experiments.change.claims import center_claim
from microtome.findings.claims.render import headline

RECORDED: Any = SimpleNamespace(layers=(1, 2, 3), unit="sentence")


@pytest.mark.parametrize("spread, near", [(0.001, []), (0.2, [3])])
def test_the_layer_that_changed_most_is_named_where_it_is_shown(spread: float, near: list[int]) -> None:
    units = 40
    rng = np.random.default_rng(0)
    errors = spread / units * rng.normal(size=(1, 3, units))
    errors[:, 0] /= 100
    similar = Sample(values=np.array([[0.99, 0.6, 0.65]]), errors=errors, dof=np.inf)
    _, claim = center_claim("debiased_cka", similar, RECORDED, Context())
    assert (claim.layers, claim.facts["overlapping"]) == ((2,), near)
    words = headline(claim)
    rest = "; the center of the change is at layer"
    if near:
        doubt = "is not shown (layer 2 by 0.40, and the intervals of layer 3 reach as far)"
        assert words.startswith(f"By debiased_cka, which layer changed most {doubt}{rest}")
    else:
        assert words.startswith(f"By debiased_cka, layer 2 changed most (0.40){rest}")
