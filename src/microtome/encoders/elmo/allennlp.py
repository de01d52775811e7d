"""Reading of a Transformer ELMo from the configuration and weights that AllenNLP saves."""

from __future__ import annotations

import pickle
import re
import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import IO, Any

from ...errors import InputError
from ...lazy import torch
from .archive import WEIGHTS, open_files
from .characters import CHARACTERS, CharacterNetwork, embed
from .layers import HEADS, bitransformer, final_norm
from .model import ElmoModel, ElmoPart
from .options import ElmoOptions, ElmoWeights, parse_options

CONTEXTUALIZER = "bidirectional_language_model_transformer"
MODELS = ("language_model", "bidirectional_language_model", "bidirectional-language-model")

_EMBEDDERS = "model.text_field_embedder"
_SIDES = tuple(f"_contextualizer._{side}_transformer" for side in ("forward", "backward"))
_MATRICES = MappingProxyType(
    {
        "query": "self_attn.linears.0",
        "key": "self_attn.linears.1",
        "value": "self_attn.linears.2",
        "output": "self_attn.linears.3",
        "inner": "feed_forward.w_1",
        "outer": "feed_forward.w_2",
    }
)
_NORMS = MappingProxyType({"attention": "sublayer.0.norm", "feedforward": "sublayer.1.norm"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _AllenWeights(ElmoWeights):
    """The tensors of a file of AllenNLP."""

    tensors: Mapping[str, Any]

    def find(self, name: str) -> torch.Tensor:
        """Find a tensor."""
        tensor = self.tensors.get(name)
        if tensor is None:
            raise InputError(f"{self.source} must hold {name}, but it is missing.")
        plain = (
            isinstance(tensor, torch.Tensor)
            and tensor.layout == torch.strided
            and tensor.device.type == "cpu"
        )
        if not plain or not tensor.is_floating_point():
            kind = tensor.dtype if plain else type(tensor).__name__
            raise InputError(f"{name} in {self.source} must hold floating numbers, but it holds {kind}.")
        return tensor

    def read(self, name: str, stored: torch.Tensor) -> torch.Tensor:
        """Convert a tensor to float32."""
        return stored.detach().float()

    def both(self, name: str, *shape: int) -> torch.Tensor:
        """Return the tensors of the two directions, stacked."""
        return torch.stack([self.take(f"{side}.{name}", *shape) for side in _SIDES])


def read_transformer(path: Path) -> ElmoModel:
    """
    Read a Transformer ELMo.

    Parameters
    ----------
    path : Path
        A folder with config.json and weights.th, or an archive of it.

    Returns
    -------
    ElmoModel
    """
    with open_files(path) as (config, file):
        options = parse_options(config, f"config.json in {path}")
        name, size, network = _network(options)
        source = f"{WEIGHTS} in {path}"
        weights = _AllenWeights(
            tensors=_load(file, source), source=source, declared="as the configuration says"
        )
    width, hidden = (options.whole(f"model.contextualizer.{key}") for key in ("input_dim", "hidden_dim"))
    projected = options.whole(f"{name}.encoder.projection_dim")
    if projected != width:
        raise options.wrong(
            f"{name}.encoder.projection_dim", f"the contextualizer's input_dim, {width}", projected
        )
    if width % HEADS:
        raise options.wrong("model.contextualizer.input_dim", f"a multiple of {HEADS}", width)
    prefix = f"_text_field_embedder.token_embedder_{name.rpartition('.')[2]}"
    embeddings = ElmoPart(embed, network, _character_weights(weights, prefix, network, size, width))
    blocks = [
        ElmoPart(bitransformer, None, _block_weights(weights, index, width, hidden))
        for index in range(options.whole("model.contextualizer.num_layers"))
    ]
    last = {f"final_{part}": weights.both(f"norm.{part}", width) for part in ("gamma", "beta")}
    weights.refuse_more(weights.tensors, (prefix, *_SIDES))
    return ElmoModel(
        kind="transformer-elmo",
        width=2 * width,
        embeddings=embeddings,
        blocks=blocks,
        final_norm=ElmoPart(final_norm, None, last),
    )


def _network(options: ElmoOptions) -> tuple[str, int, CharacterNetwork]:
    """Find the character embedder: its name, the size of a character embedding, and the network."""
    options.choice("model.type", MODELS)
    options.choice("model.contextualizer.type", (CONTEXTUALIZER,))
    if not options.flag("model.bidirectional", default=True):
        raise options.wrong("model.bidirectional", "true", False)
    path = f"{_EMBEDDERS}.token_embedders"
    if not isinstance(options.get(path, None), Mapping):
        path = _EMBEDDERS
    inside = options.get(path)
    if not isinstance(inside, Mapping):
        raise options.wrong(path, "embedders by name", inside)
    embedders = {name: value for name, value in inside.items() if isinstance(value, Mapping)}
    if [value.get("type") for value in embedders.values()] != ["character_encoding"]:
        kinds = sorted(str(value.get("type")) for value in embedders.values())
        raise options.wrong(path, "one embedder, of the type character_encoding", kinds)
    name = f"{path}.{next(iter(embedders))}"
    options.characters(f"{name}.embedding.num_embeddings")
    options.choice(f"{name}.encoder.type", ("cnn-highway",))
    location = options.choice(
        f"{name}.encoder.projection_location", ("after_cnn", "after_highway"), default="after_highway"
    )
    network = CharacterNetwork(
        filters=options.filters(f"{name}.encoder.filters"),
        activation=options.activation(f"{name}.encoder.activation", default="relu"),
        highways=options.whole(f"{name}.encoder.num_highway", least=0),
        projection="before" if location == "after_cnn" else "after",
        norm=options.flag(f"{name}.encoder.do_layer_norm", default=False),
    )
    return name, options.whole(f"{name}.embedding.embedding_dim"), network


def _load(file: IO[bytes], source: str) -> Mapping[str, Any]:
    """Load tensors without running code from the pickle."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of old pickles although it reads them
            tensors = torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as problem:
        match = re.search(r"GLOBAL (\S+)", str(problem))
        reason = f"it asks to run {match[1]}" if match else "it cannot be read as such"
        raise InputError(f"{source} must hold tensors and nothing else, but {reason}.") from problem
    except Exception as problem:  # untrusted bytes: any failure of the reader means a broken file
        raise InputError(f"{source} must be a whole file of tensors, but it cannot be read.") from problem
    if not isinstance(tensors, Mapping):
        raise InputError(f"{source} must hold tensors by name, but it holds a {type(tensors).__name__}.")
    return {str(name): tensor for name, tensor in tensors.items()}


def _character_weights(
    weights: _AllenWeights, prefix: str, network: CharacterNetwork, size: int, width: int
) -> dict[str, torch.Tensor]:
    part = f"{prefix}._encoder._module"
    tensors = {"characters": weights.take(f"{prefix}._embedding._module.weight", CHARACTERS, size)}
    for i, (span, number) in enumerate(network.filters):
        tensors[f"filter_{i}"] = weights.take(f"{part}.char_conv_{i}.weight", number, size, span)
        tensors[f"filter_bias_{i}"] = weights.take(f"{part}.char_conv_{i}.bias", number)
    channels = sum(number for _, number in network.filters)
    features = width if network.projection == "before" else channels
    for i in range(network.highways):
        layer = f"{part}._highways._layers.{i}"
        tensors[f"highway_{i}"] = weights.take(f"{layer}.weight", 2 * features, features)
        tensors[f"highway_bias_{i}"] = weights.take(f"{layer}.bias", 2 * features)
    tensors["projection"] = weights.take(f"{part}._projection.weight", width, channels)
    tensors["projection_bias"] = weights.take(f"{part}._projection.bias", width)
    if network.norm:
        tensors |= {name: weights.take(f"{part}._layer_norm.{name}", width) for name in ("gamma", "beta")}
    return tensors


def _block_weights(weights: _AllenWeights, index: int, width: int, hidden: int) -> dict[str, torch.Tensor]:
    tensors = {}
    for name, part in _MATRICES.items():
        outputs, inputs = {"inner": (hidden, width), "outer": (width, hidden)}.get(name, (width, width))
        tensors[name] = weights.both(f"layers.{index}.{part}.weight", outputs, inputs).mT
        tensors[f"{name}_bias"] = weights.both(f"layers.{index}.{part}.bias", outputs)
    for name, part in _NORMS.items():
        for value in ("gamma", "beta"):
            tensors[f"{name}_{value}"] = weights.both(f"layers.{index}.{part}.{value}", width)
    return tensors
