"""Reading of a biLSTM ELMo from `options.json` and an HDF5 file of weights."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...errors import InputError, MicrotomeError, MissingExtraError
from ...lazy import torch
from .characters import ACTIVATIONS, CHARACTERS, WORD, CharacterNetwork, embed
from .model import ElmoModel, ElmoPart, bilstm
from .options import ElmoOptions, ElmoWeights, parse_options, readable

if TYPE_CHECKING:
    import h5py


def _find(file: h5py.File, name: str, source: str) -> h5py.Dataset:
    """Find a dataset of floating numbers in the file itself."""
    import h5py

    node: Any = file
    for part in name.split("/"):
        link = node.get(part, getlink=True) if isinstance(node, h5py.Group) else None
        if link is None:
            raise InputError(f"{source} must hold the dataset {name}, but it is missing.")
        if not isinstance(link, h5py.HardLink):
            raise InputError(f"{name} in {source} must be in the file itself, but it is a link.")
        node = node[part]
    if not isinstance(node, h5py.Dataset):
        raise InputError(f"{name} in {source} must be a dataset, but it is a group.")
    if node.is_virtual or node.external:
        raise InputError(f"{name} in {source} must be in the file itself, but it is in another one.")
    if node.dtype.kind != "f":
        raise InputError(f"{name} in {source} must hold floating numbers, but it holds {node.dtype}.")
    return node


def _read(stored: h5py.Dataset, name: str, source: str) -> torch.Tensor:
    try:
        with np.errstate(over="ignore"):
            return torch.from_numpy(np.asarray(stored[()]).astype(np.float32))
    except (OSError, RuntimeError, ValueError, MemoryError) as problem:
        raise InputError(f"{name} in {source} must be readable, but got: {problem}.") from problem


def read_bilstm(options_path: Path, weights_path: Path) -> ElmoModel:
    """
    Read a biLSTM ELMo, as bilm-tf and AllenNLP write it.

    Parameters
    ----------
    options_path : Path
        The JSON file of options.
    weights_path : Path
        The HDF5 file of weights.

    Returns
    -------
    ElmoModel
    """
    with readable(options_path):
        content = options_path.read_bytes()
    options = parse_options(content, str(options_path))
    try:
        import h5py
    except ImportError as problem:
        raise MissingExtraError(
            "h5py must be installed to read the weights of an ELMo, but it is missing: "
            "pip install microtome[elmo]."
        ) from problem
    try:
        file = h5py.File(weights_path, "r")
    except OSError as problem:
        raise InputError(f"{weights_path} must be an HDF5 file, but got: {problem}.") from problem
    with file:
        weights = ElmoWeights(
            source=str(weights_path), declared="as the options say", find=partial(_find, file), read=_read
        )
        try:
            # bilm-tf trains no projection where the widths agree.
            embeddings = _embeddings(options, weights, projected="CNN_proj" in file)
            blocks = _blocks(options, weights)
            names: list[str] = []
            file.visititems(lambda name, node: names.append(name) if hasattr(node, "dtype") else None)
            weights.refuse_more(names, ("char_embed", "CNN", "RNN_"))
        except MicrotomeError:
            raise
        except (OSError, RuntimeError, ValueError, KeyError, TypeError, MemoryError) as problem:
            # A damaged file raises wherever the library reads the damaged part.
            raise InputError(f"{weights_path} must be a whole HDF5 file, but got: {problem}.") from problem
    width = 2 * options.whole("lstm.projection_dim")
    return ElmoModel(kind="elmo", width=width, embeddings=embeddings, blocks=blocks, final_norm=None)


def _embeddings(options: ElmoOptions, weights: ElmoWeights, *, projected: bool) -> ElmoPart:
    # The number counts the row for "no token" that the file does not have; some options leave it out.
    options.choice("char_cnn.n_characters", (CHARACTERS, CHARACTERS - 1))
    options.choice("char_cnn.max_characters_per_token", (WORD,), default=WORD)
    size, width = options.whole("char_cnn.embedding.dim"), options.whole("lstm.projection_dim")
    filters = options.filters("char_cnn.filters")
    channels = sum(number for _, number in filters)
    projected = projected or channels != width
    network = CharacterNetwork(
        filters=filters,
        activation=options.choice("char_cnn.activation", ACTIVATIONS),
        highways=options.whole("char_cnn.n_highway", default=0, least=0),
        projection="after" if projected else "none",
        norm=False,
    )
    table = weights.take("char_embed", CHARACTERS - 1, size)
    tensors = {"characters": torch.cat([table.new_zeros(1, size), table])}
    for i, (span, number) in enumerate(filters):
        tensors[f"filter_{i}"] = weights.take(f"CNN/W_cnn_{i}", 1, span, size, number)[0].permute(2, 1, 0)
        tensors[f"filter_bias_{i}"] = weights.take(f"CNN/b_cnn_{i}", number)
    for i in range(network.highways):
        group = f"CNN_high_{i}"
        new, gate = (
            weights.take(f"{group}/W_{name}", channels, channels).T for name in ("transform", "carry")
        )
        bias, shift = (weights.take(f"{group}/b_{name}", channels) for name in ("transform", "carry"))
        # The file's "carry" gate is the share of the new value; a gate here is the share of the old one.
        tensors[f"highway_{i}"] = torch.cat([new, -gate])
        tensors[f"highway_bias_{i}"] = torch.cat([bias, -shift])
    if projected:
        tensors["projection"] = weights.take("CNN_proj/W_proj", channels, width).T
        tensors["projection_bias"] = weights.take("CNN_proj/b_proj", width)
    return ElmoPart(partial(embed, network=network), tensors)


def _blocks(options: ElmoOptions, weights: ElmoWeights) -> list[ElmoPart]:
    options.choice("bidirectional", (True,), default=True)
    cells, width = options.whole("lstm.dim"), options.whole("lstm.projection_dim")
    cell_clip, projection_clip = options.limit("lstm.cell_clip"), options.limit("lstm.proj_clip")
    skip = options.flag("lstm.use_skip_connections")
    blocks = []
    for index in range(options.whole("lstm.n_layers", default=1)):
        groups = [f"RNN_{direction}/RNN/MultiRNNCell/Cell{index}/LSTMCell" for direction in (0, 1)]
        gates = torch.stack([weights.take(f"{group}/W_0", 2 * width, 4 * cells) for group in groups])
        tensors = {
            "input": gates[:, :width],
            "recurrent": gates[:, width:],
            "bias": torch.stack([weights.take(f"{group}/B", 4 * cells) for group in groups]),
            "projection": torch.stack([weights.take(f"{group}/W_P_0", cells, width) for group in groups]),
        }
        layer = partial(bilstm, cell_clip=cell_clip, projection_clip=projection_clip, skip=skip and index > 0)
        blocks.append(ElmoPart(layer, tensors))
    return blocks
