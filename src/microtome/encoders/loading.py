"""How does a name or a folder become an encoder? Safely, and with its tokenizer."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

from ..errors import InputError, MissingExtraError, must
from .elmo.encoder import load_elmo
from .elmo.reading import is_elmo
from .encoder import Encoder, Source, TransformerEncoder
from .opening import open_tokenizer
from .sentence import Unpacked, unpack
from .shipped import shipped_name
from .table import family_of
from .telling import telling
from .tokens import check_fit
from .twins import draw_anew

DTYPES = ("float32", "float16", "bfloat16")


def load(
    source: str | os.PathLike[str],
    *,
    revision: str | None = None,
    name: str | None = None,
    tokenizer: Any = None,
    random_init: bool = False,
    seed: int = 0,
    embeddings: str = "drawn",
    device: Any = "cpu",
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
        What its layers are called after; the last part of the source when absent, "masked" of
        "zoo:masked".
    tokenizer : str, path or object, optional
        Another tokenizer than the model's own: a folder or hub id, a `vocab.txt`, a tokenizer of
        transformers or of tokenizers.
    random_init : bool
        Draw the weights anew, as the library does for a new model: the random twin.
    seed : int
        For those weights.
    embeddings : {"drawn", "kept"}
        Whether a random twin's embeddings are drawn too.
    device : str
    dtype : {"float32", "float16", "bfloat16"}
        Of the weights.
    autocast : {"float16", "bfloat16"}, optional
        Mixed precision: weights stay as they are, matrix products are done in this format and sums, norms
        and softmax in float32. Meant for a GPU.
    trust_remote_code : bool
        Whether code that comes with the model may run.

    Returns
    -------
    Encoder
    """
    given = os.fspath(source)
    if not isinstance(given, str) or not given:
        raise must("a model", "a hub id or a folder", given)
    if dtype not in DTYPES:
        raise must("dtype", f"one of {', '.join(DTYPES)}", dtype)
    if autocast not in (None, *DTYPES[1:]):
        raise must("autocast", f"one of {', '.join(DTYPES[1:])}", autocast)
    if embeddings not in ("drawn", "kept"):
        raise must("embeddings", "'drawn' or 'kept'", embeddings)
    shipped = shipped_name(given)
    if shipped is not None and revision is not None:
        raise InputError(
            f"revision must be left out for {given}, which is in the package, but got {revision!r}."
        )
    if Path(given).is_dir() and not any(Path(given).iterdir()):
        raise InputError(f"{given} must hold a model, but the folder is empty.")
    if is_elmo(given):
        if tokenizer is not None or dtype != "float32" or autocast is not None:
            raise InputError(f"{given} is an ELMo, which must keep its own tokens and float32.")
        return load_elmo(
            given,
            name=name,
            device=device,
            random_init=random_init,
            seed=seed,
            keep_embeddings=embeddings == "kept",
        )
    unpacked = unpack(given)
    model, config = _load_model(unpacked, revision, trust_remote_code)
    family = family_of(config.model_type, config)
    found = open_tokenizer(
        unpacked.tokenizer if tokenizer is None else tokenizer,
        config,
        family,
        revision=revision if tokenizer is None else None,
        trust_remote_code=trust_remote_code,
    )
    origin = Source(
        given=given,
        revision=revision,
        changes=(
            *(("adapter merged",) if unpacked.adapter is not None else ()),
            *((f"matrix products in {autocast}",) if autocast is not None else ()),
        ),
        facts=MappingProxyType(dict(unpacked.facts)),
    )
    if shipped is not None:
        # What is saved or recorded later names the encoder, not the folder of this installation.
        model.config.name_or_path = model.name_or_path = given
    label = name or shipped or Path(given).name or given
    check_fit(found, model.get_input_embeddings().num_embeddings, label)
    encoder = TransformerEncoder(
        name=label, family=family, model=model, tokenizer=found, source=origin, autocast=autocast
    )
    # First, so that a twin of weights kept in half precision is drawn in full.
    encoder.model.to(dtype=_dtype(dtype))
    if random_init:
        said = draw_anew(encoder, seed=seed, keep_embeddings=embeddings == "kept")
        encoder.source = replace(origin, changes=(*origin.changes, said))
        encoder.name = name or f"{label}-random{seed}"
    encoder.model.to(device=device).eval()
    return encoder


def _dtype(name: str) -> Any:
    import torch

    return getattr(torch, name)


def _load_model(unpacked: Unpacked, revision: str | None, trust: bool) -> tuple[Any, Any]:
    import transformers

    with telling(unpacked.model):
        config = transformers.AutoConfig.from_pretrained(
            unpacked.model, revision=revision, trust_remote_code=trust
        )
        family_of(config.model_type)
        named = [getattr(transformers, name, None) for name in config.architectures or ()]
        kind = next((found for found in named if found is not None), transformers.AutoModel)
        more = {"trust_remote_code": trust} if kind is transformers.AutoModel else {}
        model, report = kind.from_pretrained(
            unpacked.model, config=config, revision=revision, output_loading_info=True, **more
        )
    _check_report(unpacked.model, model, report)
    if unpacked.adapter is not None:
        model = _merge(model, unpacked.adapter)
    return model.eval(), config


def _check_report(given: str, model: Any, report: dict[str, Any]) -> None:
    """Refuse a checkpoint that leaves weights of the encoder as they were drawn."""
    base = f"{model.base_model_prefix}."
    missing = sorted(str(key) for key in report.get("missing_keys", ()))
    # A pooler is often absent from a checkpoint that never used it; a head is told by its own name.
    lost = [key for key in missing if (key.startswith(base) or model.base_model is model)]
    lost = [key for key in lost if "pooler" not in key]
    if lost:
        raise InputError(
            f"the weights in {given} must fill the whole encoder, but {len(lost)} tensors are missing, such "
            f"as {lost[0]}."
        )
    wrong = report.get("mismatched_keys") or ()
    if wrong:
        raise InputError(f"the weights in {given} must fit its config.json, but {sorted(wrong)[0]} does not.")


def _merge(model: Any, adapter: str) -> Any:
    try:
        import peft
    except ImportError as error:
        raise MissingExtraError("an adapter must find peft; try `pip install microtome[lora]`.") from error
    with telling(adapter):
        return peft.PeftModel.from_pretrained(model, adapter).merge_and_unload()
