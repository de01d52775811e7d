"""Do the methods say which weights of a head are trained, and are those the ones?"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import cats
from microtome.experiments.surgery.truncation import truncate
from microtome.training.evaluating import write_windows
from microtome.training.models.modeling import build
from microtome.training.models.saving import save

SHORT: dict[str, Any] = {"recipe": "wu2020", "steps": 2, "batch": 8, "head_seeds": 0}
ARMS = ("tuned", "tunedorig")


def truncated(encoder: Any, head: str, tmp_path: Path, **options: Any) -> Any:
    """Truncate a model whose head stands as it was drawn."""
    task = cats.cats_task(train=16, validation=12)
    folder = tmp_path / "tuned"
    if not folder.exists():
        save(build(encoder, task, head, seed=3), folder, encoder.tokenizer)
        write_windows(folder, 16, None)
    return truncate(folder, task, base=encoder, arms=ARMS, store=tmp_path / "store", **{**SHORT, **options})


def test_a_pooler_is_trained_with_the_head_or_kept(encoder_of: Callable[..., Any], tmp_path: Path) -> None:
    encoder = encoder_of("bert")
    trained = truncated(encoder, "jiant", tmp_path)
    assert "TUNED heads began as the tuned head, and its pooler was trained with it;" in trained.methods
    assert (
        "TUNEDORIG heads, on the encoder before fine-tuning, were newly initialized, but for the pooler, "
        "which began as that of the checkpoint and was trained with it." in trained.methods
    )
    kept = truncated(encoder, "jiant", tmp_path, pooler="kept")
    assert "of which the pooler was kept as fine-tuning left it, and the rest was trained" in kept.methods
    assert "as that of the checkpoint and was kept as it was." in kept.methods
    for name in ("TUNED", "TUNEDORIG"):
        # Other weights learn, so other losses follow; they are not taken for those in the store.
        assert trained.more["heads"][name][0]["losses"] != kept.more["heads"][name][0]["losses"]
    assert trained["UNTUNED"].values.tolist() == kept["UNTUNED"].values.tolist()


def test_a_pooler_that_the_checkpoint_has_not_is_drawn(
    encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    found = truncated(encoder_of("roberta", "MaskedLM"), "jiant", tmp_path)
    assert (
        "were newly initialized; the pooler was initialized too, since the checkpoint has none, and was "
        "trained with it." in found.methods
    )


def test_a_head_without_a_pooler_is_trained_whole(encoder_of: Callable[..., Any], tmp_path: Path) -> None:
    encoder = encoder_of("electra")
    found = truncated(encoder, "jiant", tmp_path)
    assert "TUNED heads began as the tuned head; their" in found.methods
    assert "TUNEDORIG heads, on the encoder before fine-tuning, were newly initialized." in found.methods
    assert "on inputs of at most 16 tokens, as in its training" in found.methods
    kept = truncated(encoder, "jiant", tmp_path, pooler="kept")
    assert kept.more["heads"] == found.more["heads"]


def test_heads_of_a_model_of_unknown_recipe_learn_as_in_the_paper(
    encoder_of: Callable[..., Any], tmp_path: Path
) -> None:
    values = {"recipe": None, "steps": 2, "warmup": 0, "batch": 8}
    found = truncated(encoder_of("electra"), "stock", tmp_path, **values)
    assert found.provenance["recipe"]["name"] == "phang2021"
    assert "by the recipe phang2021" in found.methods


def test_what_becomes_of_the_pooler_is_one_of_two(encoder_of: Callable[..., Any], tmp_path: Path) -> None:
    with pytest.raises(KeyError, match="pooler must be one of kept, trained"):
        truncated(encoder_of("electra"), "stock", tmp_path, pooler="frozen")
