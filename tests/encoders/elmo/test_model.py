"""Can an ELMo be used as any torch module: hooked, copied, pickled, moved, trained and cut?"""

from __future__ import annotations

import copy
import io
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from encoders.elmo.written import write_lstm, write_transformer
from microtome.encoders.elmo.characters import character_ids
from microtome.encoders.elmo.encoder import read_elmo
from microtome.encoders.elmo.model import ElmoModel, ElmoPart


class Mine(ElmoModel):
    """A user's own."""


IDS = character_ids([["thin", "slices"], []])


@pytest.fixture(params=[write_lstm, write_transformer], ids=["elmo", "transformer-elmo"])
def model(request: pytest.FixtureRequest, tmp_path: Path) -> ElmoModel:
    return read_elmo(request.param(tmp_path))


def same(one: list[torch.Tensor], other: list[torch.Tensor]) -> bool:
    return all(torch.equal(x, y) for x, y in zip(one, other, strict=True))


def test_it_is_a_torch_module(model: ElmoModel) -> None:
    assert isinstance(model, torch.nn.Module)
    assert isinstance(model, ElmoModel)
    assert all(isinstance(block, ElmoPart) for block in model.blocks)
    assert len(model.blocks) == model.layers
    assert "ElmoModel" in repr(model)


def test_a_class_made_from_it_is_a_model_too(model: ElmoModel) -> None:
    parts = {
        "kind": model.kind,
        "width": model.width,
        "embeddings": model.embeddings,
        "blocks": list(model.blocks),
        "final_norm": model.final_norm,
    }
    for other in (type(model)(**parts), Mine(**parts), pickle.loads(pickle.dumps(Mine(**parts)))):
        assert isinstance(other, torch.nn.Module)
        assert same(other(IDS), model(IDS))
    assert type(pickle.loads(pickle.dumps(type(model)(**parts)))) is type(model)
    assert isinstance(pickle.loads(pickle.dumps(Mine(**parts))), Mine)


def test_blocks_can_be_hooked(model: ElmoModel) -> None:
    seen: list[torch.Tensor] = []

    def keep(_module: torch.nn.Module, _inputs: object, output: torch.Tensor) -> None:
        seen.append(output)

    for part in (model.embeddings, *model.blocks):
        part.register_forward_hook(keep)
    layers = model(IDS, raw_last=True)
    real = (IDS > 0).any(-1)
    assert same([x[real] for x in seen], [x[real] for x in layers])


def test_copies_are_models_of_their_own(model: ElmoModel) -> None:
    layers = model(IDS)
    saved = io.BytesIO()
    torch.save(model, saved)
    saved.seek(0)
    for other in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(saved, weights_only=False),
    ):
        assert type(other) is type(model)
        assert same(other(IDS), layers)
        with torch.no_grad():
            for weight in other.parameters():
                weight.zero_()
    assert same(model(IDS), layers)


def test_a_pickled_model_is_read_by_a_new_process(model: ElmoModel, tmp_path: Path) -> None:
    (tmp_path / "model.pickle").write_bytes(pickle.dumps((model, IDS, model(IDS))))
    script = (
        "import pickle, sys\n"
        "model, ids, layers = pickle.load(open(sys.argv[1], 'rb'))\n"
        "assert all((x - y).abs().max() < 1e-6 for x, y in zip(model(ids), layers, strict=True))\n"
    )
    subprocess.run([sys.executable, "-c", script, tmp_path / "model.pickle"], check=True, timeout=120)


def test_weights_go_from_one_model_to_another(model: ElmoModel) -> None:
    other = copy.deepcopy(model)
    with torch.no_grad():
        for weight in other.parameters():
            weight.mul_(0.5)
    assert not same(other(IDS), model(IDS))
    other.load_state_dict(model.state_dict())
    assert same(other(IDS), model(IDS))


def test_every_weight_can_learn(model: ElmoModel) -> None:
    model(IDS)[-1].square().sum().backward()
    for name, weight in model.named_parameters():
        assert weight.grad is not None, name
        assert weight.grad.isfinite().all(), name
        assert weight.grad.any(), name


def test_blocks_can_be_cut(model: ElmoModel) -> None:
    layers = model(IDS, raw_last=True)
    model.blocks = model.blocks[:1]
    assert model.layers == 1
    assert same(model(IDS, raw_last=True), layers[:2])
    model.blocks = model.blocks[:0]
    assert same(model(IDS), layers[:1])


def test_ids_may_be_int32(model: ElmoModel) -> None:
    assert same(model(IDS.int()), model(IDS))
