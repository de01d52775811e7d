"""Are guesses of held-out tokens counted as a reader would count them?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from zoo_judging import judge_guesses

from microtome.errors import InputError
from microtome.zoo.designs import find_design
from microtome.zoo.objectives import Learner
from microtome.zoo.pretraining import pretrain
from microtome.zoo.shipped import save_encoder
from microtome.zoo.text import Text, read_text

SMALL: dict[str, Any] = {
    "layers": 1,
    "width": 32,
    "heads": 2,
    "inner": 64,
    "length": 34,
    "generator": (1, 32),
}


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Text:
    """Each line counts through ten words: every word tells its neighbors."""
    words = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]
    file = tmp_path_factory.mktemp("text") / "text.txt"
    file.write_text("\n".join(" ".join(words * 13) for _ in range(60)))
    read = read_text(file, vocabulary=60)
    return Text(tokenizer=read.tokenizer, train=read.train, held_out=read.train[:1_500], digest=read.digest)


@pytest.mark.parametrize("name", ["masked", "causal"])
def test_what_can_be_told_from_its_neighbors_is_guessed(name: str, text: Text, tmp_path: Path) -> None:
    design = find_design(name, **SMALL, batch=16, steps=300, rate=3e-3, spread=0.18)
    folder = pretrain(design, text, tmp_path / name).folder
    found = judge_guesses(folder, text)
    assert found.what == ("next tokens" if name == "causal" else "hidden tokens")
    assert found.unigram < 0.2
    assert found.low > found.unigram + 0.1
    assert found.low < found.accuracy < found.high
    assert found.sequences == 1_500 // 32
    assert found.n % found.sequences == 0
    assert judge_guesses(folder, text) == found
    assert judge_guesses(folder, text, limit=3).sequences == 3


def test_a_drawn_model_guesses_at_chance(text: Text, tmp_path: Path) -> None:
    learner = Learner(find_design("masked", **SMALL), 60, seed=0)
    save_encoder(learner, text.tokenizer, tmp_path)
    found = judge_guesses(tmp_path, text)
    assert found.loss == pytest.approx(np.log(60), rel=0.1)
    assert found.accuracy < 0.3


def test_a_detector_guesses_nothing(text: Text, tmp_path: Path) -> None:
    learner = Learner(find_design("replaced", **SMALL), 60, seed=0)
    save_encoder(learner, text.tokenizer, folder := tmp_path)
    with pytest.raises(InputError, match="must hold a language model to guess tokens, but it is a Electra"):
        judge_guesses(folder, text)
