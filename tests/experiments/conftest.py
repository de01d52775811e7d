"""Tiny encoders that tests of experiments share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
import torch

import tiny
from microtome.encoders.loading import load


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> Iterator[None]:
    """Models this small are slower with more."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def encoder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Tiny encoders by model type and head, each loaded once: nobody may change them."""

    @cache
    def loaded(model_type: str, head: str = "") -> Any:
        return load(tiny.save_checkpoint(tmp_path_factory.mktemp(model_type), model_type, head=head))

    return loaded
