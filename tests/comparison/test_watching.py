"""Does watching any module in one's own loop give the maps of its rows?"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import microtome as mt
import tiny
from microtome.encoders.loading import load
from microtome.errors import MicrotomeError
from microtome.randomness import generator

MEASURES = ["linear_cka", "debiased_cka", "svcca", "pwcca", "neuron_correlation", "mixed_regression"]
MEASURES += ["procrustes"]


def net(seed: int, *, overwriting: bool = False) -> nn.Sequential:
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(5, 7), nn.ReLU(inplace=overwriting), nn.Linear(7, 6)).eval()


def batches(*sizes: int) -> list[torch.Tensor]:
    rng = generator(0, "batches")
    return [torch.from_numpy(rng.standard_normal((n, 5))).float() for n in sizes]


def test_two_modules_are_compared_on_the_rows_they_saw() -> None:
    one, two, data = net(1), net(2), batches(16, 16, 7, 1)
    with mt.watch(one, two, layers=["0", "2"]) as seen, torch.no_grad():
        for batch in data:
            one(batch)
            two(batch)
    found = seen.similarity_matrix(MEASURES)
    whole = torch.cat(data)
    with torch.no_grad():
        sides = [[m[0](whole), m(whole)] for m in (one, two)]
    expected = mt.similarity_matrix(sides[0], sides[1], MEASURES, precision="exact")
    for label, maps in found.items():
        np.testing.assert_allclose(maps.values, expected[label].values, atol=1e-6, err_msg=label)
        np.testing.assert_allclose(maps.null_mean, expected[label].null_mean, atol=1e-6, err_msg=label)
        assert (maps.left, maps.right, maps.n) == (("0", "2"), ("0", "2"), 40)


def test_one_module_is_compared_with_itself_and_order_of_calls_is_free() -> None:
    one, two, data = net(1), net(2), batches(20, 30)
    with mt.watch(one, layers="*") as alone, torch.no_grad():
        for batch in data:
            one(batch)
    assert alone.similarity_matrix()["debiased_cka"].symmetric
    with mt.watch(one, two, layers="0") as seen, torch.no_grad():
        for module in (one, two):
            for batch in data:
                module(batch)
    assert seen.similarity_matrix("linear_cka")["linear_cka"].n == 50


@pytest.mark.parametrize("rows", ["first", lambda name, out, mask: out[:, 1:]], ids=["whole", "a view"])
def test_operations_in_place_after_the_hook_change_nothing(rows: Any) -> None:
    plain, sly, data = net(1), net(1, overwriting=True), batches(40)
    with mt.watch(plain, sly, layers="0", rows=rows) as seen, torch.no_grad():
        plain(data[0].clone())
        sly(data[0].clone())
    one = seen.similarity_matrix("linear_cka")["linear_cka"]
    assert one.values[0, 0] == pytest.approx(1, abs=1e-12)


def test_training_goes_on_as_if_nobody_watched() -> None:
    ways = []
    for watched in (True, False):
        module, data = net(3).train(), batches(8, 8)
        optimizer = torch.optim.SGD(module.parameters(), 0.1)
        with mt.watch(module, layers="0") if watched else torch.enable_grad():
            for batch in data:
                optimizer.zero_grad()
                module(batch).square().mean().backward()
                optimizer.step()
        ways.append(torch.cat([p.detach().flatten() for p in module.parameters()]))
    assert torch.equal(*ways)


def test_tokens_under_a_mask_and_tuples(tmp_path: Path) -> None:
    encoder: Any = load(tiny.save_checkpoint(tmp_path / "deberta", "deberta"))
    sentences = [text.split() for text in tiny.TEXT]
    inputs = encoder.tokenizer.collate(encoder.words(sentences))
    with mt.watch(encoder.model, layers="encoder.layer.*", rows="tokens") as seen, torch.no_grad():
        encoder.model(**inputs)
        encoder.model(**inputs)
    one = seen.similarity_matrix("linear_cka")["linear_cka"]
    assert one.left == ("encoder.layer.0", "encoder.layer.1", "encoder.layer.2")
    assert one.n == 2 * int(inputs["attention_mask"].sum())
    rows = {}
    encoder.run(encoder.words(sentences), lambda layer, s: rows.__setitem__(layer, s.clone()))
    kept = [rows[k][inputs["attention_mask"].bool()] for k in (1, 2, 3)]
    expected = mt.similarity_matrix(kept, measures="linear_cka", precision="exact")["linear_cka"]
    np.testing.assert_allclose(one.values, expected.values, atol=1e-6)


def test_texts_of_any_length_need_no_option(tmp_path: Path) -> None:
    """Batches of unequal length, and the mask by name, by place or in a mapping: padding never counts."""

    class Taking(nn.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, batch: dict[str, torch.Tensor]) -> Any:
            return self.inner(**batch)

    encoder: Any = load(tiny.save_checkpoint(tmp_path / "bert", "bert"))
    texts = [text.split() for text in tiny.TEXT]
    loader = [
        encoder.tokenizer.collate(encoder.words(part)) for part in (texts[:2], texts[2:], [texts[0][:2]])
    ]
    assert len({batch["input_ids"].shape[1] for batch in loader}) > 1
    tokens = sum(int(batch["attention_mask"].sum()) for batch in loader)
    assert tokens < sum(batch["input_ids"].numel() for batch in loader)
    model, found = encoder.model, []
    with mt.watch(model, layers="encoder.layer.*") as seen, torch.no_grad():
        for batch in loader:
            model(**batch)
    found.append(seen)
    with mt.watch(model, layers="encoder.layer.*") as seen, torch.no_grad():
        for batch in loader:
            model(batch["input_ids"], batch["attention_mask"])
    found.append(seen)
    with mt.watch(Taking(model), layers="inner.encoder.layer.*") as seen, torch.no_grad():
        for batch in loader:
            seen.sides[0].model(batch)
    found.append(seen)
    with mt.watch(model, layers="encoder.layer.*", rows="tokens") as seen, torch.no_grad():
        for batch in loader:
            model(**batch)
    expected = seen.similarity_matrix("linear_cka")["linear_cka"]
    for one in found:
        maps = one.similarity_matrix("linear_cka")["linear_cka"]
        assert maps.n == tokens
        np.testing.assert_allclose(maps.values, expected.values, atol=1e-9)
    apart = "must give the same rows, but got .*; watch them apart, or say what a row is with rows="
    with told(apart), mt.watch(model, layers=["encoder.layer.0", "pooler"]), torch.no_grad():
        model(**loader[0])


def test_pixels_and_rules_of_ones_own() -> None:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        module = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 5, 3, padding=1)).eval()
    images = torch.from_numpy(generator(0, "images").standard_normal((6, 3, 5, 4))).float()
    with mt.watch(module, layers=["0", "2"], rows="pixels") as seen, torch.no_grad():
        module(images)
    assert seen.similarity_matrix()["debiased_cka"].n == 6 * 5 * 4
    with mt.watch(module, layers="2", rows=lambda name, out, mask: out.mean((2, 3))) as seen, torch.no_grad():
        module(images)
    assert seen.similarity_matrix()["debiased_cka"].n == 6
    with mt.watch(module, layers="2") as seen, torch.no_grad():
        module(images)
    assert seen.moments is not None
    assert seen.moments.widths == (5 * 5 * 4,)


def test_recorded_rows_serve_intervals_and_every_measure(tmp_path: Path) -> None:
    one, two, data = net(1), net(2), batches(50, 50)
    with mt.watch(one, two, layers="0", record=tmp_path / "rows") as seen, torch.no_grad():
        for batch in data:
            one(batch)
            two(batch)
    found = seen.similarity_matrix(["debiased_cka", "rsa"], certainty=True)
    assert found["debiased_cka"].low is not None
    with torch.no_grad():
        whole = torch.cat(data)
        expected = mt.similarity(one[0](whole), two[0](whole), "rsa")
    assert float(found["rsa"].values[0, 0]) == pytest.approx(float(expected), abs=1e-6)


def told(words: str) -> Any:
    return pytest.raises(MicrotomeError, match=words)


def test_what_is_wrong_is_told(tmp_path: Path) -> None:
    one, two, (batch, short) = net(1), net(2), batches(8, 7)
    with told(r"^layer must be one of 0, 1, 2, but got '3'"):
        mt.watch(one, layers="3")
    with told("^layer must be one of"):
        mt.watch(one, layers="0.weight")
    with told("rows must be one of auto, first, tokens, pixels, or a function, but got 'words'"):
        mt.watch(one, layers="0", rows="words")
    with told("precision must be 'exact' or 'fast'"):
        mt.watch(one, layers="0", precision="half")
    with told("in batch 1 the left had 8 and the right 7"), mt.watch(one, two, layers="0"):
        one(batch)
        two(short)
    with told("the left ran 2 and the right 1"), mt.watch(one, two, layers="0"):
        one(batch)
        two(batch)
        one(batch)
    with mt.watch(one, layers="0") as seen:
        pass
    with told("the modules were not run"):
        seen.similarity_matrix()


def test_a_layer_must_run_once_and_rows_must_be_kept_where_they_are_needed() -> None:
    one, (batch,) = net(1), batches(8)
    shared = nn.Linear(5, 5)
    twice = nn.Sequential(shared, shared)
    with told("layer 0 must run once a batch, but it ran again"), mt.watch(twice, layers="0"):
        twice(batch)
    with mt.watch(one, layers="0") as seen:
        with told("after the `with` block"):
            seen.similarity_matrix()
        one(batch)
    with told("rsa must see the rows again, but they were not kept"):
        seen.similarity_matrix("rsa")
    with told("watch with record=FOLDER"):
        seen.similarity_matrix(certainty=True)
    with told("must be .examples, tokens, features."), mt.watch(one, layers="0", rows="tokens"):
        one(batch)
    assert not any(m._forward_hooks or m._forward_pre_hooks for m in one.modules())
