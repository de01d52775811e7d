"""One quantity has one interval: in every verb, in tables and in sentences, however few seeds there are."""

from __future__ import annotations

import re
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import cats
from microtome.cli.tables import _at
from microtome.context import Context
from microtome.experiments.layer_heads import Arm
from microtome.experiments.surgery.claims import cut_claim
from microtome.experiments.surgery.skipping import span_claims
from microtome.experiments.truncation_curves import HeadAnswers, by_seed, curve_of, cut_costs
from microtome.findings.claims.render import render
from microtome.findings.results import Result
from microtome.findings.scorecurves import span_map
from microtome.randomness import generator
from microtome.report.collecting import collect
from microtome.scores.table import SCORES
from microtome.training.cut_store import as_answers

TASK = cats.cats_task(validation=120)
SPLIT = TASK.split("validation")
DEPTH = 3
ACCURACY = SCORES["accuracy"]
INTERVAL = re.compile(r"\[[^]]+\]")


def answered(right: float, seed: int) -> list[int]:
    """Answers of which about such a share is right."""
    rng = generator(seed, "answers", f"{right:g}")
    return [item.target if rng.random() < right else 1 - item.target for item in SPLIT]


def planted(seeds: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """A model of three blocks: of cuts that of block 3 costs least, of single blocks block 3 costs most."""
    whole = {seed: answered(0.95, seed) for seed in seeds}
    without = {seed: answered(0.84 - 0.04 * seed, 100 + seed) for seed in seeds}
    others = {seed: answered(0.5, 200 + seed) for seed in seeds}
    arms = tuple(
        Arm(runs=("tuned",), answers=[[others[s], without[s], whole[s]]], failed=(), details={})
        for s in seeds
    )
    untuned = HeadAnswers(name="UNTUNED", split=SPLIT, arms=arms, seeds=seeds)
    spans = {(3, 3): without, (1, 1): whole, (2, 2): whole, (1, 2): others, (2, 3): others, (1, 3): others}

    def mapped(name: str, some: tuple[int, ...]) -> Any:
        given = {span: as_answers(SPLIT, [said[s] for s in some], some) for span, said in spans.items()}
        reference = as_answers(SPLIT, [whole[s] for s in some], some)
        return span_map(name, DEPTH, given, reference, TASK.main, TASK.labels)

    return untuned, mapped("cost of skipping", seeds), [mapped(f"seed {s}", (s,)) for s in seeds]


@pytest.mark.parametrize("seeds", [(1,), (1, 2), (1, 2, 3, 4, 5)])
def test_truncate_and_skip_print_the_same_interval_for_the_same_block(seeds: tuple[int, ...]) -> None:
    untuned, spans, alone = planted(seeds)
    costs = cut_costs(untuned, TASK, Context())
    cut = render(cut_claim(costs, ACCURACY, by_seed({"untuned": untuned}, TASK)["untuned"]))
    skipped = render(span_claims(spans, ACCURACY, alone)[1])
    assert "removing the top 1 of 3 layers, costs" in cut
    assert "skipping block 3 costs most" in skipped
    printed = INTERVAL.findall(cut)[0]
    assert printed == INTERVAL.findall(skipped)[0]
    # The table of differences has it too, as a difference.
    low, high = (float(end) for end in printed[1:-1].split(", "))
    table = _at(costs, 2, 100.0, signed=True)
    assert INTERVAL.findall(table) == [f"[{-high:+.2f}, {-low:+.2f}]"]
    # And the bound that decides the claim is told as one.
    assert re.search(r", at most \d+\.\d\d for all cuts at once;", cut)


def test_few_seeds_hide_no_interval_and_what_they_gave_stands_beside_it() -> None:
    untuned, spans, alone = planted((1, 2))
    costs = cut_costs(untuned, TASK, Context())
    values = by_seed({"untuned": untuned}, TASK)["untuned"]
    lost = 100 * (values[:, -1] - values[:, 1])
    for claim in (cut_claim(costs, ACCURACY, values), span_claims(spans, ACCURACY, alone)[1]):
        assert claim.estimate is not None
        assert claim.estimate.by_seed == pytest.approx(lost.tolist())
        assert INTERVAL.search(render(claim))


def test_the_page_has_the_interval_of_the_terminal() -> None:
    untuned, spans, alone = planted((1, 2))
    costs, values = cut_costs(untuned, TASK, Context()), by_seed({"untuned": untuned}, TASK)["untuned"]
    told: dict[str, Any] = {"model": "bert", "task": "cats", "split": "validation", "score": "accuracy"}
    truncated = Result(
        experiment="truncation",
        curves=(curve_of(untuned, TASK, Context()),),
        claims=(cut_claim(costs, ACCURACY, values),),
        **told,
    )
    claims = tuple(span_claims(spans, ACCURACY, alone))
    skipped = Result(experiment="skipping", spans=(spans, *alone), claims=claims, **told)
    with tempfile.TemporaryDirectory() as folder:
        truncated.save(Path(folder) / "truncate")
        skipped.save(Path(folder) / "skip")
        texts = [text for section in collect(folder)["sections"] for text in section["sentences"]]
    assert texts == [*truncated.findings, *skipped.findings]
    low, high = (float(end) for end in INTERVAL.findall(texts[0])[0][1:-1].split(", "))
    assert low == np.floor(-10000 * costs.high[1]) / 100
    assert high == np.ceil(-10000 * costs.low[1]) / 100
