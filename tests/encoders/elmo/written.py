"""Small ELMos with random weights, written to files as bilm-tf and AllenNLP write theirs."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import numpy as np

from microtome.randomness import generator

FILTERS = [[1, 3], [2, 4], [3, 5]]
EMBEDDER = "_text_field_embedder.token_embedder_token_characters"


def changed(values: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Copy nested values, with some changed by dotted name, or left out where the change is ...."""
    values = copy.deepcopy(values)
    for name, value in changes.items():
        *groups, last = name.split(".")
        inside = values
        for group in groups:
            inside = inside[group]
        if value is ...:
            del inside[last]
        else:
            inside[last] = value
    return values


def lstm_options(**changes: Any) -> dict[str, Any]:
    """Write options; a double underscore in a name is a dot."""
    options = {
        "lstm": {
            "dim": 7,
            "projection_dim": 5,
            "n_layers": 2,
            "cell_clip": 0.6,
            "proj_clip": 0.4,
            "use_skip_connections": True,
        },
        "char_cnn": {
            "embedding": {"dim": 4},
            "filters": FILTERS,
            "n_highway": 2,
            "n_characters": 262,
            "max_characters_per_token": 50,
            "activation": "relu",
        },
    }
    return changed(options, {name.replace("__", "."): value for name, value in changes.items()})


def lstm_tensors(options: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Draw the datasets that the options ask for."""
    lstm, characters = options["lstm"], options["char_cnn"]
    size, found = characters["embedding"]["dim"], sum(n for _, n in characters["filters"])
    cells, width = lstm["dim"], lstm["projection_dim"]
    shapes: dict[str, tuple[int, ...]] = {"char_embed": (261, size)}
    for i, (span, number) in enumerate(characters["filters"]):
        shapes |= {f"CNN/W_cnn_{i}": (1, span, size, number), f"CNN/b_cnn_{i}": (number,)}
    for i in range(characters.get("n_highway", 0)):
        for kind in ("carry", "transform"):
            shapes |= {f"CNN_high_{i}/W_{kind}": (found, found), f"CNN_high_{i}/b_{kind}": (found,)}
    if found != width:
        shapes |= {"CNN_proj/W_proj": (found, width), "CNN_proj/b_proj": (width,)}
    for direction in (0, 1):
        for layer in range(lstm.get("n_layers", 1)):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            shapes |= {
                f"{cell}/W_0": (2 * width, 4 * cells),
                f"{cell}/B": (4 * cells,),
                f"{cell}/W_P_0": (cells, width),
            }
    rng = generator(seed, "elmo of LSTMs")
    return {name: rng.normal(0, 0.7, shape).astype(np.float32) for name, shape in shapes.items()}


def write_lstm(
    folder: Path,
    options: dict[str, Any] | None = None,
    tensors: dict[str, np.ndarray] | None = None,
    *,
    name: str = "",
) -> Path:
    """Write options and weights into a folder, and give it back."""
    import h5py

    options = lstm_options() if options is None else options
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}options.json").write_text(json.dumps(options))
    with h5py.File(folder / f"{name}weights.hdf5", "w") as file:
        for key, values in (lstm_tensors(options) if tensors is None else tensors).items():
            file[key] = values
    return folder


def transformer_config(**changes: Any) -> dict[str, Any]:
    """Write a configuration; `characters__` is the embedder, another double underscore a dot."""
    config = {
        "dataset_reader": {"type": "simple_language_modeling"},
        "model": {
            "type": "language_model",
            "bidirectional": True,
            "contextualizer": {
                "type": "bidirectional_language_model_transformer",
                "hidden_dim": 7,
                "input_dim": 16,
                "num_layers": 3,
                "dropout": 0.1,
            },
            "text_field_embedder": {
                "allow_unmatched_keys": True,
                "token_embedders": {
                    "token_characters": {
                        "type": "character_encoding",
                        "embedding": {"embedding_dim": 4, "num_embeddings": 262},
                        "encoder": {
                            "type": "cnn-highway",
                            "activation": "relu",
                            "embedding_dim": 4,
                            "filters": FILTERS,
                            "num_highway": 2,
                            "projection_dim": 16,
                            "projection_location": "after_highway",
                            "do_layer_norm": True,
                        },
                    }
                },
            },
        },
    }
    long = "model__text_field_embedder__token_embedders__token_characters__"
    names = {name: name.replace("characters__", long, 1) for name in changes}
    return changed(config, {names[name].replace("__", "."): value for name, value in changes.items()})


def transformer_tensors(config: dict[str, Any], seed: int = 0) -> dict[str, np.ndarray]:
    """Draw the tensors that the configuration asks for, and some of those that it does not need."""
    (characters,) = config["model"]["text_field_embedder"]["token_embedders"].values()
    encoder, contextualizer = characters["encoder"], config["model"]["contextualizer"]
    size, width = characters["embedding"]["embedding_dim"], contextualizer["input_dim"]
    found, hidden = sum(n for _, n in encoder["filters"]), contextualizer["hidden_dim"]
    inner = f"{EMBEDDER}._encoder._module"
    shapes: dict[str, tuple[int, ...]] = {
        "_softmax_loss.softmax_w": (9, width),
        "_contextualizer._position.positional_encoding": (1, 30, width),
        f"{EMBEDDER}._embedding._module.weight": (262, size),
        f"{inner}._projection.weight": (width, found),
        f"{inner}._projection.bias": (width,),
    }
    for i, (span, number) in enumerate(encoder["filters"]):
        shapes |= {
            f"{inner}.char_conv_{i}.weight": (number, size, span),
            f"{inner}.char_conv_{i}.bias": (number,),
        }
    between = width if encoder.get("projection_location") == "after_cnn" else found
    for i in range(encoder["num_highway"]):
        layer = f"{inner}._highways._layers.{i}"
        shapes |= {f"{layer}.weight": (2 * between, between), f"{layer}.bias": (2 * between,)}
    if encoder.get("do_layer_norm"):
        shapes |= {f"{inner}._layer_norm.{name}": (width,) for name in ("gamma", "beta")}
    for side in ("_forward_transformer", "_backward_transformer"):
        stack = f"_contextualizer.{side}"
        shapes |= {f"{stack}.norm.{name}": (width,) for name in ("gamma", "beta")}
        for i in range(contextualizer["num_layers"]):
            block = f"{stack}.layers.{i}"
            for k in range(4):
                linear = f"{block}.self_attn.linears.{k}"
                shapes |= {f"{linear}.weight": (width, width), f"{linear}.bias": (width,)}
            feed = f"{block}.feed_forward"
            shapes |= {f"{feed}.w_1.weight": (hidden, width), f"{feed}.w_1.bias": (hidden,)}
            shapes |= {f"{feed}.w_2.weight": (width, hidden), f"{feed}.w_2.bias": (width,)}
            for k in (0, 1):
                shapes |= {f"{block}.sublayer.{k}.norm.{name}": (width,) for name in ("gamma", "beta")}
    rng = generator(seed, "elmo of Transformers")
    return {name: rng.normal(0, 0.5, shape).astype(np.float32) for name, shape in shapes.items()}


def write_transformer(
    folder: Path, config: dict[str, Any] | None = None, tensors: dict[str, Any] | None = None
) -> Path:
    """Write configuration and weights into a folder, and give it back."""
    import torch

    config = transformer_config() if config is None else config
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config))
    numbers = transformer_tensors(config) if tensors is None else tensors
    kept = {
        name: torch.from_numpy(values) if isinstance(values, np.ndarray) else values
        for name, values in numbers.items()
    }
    torch.save(kept, folder / "weights.th")
    return folder
