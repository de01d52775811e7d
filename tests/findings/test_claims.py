"""Claims survive JSON, every kind is one line of a table, and no text promises more than its numbers."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from figures.resulting import make_curve, make_result
from findings.claim_samples import CUT, SAMPLES
from microtome.findings.claims import surgery
from microtome.findings.claims.claim import Bound, Claim, ClaimKind, Quantity, read_claim, verdict_of
from microtome.findings.claims.render import KINDS, evidence, headline, render
from microtome.findings.claims.tuning import failure_claim
from microtome.findings.results import from_document, open_result, plain


def test_a_claim_has_a_headline_and_evidence() -> None:
    assert headline(CUT) == (
        "The top 3 of 12 layers can be removed at a cost of at most 1.0 points of accuracy, without training "
        "anything."
    )
    assert evidence(CUT) == (
        "Cost: 0.42 points [-0.20, 0.94] (95 %, over examples and 2 seeds), at most 0.93 for all cuts at "
        "once; n = 1,277."
    )
    assert render(CUT) == f"{render(CUT, 'headline')} {render(CUT, 'evidence')}"
    bare = replace(CUT, estimate=Quantity(value=0.416), bound=None, n=0)
    assert evidence(bare) == "Cost: 0.42 points, without an interval."


def test_scores_are_in_their_own_unit_and_differences_in_points() -> None:
    score = Quantity(value=59.7, low=56.62, high=62.7)
    gain = Quantity(value=6.2, low=2.27, high=10.11)
    facts = {
        "target": "upos",
        "reads": "single",
        "baselines": {"majority baseline": 50.3},
        "above": [2],
        "overlapping": [],
    }
    claim = replace(
        CUT, kind="best layer", subject="base", layers=(2,), estimate=score, bound=None, facts=facts
    )
    claim = replace(claim, beside={"from layer 0": gain, "control task": score})
    claim = replace(claim, facts={**facts, "reasons": [], "from layer 0": "holds"})
    assert headline(claim) == (
        "base: upos is read best at layer 2, accuracy 0.597, 6.2 points from layer 0; control task 0.597."
    )
    assert evidence(claim).startswith(
        "Score: 0.597 [0.566, 0.627] (95 %, over examples); from layer 0: 6.20 points [2.27, 10.11] "
        "(95 %, over examples); control task: 0.597 [0.566, 0.627] (95 %, over examples); n = 1,277. "
        "Without any layer: majority baseline 0.503;"
    )


def test_shares_are_in_percent() -> None:
    share = Quantity(value=0.696, low=0.3781, high=1.0, unit="sentence and model", seeds=2)
    facts = {"reason": None, "span": [0, 12], "largest": 0.018, "overlapping": []}
    center = replace(share, value=9.3, low=5.2, high=12.0)
    beside = {"share of the upper third": share}
    claim = replace(
        CUT, kind="change center", points=1.0, estimate=center, bound=None, beside=beside, facts=facts
    )
    assert "share of the upper third: 69.6 % [37.8, 100.0] (95 %, over sentences and 2 models)" in render(
        claim
    )
    [saving] = SAMPLES["saving"]
    assert "takes 40 % of the time" in headline(saving)


def test_an_interval_of_a_fine_tuning_names_its_seeds() -> None:
    facts = {"split": "validation", "baseline": 0.5, "trained": True, "same": False}
    mean = Quantity(value=0.541, low=0.528, high=0.554, unit="seed", seeds=3)
    claim = replace(CUT, kind="score", points=1.0, estimate=mean, bound=None, facts=facts)
    assert evidence(claim) == "Interval: [0.528, 0.554] (95 %, over 3 seeds); n = 1,277 examples."


def test_a_result_saves_its_claims_and_writes_them_again(tmp_path: Path) -> None:
    result = make_result(claims=(CUT,), findings=("Time was short.",))
    assert result.findings == (render(CUT), "Time was short.")
    assert replace(result, task="qqp").findings == result.findings
    result.save(tmp_path)
    document = json.loads((tmp_path / "result.json").read_text())
    assert document["findings"] == list(result.findings)
    opened = open_result(tmp_path)
    assert opened.claims == (CUT,)
    assert opened.findings == result.findings
    # A result without claims keeps its sentences.
    del document["claims"]
    assert from_document(document).findings == result.findings


def test_a_claim_survives_json_with_what_is_undefined() -> None:
    claim = replace(CUT, beside={"TUNED": Quantity(value=math.nan, by_seed=(math.nan, 1.0))}, facts={"k": 3})
    document = plain(claim)
    again = read_claim(json.loads(json.dumps(document, allow_nan=False)))
    assert plain(again) == document
    assert math.isnan(again.beside["TUNED"].value)


def test_every_kind_of_surgery_has_a_sample() -> None:
    assert set(SAMPLES) == {"baseline", "few seeds", "undefined", *surgery.KINDS}


@pytest.mark.parametrize("kind", SAMPLES)
def test_a_claim_of_every_kind_is_written_after_json_as_before(kind: str) -> None:
    for claim in SAMPLES[kind]:
        again = read_claim(json.loads(json.dumps(plain(claim), allow_nan=False)))
        assert again.kind == kind
        assert headline(claim).endswith(".")
        for style in ("headline", "evidence", "full"):
            assert render(again, style) == render(claim, style)
        # No text has what was formatted by accident, or a rule's definition before its numbers.
        assert not re.search(r"nan|None|\{|  |\.\.|\( ", render(claim))


def test_a_kind_of_claim_is_one_entry(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A new kind is seen in sentences, in a saved result and on a page without any other change."""
    from microtome.report.collecting import collect

    kind = ClaimKind(headline=lambda c: f"Depth is {c.depth}.", evidence=lambda c: f"Counted {c.n} times.")
    monkeypatch.setitem(KINDS, "depth", kind)
    claim = Claim(kind="depth", verdict="holds", score="accuracy", depth=7, n=2)
    make_result(experiment="measuring", claims=(claim,), curves=(make_curve("a", [0.5]),)).save(
        tmp_path / "new"
    )
    assert open_result(tmp_path / "new").findings == ("Depth is 7. Counted 2 times.",)
    assert collect(tmp_path)["findings"][0]["text"] == "bert on rte: Depth is 7."


