"""What pages say by hand has the intervals of the tables that were composed from results."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = DOCS.parent / "benchmarks" / "results"
NUMBER = r"[-+]?\d*\.?\d+"
INTERVAL = re.compile(rf"\[({NUMBER}), ({NUMBER})\]")
GENERATED = re.compile(r"<!-- ([\w-]+) -->.*?<!-- /\1 -->", re.DOTALL)


def written(page: str, start: str, end: str) -> list[tuple[str, str]]:
    """Intervals of a part of a page, as they stand there."""
    text = GENERATED.sub("", (DOCS / page).read_text())
    begin = text.index(start)
    return INTERVAL.findall(text[begin : text.index(end, begin)])


def composed(page: str) -> list[tuple[float, float]]:
    """Intervals between the markers of a page, also of the difference taken the other way."""
    parts = [match[0] for match in GENERATED.finditer((DOCS / page).read_text())]
    pairs = [(float(low), float(high)) for part in parts for low, high in INTERVAL.findall(part)]
    return [*pairs, *((-high, -low) for low, high in pairs)]


def outward(low: str, high: str, first: float, last: float) -> bool:
    """Whether short bounds are the given ones, rounded away from what lies between them."""
    down, up = first - float(low), float(high) - last
    slack = 1e-9
    return all(
        -slack <= far < 10 ** -len(short.partition(".")[2]) - slack
        for far, short in ((down, low), (up, high))
    )


@pytest.mark.parametrize(
    ("page", "start", "end"),
    [
        ("surgery.md", "In short:", "### Truncation"),
        ("zoo.md", "### In plain words", "From here on"),
        ("probes.md", "**In plain words.**", "**Of the intervals.**"),
    ],
)
def test_sentences_have_the_intervals_of_the_tables(page: str, start: str, end: str) -> None:
    intervals, known = written(page, start, end), composed(page)
    assert len(intervals) > 5
    for low, high in intervals:
        # Tables have shares or points of 100.
        assert any(
            outward(low, high, scale * first, scale * last) for first, last in known for scale in (1, 100)
        ), f"[{low}, {high}] stands in no table of {page}"


def test_the_readme_has_the_range_of_simulated_coverage() -> None:
    rows = [line.split("|") for line in (DOCS / "certainty.md").read_text().splitlines()]
    covered = [
        float(cells[8].split("±")[0])
        for cells in rows
        if len(cells) == 12 and cells[2].strip() == "debiased_cka" and "±" in cells[8]
    ]
    assert len(covered) > 10
    text = " ".join((DOCS.parent / "README.md").read_text().split())
    assert f"cover it in {min(covered):g} to {max(covered):g} % of simulated data sets" in text


def test_gains_from_redrawing_every_block_are_those_of_the_seeds() -> None:
    intervals = written("probes.md", "On the small encoders there is little", "Probes as published")
    jobs = [json.loads(line)[1] for line in (RESULTS / "tuned-layers.jsonl").read_text().splitlines()]
    runs = [job["curves"]["runs"] for job in jobs if job["job"]["kind"] == "redrawn"]
    assert len(intervals) == len(runs) == 6
    for seeds in runs:
        gains = np.array([100 * (run["scores"][0] - run["scores"][-1]) for run in seeds])
        ends = stats.t.interval(0.95, len(gains) - 1, gains.mean(), stats.sem(gains))
        # Of MiniLM the page says what is lost.
        both = (ends, (-ends[1], -ends[0]))
        assert any(outward(low, high, first, last) for low, high in intervals for first, last in both)
