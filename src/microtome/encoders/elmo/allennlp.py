"""Reading of a Transformer ELMo as AllenNLP saves it, in a folder or an untrusted archive."""

from __future__ import annotations

import lzma
import pickle
import re
import shutil
import tarfile
import tempfile
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import IO, Any

from ...errors import InputError, WorkError
from ...lazy import torch
from .characters import ACTIVATIONS, CHARACTERS, CharacterNetwork, embed
from .model import HEADS, ElmoModel, ElmoPart, bitransformer, final_norm
from .options import ElmoOptions, ElmoWeights, parse_options, readable

CONFIG, WEIGHTS = "config.json", "weights.th"
SUFFIXES = (".tar.gz", ".tgz", ".tar")

_LARGEST_CONFIG = 10_000_000
_AT_ONCE = 1 << 20
_BROKEN = (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError)


def is_archive(path: Path) -> bool:
    """Recognize an archive by its name."""
    return path.is_file() and path.name.lower().endswith(SUFFIXES)


def glance(path: Path) -> bytes | None:
    """
    Read the configuration if there are weights beside it.

    Parameters
    ----------
    path : Path
        A folder or an archive.

    Returns
    -------
    bytes or None
        None where one of the two is missing or cannot be read.
    """
    contents: dict[str, bytes] = {}
    try:
        if path.is_dir():
            complete = (path / CONFIG).is_file() and (path / WEIGHTS).is_file()
            return (path / CONFIG).read_bytes() if complete else None
        with tarfile.open(path) as archive:
            for name, member in _members(archive, path):
                contents[name] = _content(archive, member, path) if name == CONFIG else b""
                if len(contents) == 2:
                    return contents[CONFIG]
    except (*_BROKEN, InputError):
        return None
    return None


@contextmanager
def open_files(path: Path) -> Iterator[tuple[bytes, IO[bytes]]]:
    """
    Open the configuration and the weights in a folder or an archive.

    Nothing is extracted to a named file: the weights of an archive pass through an anonymous temporary file.

    Parameters
    ----------
    path : Path

    Yields
    ------
    tuple of bytes and binary file
        The configuration and the weights.
    """
    if path.is_dir():
        for name in (CONFIG, WEIGHTS):
            if not (path / name).is_file():
                raise InputError(f"{path} must hold {name}, but it is missing.")
        with readable(path / WEIGHTS):
            weights = (path / WEIGHTS).open("rb")
        with weights:
            with readable(path / CONFIG):
                config = (path / CONFIG).read_bytes()
            yield config, weights
        return
    with _temporary_file(path) as weights:
        yield _unpack(path, weights), weights


def _temporary_file(path: Path) -> IO[bytes]:
    try:
        return tempfile.TemporaryFile()
    except OSError as problem:
        raise WorkError(f"{path} must be unpacked to a temporary file, but got: {problem}.") from problem


def _unpack(path: Path, weights: IO[bytes]) -> bytes:
    """Copy the weights out of an archive, and return its configuration."""
    config, seen = b"", set[str]()
    try:
        with tarfile.open(path) as archive:
            for name, member in _members(archive, path):
                if name in seen:
                    raise InputError(f"{path} must hold {name} once, but it holds several.")
                seen.add(name)
                if name == CONFIG:
                    config = _content(archive, member, path)
                elif (source := archive.extractfile(member)) is not None:
                    shutil.copyfileobj(source, weights)
            # The checksum of the archive comes after the last file.
            while archive.fileobj is not None and archive.fileobj.read(_AT_ONCE):
                pass
    except _BROKEN as problem:
        if isinstance(problem, OSError) and problem.errno is not None:  # of the system, not of the archive
            raise WorkError(f"{path} must be unpacked to a temporary file, but got: {problem}.") from problem
        raise InputError(f"{path} must be a whole tar archive, but it cannot be read as one.") from problem
    for name in (CONFIG, WEIGHTS):
        if name not in seen:
            raise InputError(f"{path} must hold {name}, but it is missing.")
    weights.seek(0)
    return config


def _members(archive: tarfile.TarFile, path: Path) -> Iterator[tuple[str, tarfile.TarInfo]]:
    for member in archive:
        name = str(PurePosixPath(member.name))
        if name not in (CONFIG, WEIGHTS):
            continue
        # A link may point anywhere, and a sparse file may be larger than any disk.
        if not member.isreg() or member.issparse():
            raise InputError(f"{name} in {path} must be a plain file, but it is a link or something else.")
        yield name, member


