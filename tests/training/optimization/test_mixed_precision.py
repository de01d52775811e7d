"""Has a batch the loss and the gradients that autocast gives?"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import samples
from microtome.encoders.table import FAMILIES
from microtome.tasks.task import Kind
from microtome.training.inputs import collate, encode
from microtome.training.models.modeling import build
from microtome.training.optimization.mixed_precision import linear_weights, training_loss

Encoders = Callable[..., Any]
CAPTURED = [name for name, family in FAMILIES.items() if family.cuda_graphs]
KINDS = [(family, kind) for family in CAPTURED for kind in samples.KINDS if family == "bert"] + [
    (family, kind) for family in CAPTURED[1:] for kind in ("classification", "multiple_choice")
]


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize(("model_type", "kind"), KINDS)
def test_losses_and_gradients_are_those_of_autocast(
    encoder_of: Encoders, model_type: str, kind: Kind, half: bool
) -> None:
    encoder, task = encoder_of(model_type), samples.task_of(kind)
    if half and not encoder.family.bfloat16:
        pytest.skip("bfloat16 overflows in this model of the library")
    model = build(encoder, task, seed=1).eval()
    features = encode(samples.items_of(kind), task, encoder.tokenizer, longest=30, mask=model.mask)
    batch = collate(features, multiple=16)

    def gradients(loss: torch.Tensor) -> tuple[float, dict[str, torch.Tensor]]:
        model.zero_grad(set_to_none=True)
        loss.backward()
        return loss.item(), {
            name: weight.grad for name, weight in model.named_parameters() if weight.grad is not None
        }

    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        right, expected = gradients(model.loss(model(batch), batch))
    loss, found = gradients(training_loss(model, batch, half=half))
    precision = 2e-2 if half else 1e-5
    assert loss == pytest.approx(right, rel=precision)
    assert found.keys() == expected.keys()
    scale = max(gradient.abs().max().item() for gradient in expected.values())
    for name, gradient in expected.items():
        assert found[name].dtype == torch.float32
        torch.testing.assert_close(
            found[name], gradient, rtol=5 * precision, atol=precision * scale, msg=name
        )


def test_weights_that_other_layers_read_too_are_not_listed() -> None:
    embedding, tied, plain = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 5), torch.nn.Linear(3, 2)
    tied.weight = embedding.weight
    model = torch.nn.ModuleDict({"embedding": embedding, "tied": tied, "plain": plain, "again": plain})
    assert list(linear_weights(model)) == ["tied.bias", "plain.weight", "plain.bias"]
