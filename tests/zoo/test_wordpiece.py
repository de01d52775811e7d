"""Is a vocabulary the same every time, and one of WordPiece?"""

from __future__ import annotations

import subprocess
import sys

from microtome.zoo.wordpiece import SPECIAL, train_wordpiece
from tiny import TEXT

SCRIPT = f"""
from microtome.zoo.wordpiece import train_wordpiece
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
