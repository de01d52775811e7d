"""ELMo as an encoder, recognized and read from its files."""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...errors import InputError, must
from ...lazy import torch
from ...randomness import generator
from ..encoder import Encoder, LoadOptions, Source, Visit, digest_weights
from ..families.elmo import ELMO, TRANSFORMER_ELMO
from ..family import Family
from ..tokens import Tokens
from .allennlp import CONFIG, CONTEXTUALIZER, MODELS, glance, is_archive, read_transformer
from .characters import character_ids
from .hdf5 import read_bilstm
from .model import ElmoModel
from .options import parse_options

OPTIONS = "options.json"


def is_elmo(path: str | os.PathLike[str]) -> bool:
    """
    Check by its files whether a path holds an ELMo.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    bool
        Whether it is a file of options, a folder with one and the weights of a biLSTM ELMo, or a folder or
        archive with the configuration and weights of a Transformer ELMo.

    Examples
    --------
    >>> is_elmo("roberta-base")
    False
    """
    location = Path(path)
    if not os.fspath(path) or not location.exists():
        return False
    if not location.is_dir() and not is_archive(location):
        return location.name.endswith(OPTIONS)
    if location.is_dir() and (options := _options(location)) is not None:
        return len(_weights(options)) == 1
    return _is_transformer(location)


def read_elmo(path: str | os.PathLike[str]) -> ElmoModel:
    """
    Read an ELMo of either kind.

    Parameters
    ----------
    path : str or path
        A folder with `options.json` and `*weights.hdf5`, or the path of its options; or a folder with
        `config.json` and `weights.th`, or an archive (`model.tar.gz`) of it. No code in a
        file is run.

    Returns
    -------
    ElmoModel
        In evaluation mode, with float32 weights on the CPU.
    """
    location = Path(path)
    if not os.fspath(path) or not location.exists():
        raise InputError(f"path must be a file or a folder that exists, but got {os.fspath(path)!r}.")
    options = _options(location)
    if options is not None:
        return read_bilstm(options, _one(_weights(options), options.parent, "weights (.hdf5)"))
    if is_archive(location) or (location / CONFIG).is_file():
        return read_transformer(location)
    if location.is_dir() and (several := _all_options(location)):
        _one(several, location, "options (options.json)")
    raise InputError(
        "path must be an ELMo, options.json with weights.hdf5 or config.json with weights.th, but got "
        f"{str(location)!r}."
    )


def _options(path: Path) -> Path | None:
    """Find the options of a biLSTM ELMo: the path itself, `options.json`, or the only `*options.json`."""
    if not path.is_dir():
        return path if path.name.endswith(OPTIONS) else None
    if (path / OPTIONS).is_file():
        return path / OPTIONS
    candidates = _all_options(path)
    return candidates[0] if len(candidates) == 1 else None


def _all_options(folder: Path) -> list[Path]:
    return sorted(file for file in folder.glob(f"*{OPTIONS}") if file.is_file())


def _weights(options: Path) -> list[Path]:
    """List the candidate files of weights: `*weights.hdf5` if there are any, else all HDF5 files."""
    namesake = options.with_name(options.name.removesuffix(OPTIONS) + "weights.hdf5")
    if namesake.is_file():
        return [namesake]
    candidates = sorted(file for file in options.parent.glob("*.hdf5") if file.is_file())
    return [file for file in candidates if file.name.endswith("weights.hdf5")] or candidates


def _one(candidates: list[Path], folder: Path, what: str) -> Path:
    if len(candidates) != 1:
        names = f"{len(candidates)}: {', '.join(file.name for file in candidates)}" if candidates else "none"
        raise InputError(f"{folder} must hold one file of {what}, but there are {names}.")
    return candidates[0]


def _is_transformer(path: Path) -> bool:
    content = glance(path)
    if content is None:
        return False
    try:
        options = parse_options(content, CONFIG)
    except InputError:
        return False
    kind = options.get("model.contextualizer.type", None)
    return kind == CONTEXTUALIZER or options.get("model.type", None) in MODELS


CUTS = "one token a word, between the begin and the end of a sentence"


