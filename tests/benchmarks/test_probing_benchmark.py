"""The benchmark of linear readouts: both sides reach the same, and its tables come out."""

from __future__ import annotations

import importlib
from pathlib import Path

import numpy as np
import pytest
import torch

import tiny
from microtome.encoders.loading import load

FOLDER = Path(__file__).parents[2] / "benchmarks"


def write_corpus(path: Path, sentences: int, seed: int) -> Path:
    draw = np.random.default_rng(seed)
    kinds = {"DET": ["the", "a"], "NOUN": ["cat", "dog", "bird"], "VERB": ["runs", "sees", "hears"]}
    lines = []
    for number in range(sentences):
        lines.append(f"# sent_id = {number}")
        for place, tag in enumerate(["DET", "NOUN", "VERB", "DET", "NOUN"], start=1):
            word = draw.choice(kinds[tag])
            lines.append("\t".join([str(place), word, word, tag, tag, "_", "0", "dep", "_", "_"]))
        lines.append("")
    path.write_text("\n".join(lines) + "\n")
    return path


def test_both_sides_reach_the_same_and_the_tables_come_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.syspath_prepend(FOLDER)
    benchmark = importlib.import_module("probing")
    # The peer's usual end is some percent above the least on so few words: here it is to get there.
    monkeypatch.setattr(benchmark, "TOLERANCE", 1e-6)
    threads = torch.get_num_threads()
    train, test = (write_corpus(tmp_path / f"{seed}.conllu", 60, seed) for seed in (0, 1))
    encoder = load(tiny.save_checkpoint(tmp_path / "bert", "bert"))
    result = benchmark.run(encoder, train, test, words=200, rounds=1, threads=1)
    alone = benchmark.run(encoder, train, test, words=200, rounds=1, threads=1, peer=False)
    torch.set_num_threads(threads)
    assert set(alone["fits"]) == {"same", "loose"}
    assert "scikit-learn" not in "".join(table.markdown() for table in benchmark.tables(alone))
    assert not any("scikit-learn" in sentence for sentence in benchmark.missed(alone))
    assert result["words"] == 200
    fits = result["fits"]
    assert fits["same"]["objective"] <= fits["sklearn"]["objective"] * (1 + 1e-4)
    assert fits["same"]["objective"] == pytest.approx(fits["sklearn"]["objective"], rel=1e-3)
    assert result["converged"]
    assert set(result["ratios"]) == {"cpu", "wall"}
    tables = benchmark.tables(result)
    assert all(len(row) == len(table.header) for table in tables for row in table.rows)
    assert "scikit-learn to ours" in tables[0].markdown()
    slow = {**result, "ratios": {"cpu": dict.fromkeys(result["ratios"]["cpu"], 0.5)}, "converged": False}
    told = benchmark.missed(slow)
    assert any("promised 1 at least" in sentence for sentence in told)
    assert any("did not converge" in sentence for sentence in told)