@pytest.mark.parametrize("points", [100.0, 1.0])
@given(value=st.floats(-50, 150), kind=st.sampled_from(["cut", "span"]))
def test_at_most_is_never_below_the_bound(points: float, value: float, kind: str) -> None:
    bound = Bound(side="most", value=value, family="all cuts")
    claim = replace(CUT, kind=kind, points=points, bound=bound)
    texts = re.findall(r"at most (-?[\d.]+)", render(claim))
    assert len(texts) == 2
    assert all(float(text) >= value for text in texts)


@given(value=st.floats(-50, 150))
def test_at_least_is_never_above_the_bound(value: float) -> None:
    bound = Bound(side="least", value=value, family="all layers")
    claim = replace(CUT, kind="head gain", bound=bound, facts={"helped": 1})
    [text] = re.findall(r"at least (-?[\d.]+)", render(claim))
    assert float(text) <= value


@given(value=st.floats(0, 3), least=st.floats(0, 2), most=st.floats(0, 2))
def test_a_verdict_is_that_of_the_band(value: float, least: float, most: float) -> None:
    verdict: Any = verdict_of(value - least, value + most)
    assert (verdict == "holds") == (value + most <= 1)
    assert (verdict == "does not hold") == (value - least > 1)


def test_runs_that_failed_for_one_reason_are_named_together() -> None:
    [claim] = failure_claim({1: "collapsed: one answer", 2: "diverged", 3: "collapsed: one answer"}, 4)
    text = "3 of 4 runs failed (seeds 1 and 3: collapsed: one answer; seed 2: diverged)."
    assert render(claim) == text