class ElmoEncoder(Encoder):
    """
    An ELMo of either kind: tokens are words, and no state is carried from one sentence to the next.

    Parameters
    ----------
    name : str
    model : ElmoModel
    source : Source
    """

    def __init__(self, *, name: str, model: Any, source: Source) -> None:
        self.name, self.model, self.source = name, model, source
        self.family: Family = ELMO if model.kind == ELMO.name else TRANSFORMER_ELMO

    @property
    def depth(self) -> int:
        """Number of blocks."""
        return self.model.layers

    @property
    def width(self) -> int:
        """Features of a layer, over both directions."""
        return self.model.width

    @property
    def digest(self) -> str:
        """Hash of all weights."""
        return hashlib.blake2b(f"{digest_weights(self.model)}|{CUTS}".encode(), digest_size=16).hexdigest()

    @property
    def cuts(self) -> str:
        """Description of the tokenization."""
        return CUTS

    @property
    def tokenization(self) -> str:
        """As `cuts`: there is no maximal length."""
        return CUTS

    def words(
        self,
        sentences: Sequence[Sequence[str]],
        *,
        second: Sequence[int | None] | None = None,
        special: bool = True,
        longest: int | None = None,
    ) -> list[Tokens]:
        """
        Encode sentences as character ids.

        Parameters
        ----------
        sentences : sequence of sequences of str
        second
            Ignored: the model has no format for text pairs, which are concatenated.
        special : bool
            Ignored: a sentence always has its begin and end tokens.
        longest : int, optional
            The maximal number of tokens, begin and end included.

        Returns
        -------
        list of Tokens
            With ids of shape (tokens, 50). An empty word has no token.
        """
        if longest is not None and longest < 3:
            raise must("longest", "at least 3: a word between begin and end", longest)
        return [self._spell(list(words), longest) for words in sentences]

    def _spell(self, words: list[str], longest: int | None) -> Tokens:
        read_words = words if longest is None else words[: longest - 2]
        spelled = [index for index, word in enumerate(read_words) if word]
        ids = character_ids([[read_words[index] for index in spelled]])[0].numpy()
        edge = np.array([-1])
        inside = np.concatenate([edge, np.array(spelled, dtype=np.int64), edge])
        return Tokens(
            ids=ids,
            types=np.zeros(len(ids), np.int64),
            words=inside,
            special=inside < 0,
            truncated=len(read_words) < len(words),
        )

    def texts(self, texts: Sequence[tuple[str, str | None]], **options: Any) -> list[Tokens]:
        """Encode texts, split at whitespace; the texts of a pair are concatenated."""
        return self.words([f"{first} {second or ''}".split() for first, second in texts], **options)

    def run(self, batch: Sequence[Tokens], visit: Visit) -> None:
        """Run sentences through the model; see `TransformerEncoder.run`."""
        ids = np.zeros(
            (len(batch), max(len(sentence) for sentence in batch), batch[0].ids.shape[1]), np.int64
        )
        for row, sentence in enumerate(batch):
            ids[row, : len(sentence)] = sentence.ids
        with torch.inference_mode():
            states = self.model(torch.from_numpy(ids).to(self.device), raw_last=True)
            for layer, layer_states in enumerate(states):
                visit(layer, layer_states)
            if self.model.final_norm is not None:
                visit(len(states), self.model.final_norm(states[-1]))

    @property
    def maps_per_pair(self) -> int:
        """One, as a placeholder: an ELMo has no attention maps to read."""
        return 1

    def initialize(self, seed: int, *, keep_embeddings: bool) -> None:
        """
        Re-initialize all weights, with the distributions of the published models.

        Character embeddings are uniform in [-1, 1] and their filters in [-0.05, 0.05]; highways and the
        projection are normal with variance 1 / inputs; matrices of the blocks are uniform as in Glorot and
        Bengio 2010; norms start at 1 and 0, biases at 0, and the biases of highway gates at 1.
        """
        with torch.no_grad():
            for name, weight in self.model.state_dict().items():
                if keep_embeddings and name.startswith("embeddings."):
                    continue
                values = _draw(name.rpartition(".")[2], tuple(weight.shape), generator(seed, "twin", name))
                weight.copy_(torch.from_numpy(values))

    def attend(self, batch: Sequence[Tokens]) -> list[Any]:
        """Raise: attention is not read from an ELMo."""
        raise InputError(f"attention must be asked of other models, but {self.name} is an ELMo.")


def load_elmo(location: str, options: LoadOptions) -> ElmoEncoder:
    """Load an ELMo of either kind from its folder, options or archive."""
    if options.tokenizer is not None or options.dtype != "float32" or options.autocast is not None:
        raise InputError(f"{location} is an ELMo, which must keep its own tokens and float32.")
    path = Path(location)
    label = path.parent.name if path.name.endswith("options.json") else path.name.split(".")[0]
    return ElmoEncoder(name=options.name or label, model=read_elmo(location), source=Source(given=location))


def _draw(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> np.ndarray:
    """Draw one tensor; matrices of the blocks have the shape (directions, inputs, outputs)."""
    if name.endswith("gamma"):
        return np.ones(shape)
    if name.startswith("highway_bias"):
        return np.repeat([0.0, 1.0], shape[0] // 2)
    if "bias" in name or name.endswith("beta"):
        return np.zeros(shape)
    if name == "characters":
        return rng.uniform(-1, 1, shape)
    if name.startswith("filter"):
        return rng.uniform(-0.05, 0.05, shape)
    if len(shape) == 2:
        return rng.normal(0, 1 / math.sqrt(shape[1]), shape)
    bound = math.sqrt(6 / (shape[-2] + shape[-1]))
    return rng.uniform(-bound, bound, shape)
