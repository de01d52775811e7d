"""`microtome pretrain` makes an encoder, goes on where it was, and says when it failed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import microtome as mt
from microtome.cli import main
from zoo.test_text import written

SMALL = ["layers=2", "width=32", "heads=2", "inner=64", "length=24", "batch=4", "steps=3", "vocabulary=60"]


def arguments(folder: Path, design: str, *more: str) -> list[str]:
    changes = [word for value in SMALL for word in ("--set", value)]
    corpus = str(folder / "text.txt")
    return ["pretrain", design, "--corpus", corpus, "--out", str(folder / "made"), *changes, *more]


def test_an_encoder_is_made(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path)
    asked = arguments(
        tmp_path, "replaced", "--set", "generator=1,32", "--token-cache", str(tmp_path / "tokens")
    )
    assert main([*asked, "--checkpoints", "2", "--json", "--threads", "1"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["format"] == "microtome/pretrain/1"
    assert document["failure"] is None
    assert document["tokens"] == 3 * 4 * 22
    assert document["checkpoints"] == [str(tmp_path / "made" / "step-2")]
    assert mt.load(tmp_path / "made").layers == ("0", "1", "2")
    assert main([*asked, "--json", "--threads", "1"]) == 0, "what is finished is not made again"


def test_a_failed_run_is_told_by_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    # A vocabulary of 60 entries has no plateau, but a rate of 1,000 has no loss that is a number.
    written(tmp_path)
    code = main(arguments(tmp_path, "masked", "--set", "rate=1e30", "--set", "clip=1e30", "--threads", "1"))
    assert code == 1
    assert "It failed: the loss was no number" in capsys.readouterr().out


def test_a_plan_and_wrong_requests(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    written(tmp_path)
    plan = ["pretrain", "masked", "--out", "y", "--dry-run", "--corpus"]
    assert main([*plan, str(tmp_path / "text.txt")]) == 0
    assert "4,500 updates of 512 sequences of 128, 290 million tokens in all" in capsys.readouterr().out
    assert main(arguments(tmp_path, "masked", "--dry-run")) == 0
    assert "3 updates of 4 sequences of 24, 264 tokens in all" in capsys.readouterr().out
    # A plan refuses what the run would.
    (tmp_path / "empty.txt").write_text("\n")
    for name in ("absent.txt", "empty.txt"):
        said = []
        for words in (plan, [word for word in plan if word != "--dry-run"]):
            assert main([*words, str(tmp_path / name), "--quiet"]) == 2
            said.append(capsys.readouterr().err)
        assert said[0] == said[1]
        assert name in said[0]
    assert main(["pretrain", "mask", "--corpus", "x", "--out", "y"]) == 2
    assert "Did you mean masked?" in capsys.readouterr().err
    assert main(arguments(tmp_path, "masked", "--tokenizer", str(tmp_path / "absent.json"))) == 2
    assert "--tokenizer must be zoo, new or a readable tokenizer.json" in capsys.readouterr().err
