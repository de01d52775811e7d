"""Loading of encoders from a folder, the hub or the package."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..arguments import checked
from ..checks import check_choice
from ..errors import InputError, MissingExtraError, WorkError, check_plain, must, shown
from ..lazy import torch, transformers
from ..runtime import find_device
from ..store.entry import check_whole
from ..store.files import peek_json
from .elmo.encoder import is_elmo, load_elmo
from .encoder import TRAINED, Encoder, LoadOptions, Source, TransformerEncoder, digest_weights
from .family import submodule
from .library import one_sentence, open_tokenizer
from .locations import Unpacked, shipped_name, unpack
from .table import family_of
from .tokens import check_fit

DTYPES = ("float32", "float16", "bfloat16")
# The file beside a fine-tuned model that records how its examples were truncated.
WINDOWS = "windows.json"
# Least and largest of what a config.json may say; the library would begin to build anything.
SIZES = MappingProxyType(
    {
        "num_hidden_layers": (0, 10_000),
        "num_attention_heads": (1, 10_000),
        "hidden_size": (1, 1_000_000),
        "vocab_size": (1, 100_000_000),
    }
)


@checked
def load(
    source: str | os.PathLike[str],
    *,
    revision: str | None = None,
    name: str | None = None,
    tokenizer: Any = None,
    random_init: bool = False,
    seed: int = 0,
    embeddings: str = "drawn",
    device: Any = "auto",
    dtype: str = "float32",
    autocast: str | None = None,
    trust_remote_code: bool = False,
) -> Encoder:
    """
    Load an encoder, with its task head where it has one.

    Parameters
    ----------
    source : str or path
        A hub id or a folder: of a model of `microtome ls families`, of a sentence encoder with its
        pooling, of an adapter to be merged into its model, or of an ELMo; or a small encoder that comes
        with the package, such as "zoo:masked", see `microtome ls zoo`.
    revision : str, optional
        Branch, tag or commit on the hub.
    name : str, optional
        The prefix of the names of its layers; by default the last part of the source, "masked" of
        "zoo:masked".
    tokenizer : str, path or object, optional
        A tokenizer other than the model's own: a folder or hub id, a `vocab.txt`, a tokenizer of
        transformers or of tokenizers.
    random_init : bool
        Re-initialize the weights as the library does for a new model: a randomly initialized copy.
    seed : int
        The seed of those weights.
    embeddings : {"drawn", "kept"}
        Whether the embeddings of a randomly initialized copy are re-initialized too, or kept.
    device : {"auto", "cpu", "cuda"}
        "auto" is a GPU where there is one.
    dtype : {"float32", "float16", "bfloat16"}
        The dtype of the weights.
    autocast : {"float16", "bfloat16"}, optional
        Mixed precision: weights stay as they are, matrix products are computed in this dtype and sums, norms
        and softmax in float32. Meant for a GPU.
    trust_remote_code : bool
        Whether code that comes with the model may run.

    Returns
    -------
    Encoder

    Examples
    --------
    >>> import microtome as mt
    >>> encoder = mt.load("zoo:masked")
    >>> encoder.name, encoder.depth
    ('masked', 12)
    """
    location = os.fspath(source)
    if not isinstance(location, str) or not location:
        raise must("a model", "a hub id or a folder", location)
    check_choice("dtype", dtype, DTYPES)
    if autocast is not None:
        check_choice("autocast", autocast, DTYPES[1:])
    if embeddings not in ("drawn", "kept"):
        raise must("embeddings", "'drawn' or 'kept'", embeddings)
    device = find_device(device)
    shipped, local = shipped_name(location), Path(location).is_dir()
    if revision is not None and (local or shipped is not None):
        where = "is in the package" if shipped is not None else "is a folder"
        raise InputError(f"revision must be left out for {location}, which {where}, but got {revision!r}.")
    if local:
        _check_folder(Path(location))
        check_whole(Path(location))
    options = LoadOptions(
        revision=revision,
        name=name,
        tokenizer=tokenizer,
        dtype=dtype,
        autocast=autocast,
        trust_remote_code=trust_remote_code,
    )
    encoder = next(loader for recognizes, loader in LOADERS if recognizes(location))(location, options)
    if random_init:
        change = reinitialize(encoder, seed=seed, keep_embeddings=embeddings == "kept")
        encoder.source = replace(encoder.source, changes=(*encoder.source.changes, change))
        encoder.name = name or f"{encoder.name}-random{seed}"
    encoder.model.to(device=device).eval()
    return encoder


def reinitialize(encoder: Encoder, *, seed: int, keep_embeddings: bool) -> str:
    """
    Re-initialize all weights of an encoder as those of a new model.

    Parameters
    ----------
    encoder : Encoder
        Changed in place.
    seed : int
    keep_embeddings : bool
        Whether the embeddings keep their trained weights.

    Returns
    -------
    str
        A description of the change.
    """
    before = digest_weights(encoder.model)
    encoder.initialize(seed, keep_embeddings=keep_embeddings)
    if digest_weights(encoder.model) == before:
        raise WorkError("a random baseline must differ from its model, but every weight stayed as it was.")
    return f"all weights re-initialized (seed {seed}){', embeddings kept' if keep_embeddings else ''}"


def load_transformer(location: str, options: LoadOptions) -> TransformerEncoder:
    """Load a model of the library transformers, of its folder, the hub or the package."""
    unpacked, shipped = unpack(location), shipped_name(location)
    model, config, unused = _load_model(unpacked, options.revision, options.trust_remote_code)
    family = family_of(config.model_type, config)
    model_tokenizer = open_tokenizer(
        unpacked.tokenizer if options.tokenizer is None else options.tokenizer,
        config,
        family,
        revision=options.revision if options.tokenizer is None else None,
        trust_remote_code=options.trust_remote_code,
    )
    merged = () if unpacked.adapter is None else ("adapter merged",)
    mixed = () if options.autocast is None else (f"matrix products in {options.autocast}",)
    longest = peek_json(Path(location) / WINDOWS).get("longest")
    windows = {TRAINED: longest} if isinstance(longest, int) and longest > 0 else {}
    if shipped is not None:
        # What is saved or recorded later names the encoder, not the folder of this installation.
        model.config.name_or_path = model.name_or_path = location
    label = options.name or shipped or Path(location).name or location
    check_fit(model_tokenizer, model.get_input_embeddings().num_embeddings, label)
    return TransformerEncoder(
        name=label,
        family=family,
        # First, so that weights stored in half precision are re-initialized in full precision.
        model=model.to(dtype=getattr(torch, options.dtype)),
        tokenizer=model_tokenizer,
        source=Source(
            given=location,
            revision=options.revision,
            changes=(*unused, *merged, *mixed),
            facts=MappingProxyType({**unpacked.facts, **windows}),
        ),
        autocast=options.autocast,
    )


# Which model is opened by which function: the first that recognizes a location.
LOADERS: tuple[tuple[Callable[[str], bool], Callable[[str, LoadOptions], Encoder]], ...] = (
    (is_elmo, load_elmo),
    (lambda location: True, load_transformer),
)


def _load_model(unpacked: Unpacked, revision: str | None, trust: bool) -> tuple[Any, Any, tuple[str, ...]]:
    with one_sentence(unpacked.model):
        config = transformers.AutoConfig.from_pretrained(
            unpacked.model, revision=revision, trust_remote_code=trust
        )
        family_of(config.model_type)
        _check_config(unpacked.model, config)
        classes = [getattr(transformers, name, None) for name in config.architectures or ()]
        model_class = next(
            (candidate for candidate in classes if candidate is not None), transformers.AutoModel
        )
        options = {"trust_remote_code": trust} if model_class is transformers.AutoModel else {}
        model, report = model_class.from_pretrained(
            unpacked.model, config=config, revision=revision, output_loading_info=True, **options
        )
    _check_report(unpacked.model, model, report)
    unused = _check_blocks(unpacked.model, model, config, report)
    if unpacked.adapter is not None:
        model = _merge(model, unpacked.adapter)
    return model.eval(), config, unused


def _check_folder(folder: Path) -> None:
    """Raise if a folder is empty or holds a pipe."""
    files = list(folder.iterdir())
    if not files:
        raise InputError(f"{folder} must hold a model, but the folder is empty.")
    for file in files:
        check_plain(file)


def _check_config(location: str, config: Any) -> None:
    """Raise if a size or rate is out of range; the library notices when the model runs, if at all."""
    for name, (least, most) in SIZES.items():
        size = getattr(config, name, least)
        if isinstance(size, int) and not least <= size <= most:
            raise InputError(
                f"{name} in the config.json of {location} must be between {least} and {most:,}, but got "
                f"{shown(size)}."
            )
    for name, rate in config.to_dict().items():
        share = name.endswith(("dropout", "dropout_prob", "pdrop")) and isinstance(rate, (int, float))
        if share and not 0 <= rate <= 1:
            raise InputError(
                f"{name} in the config.json of {location} must be between 0 and 1, but got {rate}."
            )


def _check_blocks(location: str, model: Any, config: Any, report: dict[str, Any]) -> tuple[str, ...]:
    """
    Report unexpected tensors of the encoder in the checkpoint; those of heads and poolers are allowed.

    Raises if config.json declares fewer blocks than the weights have: the model would be a different one.
    """
    base = model.base_model
    parts = {name for name, _ in base.named_children()} - {"pooler"}
    names = {
        str(key): str(key).removeprefix(f"{model.base_model_prefix}.") for key in report["unexpected_keys"]
    }
    unused = sorted(key for key, name in names.items() if name.partition(".")[0] in parts)
    path = f"{family_of(config.model_type, config).blocks}."
    numbers = [
        names[key].removeprefix(path).partition(".")[0] for key in unused if names[key].startswith(path)
    ]
    weights = max((int(number) + 1 for number in numbers if number.isdecimal()), default=0)
    blocks = sum(1 for _ in submodule(base, path[:-1]).children())
    if weights > blocks:
        raise InputError(
            f"config.json in {location} must declare the {weights} blocks of its weights, but it declares "
            f"{blocks}, so that {len(unused)} tensors such as {unused[-1]} would be left out."
        )
    return (f"{len(unused)} tensors of its file left out, such as {unused[0]}",) if unused else ()


def _check_report(location: str, model: Any, report: dict[str, Any]) -> None:
    """Raise if a checkpoint leaves weights of the encoder at their initial values."""
    base = f"{model.base_model_prefix}."
    missing = sorted(str(key) for key in report.get("missing_keys", ()))
    # A pooler is often absent from a checkpoint that never used it; a head is recognized by its name.
    lost = [key for key in missing if (key.startswith(base) or model.base_model is model)]
    lost = [key for key in lost if "pooler" not in key]
    if lost:
        raise InputError(
            f"the weights in {location} must fill the whole encoder, but {len(lost)} tensors are missing, "
            f"such as {lost[0]}."
        )
    mismatched = report.get("mismatched_keys") or ()
    if mismatched:
        raise InputError(
            f"the weights in {location} must fit its config.json, but {sorted(mismatched)[0]} does not."
        )


def _merge(model: Any, adapter: str) -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError("an adapter must find peft; try `pip install microtome[lora]`.") from error
    with one_sentence(adapter):
        return peft.PeftModel.from_pretrained(model, adapter).merge_and_unload()
