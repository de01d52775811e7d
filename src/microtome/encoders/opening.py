"""Where does a model's tokenizer come from?"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InputError, must
from .family import Family
from .shipped import find_folder
from .telling import telling
from .tokens import Tokenizer

if TYPE_CHECKING:
    import tokenizers

# A tokenizer without a limit says so with a number of this size.
UNLIMITED = 10**6


def open_tokenizer(
    given: Any, config: Any, family: Family, *, revision: str | None = None, trust_remote_code: bool = False
) -> Tokenizer:
    """
    Open a tokenizer for a model.

    Parameters
    ----------
    given : str, path, or tokenizer of transformers or tokenizers
        A folder, a hub id, an encoder of the package such as "zoo:masked", or a file `vocab.txt` of word
        pieces.
    config : transformers.PretrainedConfig
        Of the model: what fills short examples up, how many positions it has, whether it has segments.
    family : Family
    revision, trust_remote_code
        As in `load`.

    Returns
    -------
    Tokenizer
    """
    backend, limit, typed = _backend(given, revision, trust_remote_code)
    pad = getattr(config, "pad_token_id", None)
    positions = getattr(config, "max_position_embeddings", None)
    limits = [limit] if limit is not None and limit < UNLIMITED else []
    if isinstance(positions, int) and positions > 0:
        counted = pad + 1 if family.after_padding and isinstance(pad, int) else 0
        limits.append(positions - family.unused_positions - counted)
    segments = getattr(config, "type_vocab_size", 0) or 0
    return Tokenizer(
        backend,
        pad=pad if isinstance(pad, int) and pad >= 0 else 0,
        longest=min(limits) if limits else None,
        typed=typed and (segments > 1 or family.relative_segments),
    )


def _backend(
    given: Any, revision: str | None, trust_remote_code: bool
) -> tuple[tokenizers.Tokenizer, int | None, bool]:
    import tokenizers
    import transformers

    if isinstance(given, tokenizers.Tokenizer):
        return given, None, True
    if isinstance(given, (str, os.PathLike)):
        given = _read(os.fspath(given), revision, trust_remote_code)
    if not isinstance(given, transformers.PreTrainedTokenizerBase):
        raise must("tokenizer", "a folder, a hub id or a tokenizer object", type(given).__name__)
    backend = getattr(given, "backend_tokenizer", None)
    if not isinstance(backend, tokenizers.Tokenizer):
        raise InputError(
            f"tokenizer must be one of the tokenizers library, which tells the word of each token, but "
            f"{type(given).__name__} is not."
        )
    return backend, given.model_max_length, "token_type_ids" in given.model_input_names


def _read(given: str, revision: str | None, trust: bool) -> Any:
    import transformers

    shipped = find_folder(given)
    given = given if shipped is None else str(shipped)
    place = Path(given)
    pieces = place if place.name == "vocab.txt" else place / "vocab.txt"
    if pieces.is_file() and not (pieces.parent / "tokenizer.json").is_file():
        # Word pieces, whatever the model type suggests: a vocabulary of lines is nothing else.
        with telling(given):
            return transformers.BertTokenizer.from_pretrained(str(pieces.parent))
    if place.is_dir() and not any(
        (place / name).is_file()
        for name in (
            "tokenizer.json",
            "tokenizer.model",
            "spiece.model",
            "sentencepiece.bpe.model",
            "vocab.json",
        )
    ):
        raise InputError(
            f"{given} must hold a tokenizer (tokenizer.json or vocab.txt), but there is none; give one with "
            "tokenizer=."
        )
    with telling(given):
        return transformers.AutoTokenizer.from_pretrained(given, revision=revision, trust_remote_code=trust)
