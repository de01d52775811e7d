"""What a page says of maps beside drawing them."""

from __future__ import annotations

import numpy as np
import pytest

import microtome as mt
from microtome.randomness import generator
from microtome.report.maps import map_parts


def test_localization_beside_maps_is_what_the_paper_describes() -> None:
    layers = np.cumsum(generator(0, "report panels").standard_normal((4, 200, 6)), axis=0)
    names = ["a/0", "a/1", "b/0", "b/1"]
    maps = mt.similarity_matrix(layers, None, ["neuron_correlation", "svcca"], names=names)
    neuron, svcca = (maps[name].values for name in ("neuron_correlation", "svcca"))
    (part,) = (one for one in map_parts(maps, "out", "") if one.document["title"] == "Localization")
    for place, row in enumerate(part.document["rows"]):
        others = [k for k in range(4) if k != place]
        expected = neuron[others, place].mean() - svcca[others, place].mean()
        assert float(row[-1].replace("\u2212", "-")) == pytest.approx(expected, abs=6e-4)
    assert "(Wu et al. 2020, as described), over the 4 layers compared" in part.document["basis"]
