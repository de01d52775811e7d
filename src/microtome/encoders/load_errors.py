"""Error messages of the library, reduced to one sentence, and suppression of its other output."""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager

from ..errors import InputError, MicrotomeError, WorkError
from ..lazy import transformers


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
            raise InputError(
                f"a model must be a folder that exists or one on the hub, but there is no folder "
                f"{address!r}, and the hub cannot be reached."
            ) from error
        raise InputError(f"{address!r} must be a model that can be read, but got: {_first(error)}") from error


def _first(error: BaseException) -> str:
    """Return the first sentence of an error message, which may be long."""
    text = " ".join(str(error).split()) or type(error).__name__
    end = text.find(". ")
    text = text if end < 0 else text[: end + 1]
    return text if text.endswith((".", "?")) else f"{text}."
