"""Both ELMos once more, in numpy and float64, a word and a step at a time, by the names in their files."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from encoders.elmo.written import EMBEDDER

Arrays = dict[str, np.ndarray]


def ids_of(word: str) -> list[int]:
    """Write a word as 50 ids, counted from 1."""
    if word in ("<S>", "</S>"):
        ids = [258, 256 if word == "<S>" else 257, 259]
    else:
        ids = [258, *word.encode("utf-8")[:48], 259]
    return [i + 1 for i in ids + [260] * (50 - len(ids))]


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def relu(x: np.ndarray) -> np.ndarray:
    return np.maximum(x, 0)


def filtered(
    characters: np.ndarray, filters: list[tuple[np.ndarray, np.ndarray]], activation: str
) -> np.ndarray:
    """Run filters (width, size, number) over characters (50, size)."""
    found = []
    for weight, bias in filters:
        width = len(weight)
        windows = [
            sum(characters[start + k] @ weight[k] for k in range(width)) + bias
            for start in range(len(characters) - width + 1)
        ]
        found.append(np.max(windows, axis=0))
    x = np.concatenate(found)
    return relu(x) if activation == "relu" else np.tanh(x)


def lstm_word(tensors: Arrays, options: dict[str, Any], word: str) -> np.ndarray:
    t = {name: values.astype(np.float64) for name, values in tensors.items()}
    table = np.concatenate([np.zeros((1, t["char_embed"].shape[1])), t["char_embed"]])
    filters = [
        (t[f"CNN/W_cnn_{i}"][0], t[f"CNN/b_cnn_{i}"]) for i in range(len(options["char_cnn"]["filters"]))
    ]
    x = filtered(table[ids_of(word)], filters, options["char_cnn"]["activation"])
    for i in range(options["char_cnn"].get("n_highway", 0)):
        g = sigmoid(x @ t[f"CNN_high_{i}/W_carry"] + t[f"CNN_high_{i}/b_carry"])
        new = relu(x @ t[f"CNN_high_{i}/W_transform"] + t[f"CNN_high_{i}/b_transform"])
        x = g * new + (1 - g) * x
    return x @ t["CNN_proj/W_proj"] + t["CNN_proj/b_proj"] if "CNN_proj/W_proj" in t else x


def lstm_layers(
    tensors: Arrays,
    options: dict[str, Any],
    words: Sequence[str],
) -> np.ndarray:
    """Compute the layers (layers + 1, words + 2, width) of one sentence."""
    lstm = options["lstm"]
    cells, width = lstm["dim"], lstm["projection_dim"]
    vectors = [lstm_word(tensors, options, word) for word in ("<S>", *words, "</S>")]
    directions = []
    for direction in (0, 1):
        x, outputs = vectors[::-1] if direction else vectors, []
        outputs.append(x)
        for layer in range(lstm.get("n_layers", 1)):
            cell = f"RNN_{direction}/RNN/MultiRNNCell/Cell{layer}/LSTMCell"
            w, b, p = (tensors[f"{cell}/{name}"].astype(np.float64) for name in ("W_0", "B", "W_P_0"))
            h, c = np.zeros(width), np.zeros(cells)
            made = []
            for vector in x:
                i, j, f, o = np.split(np.concatenate([vector, h]) @ w + b, 4)
                c = sigmoid(i) * np.tanh(j) + sigmoid(f + 1) * c
                if lstm.get("cell_clip") is not None:
                    c = np.clip(c, -lstm["cell_clip"], lstm["cell_clip"])
                h = (sigmoid(o) * np.tanh(c)) @ p
                if lstm.get("proj_clip") is not None:
                    h = np.clip(h, -lstm["proj_clip"], lstm["proj_clip"])
                made.append(h + vector if lstm.get("use_skip_connections") and layer > 0 else h)
            x = made
            outputs.append(x)
        stacked = np.array(outputs)
        directions.append(stacked[:, ::-1] if direction else stacked)
    return np.concatenate(directions, -1)


def normed(x: np.ndarray, gamma: np.ndarray, beta: np.ndarray) -> np.ndarray:
    return gamma * (x - x.mean()) / (math.sqrt(((x - x.mean()) ** 2).mean()) + 1e-6) + beta


def transformer_word(tensors: Arrays, config: dict[str, Any], word: str) -> np.ndarray:
    (characters,) = config["model"]["text_field_embedder"]["token_embedders"].values()
    encoder = characters["encoder"]
    t = {name: values.astype(np.float64) for name, values in tensors.items()}
    inner = f"{EMBEDDER}._encoder._module"
    filters = [
        (t[f"{inner}.char_conv_{i}.weight"].transpose(2, 1, 0), t[f"{inner}.char_conv_{i}.bias"])
        for i in range(len(encoder["filters"]))
    ]
    x = filtered(t[f"{EMBEDDER}._embedding._module.weight"][ids_of(word)], filters, encoder["activation"])
    projection = t[f"{inner}._projection.weight"], t[f"{inner}._projection.bias"]
    if encoder["projection_location"] == "after_cnn":
        x = projection[0] @ x + projection[1]
    for i in range(encoder["num_highway"]):
        layer = f"{inner}._highways._layers.{i}"
        new, gate = np.split(t[f"{layer}.weight"] @ x + t[f"{layer}.bias"], 2)
        x = sigmoid(gate) * x + (1 - sigmoid(gate)) * relu(new)
    if encoder["projection_location"] == "after_highway":
        x = projection[0] @ x + projection[1]
    if encoder.get("do_layer_norm"):
        x = normed(x, t[f"{inner}._layer_norm.gamma"], t[f"{inner}._layer_norm.beta"])
    return x


def transformer_layers(
    tensors: Arrays, config: dict[str, Any], words: Sequence[str], *, final_norm: bool = True
) -> np.ndarray:
    """Compute the layers (layers + 1, words + 2, width) of one sentence."""
    t = {name: values.astype(np.float64) for name, values in tensors.items()}
    vectors = [transformer_word(tensors, config, word) for word in ("<S>", *words, "</S>")]
    count, width, heads = len(vectors), len(vectors[0]), 8
    size = width // heads
    directions = []
    for side in ("forward", "backward"):
        stack = f"_contextualizer._{side}_transformer"
        x = []
        for place, vector in enumerate(vectors):
            wave = [
                (math.sin if k % 2 == 0 else math.cos)(place / 10000 ** ((k - k % 2) / width))
                for k in range(width)
            ]
            x.append(vector + wave)
        outputs = [vectors]
        for layer in range(config["model"]["contextualizer"]["num_layers"]):
            block = f"{stack}.layers.{layer}"

            def linear(name: str, v: np.ndarray, block: str = block) -> np.ndarray:
                return t[f"{block}.{name}.weight"] @ v + t[f"{block}.{name}.bias"]

            def norm(k: int, v: np.ndarray, block: str = block) -> np.ndarray:
                return normed(v, t[f"{block}.sublayer.{k}.norm.gamma"], t[f"{block}.sublayer.{k}.norm.beta"])

            inside = [norm(0, v) for v in x]
            q, k, v = ([linear(f"self_attn.linears.{n}", one) for one in inside] for n in (0, 1, 2))
            after = []
            for place in range(count):
                seen = range(place + 1) if side == "forward" else range(place, count)
                mixed = []
                for head in range(heads):
                    part = slice(head * size, (head + 1) * size)
                    weight = np.exp([q[place][part] @ k[other][part] / math.sqrt(size) for other in seen])
                    mixed.append(
                        sum(w * v[o][part] for w, o in zip(weight / weight.sum(), seen, strict=True))
                    )
                after.append(x[place] + linear("self_attn.linears.3", np.concatenate(mixed)))
            x = [
                one + linear("feed_forward.w_2", relu(linear("feed_forward.w_1", norm(1, one))))
                for one in after
            ]
            outputs.append(x)
        if final_norm:
            outputs[-1] = [normed(v, t[f"{stack}.norm.gamma"], t[f"{stack}.norm.beta"]) for v in outputs[-1]]
        directions.append(np.array(outputs))
    return np.concatenate(directions, -1)
