"""Tiny encoders that tests of interventions share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

import tiny
from microtome.encoders.loading import load


@pytest.fixture(scope="session")
def encoder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Any]:
    """Tiny encoders of four blocks by model type, head and settings: nobody may change them."""

    @cache
    def loaded(model_type: str, head: str = "", **settings: Any) -> Any:
        folder = tmp_path_factory.mktemp(model_type)
        return load(
            tiny.save_checkpoint(folder, model_type, head=head, **{"num_hidden_layers": 4, **settings}),
            name=model_type,
        )

    return loaded
