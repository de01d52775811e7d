"""Deterministic training of a WordPiece vocabulary."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNKNOWN, CLS, SEP, MASK = range(len(SPECIAL))
ALPHABET = 200  # maximal number of characters, the most frequent ones
_INSIDE = 0xF0000  # first of the private-use characters that represent characters inside a word
_AT_ONCE = 1_000  # repetitions of a word per string for the trainer


def train_wordpiece(texts: Iterable[str], vocabulary: int) -> Any:
    """
    Train a WordPiece tokenizer like BERT's, lowercase.

    Parameters
    ----------
    texts : iterable of str
    vocabulary : int
        The maximal number of entries.

    Returns
    -------
    tokenizers.Tokenizer

    Notes
    -----
    The library's own trainer numbers pieces inside words in the order of a hash table and breaks ties by
    number, so that two trainings on one text differ. Here a character inside a word is mapped to a
    private-use character for byte-pair encoding, whose alphabet is sorted, and gets its ``##`` afterwards.
    """
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    normalizer, splitter = normalizers.BertNormalizer(lowercase=True), pre_tokenizers.BertPreTokenizer()
    words: Counter[str] = Counter()
    for text in texts:
        words.update(word for word, _ in splitter.pre_tokenize_str(normalizer.normalize_str(text)))
    alphabet = _alphabet(words)
    inside = {char: chr(_INSIDE + index) for index, char in enumerate(alphabet)}
    pairs: Any = Tokenizer(models.BPE())
    pairs.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, special_tokens=list(SPECIAL), show_progress=False, initial_alphabet=alphabet
    )
    pairs.train_from_iterator(_disguised(words, inside), trainer)
    back = {private: char for char, private in inside.items()}
    learned: dict[str, int] = pairs.get_vocab()
    pieces: dict[str, int] = {}
    for piece, number in learned.items():
        plain = "".join(back.get(char, char) for char in piece)
        pieces[f"##{plain}" if piece[0] in back else plain] = number
    tokenizer: Any = Tokenizer(models.WordPiece(pieces, unk_token="[UNK]"))
    tokenizer.normalizer, tokenizer.pre_tokenizer, tokenizer.decoder = (
        normalizer,
        splitter,
        decoders.WordPiece(),
    )
    tokenizer.add_special_tokens(list(SPECIAL))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    return tokenizer


def _alphabet(words: Counter[str]) -> list[str]:
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for char in word:
            counts[char] += count
    return sorted(sorted(counts, key=lambda char: (-counts[char], char))[:ALPHABET])


def _disguised(words: Counter[str], inside: dict[str, str]) -> Iterator[str]:
    for word, count in sorted(words.items()):
        characters = [char for char in word if char in inside]
        if not characters:
            continue
        text = characters[0] + "".join(inside[char] for char in characters[1:])
        for start in range(0, count, _AT_ONCE):
            yield " ".join([text] * min(_AT_ONCE, count - start))
