"""Nothing is concluded from models that do not beat the majority baseline, in any experiment."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cats
import microtome as mt
from figures.resulting import make_curve
from microtome.experiments.probing.claims import baseline_claims, reading_claims
from microtome.experiments.surgery.claims import head_claims
from microtome.findings.claims.render import headline
from microtome.findings.results import WEAK
from microtome.scores.table import SCORES

ACCURACY = SCORES["accuracy"]
CLAIMS = (
    "can be",
    "costs most",
    "excluded",
    "best layer",
    "helps",
    "shown to help",
    "better",
    "worse",
    "random",
)
UNTRAINED: dict[str, Any] = {"steps": 1, "batch": 4, "rate": 1e-12, "longest": 16}


@pytest.fixture(scope="module")
def failed(tmp_path_factory: pytest.TempPathFactory, encoder_of: Callable[..., Any]) -> Callable[..., Any]:
    """Run an experiment on models that were trained for one update that changes nothing."""
    task = cats.cats_task(train=16, validation=40)
    store = tmp_path_factory.mktemp("store")

    def run(name: str, **options: Any) -> Any:
        encoder = encoder_of("bert")
        if name in ("truncate", "skip"):
            tuned = [mt.finetune(encoder, task, "wu2020", seed=s, store=store, **UNTRAINED) for s in (1, 2)]
            return getattr(mt, name)(tuned, task, store=store, **options)
        given: dict[str, Any] = {"seeds": (1,), "recipe": "wu2020", "store": store, **UNTRAINED, **options}
        return getattr(mt, name)(encoder, task, **given)

    return run


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("truncate", {"arms": ["untuned"]}),
        ("skip", {}),
        ("freeze", {"ks": [3], "measure_time": False}),
        ("reinit", {"truncation_control": False, "plans": "single"}),
        ("permute", {"order_seeds": [1, 2]}),
        ("drop", {"count": 1, "strategies": ["top", "random"], "random_draws": 2}),
    ],
)
def test_nothing_is_concluded_from_a_model_that_learned_nothing(
    failed: Callable[..., Any], name: str, options: dict[str, Any], tmp_path: Path
) -> None:
    found = failed(name, **options)
    assert found.findings
    for sentence in found.findings:
        assert re.match("Nothing is concluded about [a-z-]+: the ", sentence)
        assert "beat the majority baseline (accuracy 0." in sentence
        assert not any(claim in sentence for claim in CLAIMS)
    assert len(set(found.findings)) == len(found.findings)
    # Values stay: only claims go.
    assert found.rows
    assert set(found.more[WEAK]) <= {one.name for one in (*found.curves, *found.spans)}
    found.save(tmp_path / name)
    page = mt.report(tmp_path, tmp_path / "page.html")
    assert "Nothing is concluded" in Path(str(page)).read_text()


def test_no_layer_is_the_best_where_all_tie_at_the_majority() -> None:
    tied, lines = make_curve("bert", [0.5, 0.5, 0.5]), {"majority baseline": 0.5}
    (claim,) = reading_claims([tied], ["bert"], ACCURACY, "cats", lines)
    assert headline(claim).startswith("bert: cats is not shown to be read at any layer")
    assert "(majority baseline 0.500)" in headline(claim)
    assert "best at" not in headline(claim)
    (baselines,) = baseline_claims(lines, ACCURACY)
    assert headline(baselines) == "Without any layer: majority baseline 0.500."
    (claim,) = reading_claims([make_curve("bert", [0.5, 0.9])], ["bert"], ACCURACY, "upos", lines)
    assert headline(claim) == "bert: upos is read best at layer 2, accuracy 0.900."


def test_no_layer_is_the_best_before_fine_tuning_where_all_tie_at_the_majority() -> None:
    curves = {"tunedorig": make_curve("TUNEDORIG", [0.5, 0.5, 0.5])}
    said = headline(head_claims(curves, ACCURACY, lines={"majority baseline": 0.5})[0])
    assert said.startswith(
        "Before fine-tuning nothing is read out (TUNEDORIG): no layer is shown to beat the "
    )
    said = headline(head_claims(curves, ACCURACY, lines={"majority baseline": 0.3})[0])
    assert said.startswith("Before fine-tuning the best layer is 1 (TUNEDORIG)")


def test_a_difference_of_what_was_read_is_still_claimed() -> None:
    models = {"role": "difference", "model": "tuned", "against": "bert"}
    apart = replace(make_curve("difference", np.array([0.1, 0.2])), **models)
    curves = [make_curve("bert", [0.5, 0.5]), apart]
    _, claim = reading_claims(curves, ["bert"], ACCURACY, "cats", {"majority": 0.5})
    assert headline(claim).startswith("tuned against bert: more is read at layers 1 and 2; ")
