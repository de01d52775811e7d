"""The library transformers: its tokenizers opened, its errors as one sentence, its other output silenced."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..checks import is_finite
from ..errors import InputError, MicrotomeError, WorkError, must, unreachable
from ..lazy import tokenizers, transformers
from .family import Family
from .locations import find_folder
from .tokens import Tokenizer


@contextmanager
def quiet() -> Iterator[None]:
    """Silence the library: no warnings, no progress bars."""
    import huggingface_hub

    level = transformers.logging.get_verbosity()
    transformers.logging.set_verbosity_error()
    # The hub client retries for a while, and logs each attempt.
    hub = huggingface_hub.logging.get_verbosity()
    huggingface_hub.logging.set_verbosity_error()
    bars = transformers.utils.logging.is_progress_bar_enabled()
    transformers.utils.logging.disable_progress_bar()
    try:
        yield
    finally:
        transformers.logging.set_verbosity(level)
        huggingface_hub.logging.set_verbosity(hub)
        if bars:
            transformers.utils.logging.enable_progress_bar()


@contextmanager
def one_sentence(address: str) -> Iterator[None]:
    """Silence the library, and reduce what it raises while it reads a model to one sentence."""
    try:
        with quiet():
            yield
    except (MicrotomeError, MemoryError):
        raise
    except pickle.UnpicklingError as error:
        raise InputError(
            f"{address} must hold plain weights, but its pickle would run code when loaded; ask for "
            "model.safetensors."
        ) from error
    except RuntimeError as error:
        raise WorkError(f"{address!r} must load, but got: {_first(error)}") from error
    except BaseException as error:
        # Files of the wrong types end in errors of any class, deep inside the libraries. A panic of Rust
        # code, which the tokenizers library has, is no Exception to Python.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        if isinstance(error, OSError) and not os.path.exists(address) and "connect" in str(error):
            raise unreachable("a model", address) from error
        reason = _models_inside(address) or f"got: {_first(error)}"
        raise InputError(f"{address!r} must be a model that can be read, but {reason}") from error


def _models_inside(address: str) -> str:
    """Name a model of a folder that holds models but is none, such as the folder of a fine-tuning."""
    folder = Path(address)
    if not folder.is_dir() or (folder / "config.json").exists():
        return ""
    models = sorted(part for part in folder.iterdir() if (part / "config.json").is_file())
    return f"it is a folder of models; give one of them, such as {models[0]}." if models else ""


def _first(error: BaseException) -> str:
    """Return the first sentence of an error message, which may be long."""
    text = " ".join(str(error).split()) or type(error).__name__
    end = text.find(". ")
    text = text if end < 0 else text[: end + 1]
    return text if text.endswith((".", "?")) else f"{text}."


# A tokenizer without a limit has a `model_max_length` of at least this size.
UNLIMITED = 10**6


def open_tokenizer(
    tokenizer: Any,
    config: Any,
    family: Family,
    *,
    revision: str | None = None,
    trust_remote_code: bool = False,
) -> Tokenizer:
    """
    Open a tokenizer for a model.

    Parameters
    ----------
    tokenizer : str, path, or tokenizer of transformers or tokenizers
        A folder, a hub id, an encoder of the package such as "zoo:masked", or a WordPiece vocabulary
        `vocab.txt`.
    config : transformers.PretrainedConfig
        The configuration of the model: its padding token, its positions, and whether it has segments.
    family : Family
    revision, trust_remote_code
        As in `load`.

    Returns
    -------
    Tokenizer
    """
    backend, limit, typed = _backend(tokenizer, revision, trust_remote_code)
    pad = getattr(config, "pad_token_id", None)
    positions = getattr(config, "max_position_embeddings", None)
    limits = [limit] if limit is not None and limit < UNLIMITED else []
    if isinstance(positions, int) and positions > 0:
        offset = pad + 1 if family.after_padding and isinstance(pad, int) else 0
        limits.append(positions - family.unused_positions - offset)
    segments = getattr(config, "type_vocab_size", 0) or 0
    return Tokenizer(
        backend,
        pad=pad if isinstance(pad, int) and 0 <= pad < 2**31 else 0,
        longest=min(limits) if limits else None,
        typed=typed and (segments > 1 or family.relative_segments),
    )


def _backend(
    tokenizer: Any, revision: str | None, trust_remote_code: bool
) -> tuple[tokenizers.Tokenizer, int | None, bool]:
    if isinstance(tokenizer, tokenizers.Tokenizer):
        return tokenizer, None, True
    if isinstance(tokenizer, (str, os.PathLike)):
        tokenizer = _read(os.fspath(tokenizer), revision, trust_remote_code)
    if not isinstance(tokenizer, transformers.PreTrainedTokenizerBase):
        raise must("tokenizer", "a folder, a hub id or a tokenizer object", type(tokenizer).__name__)
    backend = getattr(tokenizer, "backend_tokenizer", None)
    if not isinstance(backend, tokenizers.Tokenizer):
        raise InputError(
            f"tokenizer must be one of the tokenizers library, which tells the word of each token, but "
            f"{type(tokenizer).__name__} is not."
        )
    inputs = tokenizer.model_input_names
    if not isinstance(inputs, (list, tuple)):
        raise must("model_input_names of a tokenizer", "a list of names", inputs)
    limit = tokenizer.model_max_length
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, (int, float))):
        raise must("model_max_length of a tokenizer", "a number", limit)
    limit = int(limit) if limit is not None and is_finite(limit) else None
    return backend, limit, "token_type_ids" in inputs


def _read(location: str, revision: str | None, trust: bool) -> Any:
    shipped = find_folder(location)
    location = location if shipped is None else str(shipped)
    path = Path(location)
    pieces = path if path.name == "vocab.txt" else path / "vocab.txt"
    if pieces.is_file() and not (pieces.parent / "tokenizer.json").is_file():
        # WordPiece, whatever the model type suggests: vocab.txt has no other use.
        with one_sentence(location):
            return transformers.BertTokenizer.from_pretrained(str(pieces.parent))
    if path.is_dir() and not any(
        (path / name).is_file()
        for name in (
            "tokenizer.json",
            "tokenizer.model",
            "spiece.model",
            "sentencepiece.bpe.model",
            "vocab.json",
        )
    ):
        raise InputError(
            f"{location} must hold a tokenizer (tokenizer.json or vocab.txt), but there is none; give one "
            "with tokenizer=."
        )
    with one_sentence(location):
        return transformers.AutoTokenizer.from_pretrained(
            location, revision=revision, trust_remote_code=trust
        )