def _content(archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> bytes:
    source = archive.extractfile(member)
    if source is None or member.size > _LARGEST_CONFIG:
        raise InputError(
            f"{CONFIG} in {path} must be at most {_LARGEST_CONFIG} bytes long, but it has {member.size}."
        )
    return source.read()


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


def _find(tensors: Mapping[str, Any], name: str, source: str) -> torch.Tensor:
    """Find a tensor of floating numbers."""
    tensor = tensors.get(name)
    if tensor is None:
        raise InputError(f"{source} must hold {name}, but it is missing.")
    plain = (
        isinstance(tensor, torch.Tensor) and tensor.layout == torch.strided and tensor.device.type == "cpu"
    )
    if not plain or not tensor.is_floating_point():
        kind = tensor.dtype if plain else type(tensor).__name__
        raise InputError(f"{name} in {source} must hold floating numbers, but it holds {kind}.")
    return tensor


def _both(weights: ElmoWeights, name: str, *shape: int) -> torch.Tensor:
    """Return the tensors of the two directions, stacked."""
    return torch.stack([weights.take(f"{side}.{name}", *shape) for side in _SIDES])


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
        tensors = _load(file, source)
    weights = ElmoWeights(
        source=source,
        declared="as the configuration says",
        find=partial(_find, tensors),
        read=lambda stored, *_: stored.detach().float(),
    )
    width, hidden = (options.whole(f"model.contextualizer.{key}") for key in ("input_dim", "hidden_dim"))
    options.check(
        f"{name}.encoder.projection_dim",
        f"the contextualizer's input_dim, {width}",
        lambda value: type(value) is int and value == width,
    )
    options.check(
        "model.contextualizer.input_dim", f"a multiple of {HEADS}", lambda value: value % HEADS == 0
    )
    prefix = f"_text_field_embedder.token_embedder_{name.rpartition('.')[2]}"
    embeddings = ElmoPart(
        partial(embed, network=network), _character_weights(weights, prefix, network, size, width)
    )
    blocks = [
        ElmoPart(bitransformer, _block_weights(weights, index, width, hidden))
        for index in range(options.whole("model.contextualizer.num_layers"))
    ]
    last = {f"final_{part}": _both(weights, f"norm.{part}", width) for part in ("gamma", "beta")}
    weights.refuse_more(tensors, (prefix, *_SIDES))
    return ElmoModel(
        kind="transformer-elmo",
        width=2 * width,
        embeddings=embeddings,
        blocks=blocks,
        final_norm=ElmoPart(final_norm, last),
    )


def _network(options: ElmoOptions) -> tuple[str, int, CharacterNetwork]:
    """Find the character embedder: its name, the size of a character embedding, and the network."""
    options.choice("model.type", MODELS)
    options.choice("model.contextualizer.type", (CONTEXTUALIZER,))
    options.choice("model.bidirectional", (True,), default=True)
    path = f"{_EMBEDDERS}.token_embedders"
    if not isinstance(options.get(path, None), Mapping):
        path = _EMBEDDERS
    inside = options.check(path, "embedders by name", lambda value: isinstance(value, Mapping))
    embedders = {name: value for name, value in inside.items() if isinstance(value, Mapping)}
    kinds = sorted(str(value.get("type")) for value in embedders.values())
    if kinds != ["character_encoding"]:
        raise InputError(
            f"{path} in {options.source} must be one embedder, of the type character_encoding, but got "
            f"{kinds}."
        )
    name = f"{path}.{next(iter(embedders))}"
    options.choice(f"{name}.embedding.num_embeddings", (CHARACTERS,))
    options.choice(f"{name}.encoder.type", ("cnn-highway",))
    location = options.choice(
        f"{name}.encoder.projection_location", ("after_cnn", "after_highway"), default="after_highway"
    )
    network = CharacterNetwork(
        filters=options.filters(f"{name}.encoder.filters"),
        activation=options.choice(f"{name}.encoder.activation", ACTIVATIONS, default="relu"),
        highways=options.whole(f"{name}.encoder.num_highway", least=0),
        projection="before" if location == "after_cnn" else "after",
        norm=options.flag(f"{name}.encoder.do_layer_norm"),
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
    weights: ElmoWeights, prefix: str, network: CharacterNetwork, size: int, width: int
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


def _block_weights(weights: ElmoWeights, index: int, width: int, hidden: int) -> dict[str, torch.Tensor]:
    tensors = {}
    for name, part in _MATRICES.items():
        outputs, inputs = {"inner": (hidden, width), "outer": (width, hidden)}.get(name, (width, width))
        tensors[name] = _both(weights, f"layers.{index}.{part}.weight", outputs, inputs).mT
        tensors[f"{name}_bias"] = _both(weights, f"layers.{index}.{part}.bias", outputs)
    for name, part in _NORMS.items():
        for value in ("gamma", "beta"):
            tensors[f"{name}_{value}"] = _both(weights, f"layers.{index}.{part}.{value}", width)
    return tensors
