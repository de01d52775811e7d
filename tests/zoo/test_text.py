"""A text is cut into tokens once, the same way each time, and what is held out is not trained on."""

from __future__ import annotations

import json
import lzma
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from microtome.errors import InputError
from microtome.zoo.text import SEP, SPECIAL, UNKNOWN, own_tokenizer, read_text, train_wordpiece
from tiny import TEXT

WORDS = ("red", "blue", "green", "cat", "dog", "runs", "sleeps", "slowly", "never", "often")


def written(folder: Path, lines: int = 2_500, name: str = "text.txt") -> Path:
    rng = np.random.default_rng(0)
    texts = [" ".join(rng.choice(WORDS, size=6)) for _ in range(lines)]
    place = folder / name
    content = "\n\n".join(texts).encode()
    place.write_bytes(lzma.compress(content) if name.endswith(".xz") else content)
    return place


def test_lines_become_tokens_with_ends(tmp_path: Path) -> None:
    found = read_text(written(tmp_path), vocabulary=60)
    assert found.train.dtype == np.uint16
    lines = int((found.train == SEP).sum() + (found.held_out == SEP).sum())
    assert lines == 2_500, "empty lines are none"
    assert found.train[-1] == found.held_out[-1] == SEP
    vocabulary = json.loads(found.tokenizer)["model"]["vocab"]
    assert [vocabulary[name] for name in SPECIAL] == [0, 1, 2, 3, 4]
    assert max(found.train) < len(vocabulary) <= 60


def test_packed_or_plain_the_same(tmp_path: Path) -> None:
    plain = read_text(written(tmp_path), vocabulary=60)
    packed = read_text(written(tmp_path, name="text.txt.xz"), tokenizer=plain.tokenizer)
    assert plain.digest == packed.digest


def test_kept_tokens_are_read_back(tmp_path: Path) -> None:
    place = written(tmp_path)
    first = read_text(place, vocabulary=60, folder=tmp_path / "kept")
    place.unlink()
    again = read_text(place, vocabulary=60, folder=tmp_path / "kept")
    assert again.digest == first.digest
    assert np.array_equal(again.train, first.train)
    assert again.tokenizer == first.tokenizer


def test_what_cannot_be_read_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(InputError, match="must hold text, but it has none"):
        read_text(tmp_path / "empty.txt")
    (tmp_path / "one.txt").write_text("a single line")
    with pytest.raises(InputError, match="at least two lines"):
        read_text(tmp_path / "one.txt")
    with pytest.raises(InputError, match="must be a readable file"):
        read_text(tmp_path / "absent.txt")
    with pytest.raises(InputError, match="vocabulary must be between 6 and 65,536, but got 3"):
        read_text(written(tmp_path), vocabulary=3)
    with pytest.raises(InputError, match="tokenizer must be one as JSON"):
        read_text(written(tmp_path), tokenizer="{}")


def test_the_tokenizer_of_the_package_cuts_any_text(tmp_path: Path) -> None:
    from transformers import PreTrainedTokenizerFast

    found = read_text(written(tmp_path), tokenizer=own_tokenizer())
    assert found.train.max() < 8_000
    assert UNKNOWN not in found.train
    file = tmp_path / "tokenizer.json"
    file.write_text(own_tokenizer(), encoding="utf-8")
    stock = PreTrainedTokenizerFast(tokenizer_file=str(file))
    assert stock.decode(stock("A reader knows.")["input_ids"]) == "[CLS] a reader knows. [SEP]"


SCRIPT = f"""
from microtome.zoo.text import train_wordpiece
print(train_wordpiece({TEXT!r}, 150).to_str())
"""


def test_the_same_text_gives_the_same_vocabulary() -> None:
    # Hashes differ between processes.
    said = {
        subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, check=True).stdout for _ in "ab"
    }
    assert said == {f"{train_wordpiece(TEXT, 150).to_str()}\n".encode()}


def test_pieces_cover_the_text_and_are_merged_where_they_are_frequent() -> None:
    made = train_wordpiece([*TEXT, *["unhappily happily"] * 50], 150)
    assert [made.token_to_id(name) for name in SPECIAL] == list(range(len(SPECIAL)))
    assert made.get_vocab_size() <= 150
    found = made.encode("Unhappily, the cat sat.")
    assert found.tokens[0] == "[CLS]"
    assert "[UNK]" not in found.tokens
    assert "happily" in made.get_vocab()
    assert made.decode(made.encode("the cat sleeps unhappily").ids) == "the cat sleeps unhappily"


def test_rare_characters_are_left_out() -> None:
    many = "".join(chr(0x4E00 + place) for place in range(300))
    made = train_wordpiece(["a b c a b c a b c", many], 1000)
    assert made.encode("a b c").tokens == ["[CLS]", "a", "b", "c", "[SEP]"]
    assert "[UNK]" in made.encode(many).tokens
