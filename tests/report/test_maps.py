"""What a page says of maps beside drawing them."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import microtome as mt
from microtome.findings.record import Maps
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


SEEDS = ["bert on rte (seed 1)", "bert on rte (seed 2)"]
TASKS = ["bert on rte (seed 1)", "bert on cola (seed 1)"]
ENCODERS = ["bert on rte (seed 1)", "xlnet on rte (seed 1)"]


@pytest.mark.parametrize(
    ("names", "title"),
    [
        (["bert", *SEEDS], "bert, before and after fine-tuning on rte (seeds 1 and 2)"),
        (["bert", *TASKS], "bert, before and after fine-tuning on rte and cola (seed 1)"),
        (ENCODERS, "bert and xlnet, fine-tuned on rte (seed 1)"),
        (["bert", SEEDS[0]], "bert and bert on rte (seed 1)"),
        (["xlnet", *SEEDS], "xlnet, bert on rte (seed 1) and bert on rte (seed 2)"),
        (["bert", *SEEDS, TASKS[1]], f"bert, {', '.join(SEEDS)} and {TASKS[1]}"),
        (["base", "seed-1", "seed-2"], "base, seed-1 and seed-2"),
    ],
)
def test_headings_say_what_fine_tuned_models_have_in_common(names: list[str], title: str) -> None:
    def tuned(name: str) -> dict[str, Any] | None:
        if name.startswith("seed-"):
            return {"model": "base", "task": "rte", "seed": int(name[-1])}
        found = re.fullmatch(r"(\w+) on (\w+) \(seed (\d)\)", name)
        return None if found is None else {"model": found[1], "task": found[2], "seed": int(found[3])}

    layers = generator(0, "headings").standard_normal((2 * len(names), 50, 4))
    (one,) = mt.similarity_matrix(
        layers, None, ["linear_cka"], names=[f"{name}/{k}" for name in names for k in (0, 1)]
    ).values()
    models = [{"name": name, "changes": [], "tuned": tuned(name)} for name in names]
    maps = Maps([replace(one, provenance={"models": models})], claims=())
    assert map_parts(maps, "out", "")[0].document["title"] == f"Similarity of layers: {title}"
