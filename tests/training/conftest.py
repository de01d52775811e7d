"""Tiny encoders that tests of training share."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest

import tiny
from microtome.encoders.loading import load


@pytest.fixture(scope="session")
def encoder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Tiny encoders by model type and head, each loaded once: nobody may change them."""

    @cache
    def loaded(model_type: str, head: str = "") -> Any:
        return load(tiny.save_checkpoint(tmp_path_factory.mktemp(model_type), model_type, head=head))

    return loaded


@pytest.fixture
def heeding() -> Iterator[None]:
    """Interrupts are heard as on a terminal: a process that a shell starts behind it ignores them."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
