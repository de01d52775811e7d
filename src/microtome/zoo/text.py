"""Text for pre-training: sentences, batches and the WordPiece vocabulary."""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from ..context import SILENT, Context
from ..corpora.lines import opened
from ..errors import InputError, must

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


TOKENIZER, TOKENS = "tokenizer.json", "tokens.npy"
# Lines per chunk; one of each hundred chunks is held out.
HEAP = 1_000
HELD_OUT = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """
    A tokenized text.

    Parameters
    ----------
    tokenizer : str
        As JSON.
    train, held_out : ndarray of uint16 of shape (tokens,)
        Lines one after the other, each ended by [SEP]. The held-out part is never trained on.
    digest : str
        The hash of both arrays and of the tokenizer.
    """

    tokenizer: str = field(repr=False)
    train: np.ndarray = field(repr=False)
    held_out: np.ndarray = field(repr=False)
    digest: str


def read_text(
    path: str | os.PathLike[str],
    *,
    vocabulary: int = 8_000,
    tokenizer: str | None = None,
    folder: str | os.PathLike[str] | None = None,
    context: Context = SILENT,
) -> Text:
    """
    Read a text and tokenize it.

    Parameters
    ----------
    path : path
        A file with one paragraph per line, plain or compressed.
    vocabulary : int
        Entries of a new tokenizer, a lower-casing WordPiece that is trained on the text without its held-out
        part; see `train_wordpiece`.
    tokenizer : str, optional
        A tokenizer as JSON, to be used instead.
    folder : path, optional
        A cache for the tokens.
    context : Context

    Returns
    -------
    Text
    """
    cache = None if folder is None else Path(folder)
    if cache is not None and (cache / TOKENS).is_file():
        return _known(cache)
    if not len(SPECIAL) < vocabulary <= 2**16:
        raise must("vocabulary", f"between {len(SPECIAL) + 1} and 65,536", vocabulary)
    cutting = _trained(path, vocabulary) if tokenizer is None else _read(tokenizer)
    parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for number, heap in enumerate(_heaps(path)):
        encodings = cutting.encode_batch(heap, add_special_tokens=False)
        ids = [np.array([*encoding.ids, SEP], dtype=np.uint16) for encoding in encodings if encoding.ids]
        parts[number % HELD_OUT == HELD_OUT - 1].extend(ids)
        context.report("reading", number + 1, 0)
    if not parts[0]:
        raise _empty(path)
    if not parts[1]:
        # A short text: its last line is held out.
        parts[1].append(parts[0].pop())
    if not parts[0]:
        raise InputError(f"{path} must hold at least two lines, one of them to be held out, but it has one.")
    train, held_out = (np.concatenate(part) for part in parts)
    text = _text(cutting.to_str(), train, held_out)
    if cache is not None:
        _keep(text, cache)
    return text


def check_text(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> None:
    """
    Raise if `read_text` could not begin to read a text, without reading all of it.

    Parameters
    ----------
    path, folder : path
        As in `read_text`: if the tokens are cached, the text itself is not read.
    """
    if folder is not None and (Path(folder) / TOKENS).is_file():
        return
    with closing(_heaps(path)) as heaps:
        if next(heaps, None) is None:
            raise _empty(path)


def own_tokenizer() -> str:
    """Return the tokenizer of the small encoders that come with the package, as JSON."""
    return (Path(__file__).parent / TOKENIZER).read_text(encoding="utf-8")


def _keep(text: Text, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / TOKENIZER).write_text(text.tokenizer, encoding="utf-8")
    temporary = folder / f".{TOKENS}"
    # The split point first, in the same file, which is replaced atomically.
    tokens = np.concatenate([text.train, text.held_out])
    with temporary.open("wb") as file:
        np.save(file, np.array([len(text.train)]))
        np.save(file, tokens)
    temporary.replace(folder / TOKENS)


def _known(folder: Path) -> Text:
    try:
        with (folder / TOKENS).open("rb") as file:
            cut = int(np.load(file)[0])
            tokens = np.load(file)
        tokenizer = (folder / TOKENIZER).read_text(encoding="utf-8")
    except (OSError, ValueError, IndexError) as error:
        raise InputError(f"{folder} must hold whole tokens and their tokenizer, but got: {error}.") from error
    return _text(tokenizer, tokens[:cut], tokens[cut:])


def _text(tokenizer: str, train: np.ndarray, held_out: np.ndarray) -> Text:
    digest = hashlib.blake2b(tokenizer.encode(), digest_size=16)
    for tokens in (train, held_out):
        digest.update(len(tokens).to_bytes(8, "little"))
        digest.update(np.ascontiguousarray(tokens).data)
    return Text(tokenizer=tokenizer, train=train, held_out=held_out, digest=digest.hexdigest())


def _empty(path: str | os.PathLike[str]) -> InputError:
    return InputError(f"{path} must hold text, but it has none.")


def _heaps(path: str | os.PathLike[str]) -> Generator[list[str]]:
    """Iterate over chunks of a thousand non-empty lines."""
    with opened(Path(path)) as lines:
        texts = (line.strip() for line in lines if line.strip())
        while heap := list(islice(texts, HEAP)):
            yield heap


def _read(tokenizer: str) -> Any:
    from tokenizers import Tokenizer

    try:
        parsed = Tokenizer.from_str(tokenizer)
    except Exception as error:  # the library raises a bare Exception
        raise InputError(f"tokenizer must be one as JSON, but got: {error}.") from error
    if [parsed.token_to_id(name) for name in SPECIAL] != list(range(len(SPECIAL))):
        raise must("tokenizer", f"one whose first entries are {', '.join(SPECIAL)}", "another")
    return parsed


def _trained(path: str | os.PathLike[str], vocabulary: int) -> Any:
    texts = (
        line for number, heap in enumerate(_heaps(path)) if number % HELD_OUT != HELD_OUT - 1 for line in heap
    )
    return train_wordpiece(texts, vocabulary)
