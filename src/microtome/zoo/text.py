"""What do the small encoders read? One text, cut once into tokens by one tokenizer, in one array."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Generator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..corpora.lines import Lines
from ..corpora.packed import sound, unpacked
from ..errors import InputError, must

SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
PAD, UNKNOWN, CLS, SEP, MASK = range(len(SPECIAL))
TOKENIZER, TOKENS = "tokenizer.json", "tokens.npy"
# Lines that are read together; of each hundred such heaps one is held out.
HEAP = 1_000
HELD_OUT = 100

Progress = Callable[[str, int, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Text:
    """
    A text in tokens.

    Parameters
    ----------
    tokenizer : str
        As JSON.
    train, held_out : ndarray of uint16 of shape (tokens,)
        Lines one after the other, each ended by [SEP]. What is held out is never trained on.
    digest : str
        Of both arrays and of the tokenizer.
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
    progress: Progress | None = None,
) -> Text:
    """
    Read a text and cut it into tokens.

    Parameters
    ----------
    path : path
        A file of one paragraph a line, plain or packed.
    vocabulary : int
        Entries of a new tokenizer, a lower-casing WordPiece that is trained on the text but for what is held
        out. Its trainer breaks ties at random: the same text may give another one in its rarest entries.
    tokenizer : str, optional
        A tokenizer as JSON, to be used instead: same text, same tokens.
    folder : path, optional
        Where the tokens are kept, and looked for.
    progress : callable, optional

    Returns
    -------
    Text
    """
    place = None if folder is None else Path(folder)
    if place is not None and (place / TOKENS).is_file():
        return _known(place)
    if not len(SPECIAL) < vocabulary <= 2**16:
        raise must("vocabulary", f"between {len(SPECIAL) + 1} and 65,536", vocabulary)
    cutting = _trained(path, vocabulary) if tokenizer is None else _read(tokenizer)
    parts: tuple[list[np.ndarray], list[np.ndarray]] = ([], [])
    for number, heap in enumerate(_heaps(path)):
        found = cutting.encode_batch(heap, add_special_tokens=False)
        ids = [np.array([*one.ids, SEP], dtype=np.uint16) for one in found if one.ids]
        parts[number % HELD_OUT == HELD_OUT - 1].extend(ids)
        if progress is not None:
            progress("reading", number + 1, 0)
    if not parts[0]:
        raise _empty(path)
    if not parts[1]:
        # A short text: its last line is held out.
        parts[1].append(parts[0].pop())
    if not parts[0]:
        raise InputError(f"{path} must hold at least two lines, one of them to be held out, but it has one.")
    train, held_out = (np.concatenate(part) for part in parts)
    made = _text(cutting.to_str(), train, held_out)
    if place is not None:
        _keep(made, place)
    return made


def check_text(path: str | os.PathLike[str], folder: str | os.PathLike[str] | None = None) -> None:
    """
    Refuse a text that `read_text` could not begin to read, without reading on.

    Parameters
    ----------
    path, folder : path
        As there: where tokens are kept already, the text itself is not read.
    """
    if folder is not None and (Path(folder) / TOKENS).is_file():
        return
    with closing(_heaps(path)) as heaps:
        if next(heaps, None) is None:
            raise _empty(path)


def own_tokenizer() -> str:
    """The tokenizer of the small encoders that come with the package, as JSON."""
    return (Path(__file__).parent / TOKENIZER).read_text(encoding="utf-8")


def _keep(made: Text, place: Path) -> None:
    place.mkdir(parents=True, exist_ok=True)
    (place / TOKENIZER).write_text(made.tokenizer, encoding="utf-8")
    temporary = place / f".{TOKENS}"
    # The split point first: one array in one file is there as a whole or not at all.
    both = np.concatenate([made.train, made.held_out])
    with temporary.open("wb") as file:
        np.save(file, np.array([len(made.train)]))
        np.save(file, both)
    temporary.replace(place / TOKENS)


def _known(place: Path) -> Text:
    try:
        with (place / TOKENS).open("rb") as file:
            cut = int(np.load(file)[0])
            both = np.load(file)
        tokenizer = (place / TOKENIZER).read_text(encoding="utf-8")
    except (OSError, ValueError, IndexError) as error:
        raise InputError(f"{place} must hold whole tokens and their tokenizer, but got: {error}.") from error
    return _text(tokenizer, both[:cut], both[cut:])


def _text(tokenizer: str, train: np.ndarray, held_out: np.ndarray) -> Text:
    found = hashlib.blake2b(tokenizer.encode(), digest_size=16)
    for one in (train, held_out):
        found.update(len(one).to_bytes(8, "little"))
        found.update(np.ascontiguousarray(one).data)
    return Text(tokenizer=tokenizer, train=train, held_out=held_out, digest=found.hexdigest())


def _empty(path: str | os.PathLike[str]) -> InputError:
    return InputError(f"{path} must hold text, but it has none.")


def _heaps(path: str | os.PathLike[str]) -> Generator[list[str]]:
    """Lines that are not empty, a thousand at a time."""
    place = Path(path)
    with sound(str(place)), place.open("rb") as raw:
        heap: list[str] = []
        for line in Lines(unpacked(raw, place.name), place.name):
            if line.strip():
                heap.append(line.strip())
            if len(heap) == HEAP:
                yield heap
                heap = []
        if heap:
            yield heap


def _read(tokenizer: str) -> Any:
    from tokenizers import Tokenizer

    try:
        found = Tokenizer.from_str(tokenizer)
    except Exception as error:  # the library raises a bare Exception
        raise InputError(f"tokenizer must be one as JSON, but got: {error}.") from error
    if [found.token_to_id(name) for name in SPECIAL] != list(range(len(SPECIAL))):
        raise must("tokenizer", f"one whose first entries are {', '.join(SPECIAL)}", "another")
    return found


def _trained(path: str | os.PathLike[str], vocabulary: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

    made = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    made.normalizer = normalizers.BertNormalizer(lowercase=True)  # pyright: ignore[reportAttributeAccessIssue]
    made.pre_tokenizer = pre_tokenizers.BertPreTokenizer()  # pyright: ignore[reportAttributeAccessIssue]
    made.decoder = decoders.WordPiece()  # pyright: ignore[reportAttributeAccessIssue]
    trainer = trainers.WordPieceTrainer(
        vocab_size=vocabulary, special_tokens=list(SPECIAL), show_progress=False, limit_alphabet=200
    )
    texts = (
        line for number, heap in enumerate(_heaps(path)) if number % HELD_OUT != HELD_OUT - 1 for line in heap
    )
    made.train_from_iterator(texts, trainer)
    made.post_processor = processors.TemplateProcessing(  # pyright: ignore[reportAttributeAccessIssue]
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B [SEP]",
        special_tokens=[("[CLS]", CLS), ("[SEP]", SEP)],
    )
    return made
